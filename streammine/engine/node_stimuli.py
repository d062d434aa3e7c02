"""What goes into a node's machine, and what it asks its shell to do.

Bodies of frames (`body`) are opaque to the machine: they carry record batches past it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from streammine.engine import stimuli
from streammine.engine.kept import Kept
from streammine.engine.output_channel import Outgoing
from streammine.engine.slice import SliceMachine
from streammine.model import agreement, control
from streammine.model.contracts import FrozenSlice
from streammine.model.epochs import BEGINNING
from streammine.model.errors import SnapshotDamagedError
from streammine.model.frames import FrameHeader
from streammine.model.ids import SliceId
from streammine.model.job import JobGraph, JobOutcome, Plan
from streammine.model.lacking import Lack
from streammine.model.recovery import Checkpoint
from streammine.model.recovery_assessment import ControlMemory, Decision
from streammine.model.snapshots import RecoverySettings, Restore, SnapshotRecord

AgreementWish = agreement.AskWitness | agreement.SealStore | agreement.MakeDurable
AgreementAnswer = agreement.WitnessAnswered | agreement.StoreRead | agreement.DecisionDurable

# --- stimuli ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MembersSeen:
    """Live nodes, each with its sequence number among all that joined, in that order; the first is the
    manager. `own` is this node's number, None while it is not among them: a node of its name may be
    one that was there before it. `now_seconds`: see HeartbeatDue; None for when that came last."""

    nodes: tuple[tuple[str, int], ...]
    own: int | None
    now_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class JobSeen:
    """A job was submitted to the cluster; `nodes` is how many it wants."""

    job: int
    graph: JobGraph
    nodes: int
    recovery: RecoverySettings = field(default_factory=RecoverySettings)


@dataclass(frozen=True, slots=True)
class PlanSeen:
    plan: Plan


@dataclass(frozen=True, slots=True)
class PlanRefused:
    """A plan that a `DeclarePlan` named does not stand and never will, nor does any that came after it in its
    series."""

    job: int
    version: int
    series: int = 0


@dataclass(frozen=True, slots=True)
class JobEndSeen:
    job: int


@dataclass(frozen=True, slots=True)
class Deployed:
    """The shell has built the slices that a `Deploy` named, or could not.

    `damaged`: those whose snapshots can't be read; the others are built all the same.
    """

    job: int
    version: int
    slices: tuple[SliceMachine, ...] = ()
    failure: str | None = None
    damaged: tuple[control.DamagedSnapshot, ...] = ()


@dataclass(frozen=True, slots=True)
class Seated:
    """What came of a `Sit`: the operator is there, with the state after `epoch`, BEGINNING for none.
    `failure`: an error that every replica of the slice would meet; `damaged`: a snapshot that could not be
    read, and nothing is there now."""

    job: int
    slice: SliceId
    generation: int
    epoch: int
    state_bytes: int
    failure: str | None = None
    damaged: control.DamagedSnapshot | None = None


@dataclass(frozen=True, slots=True)
class FrameReceived:
    header: FrameHeader
    body: object
    nbytes: int


@dataclass(frozen=True, slots=True)
class ControlReceived:
    """`now_seconds`: see HeartbeatDue; None for when that came last."""

    sender: str
    message: control.ControlMessage
    now_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class WorkFinished:
    """What came of a `Perform`; `failure` when an error stopped it.

    `replaced`: a successor does the replica's work, of which this node is still to hear. `damaged`: a
    snapshot that it was to take in can't be read, so its state is lost.
    """

    job: int
    slice: SliceId
    generation: int
    result: stimuli.WorkResult | None
    failure: str | None = None
    counters: dict[str, float] = field(default_factory=dict)
    replaced: bool = False
    damaged: control.DamagedSnapshot | None = None


@dataclass(frozen=True, slots=True)
class SnapshotWritten:
    """What came of a `WriteSnapshot`: the durable snapshot's record, or an error."""

    job: int
    slice: SliceId
    generation: int
    record: SnapshotRecord | None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class MadeSure:
    """What came of a `MakeSure`. None: nothing, or nobody can tell; it is to be done again."""

    wish: MakeSure
    answer: AgreementAnswer | None


