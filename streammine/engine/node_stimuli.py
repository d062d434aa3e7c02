"""What goes into a node's machine, and what it asks its shell to do.

Bodies of frames (`body`) are opaque to the machine: they carry record batches past it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from streammine.engine import stimuli
from streammine.engine.channel import Outgoing
from streammine.engine.slice import SliceMachine
from streammine.model import control
from streammine.model.frames import FrameHeader
from streammine.model.ids import SliceId
from streammine.model.job import JobGraph, JobOutcome, Plan

# --- stimuli ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MembersSeen:
    """Live nodes in the order in which they joined; the first is the manager."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobSeen:
    """A job was submitted to the cluster; `nodes` is how many it wants."""

    job: int
    graph: JobGraph
    nodes: int


@dataclass(frozen=True, slots=True)
class PlanSeen:
    plan: Plan


@dataclass(frozen=True, slots=True)
class JobEndSeen:
    job: int


@dataclass(frozen=True, slots=True)
class Deployed:
    """The shell has built the slices that a `Deploy` named, or could not."""

    job: int
    version: int
    slices: tuple[SliceMachine, ...] = ()
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class FrameReceived:
    header: FrameHeader
    body: object
    nbytes: int


@dataclass(frozen=True, slots=True)
class ControlReceived:
    sender: str
    message: control.ControlMessage


@dataclass(frozen=True, slots=True)
class WorkFinished:
    """What came of a `Perform`; `failure` when an error stopped it."""

    job: int
    slice: SliceId
    result: stimuli.WorkResult | None
    failure: str | None = None
    counters: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobBroken:
    """The shell found something of the job that can't be right, like a body that holds no batch."""

    job: int
    failure: str


@dataclass(frozen=True, slots=True)
class SliceWoken:
    job: int
    slice: SliceId


@dataclass(frozen=True, slots=True)
class HeartbeatDue:
    """Time for a heartbeat. `load` is the node's; `counters` are its slices'."""

    load: dict[str, float]
    counters: dict[tuple[int, SliceId], dict[str, float]]


NodeStimulus = (
    MembersSeen
    | JobSeen
    | PlanSeen
    | JobEndSeen
    | Deployed
    | FrameReceived
    | ControlReceived
    | WorkFinished
    | JobBroken
    | SliceWoken
    | HeartbeatDue
)

# --- effects ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Deploy:
    """Build these slices of the job (generation by slice) and prepare their operators."""

    job: int
    version: int
    slices: tuple[tuple[SliceId, int], ...]


@dataclass(frozen=True, slots=True)
class Undeploy:
    """Forget the job: close its readers, drop its state."""

    job: int


@dataclass(frozen=True, slots=True)
class Perform:
    job: int
    slice: SliceId
    work: tuple[stimuli.Work, ...]


@dataclass(frozen=True, slots=True)
class TransmitFrame:
    node: str
    frame: Outgoing


@dataclass(frozen=True, slots=True)
class TransmitControl:
    node: str
    message: control.ControlMessage


@dataclass(frozen=True, slots=True)
class WakeSlice:
    job: int
    slice: SliceId
    seconds: float


@dataclass(frozen=True, slots=True)
class DeclarePlan:
    plan: Plan


@dataclass(frozen=True, slots=True)
class DeclareEnd:
    job: int
    outcome: JobOutcome


@dataclass(frozen=True, slots=True)
class SourcesStart:
    """The job's phase is "run" here: its clock for pacing starts."""

    job: int


NodeEffect = (
    Deploy
    | Undeploy
    | Perform
    | TransmitFrame
    | TransmitControl
    | WakeSlice
    | DeclarePlan
    | DeclareEnd
    | SourcesStart
)
