"""What goes into the manager's machine, and what it asks its node to do.

What the node's shell tells, and does, for the manager alone passes through the node as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from streammine.engine.node_stimuli import (
    CheckpointPublished,
    CheckpointsFound,
    CollectSnapshots,
    DeclareEnd,
    DeclarePlan,
    FindCheckpoints,
    JobEndSeen,
    JobSeen,
    KeepMemory,
    MemoryKept,
    PlanRefused,
    PlanSeen,
    PublishCheckpoint,
    ReplicasLack,
    SchemeDecided,
)
from streammine.engine.placement import Node
from streammine.model import control
from streammine.model.control import Directive, Heartbeat
from streammine.model.ids import SliceId


@dataclass(frozen=True, slots=True)
class Elected:
    """Whether this node is the manager now, and its sequence number among all members there ever were."""

    leading: bool
    member: int = 0


@dataclass(frozen=True, slots=True)
class NodesChanged:
    """Live nodes in the order in which they joined. `now_seconds`: None for that of the last `Ticked`."""

    nodes: tuple[Node, ...]
    now_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Reported:
    """A node's heartbeat. `now_seconds`: None for that of the last `Ticked`."""

    heartbeat: Heartbeat
    now_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed. See HeartbeatDue for the two clocks."""

    now_seconds: float
    clock_seconds: float


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
class SchemeAsked:
    """`slices`: "vertex/index", or a vertex for all of its slices; `scheme` by its name, or `AUTOMATIC`."""

    job: int
    slices: str
    scheme: str


@dataclass(frozen=True, slots=True)
class DrainAsked:
    node: str


@dataclass(frozen=True, slots=True)
class Direct:
    """Tell every node."""

    directive: Directive


@dataclass(frozen=True, slots=True)
class Offer:
    """Tell a node that states are there for those of its replicas that stand by."""

    node: str
    offers: control.StateOffers


ManagerStimulus = (
    Elected
    | NodesChanged
    | JobSeen
    | PlanSeen
    | PlanRefused
    | Reported
    | Ticked
    | CheckpointsFound
    | CheckpointPublished
    | MemoryKept
    | StopAsked
    | SavepointAsked
    | MoveAsked
    | SchemeAsked
    | DrainAsked
    | JobEndSeen
)

ManagerEffect = (
    DeclarePlan
    | SchemeDecided
    | ReplicasLack
    | DeclareEnd
    | Direct
    | Offer
    | PublishCheckpoint
    | CollectSnapshots
    | FindCheckpoints
    | KeepMemory
)

Wish = SavepointAsked | MoveAsked | DrainAsked | SchemeAsked
WishMessage = (
    control.SavepointRequest | control.MoveRequest | control.DrainRequest | control.SchemeRequest
)


def wish_of(message: WishMessage) -> Wish:
    """What a client asks for. A slice that can't be one is left for the manager to refuse."""
    match message:
        case control.SavepointRequest(job):
            return SavepointAsked(job)
        case control.MoveRequest(job, slice_text, node, mode):
            vertex, _, index = slice_text.rpartition("/")
            number = int(index) if index.isascii() and index.isdigit() else -1
            return MoveAsked(job, SliceId(vertex, number), node, mode == "live")
        case control.SchemeRequest(job, slices, scheme):
            return SchemeAsked(job, slices, scheme)
        case control.DrainRequest(node):
            return DrainAsked(node)
