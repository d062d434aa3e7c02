"""What goes into a slice's machine, and what it asks its shell to do.

Bodies of frames (`body`) are opaque to the machines: they carry record batches past them.
"""

from __future__ import annotations

from dataclasses import dataclass

from streammine.engine.channel import Outgoing
from streammine.model.epochs import BEGINNING
from streammine.model.frames import FrameHeader

# --- work: what the shell runs on a worker thread for one slice -------------------------------


@dataclass(frozen=True, slots=True)
class Read:
    """Take up to `rows` rows from the source, up to `times` times as long as there are any."""

    rows: int
    times: int = 1


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
    """Fold the epoch's accumulators into committed state; its results leave."""

    epoch: int
    watermark: int


@dataclass(frozen=True, slots=True)
class Finish:
    """The input is over and every epoch is closed; what is left leaves in epoch `epoch`."""

    epoch: int


Work = Read | Accumulate | Discard | CloseEpoch | Finish


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
    complete), `exhausted`, `wake_after_seconds`, and `last_epoch`, the highest that held data. For
    others: `closed` epochs in order, and `due`, the next epoch that the operator wants closed even
    if it gets no data.
    """

    outputs: tuple[Output, ...] = ()
    open_epoch: int | None = None
    exhausted: bool = False
    wake_after_seconds: float | None = None
    last_epoch: int = BEGINNING
    closed: tuple[int, ...] = ()
    due: int | None = None
    finished: bool = False


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
    generation: int
    frontier: int


@dataclass(frozen=True, slots=True)
class ResendAsked:
    channel: int
    generation: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Announced:
    channel: int
    generation: int
    next_sequence: int


@dataclass(frozen=True, slots=True)
class Woken:
    """The time that a `WakeAfter` asked for has come."""


@dataclass(frozen=True, slots=True)
class Beat:
    """A heartbeat's turn: announce how far each output channel has got."""


Stimulus = Start | FrameArrived | WorkDone | CreditArrived | ResendAsked | Announced | Woken | Beat

# --- effects ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Run:
    """Perform the work in order on one worker thread, then report WorkDone."""

    work: tuple[Work, ...]


@dataclass(frozen=True, slots=True)
class SendFrame:
    frame: Outgoing


@dataclass(frozen=True, slots=True)
class GrantCredit:
    channel: int
    generation: int
    frontier: int


@dataclass(frozen=True, slots=True)
class AskResend:
    channel: int
    generation: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Announce:
    channel: int
    generation: int
    next_sequence: int


@dataclass(frozen=True, slots=True)
class WakeAfter:
    seconds: float


@dataclass(frozen=True, slots=True)
class SliceFinished:
    """All input is processed and all output is acknowledged by nobody less than the transport."""


Effect = Run | SendFrame | GrantCredit | AskResend | Announce | WakeAfter | SliceFinished
