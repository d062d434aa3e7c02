"""How long the steps of recoveries took, as far as they were measured: the newest of each.

A step without a length takes the median of its newest times, so that one odd measurement does not matter;
noticing a loss takes the longest of them: a process that ends is seen at once, one that hangs only when its
session is over, and what has happened may happen again.
One with a length takes longer the more bytes there are, but not in proportion: the smallest snapshot waits
for a turn and for files to open. So the newest of each size are kept apart, for a standby takes small
increments in all the time and a large snapshot hardly ever, and their medians are points of a curve. It never
falls: where a larger size took less, both take what they took on average.

Of switching, deploying and loading one measurement each is enough: they all happen when a replica is added,
and the safety margin of the choice is there for the rest. What may not have happened yet has a stand-in: for
detecting a loss, the longest time that the failure detector may take; for loading what is much larger than
all that was loaded, how long it took to write snapshots of that size.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from streammine.model.recovery_assessment import StepTimes, size_class
from streammine.model.recovery_policy import Measurement, Step

WINDOW = 16
"""Measurements of a step that count, the newest; where it has a length, of each size."""

NEEDED = (Step.DETECT, Step.SWITCH, Step.DEPLOY, Step.LOAD)
"""The steps that must be known, be it from a stand-in."""

MUCH_LARGER = 10.0
"""Than the largest size that was loaded, which says nothing of how long a snapshot of that size takes."""

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
    def detection_seconds(self) -> tuple[float, ...]:
        """Of the newest losses, oldest first."""
        return tuple(each.seconds for each in self._newest[Step.DETECT].measurements)

    def recall(self, detection_seconds: Sequence[float]) -> None:
        """Of losses before all that were measured here."""
        seconds = (*detection_seconds, *self.detection_seconds)
        self._newest[Step.DETECT] = _NewestOfEachSize()
        for each in seconds:
            self.add(Measurement(Step.DETECT, each))

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
            self._longest_detection_seconds(),
            self._median_seconds(Step.SWITCH),
            self._median_seconds(Step.DEPLOY),
            self._loads(),
        )

    def _loads(self) -> tuple[tuple[float, float], ...]:
        """What was saved stands in above what was loaded, and is never taken to be quicker."""
        loaded = _never_falling(self._newest[Step.LOAD].points)
        largest = loaded[-1] if loaded else _Point(0.0, 0.0, 0)
        much = MUCH_LARGER * largest.nbytes
        saved = [point for point in self._newest[Step.SAVE].points if point.nbytes > much]
        curve = [(point.nbytes, point.seconds) for point in loaded]
        for point in _never_falling(saved):
            curve.append((point.nbytes, max(point.seconds, largest.seconds)))
        return ((0.0, _seconds_of_nothing(curve)), *curve)

    def _median_seconds(self, step: Step) -> float:
        return median(each.seconds for each in self._newest[step].measurements)

    def _longest_detection_seconds(self) -> float:
        newest = self._newest[Step.DETECT].measurements
        if not newest:
            assert self._detection_seconds is not None
            return self._detection_seconds
        return max(each.seconds for each in newest)


@dataclass(frozen=True)
class _Point:
    """Of a curve: what so many measurements of about this size took."""

    nbytes: float
    seconds: float
    count: int


class _NewestOfEachSize:
    """Of one step. Bounded, for bytes have few orders of magnitude."""

    def __init__(self) -> None:
        self._by_size = defaultdict[int, deque[Measurement]](lambda: deque(maxlen=WINDOW))

    def add(self, measurement: Measurement) -> None:
        self._by_size[size_class(measurement.nbytes)].append(measurement)

    def __bool__(self) -> bool:
        return bool(self._by_size)

    @property
    def measurements(self) -> list[Measurement]:
        return [each for newest in self._by_size.values() for each in newest]

    @property
    def points(self) -> list[_Point]:
        """The medians of each size, ascending by size."""
        return [
            _Point(
                median(each.nbytes for each in newest),
                max(SHORTEST_SECONDS, median(each.seconds for each in newest)),
                len(newest),
            )
            for _, newest in sorted(self._by_size.items())
        ]


def _never_falling(points: Sequence[_Point]) -> list[_Point]:
    """The same sizes with those seconds that are nearest in the sum of squares (isotonic regression): points
    next to each other which fall take the average of their measurements, until none fall any more."""
    pools: list[list[_Point]] = []
    for point in points:
        pools.append([point])
        while len(pools) > 1 and _mean_seconds(pools[-2]) > _mean_seconds(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    return [replace(point, seconds=_mean_seconds(pool)) for pool in pools for point in pool]


def _mean_seconds(points: Sequence[_Point]) -> float:
    return sum(each.seconds * each.count for each in points) / sum(each.count for each in points)


def _seconds_of_nothing(curve: Sequence[tuple[float, float]]) -> float:
    """Where the line through the two smallest sizes leads; of one size, nothing tells what each byte took."""
    if len(curve) == 1:
        return 0.0
    (smaller, seconds), (larger, more_seconds) = curve[:2]
    return max(0.0, seconds - smaller * (more_seconds - seconds) / (larger - smaller))
