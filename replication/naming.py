"""What lies where in a job's recovery store, and what a name tells.

::

    run.json                                              what the job was, for a resume
    attempts/000001.json                                  claimed by the second attempt to run it
    snapshots/VERTEX/INDEX/EPOCH-gGENERATION.json         header of a slice's snapshot
    snapshots/VERTEX/INDEX/EPOCH-gGENERATION-PART.bin     its parts
    checkpoints/EPOCH-aATTEMPT-mMANAGER.json              manifest of a complete checkpoint
    terms/aATTEMPT-mMANAGER-claim.json                    a manager's term has begun
    terms/aATTEMPT-mMANAGER-ledger.json                   the checkpoints that it goes on from
    controller/aATTEMPT-mMANAGER.json                     what a manager's controller leaves to the next
    decisions/VERTEX/INDEX/LAST-FIRST-vVERSION-gGENERATION.json  what a slice's replicas decided, by epochs
    deciders/VERTEX/INDEX/vVERSION.json                   replicas of that version go on from what is there

Names sort by slice, then by epoch, negative epochs included. A replica's generation is its slice's alone
for ever, so no name is ever written by two replicas, and nothing that was published changes. What a
controller leaves is no replica's: its manager writes it anew whenever there is more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from streammine.model.epochs import BEGINNING
from streammine.model.ids import SliceId

RUN = "run.json"
ATTEMPTS = "attempts/"
SNAPSHOTS = "snapshots/"
CHECKPOINTS = "checkpoints/"
TERMS = "terms/"
CONTROLLER = "controller/"
DECISIONS = "decisions/"
DECIDERS = "deciders/"
FORGOTTEN = "forgotten/"

_EPOCH = r"([np]\d{19})"
_SNAPSHOT = re.compile(
    rf"snapshots/([^/]+)/(\d{{6,}})/{_EPOCH}-g(\d{{8,}})(\.json|-(\d{{6,}})\.bin)"
)
_TERM = r"a(\d{6,})-m(\d{10,})"
_CHECKPOINT = re.compile(rf"checkpoints/{_EPOCH}-{_TERM}\.json")
_CLAIM = re.compile(rf"terms/{_TERM}-claim\.json")
_LEDGER = re.compile(rf"terms/{_TERM}-ledger\.json")
_MEMORY = re.compile(rf"controller/{_TERM}\.json")
_DECISION = re.compile(rf"decisions/[^/]+/\d{{6,}}/{_EPOCH}-{_EPOCH}-v\d{{8,}}-g\d{{8,}}\.json")
_SEAL = re.compile(r"deciders/([^/]+)/(\d{6,})/v(\d{8,})\.json")
_MARK = re.compile(rf"forgotten/{_EPOCH}\.json")
_ATTEMPT = re.compile(r"attempts/(\d{6,})\.json")


@dataclass(frozen=True, slots=True)
class SnapshotName:
    """Which snapshot a header or part belongs to."""

    slice_id: SliceId
    epoch: int
    generation: int

    @property
    def header(self) -> str:
        return f"{self._stem}.json"

    def part(self, number: int) -> str:
        return f"{self._stem}-{number:06}.bin"

    @property
    def _stem(self) -> str:
        place = f"{SNAPSHOTS}{_slice_text(self.slice_id)}"
        return f"{place}/{_epoch_text(self.epoch)}-g{self.generation:08}"


def snapshot_of(name: str) -> SnapshotName | None:
    """The snapshot that a header or part belongs to; None if the name is none of ours."""
    match = _SNAPSHOT.fullmatch(name)
    if match is None:
        return None
    slice_id = SliceId(unquote(match[1]), int(match[2]))
    return SnapshotName(slice_id, _epoch_of(match[3]), int(match[4]))


@dataclass(frozen=True, order=True, slots=True)
class Term:
    """A manager's time in office: of the attempt to run the job, and of those, in the order of the managers'
    sequence numbers among the members of the cluster. A later manager has a higher number."""

    attempt: int = 0
    manager: int = 0


def checkpoint_name(epoch: int, term: Term) -> str:
    return f"{CHECKPOINTS}{_epoch_text(epoch)}-{_term_text(term)}.json"


def checkpoint_of(name: str) -> tuple[int, Term] | None:
    """(epoch, term) of a checkpoint's manifest; None if the name is none of ours."""
    match = _CHECKPOINT.fullmatch(name)
    return None if match is None else (_epoch_of(match[1]), Term(int(match[2]), int(match[3])))


