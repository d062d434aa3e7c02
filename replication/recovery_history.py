"""How long the steps of recoveries took, as far as they were measured: the newest of each.

A step without a length takes the median of its newest times, so that one odd measurement does not matter. One
with a length goes at all bytes per all seconds of its newest times: a small snapshot takes as long as opening
its file does, and says little of how fast a large one is read; in the sum it weighs as little as it should.

Of detecting, switching, deploying and loading one measurement each is enough: they all happen when a replica
is added, and the safety margin of the choice is there for the rest. Nobody may have fetched a replay yet
when these are known; until then it is taken to come as fast as it is processed.
"""

from __future__ import annotations

import math
from collections import deque
from statistics import median

from streammine.model.recovery_assessment import StepTimes
from streammine.model.recovery_policy import Measurement, Step

WINDOW = 16
"""Measurements of a step that count, the newest."""

ENOUGH = {Step.DETECT: 1, Step.SWITCH: 1, Step.DEPLOY: 1, Step.LOAD: 1, Step.FETCH: 0}
"""How many of them there must be."""

SHORTEST_SECONDS = 1e-6
"""What took no time that a clock could see."""


class RecoveryHistory:
    """Of one job. Bounded."""

    def __init__(self) -> None:
        self._newest: dict[Step, deque[Measurement]] = {step: deque(maxlen=WINDOW) for step in Step}

    def add(self, measurement: Measurement) -> None:
        if not measurement.step.has_length or measurement.nbytes > 0:
            self._newest[measurement.step].append(measurement)

    @property
    def missing(self) -> tuple[str, ...]:
        """The steps of which too little is known."""
        return tuple(step.value for step in Step if len(self._newest[step]) < ENOUGH[step])

    @property
    def times(self) -> StepTimes:
        """Where nothing is missing."""
        assert not self.missing, f"not measured yet: {', '.join(self.missing)}"
        return StepTimes(
            self._median_seconds(Step.DETECT),
            self._median_seconds(Step.SWITCH),
            self._median_seconds(Step.DEPLOY),
            self._bytes_per_second(Step.LOAD),
            self._bytes_per_second(Step.FETCH),
        )

    def _median_seconds(self, step: Step) -> float:
        return median(each.seconds for each in self._newest[step])

    def _bytes_per_second(self, step: Step) -> float:
        newest = self._newest[step]
        if not newest:
            return math.inf
        seconds = sum(each.seconds for each in newest)
        return sum(each.nbytes for each in newest) / max(seconds, SHORTEST_SECONDS)
