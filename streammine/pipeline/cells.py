"""Which epoch and partition a row belongs to, by its rank in the order of all rows.

A *cell* is one partition's share of one epoch: with n rows in the epoch and P partitions, partition
p has those from n·p/P on (rounded down) up to where the next one starts. So every epoch is spread
evenly over all partitions, in contiguous runs, and cells follow one another in the order of epoch
and partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]


class CellRun(NamedTuple):
    """Rows [start, stop) of a stretch of rows that lie in one cell."""

    epoch: int
    partition: int
    start: int
    stop: int


@dataclass(frozen=True)
class EpochTable:
    """First rank and rows of each epoch (int64): listed for time epochs, calculated for count
    epochs.

    Ranks of count epochs number raw rows, dead ones included; those of time epochs the usable rows.
    """

    partitions: int
    total_rows: int
    length: int | None = None
    numbers: IntArray | None = None
    starts: IntArray | None = None

    @classmethod
    def of_count(cls, partitions: int, total_rows: int, length: int) -> EpochTable:
        return cls(partitions, total_rows, length)

    @classmethod
    def of_time(cls, partitions: int, numbers: IntArray, rows: IntArray) -> EpochTable:
        """From the epochs that have rows, ascending, and how many each has."""
        starts = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)
        return cls(partitions, int(starts[-1]), None, numbers, starts)

    def runs(self, rank: int, rows: int) -> Iterator[CellRun]:
        """The cells of the rows that start at `rank`, in order."""
        epochs, starts, sizes = self._epochs(rank, rows)
        shares = np.arange(self.partitions, dtype=np.int64)
        cuts = (starts[:, None] + sizes[:, None] * shares // self.partitions).ravel()
        cuts = np.clip(np.append(cuts, starts[-1] + sizes[-1]) - rank, 0, rows)
        for cell in np.flatnonzero(cuts[1:] > cuts[:-1]).tolist():
            epoch, partition = divmod(cell, self.partitions)
            yield CellRun(int(epochs[epoch]), partition, int(cuts[cell]), int(cuts[cell + 1]))

    def _epochs(self, rank: int, rows: int) -> tuple[IntArray, IntArray, IntArray]:
        """(numbers, first ranks, rows) of the epochs that meet [rank, rank + rows)."""
        assert 0 < rows <= self.total_rows - rank
        if self.length is not None:
            numbers = np.arange(rank // self.length, (rank + rows - 1) // self.length + 1)
            starts = numbers * self.length
            return numbers, starts, np.minimum(self.length, self.total_rows - starts)
        assert self.numbers is not None
        assert self.starts is not None
        first = int(np.searchsorted(self.starts, rank, "right")) - 1
        last = int(np.searchsorted(self.starts, rank + rows - 1, "right"))
        starts = self.starts[first : last + 1]
        return self.numbers[first:last], starts[:-1], np.diff(starts)
