"""What lies where in a job's recovery store, and what a name tells.

::

    run.json                                              what the job was, for a resume
    attempts/000001.json                                  claimed by the second attempt to run it
    snapshots/VERTEX/INDEX/EPOCH-gGENERATION.json         header of a slice's snapshot
    snapshots/VERTEX/INDEX/EPOCH-gGENERATION-PART.bin     its parts
    checkpoints/EPOCH-aATTEMPT.json                       manifest of a complete checkpoint

Names sort by slice, then by epoch, negative epochs included. A replica's generation is its slice's alone
for ever, so no name is ever written by two replicas, and nothing that was published changes.
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

_EPOCH = r"([np]\d{19})"
_SNAPSHOT = re.compile(
    rf"snapshots/([^/]+)/(\d{{6,}})/{_EPOCH}-g(\d{{8,}})(\.json|-(\d{{6,}})\.bin)"
)
_CHECKPOINT = re.compile(rf"checkpoints/{_EPOCH}-a(\d{{6,}})\.json")
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
        vertex = quote(self.slice_id.vertex, safe="").replace(".", "%2E")
        place = f"{SNAPSHOTS}{vertex}/{self.slice_id.index:06}"
        return f"{place}/{_epoch_text(self.epoch)}-g{self.generation:08}"


def snapshot_of(name: str) -> SnapshotName | None:
    """The snapshot that a header or part belongs to; None if the name is none of ours."""
    match = _SNAPSHOT.fullmatch(name)
    if match is None:
        return None
    slice_id = SliceId(unquote(match[1]), int(match[2]))
    return SnapshotName(slice_id, _epoch_of(match[3]), int(match[4]))


def checkpoint_name(epoch: int, attempt: int) -> str:
    return f"{CHECKPOINTS}{_epoch_text(epoch)}-a{attempt:06}.json"


def checkpoint_of(name: str) -> tuple[int, int] | None:
    """(epoch, attempt) of a checkpoint's manifest; None if the name is none of ours."""
    match = _CHECKPOINT.fullmatch(name)
    return None if match is None else (_epoch_of(match[1]), int(match[2]))


def attempt_name(attempt: int) -> str:
    return f"{ATTEMPTS}{attempt:06}.json"


def attempt_of(name: str) -> int | None:
    """The attempt that a claim is of; None if the name is none of ours."""
    match = _ATTEMPT.fullmatch(name)
    return None if match is None else int(match[1])


def _epoch_text(epoch: int) -> str:
    """Twenty characters that sort as epochs do: n for negative ones, counted from the beginning."""
    return f"p{epoch:019}" if epoch >= 0 else f"n{epoch - BEGINNING:019}"


def _epoch_of(text: str) -> int:
    return int(text[1:]) + (0 if text[0] == "p" else BEGINNING)
