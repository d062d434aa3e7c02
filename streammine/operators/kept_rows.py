"""Rows of one side of an interval join, kept by key as long as a partner may come.

Rows of a key are chained, the newest first. Each knows the latest time of itself and of those behind it
in its chain, so that a walk for partners ends where none can follow, whatever order the rows came in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.model.contracts import IntArray
from streammine.operators.joined_columns import OUTPUT_ROWS_LIMIT
from streammine.operators.kernels.compilation import (
    BOOLEAN,
    INT32_IN,
    INT32_OUT,
    INT64,
    INT64_IN,
    INT64_OUT,
    MASK_OUT,
    KernelSet,
)
from streammine.operators.row_chunks import RowChunks

_KERNELS = KernelSet()
load_kernels = _KERNELS.load

_ROW_LIMIT = 2**31 - 2
_FIRST_ROWS = 1024

BoolArray = npt.NDArray[np.bool_]
Links = npt.NDArray[np.int32]


@_KERNELS.kernel(INT64_IN, INT64_IN, INT64, INT32_OUT, INT32_OUT, INT64_OUT)
def _link(
    groups: IntArray, times: IntArray, start: int, heads: Links, older: Links, latest: IntArray
) -> None:
    """Put rows `start`, … in front of their keys' chains; links are row + 1, and 0 ends a chain."""
    for number in range(groups.size):
        row = start + number
        link = heads[groups[number]]
        older[row] = link
        latest[row] = times[number]
        if link > 0 and latest[link - 1] > times[number]:
            latest[row] = latest[link - 1]
        heads[groups[number]] = np.int32(row + 1)


@_KERNELS.kernel(
    INT64_IN,
    INT64_IN,
    INT64,
    INT64,
    INT32_IN,
    INT64_IN,
    INT32_IN,
    INT64_IN,
    BOOLEAN,
    INT64_OUT,
    MASK_OUT,
    MASK_OUT,
    INT32_OUT,
    INT32_OUT,
)
def _walk(
    groups: IntArray,
    times: IntArray,
    lowest: int,
    highest: int,
    heads: Links,
    kept_times: IntArray,
    older: Links,
    latest: IntArray,
    once: bool,
    position: IntArray,
    alone: BoolArray,
    kept_alone: BoolArray,
    rows: Links,
    kept_rows: Links,
) -> int:
    """Write pairs until the rows are full or all is done; return how many.

    A kept row is a partner whose time is more than a given row's by `lowest` to `highest`. Rows with a
    partner are noted in `alone` and `kept_alone`, as far as these have entries. `once`: a row is named
    with its first partner only; a kept row where `kept_alone` has entries, else a given one. `position` is
    where to go on: the given row, and the link in its chain or -1 for its head.
    """
    count = 0
    link = position[1]
    for row in range(position[0], groups.size):
        low = times[row] + lowest
        high = times[row] + highest
        if link < 0:
            link = np.int64(0)
            # a key that only the other side has is unknown here
            if 0 <= groups[row] < heads.size:
                link = np.int64(heads[groups[row]])
        while link > 0 and latest[link - 1] >= low:
            time = kept_times[link - 1]
            if low <= time <= high and not (
                once and kept_alone.size > 0 and not kept_alone[link - 1]
            ):
                if count == rows.size:
                    position[0] = row
                    position[1] = link
                    return count
                rows[count] = row
                kept_rows[count] = link - 1
                count += 1
                if alone.size > 0:
                    alone[row] = False
                if kept_alone.size > 0:
                    kept_alone[link - 1] = False
                elif once:
                    break
            link = np.int64(older[link - 1])
        link = np.int64(-1)
    position[0] = groups.size
    position[1] = -1
    return count


@dataclass
class _Lot:
    """Rows that came together and are dropped together: where they end, and their times' bounds. `met`:
    none of them is alone any more."""

    end: int
    earliest: int
    latest: int
    met: bool = False


