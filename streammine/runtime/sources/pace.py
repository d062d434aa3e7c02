"""When a paced source's rows are due: row k of the whole source k / rate seconds after the
start."""

from __future__ import annotations

from fractions import Fraction

LINGER_SECONDS = 0.002
"""Rows of about this long leave together; waking for each would cost more than it is worth."""

TURN_SECONDS = 0.05
"""Rows of about this long are one slice's turn where slices share rows in blocks: while one has its
turn the others wait, their epochs ahead."""


class Pace:
    """A rate of `events` per `seconds`."""

    def __init__(self, events: int, seconds: int) -> None:
        self._rate = Fraction(events, seconds)
        self._number = 0
        self._since_seconds = 0.0

    def go_on(self, number: int, elapsed_seconds: float) -> None:
        """Row `number` is due now, and the pace goes on from there; unless it is overdue, when the rows
        make up for the time that was lost."""
        if number >= self.due_bound(elapsed_seconds):
            self._number = number
            self._since_seconds = elapsed_seconds

    @property
    def turn_rows(self) -> int:
        """How many rows one slice hands out before it is the next one's turn; the rate alone says."""
        return max(1, int(self._rate * Fraction(TURN_SECONDS)))

    def due_bound(self, elapsed_seconds: float) -> int:
        """Rows with a smaller number in the source are due by now."""
        since = Fraction(max(0.0, elapsed_seconds - self._since_seconds))
        return self._number + int(since * self._rate) + 1

    def wake_after_seconds(self, number: int, elapsed_seconds: float) -> float:
        """How long to wait for row `number`, at least the linger."""
        due_seconds = float((number - self._number) / self._rate) + self._since_seconds
        return max(LINGER_SECONDS, due_seconds - elapsed_seconds)
