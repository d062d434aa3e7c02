"""What goes into the manager's machine, and what it asks its node to do."""

from __future__ import annotations

from dataclasses import dataclass, field

from streammine.engine.placement import Node
from streammine.model import control
from streammine.model.control import Directive, Heartbeat
from streammine.model.ids import SliceId
from streammine.model.job import JobGraph, JobOutcome, Plan
from streammine.model.recovery import Checkpoint
from streammine.model.snapshots import RecoverySettings


@dataclass(frozen=True, slots=True)
class Elected:
    """Whether this node is the manager now."""

    leading: bool


@dataclass(frozen=True, slots=True)
class NodesChanged:
    """Live nodes in the order in which they joined."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class JobArrived:
    """A job was submitted. `nodes` is how many it wants to spread over; all when it exceeds them."""

    job: int
    graph: JobGraph
    nodes: int
    recovery: RecoverySettings = field(default_factory=RecoverySettings)


@dataclass(frozen=True, slots=True)
class PlanSeen:
    """A plan is in force, published by this manager or one before."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class PlanRefused:
    """What this manager has published does not stand."""

    job: int
    version: int


@dataclass(frozen=True, slots=True)
class Reported:
    """A node's heartbeat."""

    heartbeat: Heartbeat


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed."""

    now_seconds: float


@dataclass(frozen=True, slots=True)
class Found:
    """The complete checkpoints in a job's store."""

    job: int
    checkpoints: tuple[Checkpoint, ...]


@dataclass(frozen=True, slots=True)
class Published:
    """A checkpoint's manifest is in the store, or (with an error) not."""

    job: int
    epoch: int
    error: str | None


@dataclass(frozen=True, slots=True)
class StopAsked:
    job: int
    reason: str


@dataclass(frozen=True, slots=True)
class SavepointAsked:
    job: int


@dataclass(frozen=True, slots=True)
class MoveAsked:
    job: int
    slice: SliceId
    node: str
    live: bool


@dataclass(frozen=True, slots=True)
class DrainAsked:
    node: str


@dataclass(frozen=True, slots=True)
class EndSeen:
    job: int


ManagerStimulus = (
    Elected
    | NodesChanged
    | JobArrived
    | PlanSeen
    | PlanRefused
    | Reported
    | Ticked
    | Found
    | Published
    | StopAsked
    | SavepointAsked
    | MoveAsked
    | DrainAsked
    | EndSeen
)


@dataclass(frozen=True, slots=True)
class PublishPlan:
    plan: Plan


@dataclass(frozen=True, slots=True)
class EndJob:
    job: int
    outcome: JobOutcome


@dataclass(frozen=True, slots=True)
class Direct:
    """Tell every node."""

    directive: Directive


@dataclass(frozen=True, slots=True)
class WriteCheckpoint:
    job: int
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class Collect:
    job: int
    keep: tuple[Checkpoint, ...]


@dataclass(frozen=True, slots=True)
class Find:
    """Look for complete checkpoints in the job's store; answered by Found."""

    job: int


ManagerEffect = PublishPlan | EndJob | Direct | WriteCheckpoint | Collect | Find


Wish = SavepointAsked | MoveAsked | DrainAsked
WishMessage = control.SavepointRequest | control.MoveRequest | control.DrainRequest


def wish_of(message: WishMessage) -> Wish:
    """What a client asks for. A slice that can't be one is left for the manager to refuse."""
    match message:
        case control.SavepointRequest(job):
            return SavepointAsked(job)
        case control.MoveRequest(job, slice_text, node, mode):
            vertex, _, index = slice_text.rpartition("/")
            number = int(index) if index.isascii() and index.isdigit() else -1
            return MoveAsked(job, SliceId(vertex, number), node, mode == "live")
        case control.DrainRequest(node):
            return DrainAsked(node)