@dataclass(frozen=True, slots=True)
class CheckpointPublished:
    """What came of a `PublishCheckpoint`."""

    job: int
    epoch: int
    error: str | None = None


@dataclass(frozen=True, slots=True)
class CheckpointsFound:
    """What came of a `FindCheckpoints`: the complete checkpoints that the job's store holds, oldest first, or
    None where the store can't be read now. `forgotten`: what replicas agreed on up to that epoch may be there
    no more. `memory`: where it was asked for, and there is any that can be read."""

    job: int
    checkpoints: tuple[Checkpoint, ...] | None
    forgotten: int = BEGINNING
    memory: ControlMemory | None = None


@dataclass(frozen=True, slots=True)
class MemoryKept:
    """What came of a `KeepMemory`."""

    job: int
    memory: ControlMemory
    error: str | None = None


@dataclass(frozen=True, slots=True)
class JobBroken:
    """The shell found something of the job that can't be right, like a body that holds no batch."""

    job: int
    failure: str


@dataclass(frozen=True, slots=True)
class SliceWoken:
    job: int
    slice: SliceId
    generation: int


@dataclass(frozen=True, slots=True)
class HeartbeatDue:
    """Time for a heartbeat. `now_seconds` is a clock that never goes back, `clock_seconds` the system's,
    which all nodes share; `load` is the node's and `counters` are its slices', `steps` what was measured of
    each job."""

    now_seconds: float
    clock_seconds: float
    load: dict[str, float]
    counters: dict[tuple[int, SliceId], dict[str, float]]
    steps: dict[int, tuple[control.StepReport, ...]] = field(default_factory=dict)


NodeStimulus = (
    MembersSeen
    | JobSeen
    | PlanSeen
    | PlanRefused
    | JobEndSeen
    | Deployed
    | Seated
    | FrameReceived
    | ControlReceived
    | WorkFinished
    | SnapshotWritten
    | MadeSure
    | CheckpointPublished
    | CheckpointsFound
    | MemoryKept
    | JobBroken
    | SliceWoken
    | HeartbeatDue
)

# --- effects ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NewReplica:
    """A replica to build: its generation and what it is restored from.

    `links`: by channel, generations at its other end whose links stand without being asked for, because
    both ends begin the job together. `beside`: generations of the slice's other replicas.
    """

    slice: SliceId
    generation: int
    restore: Restore | None = None
    links: dict[int, tuple[int, ...]] = field(default_factory=dict)
    beside: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Deploy:
    """Build these replicas of the job and prepare their operators."""

    job: int
    version: int
    replicas: tuple[NewReplica, ...]


@dataclass(frozen=True, slots=True)
class Sit:
    """Have a slice's operator ready, and, where there is a snapshot to `restore`, in that state. It takes no
    part in the job; a replica of the slice that is deployed here later uses it."""

    job: int
    slice: SliceId
    generation: int
    restore: Restore | None


@dataclass(frozen=True, slots=True)
class Unseat:
    """Forget the operator that a `Sit` made."""

    job: int
    slice: SliceId


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Forget one replica: close its reader, drop its state."""

    job: int
    slice: SliceId
    generation: int


@dataclass(frozen=True, slots=True)
class Undeploy:
    """Forget the job: close its readers, drop its state."""

    job: int


@dataclass(frozen=True, slots=True)
class Perform:
    """Run a replica's work. `catches_up`: another replica has done it already, so nobody waits for this;
    `spare`: the replica only stands behind another one, which must not notice it; `late_bytes` as in
    `stimuli.Run`."""

    job: int
    slice: SliceId
    generation: int
    work: tuple[stimuli.Work, ...]
    catches_up: bool = False
    spare: bool = False
    late_bytes: int = 0


def damaged_by(
    wish: NewReplica | Sit | Perform, error: SnapshotDamagedError
) -> control.DamagedSnapshot:
    """What is told of a replica that was to be in the state of a snapshot which can't be read."""
    match wish:
        case NewReplica() | Sit():
            restore = wish.restore
        case Perform(work=(stimuli.TakeState(taken),)):
            restore = taken
        case _:
            raise AssertionError(f"{wish} reads no snapshot")
    assert restore is not None
    assert restore.record is not None
    return control.DamagedSnapshot(
        str(wish.slice), wish.generation, restore.record.name, str(error)
    )


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
    generation: int
    seconds: float
    ticks: bool = False


