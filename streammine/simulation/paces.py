"""When the rows of a simulated source are due: each has its time, from when the job's pace began."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from streammine.model.contracts import IntArray


class Pace(Protocol):
    """Rows are known by their places in the order in which the source numbers them."""

    def due_bound(self, elapsed_seconds: float) -> int:
        """Rows at lower places are due."""
        ...

    def due_seconds(self, place: int) -> float:
        """When the row is due."""
        ...


@dataclass(frozen=True)
class RowPace:
    """So many rows per second. They fall due in lots, the first row of each in its own time."""

    rows_per_second: float
    lot: int = 1

    def due_bound(self, elapsed_seconds: float) -> int:
        """See Pace."""
        lots = 1 + math.floor(elapsed_seconds * self.rows_per_second) // self.lot
        return max(0, lots * self.lot)

    def due_seconds(self, place: int) -> float:
        """See Pace."""
        return float(place // self.lot * self.lot) / self.rows_per_second


@dataclass(frozen=True)
class TimePace:
    """Event time, `speed` times as fast as the clock; it was `first` when the pace began.

    `reached` (int64 microseconds, ascending): the time that the source has come to at each place.
    """

    reached: IntArray
    speed: float
    first: int

    def due_bound(self, elapsed_seconds: float) -> int:
        """See Pace."""
        now = self.first + math.floor(max(0.0, elapsed_seconds) * self.speed * 1e6)
        return int(self.reached.searchsorted(now, "right"))

    def due_seconds(self, place: int) -> float:
        """See Pace."""
        return float(self.reached[place] - self.first) / (self.speed * 1e6)
