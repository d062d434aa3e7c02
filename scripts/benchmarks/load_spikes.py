"""A load with spikes, and what became of it: rates and queues over time. Pure.

All times are seconds of one clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

FIRST_SECONDS = 10.0
"""From the begin of the load to the first spike."""

EVERY_SECONDS = 20.0
SPIKE_SECONDS = 2.0

DRAINED_SHARE = 0.05
"""Of what a queue held at most: with no more than that it counts as drained."""

USUAL_SHARE = 0.5
"""Of the same: where a queue usually holds more than that, no spike has filled it."""

Samples = Sequence[tuple[float, float]]
"""(time, value), by time."""


@dataclass(frozen=True)
class Backlog:
    """Of a queue that a spike filled: the seconds from the end of the spike until it was empty and stayed so
    until the next one, 0 where it was by the end; None where it never was."""

    drained_after_seconds: float | None


@dataclass(frozen=True)
class LoadShape:
    """`base` events/s, and `spike` events/s for `spike_seconds` in every twenty, `spikes` times."""

    base: int
    spike: int
    spikes: int
    spike_seconds: float = SPIKE_SECONDS

    @property
    def seconds(self) -> float:
        """The last spike has time to be made up for."""
        return FIRST_SECONDS + EVERY_SECONDS * self.spikes

    @property
    def begins(self) -> tuple[float, ...]:
        """Of the spikes, in seconds of the load."""
        return tuple(FIRST_SECONDS + EVERY_SECONDS * number for number in range(self.spikes))

    @property
    def spans(self) -> tuple[tuple[float, float], ...]:
        """(begin, end) of the spikes."""
        return tuple((begin, begin + self.spike_seconds) for begin in self.begins)

    def counts(self, tick_seconds: float) -> list[int]:
        """The events of each tick."""
        ticks = round(self.seconds / tick_seconds)
        return [
            round((self.spike if self._is_spike(tick * tick_seconds) else self.base) * tick_seconds)
            for tick in range(ticks)
        ]

    def _is_spike(self, second: float) -> bool:
        # ticks are no exact binary fractions
        return any(begin - 1e-6 <= second < end - 1e-6 for begin, end in self.spans)


def counted_between(counted: Samples, first: float, last: float) -> float:
    """By how much a counter grew; between two samples it grows evenly."""
    times, values = zip(*counted, strict=True)
    at_first, at_last = np.interp([first, last], times, values)
    return float(at_last - at_first)


def most_between(levels: Samples, first: float, last: float) -> float:
    """The highest level that was seen; 0 where nothing was."""
    return max((level for at, level in levels if first <= at < last), default=0.0)


def backlog(
    levels: Samples, begin: float, end: float, following: float, usual: float
) -> Backlog | None:
    """What a spike left in a queue until the `following` one; None where it did not fill it, or nobody
    looked. `usual` is the most there is where no spike was: so much may be left of it."""
    filled = [(at, level) for at, level in levels if begin <= at < following]
    most = max((level for _, level in filled), default=0.0)
    if most == 0.0 or usual > USUAL_SHARE * most:
        return None
    enough = max(DRAINED_SHARE * most, usual)
    empty_at = None
    for at, level in reversed(filled):
        if level > enough:
            break
        empty_at = at
    return Backlog(None if empty_at is None else max(0.0, empty_at - end))


def changes(levels: Samples) -> list[tuple[float, float]]:
    """The first level, and those that differ from the one before."""
    first = [(levels[0][0], levels[0][1])] if levels else []
    return first + [(at, level) for (_, before), (at, level) in pairwise(levels) if level != before]