def claim_name(term: Term) -> str:
    return f"{TERMS}{_term_text(term)}-claim.json"


def claim_of(name: str) -> Term | None:
    """The term that a claim is of; None if the name is none of ours."""
    match = _CLAIM.fullmatch(name)
    return None if match is None else Term(int(match[1]), int(match[2]))


def ledger_name(term: Term) -> str:
    return f"{TERMS}{_term_text(term)}-ledger.json"


def ledger_of(name: str) -> Term | None:
    """The term that a ledger is of; None if the name is none of ours."""
    match = _LEDGER.fullmatch(name)
    return None if match is None else Term(int(match[1]), int(match[2]))


def memory_name(term: Term) -> str:
    return f"{CONTROLLER}{_term_text(term)}.json"


def memory_of(name: str) -> Term | None:
    """The term whose controller left it; None if the name is none of ours."""
    match = _MEMORY.fullmatch(name)
    return None if match is None else Term(int(match[1]), int(match[2]))


@dataclass(frozen=True, slots=True)
class SealName:
    """Whose decisions count from here on, of one slice."""

    slice_id: SliceId
    version: int

    @property
    def name(self) -> str:
        return f"{deciders_of(self.slice_id)}v{self.version:08}.json"


def seal_of(name: str) -> SealName | None:
    """None if the name is no seal's."""
    match = _SEAL.fullmatch(name)
    if match is None:
        return None
    return SealName(SliceId(unquote(match[1]), int(match[2])), int(match[3]))


def decisions_of(slice_id: SliceId) -> str:
    """The folder of a slice's decisions."""
    return f"{DECISIONS}{_slice_text(slice_id)}/"


def deciders_of(slice_id: SliceId) -> str:
    """The folder of a slice's seals: whoever writes a decision looks for these alone, however many decisions
    there are."""
    return f"{DECIDERS}{_slice_text(slice_id)}/"


@dataclass(frozen=True, slots=True)
class DecisionsName:
    """What was decided at one time, of the epochs from `first` to `last`."""

    slice_id: SliceId
    last: int
    first: int
    version: int
    generation: int

    @property
    def name(self) -> str:
        epochs = f"{_epoch_text(self.last)}-{_epoch_text(self.first)}"
        of = f"v{self.version:08}-g{self.generation:08}"
        return f"{decisions_of(self.slice_id)}{epochs}-{of}.json"


def last_decided(name: str) -> int | None:
    """The last epoch that decisions are about; None if the name is none of ours."""
    match = _DECISION.fullmatch(name)
    return None if match is None else _epoch_of(match[1])


def mark_name(epoch: int) -> str:
    return f"{FORGOTTEN}{_epoch_text(epoch)}.json"


def marked(name: str) -> int | None:
    """The epoch up to which decisions may be removed; None if the name is no mark's."""
    match = _MARK.fullmatch(name)
    return None if match is None else _epoch_of(match[1])


def attempt_name(attempt: int) -> str:
    return f"{ATTEMPTS}{attempt:06}.json"


def attempt_of(name: str) -> int | None:
    """The attempt that a claim is of; None if the name is none of ours."""
    match = _ATTEMPT.fullmatch(name)
    return None if match is None else int(match[1])


def _slice_text(slice_id: SliceId) -> str:
    vertex = quote(slice_id.vertex, safe="").replace(".", "%2E")
    return f"{vertex}/{slice_id.index:06}"


def _term_text(term: Term) -> str:
    return f"a{term.attempt:06}-m{term.manager:010}"


def _epoch_text(epoch: int) -> str:
    """Twenty characters that sort as epochs do: n for negative ones, counted from the beginning."""
    return f"p{epoch:019}" if epoch >= 0 else f"n{epoch - BEGINNING:019}"


def _epoch_of(text: str) -> int:
    return int(text[1:]) + (0 if text[0] == "p" else BEGINNING)
