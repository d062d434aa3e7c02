"""Direct addressing for keys of small ranges: a box of ids in front of a hash table.

Keys such as (house, household, plug) come from a small box of the integer lattice. There the
position in the box is the address of the id and nothing needs to be compared. Rows outside the
box, or not seen before, are left to the hash table, which stays the one source of ids.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streammine.operators.kernels.compilation import (
    INT32_IN,
    INT32_OUT,
    INT64,
    INT64_IN,
    INT64_OUT,
    KernelSet,
    helper,
    read_only,
)

_KERNELS = KernelSet()
load_kernels = _KERNELS.load

_CELL_LIMIT = 1 << 18
_LAYOUT_LIMIT = 64
_MINIMUM_ROWS = 256

KeyColumn = npt.NDArray[Any]
"""One word of every key row: int32 or int64[n], in the width in which it came."""


@helper
def _advance(column: KeyColumn, base: int, extent: int, places: npt.NDArray[np.int32]) -> None:
    """Go one column further with places (int32[n]); those of rows that lie outside are negative.

    A negative place stays negative, for a distance is less than the extent. Without branches, so that it
    is done for many rows at once.
    """
    for row in range(column.size):
        distance = np.uint64(np.int64(column[row]) - base)
        inside = distance < np.uint64(extent)
        places[row] = np.int64(places[row]) * extent + np.int64(distance) if inside else -1


@_KERNELS.kernel(INT32_IN, INT64, INT64, INT32_OUT)
def _advance_by_int32(
    column: npt.NDArray[np.int32], base: int, extent: int, places: npt.NDArray[np.int32]
) -> None:
    _advance(column, base, extent, places)


@_KERNELS.kernel(INT64_IN, INT64, INT64, INT32_OUT)
def _advance_by_int64(
    column: npt.NDArray[np.int64], base: int, extent: int, places: npt.NDArray[np.int32]
) -> None:
    _advance(column, base, extent, places)


@_KERNELS.kernel(INT32_IN, INT32_IN, INT64_OUT, INT64_OUT)
def _read_cells(
    places: npt.NDArray[np.int32],
    cells: npt.NDArray[np.int32],
    ids: npt.NDArray[np.int64],
    missing: npt.NDArray[np.int64],
) -> tuple[int, int]:
    """Fill ids; list the rows without one. Return how many those are, and how many lie outside."""
    count = 0
    outside_count = 0
    for row in range(places.size):
        place = places[row]
        if place < 0:
            outside_count += 1
            missing[count] = row
            count += 1
            continue
        identity = np.int64(cells[np.uint64(place)])
        ids[row] = identity
        if identity < 0:
            missing[count] = row
            count += 1
    return count, outside_count


@_KERNELS.kernel(read_only(INT64, 2), INT64_IN, INT64_IN, INT64_IN, INT32_OUT)
def _enter_cells(
    words: npt.NDArray[np.int64],
    ids: npt.NDArray[np.int64],
    bases: npt.NDArray[np.int64],
    extents: npt.NDArray[np.int64],
    cells: npt.NDArray[np.int32],
) -> None:
    """Write known ids of words[k, n] to their cells, where they have one."""
    width, rows = words.shape
    for row in range(rows):
        position = np.uint64(0)
        outside = ids[row] < 0
        for column in range(width):
            distance = np.uint64(words[column, row] - bases[column])
            extent = np.uint64(extents[column])
            outside |= distance >= extent
            position = position * extent + distance
        if not outside:
            cells[position] = ids[row]


class KeyBox:
    """Cells int32[product of extents], -1 where no id is known. Off when ranges are too wide."""

    def __init__(self) -> None:
        load_kernels()
        self._layouts_left = _LAYOUT_LIMIT
        self._bases = np.empty(0, dtype=np.int64)
        self._extents = np.empty(0, dtype=np.int64)
        self._cells = np.empty(0, dtype=np.int32)

    @property
    def nbytes(self) -> int:
        """Bytes held by the cells."""
        return self._cells.nbytes

    @property
    def active(self) -> bool:
        """Whether there are cells to look into."""
        return self._cells.size > 0

    def find(
        self, columns: Sequence[KeyColumn]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
        """Return (ids int64[n], rows without an id in ascending order, number outside the box)."""
        rows = columns[0].size
        places = np.zeros(rows, dtype=np.int32)
        layout = zip(columns, self._bases.tolist(), self._extents.tolist(), strict=True)
        for column, base, extent in layout:
            if column.dtype == np.int32:
                _advance_by_int32(column, base, extent, places)
            else:
                _advance_by_int64(column, base, extent, places)
        ids = np.empty(rows, dtype=np.int64)
        missing = np.empty(rows, dtype=np.int64)
        count, outside = _read_cells(places, self._cells, ids, missing)
        return ids, missing[:count], outside

    def enter(self, words: npt.NDArray[np.int64], ids: npt.NDArray[np.int64]) -> None:
        """Note the ids (int64[n], -1 for none) of words[k, n]."""
        _enter_cells(words, ids, self._bases, self._extents, self._cells)

    def lay_out(self, keys: npt.NDArray[np.int64]) -> None:
        """Fit the box to keys[size, k], whose ids are 0 to size - 1, or switch it off."""
        self._cells = np.empty(0, dtype=np.int32)
        if self._layouts_left == 0 or keys.shape[0] == 0:
            return
        self._layouts_left -= 1
        words = np.ascontiguousarray(keys.T)
        lowest, highest = words.min(axis=1), words.max(axis=1)
        cell_count = 1
        for low, high in zip(lowest.tolist(), highest.tolist(), strict=True):
            cell_count *= high - low + 1
            if cell_count > _CELL_LIMIT:
                self._layouts_left = 0
                return
        self._bases = lowest
        self._extents = highest - lowest + 1
        self._cells = np.full(cell_count, -1, dtype=np.int32)
        self.enter(words, np.arange(keys.shape[0], dtype=np.int64))

    def reset(self) -> None:
        """Forget the layout, because the width of the keys changes."""
        self._cells = np.empty(0, dtype=np.int32)

    def wants_layout(self, rows: int, outside: int) -> bool:
        """Whether a batch, of which so many rows were outside, calls for a new layout."""
        return self._layouts_left > 0 and rows >= _MINIMUM_ROWS and 16 * outside > rows
