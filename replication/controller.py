"""The controller: chooses, for every slice of a job, the cheapest scheme that recovers in time.

Martin 2015, chapter 6. What it decides when stands in `slice_controller`, by which rule in `scheme_choice`,
with which numbers in `estimates` and `costs`, and what these rest on in `recovery_history` (the job's) and
`slice_history` (each slice's).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from replication.recovery_history import RecoveryHistory
from replication.slice_controller import SliceController
from streammine.model.ids import SliceId
from streammine.model.recovery_assessment import ControlMemory, Decision, SliceStance
from streammine.model.recovery_policy import Measurement, RecoveryGoal, SliceObservation

DECISIONS_KEPT = 1_000
"""Of a job, the newest."""

DECISIONS_REMEMBERED = 256
"""Of those, what the next manager is to know: it is written whenever there is a new one."""


class Controller:
    """Implements `SchemeController`. `detection_seconds`: the longest that it takes to notice a loss."""

    def __init__(self, goal: RecoveryGoal, detection_seconds: float | None = None) -> None:
        assert goal.max_seconds > 0
        assert goal.cool_down_seconds >= 0
        self._goal = goal
        self._history = RecoveryHistory(detection_seconds)
        self._slices: dict[SliceId, SliceController] = {}
        self._decisions: deque[Decision] = deque(maxlen=DECISIONS_KEPT)
        self._now_seconds = 0.0

    @property
    def stances(self) -> Mapping[SliceId, SliceStance]:
        return {slice_id: each.stance for slice_id, each in self._slices.items()}

    @property
    def decisions(self) -> Sequence[Decision]:
        return tuple(self._decisions)

    @property
    def memory(self) -> ControlMemory:
        newest = tuple(self._decisions)[-DECISIONS_REMEMBERED:]
        return ControlMemory(self._history.detection_seconds, newest)

    def recall(self, memory: ControlMemory) -> None:
        self._history.recall(memory.detection_seconds)
        self._decisions = deque((*memory.decisions, *self._decisions), maxlen=DECISIONS_KEPT)

    def measured(self, measurement: Measurement) -> None:
        self._history.add(measurement)

    def observe(
        self,
        now_seconds: float,
        observations: Mapping[SliceId, SliceObservation],
        clock_seconds: float,
    ) -> list[Decision]:
        assert now_seconds >= self._now_seconds, "time does not go back"
        self._now_seconds = now_seconds
        known = self._slices
        self._slices = {
            slice_id: known.get(slice_id) or SliceController(slice_id, self._goal, seen)
            for slice_id, seen in sorted(observations.items())
        }
        looks = (
            each.look(now_seconds, observations[slice_id], self._history, clock_seconds)
            for slice_id, each in self._slices.items()
        )
        decisions = [decision for decision in looks if decision is not None]
        self._decisions.extend(decisions)
        return decisions
