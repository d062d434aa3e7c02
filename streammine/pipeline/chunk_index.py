"""All staged chunks, and how the second step's work is cut out of them.

The order of all rows is cut at *bounds*, sort keys at which chunks start, into ranges of about
equal numbers of rows; a task merges one range. Bounds follow from the staged data alone, which
follow from the input alone, so neither the master nor the number of cores shows in the log's files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streammine.pipeline.ordering import SortKey, SortKeys
from streammine.pipeline.staging import CHUNK_FIELDS

RANGE_ROWS = 2**18
"""A range has at least so many rows, but for the last."""

MOST_RANGES = 512

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


class Chunk(NamedTuple):
    """Batch number `batch` of staged file number `source`, with its rows and first and last sort
    key."""

    source: int
    batch: int
    rows: int
    first: SortKey
    last: SortKey


@dataclass(frozen=True)
class ChunkIndex:
    """The chunks of all staged files, ordered by their first sort key, as columns (int64)."""

    source: IntArray
    batch: IntArray
    rows: IntArray
    first: SortKeys
    last: SortKeys

    @classmethod
    def of(cls, staged: Sequence[IntArray]) -> ChunkIndex:
        """From the index matrix of each staged file."""
        sources = np.repeat(np.arange(len(staged)), [len(each) for each in staged])
        matrix = np.concatenate([np.zeros((0, CHUNK_FIELDS), np.int64), *staged])
        order = np.lexsort((matrix[:, 4], matrix[:, 3], matrix[:, 2]))
        columns = matrix[order].T
        return cls(
            sources[order].astype(np.int64),
            columns[0],
            columns[1],
            SortKeys(columns[2], columns[3], columns[4]),
            SortKeys(columns[5], columns[6], columns[7]),
        )

    def __len__(self) -> int:
        return len(self.rows)

    def bounds(self) -> list[SortKey]:
        """Lower bounds of all ranges but the first."""
        total = int(self.rows.sum())
        wanted = max(RANGE_ROWS, total // MOST_RANGES)
        bounds: list[SortKey] = []
        gathered = 0
        for index, rows in enumerate(self.rows.tolist()):
            if gathered >= wanted:
                bounds.append(self.first.at(index))
                gathered = 0
            gathered += rows
        return bounds

    def chunk(self, index: int) -> Chunk:
        return Chunk(
            int(self.source[index]),
            int(self.batch[index]),
            int(self.rows[index]),
            self.first.at(index),
            self.last.at(index),
        )

    def before(self, bound: SortKey | None) -> BoolArray:
        """Which chunks lie wholly before `bound`; None is before everything."""
        if bound is None:
            return np.zeros(len(self), dtype=np.bool_)
        return _less(self.last, bound)

    def from_on(self, bound: SortKey | None) -> BoolArray:
        """Which chunks start at or after `bound`; None is behind everything."""
        if bound is None:
            return np.zeros(len(self), dtype=np.bool_)
        return ~_less(self.first, bound)


def _less(keys: SortKeys, bound: SortKey) -> BoolArray:
    later = (keys.file < bound.file) | ((keys.file == bound.file) & (keys.row < bound.row))
    less: BoolArray = (keys.key < bound.key) | ((keys.key == bound.key) & later)
    return less
