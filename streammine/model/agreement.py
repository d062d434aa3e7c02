"""Words of agreement: how the replicas of a slice settle which bags count (DESIGN §5, "Agreement").

An input channel may be fed by several upstream replicas, and where those are not deterministic their bags
of one epoch differ. The replicas of the receiving slice agree on one *bag set* per epoch. `replication` has
the machine, one in each replica; `engine` hosts it, and they meet here.

Who hosts the machine keeps these promises
------------------------------------------
* Stimuli come one at a time; effects are performed in order. Messages may be lost, doubled and overtaken.
* A bag is told as held (`BagHeld`) when it is complete, and stays held: until another set was chosen for
  its epoch, or a complete checkpoint covers it. An empty bag is not told; a channel without a bag in an
  ended epoch has nothing there.
* `EpochEnded` comes in ascending order, when every channel has ended the epoch through some feed and the
  bags that came are told. Each epoch named for a checkpoint is ended so, even when nothing is in it; and
  so is INFINITY, where the input is over.
* `Process` is the only way by which an epoch is processed. They come in the order of the chain; epochs in
  between, which only other feeds had, are passed over.
* Bags that were chosen, or named by this replica, are handed to peers that ask for them.
* A replica that was lost comes back under a new generation, never under the old one.

Where bags can be had from those who made them until a checkpoint covers them, and every decision is stored,
less will do: bags need neither be handed to peers nor be held once they are processed, `MakeDurable` writes
the decision alone, a plan names none before it, and a replica that is `Behind` holds up nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from streammine.model.epochs import BEGINNING


@dataclass(frozen=True, slots=True)
class Bag:
    """What one channel delivered for one epoch. Two are the same when their digests are; `upstream` is a
    generation that had it, which says where it can be got."""

    digest: str
    nbytes: int = field(default=0, compare=False)
    upstream: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class BagSet:
    """One bag per channel that has any in `epoch`, channels ascending."""

    epoch: int
    bags: tuple[tuple[int, Bag], ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows epoch `after`, once and for all."""

    after: int
    chosen: BagSet


class Ballot(NamedTuple):
    """A numbered try to settle an epoch, ordered by plan and then by attempt: see `consensus`."""

    plan_version: int
    attempt: int


@dataclass(frozen=True, slots=True)
class FormerPlan:
    """A plan that was replaced."""

    version: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReplicaPlan:
    """The generations of a slice's replicas that a plan lists, ascending.

    `former`: the plans before it that listed replicas of this slice, also the same ones, oldest first. Those
    older than one in which a majority of the replicas, and two at least, has been ready
    (`Report.ready_in`) may be left out.
    """

    version: int
    replicas: tuple[int, ...]
    former: tuple[FormerPlan, ...] = ()


@dataclass(frozen=True, slots=True)
class AgreementSettings:
    """How long a replica waits, in seconds: `patience` for slow peers before an epoch is settled without
    them; `silence` until a peer counts as lost; `repeat` between tellings of the same, and `rest` where
    nothing has been open for twice as long; `write` for the store, before others write in its place.

    `every_decision_stored`: decisions survive even the loss of all replicas at the same moment, and bags can
    always be had from those who made them, at the price of a write to the store before anything is processed.
    `bags_come`: they do so unasked, and nothing is fetched.

    The engine sets both, names no former plans, and tells of no `ReplicasGone`, `Paused` or `Resumed`. So
    these never come to anything there: `FetchBag`; the closing of former plans, and the wait for bags that
    they may have chosen; decisions that stand in memory, and their writing by a replica that is alone.
    """

    patience_seconds: float = 0.02
    silence_seconds: float = 0.05
    repeat_seconds: float = 0.02
    rest_seconds: float = 0.25
    write_seconds: float = 0.5
    every_decision_stored: bool = False
    bags_come: bool = False


# --- messages between replicas ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entry:
    """One replica's standing in what follows epoch `after`: it takes no part in ballots below `promised`, and
    in `ballot` it accepted `value`."""

    after: int
    promised: Ballot
    ballot: Ballot | None = None
    value: BagSet | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """All that a replica has to say, so that a newer one replaces an older one.

    `plan_version`: it does nothing for older plans any more. `ready_in`: the newest plan that it has
    learnt enough for. `votes`: it is not paused. `asks`: it wants the receiver's report. `writes`: the store
    is not late with what it has written there. `decided`: it knows what was decided up to that epoch, and can
    tell it from what follows `tells_after` on; `entries` are about what is not decided.
    """

    sender: int
    sequence: int
    plan_version: int
    ready_in: int
    decided: int
    votes: bool = True
    asks: bool = False
    writes: bool = True
    tells_after: int = BEGINNING
    entries: tuple[Entry, ...] = ()


def newest(before: Report, report: Report) -> Report:
    """What is to be told where an older report to the same replicas still waits: it may have asked."""
    return report if report.asks or not before.asks else replace(report, asks=True)


@dataclass(frozen=True, slots=True)
class Pulse:
    """The sender is there, and nothing has changed in what it said in that `report`, but for `decided`.

    Reports and pulses share one `sequence`. Who has not got the report asks for one.
    """

    sender: int
    sequence: int
    report: int
    decided: int


@dataclass(frozen=True, slots=True)
class Decisions:
    """Some of what was decided, in the order of the chain."""

    sender: int
    decisions: tuple[Decision, ...]


