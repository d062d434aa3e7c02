"""How long the steps of recoveries took, as far as they were measured: the newest of each.

A step without a length takes the median of its newest times, so that one odd measurement does not matter. One
with a length goes at all bytes per all seconds of its newest times: a small snapshot takes as long as opening
its file does, and says little of how fast a large one is read; in the sum it weighs as little as it should.

Of switching, deploying and loading one measurement each is enough: they all happen when a replica is added,
and the safety margin of the choice is there for the rest. What may not have happened yet has a stand-in: for
detecting a loss, the longest time that the failure detector may take; for loading, as long as hardly anything
was loaded, how fast snapshots are written.
"""

from __future__ import annotations

import math
from collections import deque
from statistics import median

from streammine.model.recovery_assessment import StepTimes
from streammine.model.recovery_policy import Measurement, Step

WINDOW = 16
"""Measurements of a step that count, the newest."""

NEEDED = (Step.DETECT, Step.SWITCH, Step.DEPLOY, Step.LOAD)
"""The steps that must be known, be it from a stand-in."""

LOADED_SHARE = 0.1
"""Of what was saved: less than that says nothing of how fast a large snapshot is loaded."""

SHORTEST_SECONDS = 1e-6
"""What took no time that a clock could see."""


class RecoveryHistory:
    """Of one job. Bounded. `detection_seconds`: the stand-in, None where there is none."""

    def __init__(self, detection_seconds: float | None = None) -> None:
        self._detection_seconds = detection_seconds
        self._newest: dict[Step, deque[Measurement]] = {step: deque(maxlen=WINDOW) for step in Step}

    def add(self, measurement: Measurement) -> None:
        if not measurement.step.has_length or measurement.nbytes > 0:
            self._newest[measurement.step].append(measurement)

    @property
    def missing(self) -> tuple[str, ...]:
        """The steps of which too little is known."""
        return tuple(step.value for step in NEEDED if not self._known(step))

    def _known(self, step: Step) -> bool:
        if step is Step.DETECT and self._detection_seconds is not None:
            return True
        return bool(self._newest[step]) or (step is Step.LOAD and bool(self._newest[Step.SAVE]))

    @property
    def times(self) -> StepTimes:
        """Where nothing is missing."""
        assert not self.missing, f"not measured yet: {', '.join(self.missing)}"
        return StepTimes(
            self._median_seconds(Step.DETECT),
            self._median_seconds(Step.SWITCH),
            self._median_seconds(Step.DEPLOY),
            self._bytes_per_second(Step.SAVE if self._hardly_loaded else Step.LOAD),
        )

    @property
    def _hardly_loaded(self) -> bool:
        return self._nbytes(Step.LOAD) < LOADED_SHARE * self._nbytes(Step.SAVE)

    def _nbytes(self, step: Step) -> float:
        return sum(each.nbytes for each in self._newest[step])

    def _median_seconds(self, step: Step) -> float:
        if step is Step.DETECT and self._detection_seconds is not None and not self._newest[step]:
            return self._detection_seconds
        return median(each.seconds for each in self._newest[step])

    def _bytes_per_second(self, step: Step) -> float:
        newest = self._newest[step]
        if not newest:
            return math.inf
        seconds = sum(each.seconds for each in newest)
        return self._nbytes(step) / max(seconds, SHORTEST_SECONDS)
