"""When a paced source's rows are due, wherever and whenever its slices are built.

A row's *mark* is its number in the whole source, or its event time in microseconds. Marks go by at one pace,
and the row with mark m is due (m - first) / pace seconds after the job's pace began.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import Self

from streammine.model.durations import Rate

LINGER_SECONDS = 0.002
"""Rows of about this long leave together; waking for each would cost more than it is worth."""

LAST_SECONDS = 0.008
"""An epoch whose end is due within so long is handed out to its end at once, and not before: nobody can close
it before."""

LINGER_SHARE = 0.5
LONGEST_LINGER_SECONDS = 0.05
"""Nor before that, so a portion of rows covers so much of what is left of its epoch, and at most this much:
few portions, for each is a wake and a batch on every way from here on; and little to do in the last one."""

TURN_SECONDS = 0.05
"""Rows of about this long are one slice's turn where slices share rows in blocks: while one has its
turn the others wait, their epochs ahead."""

TIMED_TURN_ROWS = 1024
"""One slice's turn where nothing tells how many rows a stretch of event time has."""


class Pace:
    """`per_second` marks go by in a second, of times where it goes `by_time`, else of row numbers.

    Rows with a mark below `first` are due from the beginning, and it is the first that has a time, 0: where
    a job goes on after everything was down, it does not make up for that.
    """

    def __init__(self, per_second: Fraction, first: int = 0, by_time: bool = False) -> None:
        self._per_second = per_second
        self.first = first
        self.by_time = by_time

    @classmethod
    def of_rows(cls, rate: Rate, first: int = 0) -> Self:
        """So many rows per second; `first` of them were given before the pace began."""
        return cls(Fraction(rate.events, rate.seconds), first)

    @classmethod
    def of_time(cls, speed: float, first: int) -> Self:
        """Event time `speed` times as fast as the clock; it was `first`, in microseconds, when the pace
        began."""
        return cls(Fraction(speed) * 1_000_000, first, by_time=True)

    @property
    def turn_rows(self) -> int:
        """How many rows one slice hands out before it is the next one's turn; the pace alone says."""
        if self.by_time:
            return TIMED_TURN_ROWS
        return max(1, int(self._per_second * Fraction(TURN_SECONDS)))

    def due_bound(self, elapsed_seconds: float) -> int:
        """Rows with a smaller mark are due by now."""
        return self.first + max(0, floor(Fraction(elapsed_seconds) * self._per_second) + 1)

    def wake_after_seconds(
        self, mark: int, elapsed_seconds: float, last_of_epoch: int | None = None
    ) -> float:
        """How long to wait for the row with that mark, and for those that leave with it; the mark of the last
        one of its epoch says how long these may linger."""
        linger = LINGER_SECONDS
        if last_of_epoch is not None and mark <= last_of_epoch:
            left = self._due_seconds(last_of_epoch) - elapsed_seconds
            if left > LAST_SECONDS:
                left = min(left * LINGER_SHARE, LONGEST_LINGER_SECONDS)
            linger = max(linger, left)
        return max(linger, self._due_seconds(mark) - elapsed_seconds)

    def is_soon(self, last_of_epoch: int, elapsed_seconds: float) -> bool:
        """Whether an epoch's last row is due so soon that all of its rows wait for it."""
        return self._due_seconds(last_of_epoch) - elapsed_seconds <= LAST_SECONDS

    def waited_seconds(self, mark: int, elapsed_seconds: float) -> float:
        """How long the row with that mark has been due."""
        return max(0.0, elapsed_seconds - self._due_seconds(mark))

    def _due_seconds(self, mark: int) -> float:
        return max(0.0, float((mark - self.first) / self._per_second))
