"""What goes into a slice's machine, and what it asks its shell to do.

Bodies of frames (`body`) are opaque to the machines: they carry record batches past them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from streammine.engine.kept import Kept
from streammine.engine.output_channel import Outgoing, UnwantedRange
from streammine.engine.slice_settings import RestoredTo
from streammine.model import agreement
from streammine.model.contracts import FrozenSlice
from streammine.model.epochs import BEGINNING
from streammine.model.frames import FrameHeader
from streammine.model.schemes import Scheme
from streammine.model.snapshots import Restore, SnapshotRecord

# --- work: what the shell runs on a worker thread for one slice -------------------------------


@dataclass(frozen=True, slots=True)
class Read:
    """Take up to `rows` rows from the source, up to `times` times as long as there are any.

    Rows of epochs below `given_below` do not wait for their time: another replica has given them already.
    Those of the `unwanted` epochs, from the first one to below the other one, lead to nothing.
    """

    rows: int
    times: int = 1
    given_below: int = BEGINNING
    unwanted: tuple[int, int] = (BEGINNING, BEGINNING)


@dataclass(frozen=True, slots=True)
class Accumulate:
    """Add a batch to the open accumulator of (channel, epoch)."""

    channel: int
    port: int
    epoch: int
    round: int
    body: object


@dataclass(frozen=True, slots=True)
class Discard:
    """Throw the open accumulator of (channel, epoch) away."""

    channel: int
    epoch: int


@dataclass(frozen=True, slots=True)
class CloseEpoch:
    """Fold the epoch's accumulators into committed state; its results leave.

    `lost`: a committer is told which epochs since the last one are lost, as ranges (first, last).
    """

    epoch: int
    watermark: int
    lost: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Finish:
    """The input is over and every epoch is closed; what is left leaves in epoch `epoch`."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Freeze:
    """Hand over the state as it stands between `epoch` and the next, to be written elsewhere.

    `full`: all of it. `last_epoch`, `due` and `lost_until` (see `losses`) are the machine's own share of
    it; so is, at a loop's head, `next_epoch`, with what is `carried` into it: bodies by port.
    """

    epoch: int
    full: bool
    last_epoch: int
    due: int | None
    next_epoch: int | None = None
    carried: tuple[tuple[int, object], ...] = ()
    lost_until: int = BEGINNING


@dataclass(frozen=True, slots=True)
class TakeState:
    """Put the state of a snapshot in the place of what is held. What open epochs have accumulated stays, but
    for those up to the snapshot's."""

    restore: Restore


Work = Read | Accumulate | Discard | CloseEpoch | Finish | Freeze | TakeState


@dataclass(frozen=True, slots=True)
class Output:
    """A batch that work produced for an output channel."""

    channel: int
    epoch: int
    rows: int
    nbytes: int
    body: object


@dataclass(frozen=True, slots=True)
class WorkResult:
    """What came of a run of work.

    `outputs` in the order in which they leave. For sources: `open_epoch` (all epochs below are
    complete), `exhausted`, `wake_after_seconds`, and `last_epoch`, the highest that was there. For
    others: `closed` epochs in order (the first of those that the run asked to close and maybe more of them,
    with those due in between), and `due`, the next epoch that the operator wants closed even if it gets
    no data. `frozen`: what a Freeze handed over; `taken`: where a TakeState has led to, and
    `taken_bytes` what was read for it.
    """

    outputs: tuple[Output, ...] = ()
    open_epoch: int | None = None
    exhausted: bool = False
    wake_after_seconds: float | None = None
    last_epoch: int = BEGINNING
    closed: tuple[int, ...] = ()
    due: int | None = None
    finished: bool = False
    frozen: FrozenSlice | None = None
    taken: RestoredTo | None = None
    taken_bytes: int = 0


# --- stimuli ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Start:
    """The plan's phase is "run": sources may read."""


@dataclass(frozen=True, slots=True)
class FrameArrived:
    header: FrameHeader
    body: object
    nbytes: int


@dataclass(frozen=True, slots=True)
class WorkDone:
    result: WorkResult


@dataclass(frozen=True, slots=True)
class CreditArrived:
    channel: int
    sender: int
    receiver: int
    frontier: int


@dataclass(frozen=True, slots=True)
class UnwantedTold:
    """A receiver's replica has taken these epochs from another source."""

    channel: int
    sender: int
    receiver: int
    epochs: UnwantedRange


@dataclass(frozen=True, slots=True)
class Subscribed:
    """A receiver's replica wants every frame of epochs from `from_epoch` on."""

    channel: int
    sender: int
    receiver: int
    from_epoch: int
    frontier: int


@dataclass(frozen=True, slots=True)
class ResendAsked:
    channel: int
    sender: int
    receiver: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Announced:
    channel: int
    sender: int
    receiver: int
    next_sequence: int


