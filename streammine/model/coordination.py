"""What a cluster keeps in its coordination service, and the events by which it tells of changes.

Two services speak this vocabulary: the real one on ZooKeeper and the simulation's virtual one. All
contents are opaque bytes here; who reads and writes them knows what they mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

ConnectionState = Literal["connected", "suspended", "lost", "removed"]
"""connected: all is well. suspended: the service can't be reached; the membership may still stand.
lost: the session is over, and with it the membership; after the next "connected", join again.
removed: the service holds the cluster no more, for it is over."""


@dataclass(frozen=True, slots=True)
class Member:
    """A node that takes part in the cluster.

    `sequence` (the order of joining, never used twice) and `session` are given by `join`.
    `public_key` is the node's CURVE key in Z85 text, None where no keys are used.
    """

    name: str
    data_endpoint: str
    control_endpoint: str
    host: str
    pid: int
    public_key: str | None = None
    sequence: int = -1
    session: int = 0


@dataclass(frozen=True, slots=True)
class MembersChanged:
    """All members, in the order of their sequence. The first one is the manager."""

    members: tuple[Member, ...]

    @property
    def manager(self) -> Member | None:
        return self.members[0] if self.members else None


@dataclass(frozen=True, slots=True)
class JobSubmitted:
    """A job is in the service as a whole. Jobs come in the order of their numbers."""

    number: int
    blob: bytes


@dataclass(frozen=True, slots=True)
class PlanPublished:
    """The newest plan of a job. Versions may be skipped, but never the last one."""

    job: int
    version: int
    blob: bytes


@dataclass(frozen=True, slots=True)
class JobEnded:
    """A job is over, well or not. Nothing more is told of it."""

    job: int
    outcome: bytes


@dataclass(frozen=True, slots=True)
class ConnectionChanged:
    """How the service can be reached now."""

    state: ConnectionState


CoordinationEvent = MembersChanged | JobSubmitted | PlanPublished | JobEnded | ConnectionChanged
EventListener = Callable[[CoordinationEvent], None]
"""Called from a thread of the service: must be quick and safe to call from any thread."""


@dataclass(frozen=True, slots=True)
class JobListing:
    """A job that the service knows, and whether it is over."""

    number: int
    ended: bool


class CoordinationService(Protocol):
    """What nodes and clients may ask of a coordination service.

    Every call raises ClusterError when the service can't be reached or refuses. `publish_plan`
    raises StalePlanError unless `version` is exactly one above the version that stands (0: none).
    """

    def join(self, member: Member) -> Member: ...

    def submit_job(self, blob: bytes) -> int: ...

    def publish_plan(self, job: int, version: int, blob: bytes) -> None: ...

    def end_job(self, job: int, outcome: bytes) -> bool:
        """False when the job had ended before; its first outcome stands."""
        ...

    def take_witness(self, job: int, name: str, holder: int) -> int:
        """Who holds a job's witness of that name: whoever asked for it first, once and for all."""
        ...

    def members(self) -> tuple[Member, ...]: ...

    def jobs(self) -> tuple[JobListing, ...]: ...

    def read_job(self, job: int) -> bytes: ...

    def read_plan(self, job: int) -> PlanPublished | None: ...

    def read_outcome(self, job: int) -> bytes | None: ...
