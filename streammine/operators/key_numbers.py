"""Numbers for keys that come and go."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streammine.model.contracts import IntArray
from streammine.operators.kernels.columns import validity_mask
from streammine.operators.kernels.group_index import GroupIndex

_FEW_KEYS = 65_536


class KeyNumbers:
    """Numbers 0, 1, 2, … for the keys of rows, in the order in which they are first met.

    Without key columns all rows have number 0. When most of the keys may be gone (`outgrown`), their user
    begins a `fresh` one and numbers the rows that are left anew.
    """

    def __init__(self, key_types: Sequence[pa.DataType]) -> None:
        self._types = list(key_types)
        self._index = GroupIndex(key_types) if key_types else None
        self._expected = 0

    @property
    def size(self) -> int:
        return 1 if self._index is None else self._index.size

    @property
    def nbytes(self) -> int:
        return 0 if self._index is None else self._index.nbytes

    @property
    def outgrown(self) -> bool:
        return self.size > max(_FEW_KEYS, 2 * self._expected)

    def of(self, columns: Sequence[pa.Array], rows: int) -> IntArray:
        """The key number of each row (int64[rows]); new keys get the next ones."""
        if self._index is None:
            return np.zeros(rows, np.int64)
        return self._index.ids(columns)

    def known(self, columns: Sequence[pa.Array], rows: int) -> IntArray:
        """The same, with -1 for a key that has none."""
        if self._index is None:
            return np.zeros(rows, np.int64)
        return self._index.lookup(columns)

    def fresh(self) -> KeyNumbers:
        """No keys."""
        return KeyNumbers(self._types)

    def settle(self) -> None:
        """All rows that are left have their numbers now."""
        self._expected = self.size


def present_keys(columns: Sequence[pa.Array]) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
    """Which rows have no null among their key columns (bool[n]); None where all have none."""
    masks = [mask for column in columns if (mask := validity_mask(column)).size]
    return np.logical_and.reduce(masks) if masks else None