def witness_name(slice_id: SliceId, version: int) -> str:
    """Of the one vote more that a slice's replicas have in that version."""
    return f"{slice_id.vertex}-{slice_id.index}-{version}"


@dataclass(frozen=True, slots=True)
class MakeSure:
    """Do what a replica's agreement with others rests on, in the coordination service or the job's store,
    on a thread of its own."""

    job: int
    slice: SliceId
    generation: int
    wish: AgreementWish


@dataclass(frozen=True, slots=True)
class WriteSnapshot:
    """Write a replica's frozen state to the job's store, on a thread of its own."""

    job: int
    slice: SliceId
    generation: int
    frozen: FrozenSlice
    previous: SnapshotRecord | None


@dataclass(frozen=True, slots=True)
class MoveToDisk:
    """Move bodies that a replica keeps to its spill, on a thread of its own."""

    job: int
    slice: SliceId
    generation: int
    bodies: tuple[Kept, ...]


@dataclass(frozen=True, slots=True)
class PublishCheckpoint:
    """Write a complete checkpoint's manifest, in the term of `manager`, to the job's store."""

    job: int
    checkpoint: Checkpoint
    manager: int


@dataclass(frozen=True, slots=True)
class CollectSnapshots:
    """Remove from the job's store what these checkpoints don't need. `decisions`: also what replicas have
    decided up to the first of them."""

    job: int
    keep: tuple[Checkpoint, ...]
    decisions: bool


@dataclass(frozen=True, slots=True)
class FindCheckpoints:
    """Begin the term of `manager` in the job's store, and look for the checkpoints that count. `memory`: and
    for what an earlier manager's controller has left.

    Each look is answered once, in order.
    """

    job: int
    manager: int
    memory: bool = False


@dataclass(frozen=True, slots=True)
class KeepMemory:
    """Put what the next manager's controller is to know into the job's store, in the term of `manager`."""

    job: int
    memory: ControlMemory
    manager: int


@dataclass(frozen=True, slots=True)
class DeclarePlan:
    """`series`: the plan builds on the one of the same series that was declared before it; the first one of a
    series on what stood."""

    plan: Plan
    series: int = 0


@dataclass(frozen=True, slots=True)
class SchemeDecided:
    """To be told to whoever looks after the cluster."""

    job: int
    decision: Decision


@dataclass(frozen=True, slots=True)
class ReplicasLack:
    """To be told to whoever looks after the cluster. Empty: all replicas have a place again."""

    job: int
    lacks: tuple[Lack, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.lacks)) or "all replicas have a node again"


@dataclass(frozen=True, slots=True)
class DeclareEnd:
    job: int
    outcome: JobOutcome


@dataclass(frozen=True, slots=True)
class SourcesStart:
    """The job's phase is "run" here. Its pace began, or begins, `began_at` (see Plan)."""

    job: int
    began_at: float


NodeEffect = (
    Deploy
    | Sit
    | Unseat
    | Withdraw
    | Undeploy
    | Perform
    | WriteSnapshot
    | MakeSure
    | MoveToDisk
    | PublishCheckpoint
    | CollectSnapshots
    | FindCheckpoints
    | KeepMemory
    | TransmitFrame
    | TransmitControl
    | WakeSlice
    | DeclarePlan
    | SchemeDecided
    | ReplicasLack
    | DeclareEnd
    | SourcesStart
)
