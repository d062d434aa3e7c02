"""Words of the controller: what it is to reach, what it is told, and what it answers (DESIGN §5).

The user says how long a recovery may take; the controller chooses, for every slice and again and again, the
cheapest of the six schemes (`schemes.Scheme`) that keeps to it (Martin 2015, chapter 6). The manager asks it,
`replication` implements it; they meet here. Its numbers are in `recovery_assessment`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Literal, Protocol

from streammine.model.ids import SliceId
from streammine.model.recovery_assessment import (
    NO_OTHERS,
    ControlMemory,
    Decision,
    SharedLoss,
    SliceStance,
)
from streammine.model.schemes import Scheme

RecoverySemantics = Literal["precise", "gap"]
"""precise: every epoch is there in the end. gap: a slice that `may_lose` does not make up for the epochs
between the state that is restored and what its senders give now; these are lost, and counted as lost."""

COOL_DOWN_SECONDS = 5.0
"""Martin 2015, section 6.3."""


@dataclass(frozen=True)
class CostWeights:
    """What a unit of each resource costs: one core, 10**9 bytes of memory, 10**9 bits per second of network,
    and one more node that has a part in a slice."""

    cpu: float = 1.0
    memory: float = 1.0
    network: float = 1.0
    nodes: float = 1.0


@dataclass(frozen=True)
class RecoveryGoal:
    """What the user wants: recoveries of at most `max_seconds`, at the least cost.

    `cool_down_seconds`: a slice's scheme is not changed for a cheaper one sooner after its last change.
    """

    max_seconds: float
    semantics: RecoverySemantics = "precise"
    cool_down_seconds: float = COOL_DOWN_SECONDS
    weights: CostWeights = field(default_factory=CostWeights)


def wants_gap(goal: RecoveryGoal | None) -> bool:
    return goal is not None and goal.semantics == "gap"


class Step(StrEnum):
    """A step of recoveries whose time is measured wherever it happens: not in recoveries alone, but also
    when a job starts, a slice moves or a replica is added, for all of these are done the same way.

    ``DETECT``: from a replica's loss until the manager knows. Until a loss was measured, the longest time
    that the failure detector may take. ``SWITCH``: from there until the new plan has reached the nodes and
    links are subscribed. ``DEPLOY``: the replica's operator is built. ``LOAD``: so many bytes of a snapshot
    are read and taken in. ``SAVE``: so many bytes of a snapshot were written; loading is taken to go as fast
    until one was loaded.
    """

    DETECT = "detect"
    SWITCH = "switch"
    DEPLOY = "deploy"
    LOAD = "load"
    SAVE = "save"

    @property
    def has_length(self) -> bool:
        """It takes the longer the more bytes there are."""
        return self in (Step.LOAD, Step.SAVE)


@dataclass(frozen=True)
class Measurement:
    """A step took so many `seconds`, and `nbytes` went through it, where it has a length."""

    step: Step
    seconds: float
    nbytes: float = 0.0

    def __post_init__(self) -> None:
        assert 0 <= self.seconds < math.inf, self
        assert 0 <= self.nbytes < math.inf, self


@dataclass(frozen=True)
class CheckpointObservation:
    """The newest complete checkpoint as one slice sees it.

    `snapshot_bytes` are read to restore the slice (the whole chain), `increment_bytes` is what this
    checkpoint added, which who follows has to fetch. `age_seconds`: since the slice froze its state for it.
    `name`: the snapshot's. `replaced_seconds`: how old the checkpoint before it got, where looks are too
    seldom to have seen that.
    """

    snapshot_bytes: float
    increment_bytes: float
    age_seconds: float
    name: str = ""
    replaced_seconds: float | None = None


@dataclass(frozen=True)
class SliceObservation:
    """What is seen of a slice at one moment, mostly of its replica that leads.

    `scheme` is the one that the plan says, from which the controller begins; `chosen`: a controller has
    chosen it, that of an earlier manager where this one has not; `fixed`: a person has set it, and there is
    nothing to choose, only to estimate. `replicas`: how many it has in schemes that have more than one;
    `nodes` that may host them. `state_bytes` of memory that its state takes. `checkpoint`: None before the
    first. `processing_bytes_per_second`: bytes of input per second of work, the faster of how it keeps up and
    of how its vertex caught up, as far as it ever did; None while it has done none. `busy_share` of one core
    that it needs, `replay_share` that its input takes at that rate. `queued_bytes`: of input that waits.
    `standby_queued_bytes`: what waits at the further replica that has least, where these process; else 0.
    `input_waits`: its sources read no further while it is down, as those of files without a pace do; the
    others go on. `may_lose`: where gap recovery is wanted, it may leave epochs out. `shared`: what one of the
    other nodes makes up for when this slice's is lost.
    """

    scheme: Scheme
    replicas: int
    nodes: int
    state_bytes: float
    checkpoint: CheckpointObservation | None
    input_bytes_per_second: float
    output_bytes_per_second: float
    processing_bytes_per_second: float | None
    busy_share: float
    queued_bytes: float
    standby_queued_bytes: float = 0.0
    replay_share: float = 0.0
    input_waits: bool = False
    chosen: bool = False
    fixed: bool = False
    may_lose: bool = False
    shared: SharedLoss = NO_OTHERS

    def __post_init__(self) -> None:
        for each in (self, self.checkpoint, self.shared):
            for one in fields(each) if each is not None else ():
                value = getattr(each, one.name)
                if isinstance(value, int | float):
                    assert 0 <= value < math.inf, f"{one.name} is {value}"


class SchemeController(Protocol):
    """Chooses the scheme of every slice. One per job, on the manager; pure."""

    def measured(self, measurement: Measurement) -> None:
        """A step was seen to take its time."""
        ...

    def observe(
        self,
        now_seconds: float,
        observations: Mapping[SliceId, SliceObservation],
        clock_seconds: float,
    ) -> list[Decision]:
        """Look at all slices that it has to choose for, and say what changes from now on.

        Called with every round of reports; `now_seconds` does not go back, `clock_seconds` are the system
        clock's, which decisions are dated by. A decision is said once and stands: the
        manager goes towards `stances[slice].scheme`, however long that takes. A slice that is not named is
        forgotten, and begun with anew when it is named again.
        """
        ...

    @property
    def stances(self) -> Mapping[SliceId, SliceStance]:
        """Where every slice stands, with the newest numbers."""
        ...

    @property
    def decisions(self) -> Sequence[Decision]:
        """What was decided, oldest first; as many of the newest as are kept."""
        ...

    @property
    def memory(self) -> ControlMemory:
        """What the next manager's controller is to know."""
        ...

    def recall(self, memory: ControlMemory) -> None:
        """What an earlier manager's controller knew; all of it is older than what this one has seen."""
        ...