AgreementMessage = Report | Pulse | Decisions

# --- stimuli ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlanChanged:
    plan: ReplicaPlan


@dataclass(frozen=True, slots=True)
class ReplicasGone:
    """These generations have ended for certain: they process nothing any more, and what they remembered is
    lost. Only that: who is merely not heard of may go on with others like it."""

    generations: frozenset[int]


@dataclass(frozen=True, slots=True)
class BagHeld:
    """A bag is complete here, from a feed, a peer or the store."""

    channel: int
    epoch: int
    bag: Bag


@dataclass(frozen=True, slots=True)
class EpochEnded:
    """All channels have ended the epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Together:
    """These came at once; what follows from them is done once."""

    parts: tuple[BagHeld | EpochEnded, ...]


@dataclass(frozen=True, slots=True)
class Heard:
    """A message from another replica of the slice."""

    message: AgreementMessage


@dataclass(frozen=True, slots=True)
class WitnessAnswered:
    """Who holds the witness of that plan; None: nobody can tell now."""

    plan_version: int
    holder: int | None


@dataclass(frozen=True, slots=True)
class StoreRead:
    """What the store held after it was sealed. `removed_until`: decisions up to that epoch may have been
    removed before, as a checkpoint covers them, or are damaged, and those behind it rest on them."""

    plan_version: int
    decisions: tuple[StoredDecision, ...]
    removed_until: int = BEGINNING


@dataclass(frozen=True, slots=True)
class DecisionDurable:
    """Decisions of one plan and their bags are in the store. `seal`: the highest plan version that had sealed
    the store when it was looked at *afterwards*."""

    stored: tuple[StoredDecision, ...]
    seal: int


@dataclass(frozen=True, slots=True)
class Covered:
    """A complete checkpoint covers everything up to `epoch`, and nobody goes back to an older one."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Paused:
    """This replica stops processing, and so does not vote."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """It goes on, with the state after epoch `processed`."""

    processed: int


@dataclass(frozen=True, slots=True)
class Behind:
    """Whether so much waits to be processed here that others should not wait for this replica. Where bags can
    be had again, and every decision is stored, it names what it hears, and accepts what it does not hold."""

    is_so: bool


@dataclass(frozen=True, slots=True)
class Tick:
    """The time, never falling. Nothing is repeated, and nobody is given up, without it."""

    now_seconds: float


AgreementStimulus = (
    PlanChanged
    | ReplicasGone
    | BagHeld
    | EpochEnded
    | Together
    | Heard
    | WitnessAnswered
    | StoreRead
    | DecisionDurable
    | Covered
    | Paused
    | Resumed
    | Behind
    | Tick
)

# --- effects ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """A decision as the store has it: written by a replica under that plan."""

    plan_version: int
    decision: Decision


@dataclass(frozen=True, slots=True)
class Tell:
    """Send a message to these generations. A report that waits may be replaced by a newer one."""

    receivers: tuple[int, ...]
    message: AgreementMessage


@dataclass(frozen=True, slots=True)
class FetchBag:
    """Get a bag that is lacking: from one of these generations, its upstream, or the store; then `BagHeld`.
    Repeated until it is there."""

    channel: int
    epoch: int
    bag: Bag
    holders: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AskWitness:
    """Create the witness of that plan, or read who has; then `WitnessAnswered`."""

    plan_version: int


@dataclass(frozen=True, slots=True)
class SealStore:
    """Put the seal of that plan into the store, *then* list the decisions there that no checkpoint
    covers, as far as they go beyond the epoch `decided`; then `StoreRead`."""

    plan_version: int
    decided: int


@dataclass(frozen=True, slots=True)
class MakeDurable:
    """Write those of the bags that are not in the store, then the decisions, all of one plan, *then* look for
    the highest seal; then `DecisionDurable`."""

    stored: tuple[StoredDecision, ...]


@dataclass(frozen=True, slots=True)
class Decided:
    """This was decided for good. They come in the order of the chain, some or all of those that this replica
    still has to process, each before its `Process`."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class Process:
    """Process the epoch with exactly these bags, all of which are held. Other bags up to it may go."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class Outrun:
    """Of what this replica still has to process nobody knows any more what was decided up to `covered`: it
    must be built anew, from a later state."""

    covered: int


AgreementEffect = (
    Tell | FetchBag | AskWitness | SealStore | MakeDurable | Decided | Process | Outrun
)


class Agreement(Protocol):
    """Settles which bags count, in one replica of a slice; pure."""

    @property
    def binds_all(self) -> bool:
        """What is decided is so for all replicas of the slice, and not for this one alone."""
        ...

    @property
    def spent_plan(self) -> int:
        """A plan whose replicas are to be listed once more, in another one, for its witness was taken and is
        held for nothing, or by one that is not heard of; 0 for none. To be reported to the manager."""
        ...

    @property
    def decided(self) -> int:
        """What follows is not decided yet, as far as is known here."""
        ...

    def handle(self, stimulus: AgreementStimulus) -> list[AgreementEffect]:
        """The one mutator."""
        ...


class NewAgreement(Protocol):
    """Makes the machine of a replica that starts with the state after `processed`. `covered`: the epoch that
    `Covered` would name now, not above it."""

    def __call__(
        self,
        generation: int,
        settings: AgreementSettings,
        covered: int = BEGINNING,
        processed: int = BEGINNING,
    ) -> Agreement: ...
