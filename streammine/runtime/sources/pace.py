"""When a paced source's rows are due: row k of the whole source k / rate seconds after the
start."""

from __future__ import annotations

from fractions import Fraction

from streammine.model.contracts import IntArray

LINGER_SECONDS = 0.002
"""Rows of about this long leave together; waking for each would cost more than it is worth."""


class Pace:
    """A rate of `events` per `seconds`."""

    def __init__(self, events: int, seconds: int) -> None:
        self._rate = Fraction(events, seconds)

    def due_bound(self, elapsed_seconds: float) -> int:
        """Rows with a smaller number in the source are due by now."""
        return int(Fraction(max(0.0, elapsed_seconds)) * self._rate) + 1

    def due_among(self, numbers: IntArray, elapsed_seconds: float) -> int:
        """How many of these ascending row numbers (int64) are due."""
        return int(numbers.searchsorted(self.due_bound(elapsed_seconds)))

    def wake_after_seconds(self, number: int, elapsed_seconds: float) -> float:
        """How long to wait for row `number`, at least the linger."""
        return max(LINGER_SECONDS, float(number / self._rate) - elapsed_seconds)
