"""The total order of a source's rows, and searching in it.

A row's sort key is (key, file, row): `key` (int64) is 0 where files are read one after the other,
the running maximum of the `merge_by` column where they are interleaved, the event time where rows
are sorted by it, else the epoch. File and row are the position, so no two rows are equal, and
epochs never descend.

The running maximum makes interleaving exactly what a merge does that compares the files' heads: a
row that is out of order in its file, or dead, leaves right behind the one before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streammine.model.epochs import BEGINNING, INFINITY, event_ticks, in_microseconds
from streammine.model.errors import InputError

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


class SortKey(NamedTuple):
    """Where one row stands in the order."""

    key: int
    file: int
    row: int


@dataclass(frozen=True)
class SortKeys:
    """Sort keys of many rows, as columns (int64)."""

    key: IntArray
    file: IntArray
    row: IntArray

    def __len__(self) -> int:
        return len(self.key)

    def at(self, index: int) -> SortKey:
        return SortKey(int(self.key[index]), int(self.file[index]), int(self.row[index]))

    def order(self) -> IntArray | None:
        """Indices that sort the rows; None when they are sorted already."""
        if len(self) < 2:
            return None
        before, after = self._neighbours()
        if bool(np.all(before)):
            assert not bool(np.any(after))
            return None
        return np.lexsort((self.row, self.file, self.key))

    def _neighbours(self) -> tuple[BoolArray, BoolArray]:
        """For each row but the last: whether it stands before the next one, or behind it."""
        before = np.zeros(len(self) - 1, dtype=np.bool_)
        after = np.zeros(len(self) - 1, dtype=np.bool_)
        for column in (self.key, self.file, self.row):
            undecided = ~(before | after)
            before |= undecided & (column[:-1] < column[1:])
            after |= undecided & (column[:-1] > column[1:])
        return before, after

    def lower_bound(self, bound: SortKey) -> int:
        """How many of these sorted rows stand before `bound`."""
        low, high = 0, len(self)
        for column, value in ((self.key, bound.key), (self.file, bound.file)):
            low, high = (
                low + int(np.searchsorted(column[low:high], value, "left")),
                low + int(np.searchsorted(column[low:high], value, "right")),
            )
        return low + int(np.searchsorted(self.row[low:high], bound.row, "left"))


def event_times(column: pa.Array, unit: str) -> tuple[IntArray, BoolArray]:
    """(event times in microseconds, which of them are usable). Null and unheard-of times are
    not."""
    usable = column.is_valid().to_numpy(zero_copy_only=False)
    filled = column if column.null_count == 0 else pc.fill_null(column, pa.scalar(0, column.type))
    ticks, factor = event_ticks(filled, unit)
    most = INFINITY // factor
    return in_microseconds(ticks, factor), usable & (ticks <= most) & (ticks >= -most)


def merge_keys(column: pa.Array, name: str) -> tuple[IntArray, BoolArray]:
    """(numbers in the order of a `merge_by` column's values, which of them are usable).

    Null and NaN are not. Raises InputError for a column without such an order.
    """
    kind = column.type
    usable = column.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_date(kind) or pa.types.is_time(kind):
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        column = column.cast(pa.int64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise InputError(
            f"merge_by column '{name}' has type {kind};"
            " it must be an integer, a float, a timestamp or a date"
        )
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(0, column.type))
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype == np.uint64:
        return (values ^ np.uint64(2**63)).view(np.int64), usable
    if values.dtype.kind == "f":
        usable = usable & ~np.isnan(values)
        # Adding 0.0 makes -0.0 the same as 0.0; negative floats descend with their bits.
        bits = (values.astype(np.float64) + 0.0).view(np.int64)
        return np.where(bits < 0, bits ^ np.int64(INFINITY), bits), usable
    return values.astype(np.int64), usable


def running_maximum(keys: IntArray, usable: BoolArray, highest: int) -> IntArray:
    """For each row the highest usable key up to it, `highest` being that of the rows before."""
    known = np.where(usable, keys, BEGINNING)
    return np.maximum(np.maximum.accumulate(known), highest)