class KeptRows:
    """The rows of one side. They are numbered from 0, which moves on as the first ones are dropped.

    `dropped`: how many rows were, in all. `reach`: how much later than a row its last partner may be, in
    microseconds (negative: earlier). `alone`, with one entry per row where `notes_alone`, says whether a row
    has met no partner and has not left. Rows whose last partner would be before a watermark are dropped
    with those that came with them, once that holds for all of them and those before. Where a few are in the
    way of many, because their times are far ahead, their user adds these again (`in_the_way`).

    In the arrays the rows begin at `_first`; what lies before is cleared away when it is the greater part. A
    chain may still lead there, to rows that nothing can be near enough to.
    """

    def __init__(self, schema: pa.Schema, reach: int, notes_alone: bool) -> None:
        self.reach = reach
        self.notes_alone = notes_alone
        self.dropped = 0
        self._first = 0
        self._end = 0
        self._times: IntArray = np.empty(_FIRST_ROWS, np.int64)
        self._latest: IntArray = np.empty(_FIRST_ROWS, np.int64)
        self._older: Links = np.empty(_FIRST_ROWS, np.int32)
        self._alone: BoolArray = np.empty(_FIRST_ROWS if notes_alone else 0, np.bool_)
        self._heads: Links = np.zeros(_FIRST_ROWS, np.int32)
        self._lots: list[_Lot] = []
        self._chunks = RowChunks(schema)

    def __len__(self) -> int:
        return self._end - self._first

    @property
    def rows(self) -> pa.Table:
        """All rows, by their numbers."""
        return self._chunks.table

    @property
    def alone(self) -> BoolArray:
        return self._alone[self._first : self._end]

    @property
    def times(self) -> IntArray:
        return self._times[self._first : self._end]

    @property
    def nbytes(self) -> int:
        arrays = (self._times, self._latest, self._older, self._alone, self._heads)
        return self._chunks.nbytes + sum(int(array.nbytes) for array in arrays)

    def add(
        self,
        batch: pa.RecordBatch,
        times: IntArray,
        groups: IntArray,
        group_count: int,
        alone: BoolArray | None = None,
    ) -> None:
        """Keep rows of the key numbers `groups` (int64[n], below `group_count`) and times (int64[n],
        microseconds). `alone` (bool[n]; None: all are) counts where it is noted."""
        if not batch.num_rows:
            return
        start, self._end = self._end, self._end + batch.num_rows
        assert self._end <= _ROW_LIMIT, self._end
        self._times = _with_room(self._times, self._end)
        self._latest = _with_room(self._latest, self._end)
        self._older = _with_room(self._older, self._end)
        self._times[start : self._end] = times
        if self.notes_alone:
            self._alone = _with_room(self._alone, self._end)
            self._alone[start : self._end] = True if alone is None else alone
        if group_count > len(self._heads):
            heads = np.zeros(max(group_count, 2 * len(self._heads)), np.int32)
            heads[: len(self._heads)] = self._heads
            self._heads = heads
        _link(groups, times, start, self._heads, self._older, self._latest)
        self._lots.append(_Lot(self._end, int(times.min()), int(times.max())))
        self._chunks.add(batch)

    def partners(
        self,
        groups: IntArray,
        times: IntArray,
        bounds: tuple[int, int],
        alone: BoolArray,
        once: bool,
    ) -> Iterator[tuple[Links, Links]]:
        """Numbers of given and kept rows (int32) that are partners, in no promised order, up to
        `OUTPUT_ROWS_LIMIT` each time.

        `groups`: key numbers of the given rows; `bounds`: what a kept time
        may be more than a given one. `alone` (bool[n] or none) is cleared where a row has a partner.
        `once`: each row only with its first partner, kept rows where these note whether they are alone,
        else given ones.
        """
        position = np.array([0, -1], np.int64)
        while len(self) and position[0] < len(groups):
            rows = np.empty(OUTPUT_ROWS_LIMIT, np.int32)
            kept_rows = np.empty(OUTPUT_ROWS_LIMIT, np.int32)
            count = _walk(
                groups,
                times,
                bounds[0],
                bounds[1],
                self._heads,
                self._times,
                self._older,
                self._latest,
                once,
                position,
                alone,
                self._alone,
                rows,
                kept_rows,
            )
            if count:
                yield rows[:count], kept_rows[:count] - np.int32(self._first)

    def leaving(self, watermark: int) -> IntArray:
        """Numbers of the rows that are alone and can have no partner at or after the watermark, which is in
        microseconds. They count as having left."""
        found = [np.empty(0, np.int64)]
        start = self._first
        for lot in self._lots:
            if not lot.met and lot.earliest + self.reach < watermark:
                over = self._times[start : lot.end] < watermark - self.reach
                found.append(np.flatnonzero(over & self._alone[start : lot.end]) + start)
            start = lot.end
        rows = np.concatenate(found)
        self._alone[rows] = False
        return rows - self._first

    def next_leaving(self) -> int | None:
        """The earliest time that a row which is alone may meet its last partner at."""
        start, earliest = self._first, None
        for lot in self._lots:
            if not lot.met and (earliest is None or lot.earliest < earliest):
                times = self._times[start : lot.end][self._alone[start : lot.end]]
                lot.met = not len(times)
                if len(times) and (earliest is None or times.min() < earliest):
                    earliest = int(times.min())
            start = lot.end
        return None if earliest is None else earliest + self.reach

    def drop(self, watermark: int) -> None:
        """Drop the first rows, as far as none of them can have a partner at or after the watermark."""
        end = self._first
        for lot in self._lots:
            if lot.latest + self.reach >= watermark:
                break
            end = lot.end
        self.drop_first(end - self._first)

    def in_the_way(self, watermark: int) -> IntArray | None:
        """Numbers of the rows that may have a partner at or after the watermark, where they are less than a
        quarter of all rows; else None."""
        fewest = len(self) * 3 // 4
        start, perhaps_over = self._first, 0
        for lot in self._lots:
            if lot.earliest + self.reach < watermark:
                perhaps_over += lot.end - start
            start = lot.end
        if perhaps_over <= fewest:
            return None
        needed = np.flatnonzero(self.times >= watermark - self.reach)
        return needed if len(self) - len(needed) > fewest else None

    def drop_first(self, rows: int) -> None:
        """Drop so many rows, the first ones, whatever their times are."""
        if not rows:
            return
        self.dropped += rows
        self._first += rows
        self._lots = [lot for lot in self._lots if lot.end > self._first]
        self._chunks.drop_first(rows)
        if self._first > len(self):
            self._clear_away()

    def since(self, row: int) -> list[pa.RecordBatch]:
        """The rows from number `row` on."""
        return self._chunks.since(row)

    def renumber(self, groups: IntArray, group_count: int) -> None:
        """Chain all rows anew by other key numbers."""
        self._clear_away()
        self._heads = np.zeros(max(group_count, _FIRST_ROWS), np.int32)
        times = self._times[: self._end]
        _link(groups, times, 0, self._heads, self._older, self._latest)

    def _clear_away(self) -> None:
        """Have the rows begin at the arrays' beginning."""
        first, end = self._first, self._end
        for array in (self._times, self._latest, *((self._alone,) if self.notes_alone else ())):
            array[: end - first] = array[first:end]
        self._older[: end - first] = np.maximum(self._older[first:end] - np.int32(first), 0)
        self._heads = np.maximum(self._heads - np.int32(first), 0)
        self._lots = [
            _Lot(lot.end - first, lot.earliest, lot.latest, lot.met) for lot in self._lots
        ]
        self._first, self._end = 0, end - first


def _with_room(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    if size <= len(array):
        return array
    larger = np.empty(max(size, 2 * len(array)), array.dtype)
    larger[: len(array)] = array
    return larger
