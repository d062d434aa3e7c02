"""Control messages between nodes, and between clients and nodes: schema-checked msgpack.

The fields of a message are its schema (see `vocabulary`); to add a kind, add it to `ControlMessage`.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from streammine.model import agreement
from streammine.model.ids import SliceId
from streammine.model.snapshots import Restore, SnapshotRecord
from streammine.model.vocabulary import MOST_ROWS, Payload, Vocabulary

MAXIMUM_MESSAGE_BYTES = 16 << 20
"""Longest control message."""

LinkRow = tuple[int, int, int, int]
"""Of a link: its channel, the generations of its sender and its receiver, and what is told of it."""

RangeRow = tuple[int, int, int, int, int, int]
"""Of a link, as in `LinkRow`: epochs from a first one to below another one, and how far to read."""


@dataclass(frozen=True, slots=True)
class Credits:
    """Receivers' frontiers: on each of the `links`, events of epochs up to it may always be sent.

    A link is named by its channel and the generations of the replicas at its two ends. A node's news for
    another travels together (`in_messages`): there are as many links as sending times receiving slices.
    """

    job: int
    links: tuple[LinkRow, ...]
    """With the frontier."""


@dataclass(frozen=True, slots=True)
class Subscribe:
    """A receiver wants a link: every frame of epochs from `from_epoch` on. Repeated until confirmed."""

    job: int
    channel: int
    sender: int
    receiver: int
    from_epoch: int
    frontier: int


@dataclass(frozen=True, slots=True)
class ResendRequest:
    """A receiver misses the frames of a link from `sequence` on."""

    job: int
    channel: int
    sender: int
    receiver: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Announcements:
    """The sequence numbers that the senders of `links` will use next: all below were sent."""

    job: int
    links: tuple[LinkRow, ...]
    """With the next sequence number."""


@dataclass(frozen=True, slots=True)
class Unwanted:
    """What receivers of one feed need not give to those who choose among them: on each of the `links`,
    epochs from a first one to below another one were taken from somebody else, and once all below a third one
    are over the receiver may wait until it is told more. INFINITY: it was chosen last, and gives all it has.
    """

    job: int
    links: tuple[RangeRow, ...]


LinkNews = Credits | Announcements | Unwanted


@dataclass(frozen=True, slots=True)
class StandingTold:
    """How the replica that sends stands in what it and the one of generation `receiver` agree on."""

    job: int
    slice: SliceId
    receiver: int
    message: agreement.Report


@dataclass(frozen=True, slots=True)
class PulseTold:
    """The replica that sends is there, and stands as it last told all others of its slice."""

    job: int
    slice: SliceId
    receiver: int
    message: agreement.Pulse


@dataclass(frozen=True, slots=True)
class DecisionsTold:
    """What the replicas of a slice have agreed on, for the one of generation `receiver`."""

    job: int
    slice: SliceId
    receiver: int
    message: agreement.Decisions


AgreementTold = StandingTold | PulseTold | DecisionsTold


@dataclass(frozen=True, slots=True)
class SliceReport:
    """What a replica is doing. `slice` is "vertex/index", `rung` that of the ladder where it stands; nobody
    needs to send it an epoch below `received` once more; `spent_plan` as in `Agreement`; `outrun`: it can't
    go on and must be built anew (`agreement.Outrun`); the rest as in `recovery.SliceStanding`."""

    slice: str
    generation: int
    phase: str
    frontier: int
    finished: bool
    retained_after: int
    accepted: int
    frozen: int
    skipped: int
    last_epoch: int
    final_epoch: int
    snapshots: tuple[SnapshotRecord, ...]
    counters: dict[str, float]
    rung: str
    received: int
    spent_plan: int
    outrun: bool


@dataclass(frozen=True, slots=True)
class SeatReport:
    """An operator that is deployed and takes no part yet. It holds the state after `epoch`, BEGINNING for
    none, of `state_bytes`."""

    slice: str
    generation: int
    epoch: int
    state_bytes: int


@dataclass(frozen=True, slots=True)
class StepReport:
    """How long a step of bringing a replica to life took on a node (see `recovery_policy.Step`). The slice is
    empty, and the generation a plan's version, for what is done for a whole plan."""

    step: str
    slice: str
    generation: int
    seconds: float
    nbytes: float