@dataclass(frozen=True, slots=True)
class Rewired:
    """The plan's living generations at the other ends of the channels, as far as they have changed.
    `queueing`: the receivers that only queue what comes."""

    senders: dict[int, tuple[int, ...]]
    receivers: dict[int, tuple[int, ...]]
    queueing: dict[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Led:
    """Of the slice's replicas the plan's first leads: its snapshots count, and nobody else makes any.
    `spare`: this one only stands behind it, and its runs are short, so that others soon have their turn."""

    by_this: bool
    spare: bool = False


@dataclass(frozen=True, slots=True)
class Stand:
    """How far up the ladder the replica is to stand: on a rung where it takes what is sent, at least."""

    rung: Scheme


@dataclass(frozen=True, slots=True)
class StateOffered:
    """The slice's snapshot of a complete checkpoint, for a replica that does not process."""

    restore: Restore


@dataclass(frozen=True, slots=True)
class Directed:
    """What the manager wants: see `control.Directive`."""

    proposed: int
    making: int
    retain_after: int


@dataclass(frozen=True, slots=True)
class SnapshotDone:
    """What `WriteSnapshot` came to: the record of a durable snapshot, or None where it failed."""

    record: SnapshotRecord | None


@dataclass(frozen=True, slots=True)
class Woken:
    """The time that a `WakeAfter` asked for has come."""


@dataclass(frozen=True, slots=True)
class Beat:
    """A heartbeat's turn: repeat what may have got lost."""


@dataclass(frozen=True, slots=True)
class Agreeing:
    """Something for the part of the machine that agrees with other replicas."""

    stimulus: agreement.AgreementStimulus


Stimulus = (
    Start
    | FrameArrived
    | WorkDone
    | CreditArrived
    | UnwantedTold
    | Subscribed
    | ResendAsked
    | Announced
    | Rewired
    | Led
    | Stand
    | StateOffered
    | Directed
    | SnapshotDone
    | Woken
    | Beat
    | Agreeing
)

OF_ONE_LINK = frozenset({CreditArrived, UnwantedTold, Subscribed, ResendAsked, Announced})
"""They let output leave on one channel at most, and come for each of many."""

# --- effects ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Run:
    """Perform the work in order on one worker thread, then report WorkDone. What it asks to close may be left
    open in the end, and what becomes due meanwhile is closed unasked: the result tells.

    `repeats`: several epochs wait, and receivers have been given them already, by whoever was here before or
    by another replica. `late_bytes` of input that it takes where several complete epochs wait; else 0.
    """

    work: tuple[Work, ...]
    repeats: bool = False
    late_bytes: int = 0


@dataclass(frozen=True, slots=True)
class SendFrame:
    frame: Outgoing


@dataclass(frozen=True, slots=True)
class GrantCredit:
    channel: int
    sender: int
    receiver: int
    frontier: int


@dataclass(frozen=True, slots=True)
class TellUnwanted:
    channel: int
    sender: int
    receiver: int
    epochs: UnwantedRange


@dataclass(frozen=True, slots=True)
class AskSubscription:
    channel: int
    sender: int
    receiver: int
    from_epoch: int
    frontier: int


@dataclass(frozen=True, slots=True)
class AskResend:
    channel: int
    sender: int
    receiver: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Announce:
    channel: int
    sender: int
    receiver: int
    next_sequence: int


@dataclass(frozen=True, slots=True)
class WakeAfter:
    """`ticks`: only to know that time goes on."""

    seconds: float
    ticks: bool = False


@dataclass(frozen=True, slots=True)
class WriteSnapshot:
    """Make the frozen state durable on a thread of its own, then report SnapshotDone.

    `previous` is the snapshot that it adds to, None where it is full.
    """

    frozen: FrozenSlice
    previous: SnapshotRecord | None


@dataclass(frozen=True, slots=True)
class ToDisk:
    """Move these bodies to disk on a thread of its own; nobody waits for it."""

    bodies: tuple[Kept, ...]


@dataclass(frozen=True, slots=True)
class TellReplicas:
    """Send a message to these generations of the slice."""

    receivers: tuple[int, ...]
    message: agreement.AgreementMessage


@dataclass(frozen=True, slots=True)
class MakeSure:
    """Do what outlives this replica, then report what came of it, see `agreement`."""

    wish: agreement.AskWitness | agreement.SealStore | agreement.MakeDurable


@dataclass(frozen=True, slots=True)
class SliceFinished:
    """All input is processed and all output is in the log."""


@dataclass(frozen=True, slots=True)
class Progressed:
    """Something that the manager waits for has changed here."""


Effect = (
    Run
    | SendFrame
    | GrantCredit
    | TellUnwanted
    | AskSubscription
    | AskResend
    | Announce
    | WakeAfter
    | WriteSnapshot
    | ToDisk
    | TellReplicas
    | MakeSure
    | SliceFinished
    | Progressed
)
