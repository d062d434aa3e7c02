"""How long the steps of recoveries took, as far as they were measured: the newest of each.

A step without a length takes the median of its newest times, so that one odd measurement does not matter. One
with a length takes some time for each snapshot, however small (a file is opened, a turn is waited for), and
some for each byte. A standby takes small increments in all the time and a large snapshot hardly ever, so the
newest of every size are kept apart: the bytes per second are those of the largest, and what smaller ones took
beyond that is the time for each.

Of switching, deploying and loading one measurement each is enough: they all happen when a replica is added,
and the safety margin of the choice is there for the rest. What may not have happened yet has a stand-in: for
detecting a loss, the longest time that the failure detector may take; for loading, as long as nothing large
was loaded, how fast snapshots are written.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Sequence
from statistics import median

from streammine.model.recovery_assessment import StepTimes
from streammine.model.recovery_policy import Measurement, Step

WINDOW = 16
"""Measurements of a step that count, the newest; where it has a length, of each size."""

SIZE_FACTOR = 4.0
"""From one size of snapshots to the next."""

NEEDED = (Step.DETECT, Step.SWITCH, Step.DEPLOY, Step.LOAD)
"""The steps that must be known, be it from a stand-in."""

LARGE_SHARE = 0.1
"""Of the largest snapshot that was seen: what is smaller says nothing of how fast that one is loaded."""

SHORTEST_SECONDS = 1e-6
"""What took no time that a clock could see."""


class RecoveryHistory:
    """Of one job. Bounded. `detection_seconds`: the stand-in, None where there is none."""

    def __init__(self, detection_seconds: float | None = None) -> None:
        self._detection_seconds = detection_seconds
        self._newest = {step: _NewestOfEachSize() for step in Step}

    def add(self, measurement: Measurement) -> None:
        if not measurement.step.has_length or measurement.nbytes > 0:
            self._newest[measurement.step].add(measurement)

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
            *_seconds_and_rate(
                self._newest[Step.LOAD].measurements, self._newest[Step.SAVE].measurements
            ),
        )

    def _median_seconds(self, step: Step) -> float:
        newest = self._newest[step].measurements
        if step is Step.DETECT and self._detection_seconds is not None and not newest:
            return self._detection_seconds
        return median(each.seconds for each in newest)


class _NewestOfEachSize:
    """Of one step. Bounded, for bytes have few orders of magnitude."""

    def __init__(self) -> None:
        self._by_size = defaultdict[int, deque[Measurement]](lambda: deque(maxlen=WINDOW))

    def add(self, measurement: Measurement) -> None:
        size = math.floor(math.log(max(1.0, measurement.nbytes), SIZE_FACTOR))
        self._by_size[size].append(measurement)

    def __bool__(self) -> bool:
        return bool(self._by_size)

    @property
    def measurements(self) -> list[Measurement]:
        return [each for newest in self._by_size.values() for each in newest]


def _seconds_and_rate(
    loaded: Sequence[Measurement], saved: Sequence[Measurement]
) -> tuple[float, float]:
    """For each snapshot, and the bytes per second. The time for each is in what the largest took, too, and
    counts twice for these: rather too long than too short."""
    enough_bytes = LARGE_SHARE * max(each.nbytes for each in (*loaded, *saved))
    large = _large(loaded if any(each.nbytes >= enough_bytes for each in loaded) else saved)
    seconds = max(SHORTEST_SECONDS, sum(each.seconds for each in large))
    rate = sum(each.nbytes for each in large) / seconds
    small = [each for each in loaded or saved if each.nbytes < large[-1].nbytes]
    beyond = [max(0.0, each.seconds - each.nbytes / rate) for each in small]
    return median(beyond or [0.0]), rate


def _large(measurements: Sequence[Measurement]) -> list[Measurement]:
    """The largest first, and what is not much smaller."""
    sized = sorted(measurements, key=lambda each: each.nbytes, reverse=True)
    return [each for each in sized if each.nbytes >= LARGE_SHARE * sized[0].nbytes]