@dataclass(frozen=True, slots=True)
class DamagedSnapshot:
    """A snapshot, by the name of its header, that a slice could not be restored from."""

    slice: str
    generation: int
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class JobReport:
    """A node's share of a job. `failed` is the error's text. `steps`: the newest, repeated."""

    job: int
    plan_version: int
    deployed: bool
    failed: str | None
    slices: tuple[SliceReport, ...]
    damaged: tuple[DamagedSnapshot, ...]
    seats: tuple[SeatReport, ...] = ()
    steps: tuple[StepReport, ...] = ()


@dataclass(frozen=True, slots=True)
class Directive:
    """What the manager wants of a job at this moment; repeated with its heartbeats.

    `proposed`: the newest checkpoint epoch; `making`: the same while that checkpoint is neither complete nor
    given up, else BEGINNING; `retain_after`: nobody asks for epochs up to it again, as long as plan
    `plan_version` is the newest.
    """

    job: int
    proposed: int
    making: int
    retain_after: int
    plan_version: int


@dataclass(frozen=True, slots=True)
class StateOffer:
    """A slice's state in a complete checkpoint, for the replica of `generation`, which stands by."""

    slice: str
    generation: int
    restore: Restore


@dataclass(frozen=True, slots=True)
class StateOffers:
    """For replicas of one node. Not to be followed where a newer plan than `plan_version` is known."""

    job: int
    plan_version: int
    offers: tuple[StateOffer, ...]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a node tells the manager from time to time. `member` is its sequence number among all that ever
    joined; `load` holds CPU, memory, queues by name."""

    node: str
    member: int
    load: dict[str, float]
    jobs: tuple[JobReport, ...]


@dataclass(frozen=True, slots=True)
class StatusRequest:
    """A client asks for one job's state, or, with None, for the cluster's."""

    job: int | None


@dataclass(frozen=True, slots=True)
class StatusAnswer:
    """The state asked for."""

    payload: Payload


@dataclass(frozen=True, slots=True)
class StopRequest:
    """A client asks to stop a job."""

    job: int
    reason: str


@dataclass(frozen=True, slots=True)
class SavepointRequest:
    """A client asks for a checkpoint, and for the job's end once it is complete; nothing is flushed."""

    job: int


@dataclass(frozen=True, slots=True)
class MoveRequest:
    """A client asks to move a slice ("vertex/index") to a node.

    `mode`: "live", or "state-transfer" for the stop-and-copy yardstick.
    """

    job: int
    slice: str
    node: str
    mode: str


@dataclass(frozen=True, slots=True)
class DrainRequest:
    """A client asks to move every slice of all jobs away from a node, and to place none there."""

    node: str


@dataclass(frozen=True, slots=True)
class SchemeRequest:
    """A client asks for another fault-tolerance scheme of a slice ("vertex/index") or of all of a vertex."""

    job: int
    slices: str
    scheme: str


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """A request could not be served."""

    message: str


ControlMessage = (
    Credits
    | Subscribe
    | ResendRequest
    | Announcements
    | Unwanted
    | StandingTold
    | PulseTold
    | DecisionsTold
    | Heartbeat
    | Directive
    | StateOffers
    | StatusRequest
    | StatusAnswer
    | StopRequest
    | SavepointRequest
    | MoveRequest
    | DrainRequest
    | SchemeRequest
    | ErrorAnswer
)

MESSAGES: tuple[type[Any], ...] = typing.get_args(ControlMessage)
"""Every kind that may stand on the wire by itself."""


def in_messages(kind: type[LinkNews], job: int, links: Sequence[Any]) -> Iterator[LinkNews]:
    """As many messages as it takes. The links are rows of the kind's."""
    for start in range(0, len(links), MOST_ROWS):
        yield kind(job, tuple(links[start : start + MOST_ROWS]))


_VOCABULARY: Vocabulary[ControlMessage] = Vocabulary(
    "control message", MESSAGES, MAXIMUM_MESSAGE_BYTES
)


def encode(message: ControlMessage) -> bytes:
    """The message's bytes. Wrong types are our own bug and fail an assertion.

    Raises ProtocolError when it is longer than MAXIMUM_MESSAGE_BYTES.
    """
    return _VOCABULARY.encode(message)


def decode(data: bytes | memoryview) -> ControlMessage:
    """Raises ProtocolError for anything but a whole message of a known kind."""
    return _VOCABULARY.decode(data)
