"""When a paced source's rows are due: row k of the whole source k / rate seconds after the job's pace
began, wherever and whenever its slices are built."""

from __future__ import annotations

from fractions import Fraction
from math import floor

LINGER_SECONDS = 0.002
"""Rows of about this long leave together; waking for each would cost more than it is worth."""

TURN_SECONDS = 0.05
"""Rows of about this long are one slice's turn where slices share rows in blocks: while one has its
turn the others wait, their epochs ahead."""


class Pace:
    """A rate of `events` per `seconds`. Rows before number `first` are due from the beginning, and it is the
    first that has a time, 0: where a job goes on after everything was down, it does not make up for that."""

    def __init__(self, events: int, seconds: int, first: int = 0) -> None:
        self._rate = Fraction(events, seconds)
        self._first = first

    @property
    def turn_rows(self) -> int:
        """How many rows one slice hands out before it is the next one's turn; the rate alone says."""
        return max(1, int(self._rate * Fraction(TURN_SECONDS)))

    def due_bound(self, elapsed_seconds: float) -> int:
        """Rows with a smaller number in the source are due by now."""
        return self._first + max(0, floor(Fraction(elapsed_seconds) * self._rate) + 1)

    def wake_after_seconds(self, number: int, elapsed_seconds: float) -> float:
        """How long to wait for row `number`, at least the linger."""
        due_seconds = float((number - self._first) / self._rate)
        return max(LINGER_SECONDS, due_seconds - elapsed_seconds)
