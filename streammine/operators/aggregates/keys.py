"""Keys to group ids, kept from epoch to epoch, and their canonical order.

Most keys come again in the next epoch. So the hash table, the sorted order and the sorted key
columns outlive the epochs; what an epoch counted does not. Nothing that leaves depends on ids: rows
leave in the order of their keys. What a state counts has a place for each id of its table, so a table
that has become much larger than an epoch needs is given up for a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.model.contracts import IntArray
from streammine.operators.aggregates.key_order import order_of, order_with_new
from streammine.operators.kernels.group_index import GroupIndex

_SIZE_ALWAYS_KEPT = 16_384
_UNUSED_FACTOR = 4


class KeyTable:
    """Ids of the key rows seen so far. Without key columns every row is of group 0.

    Two threads may add keys at a time: one that folds rows, and one that puts frozen groups to others.
    """

    def __init__(self, fields: Sequence[pa.Field]) -> None:
        self._fields = list(fields)
        self._index = GroupIndex([field.type for field in fields]) if fields else None
        self._single_group = 0
        self._lock = Lock()
        self._order: IntArray = np.empty(0, dtype=np.int64)
        self._sorted: list[pa.Array] = [pa.array([], field.type) for field in fields]

    @property
    def size(self) -> int:
        return self._single_group if self._index is None else int(self._index.size)

    @property
    def nbytes(self) -> int:
        held = self._order.nbytes + sum(int(array.nbytes) for array in self._sorted)
        return held + (0 if self._index is None else self._index.nbytes)

    def ids(self, batch: pa.RecordBatch, columns: Sequence[int]) -> IntArray:
        """Group of each row (int64[n]) by the key columns at these places of the batch."""
        return self._ids([batch.column(column) for column in columns], batch.num_rows)

    def ids_of(self, keys: list[pa.Array], groups: IntArray) -> IntArray:
        """Group of each of another table's groups (int64[n]), whose key columns by id are `keys`."""
        taken = pa.array(groups)
        return self._ids([column.take(taken) for column in keys], groups.size)

    def _ids(self, keys: list[pa.Array], rows: int) -> IntArray:
        if self._index is None:
            self._single_group = max(self._single_group, int(rows > 0))
            return np.zeros(rows, dtype=np.int64)
        with self._lock:
            return self._index.ids(keys)

    def keys_as_of_now(self) -> Callable[[], list[pa.Array]]:
        """Makes the key columns of the groups known now, by id; may run on another thread."""
        if self._index is None:
            return list
        with self._lock:
            return self._index.keys_as_of_now()

    def outgrown(self, used: int) -> bool:
        """Whether most of the table is of keys that an epoch with `used` groups does not have."""
        return self.size > max(_SIZE_ALWAYS_KEPT, _UNUSED_FACTOR * used)

    def select(self, present: npt.NDArray[np.bool_]) -> tuple[IntArray, list[pa.Array]]:
        """The present groups (bool[up to size]) in canonical order: ids and their key columns."""
        self._extend_order()
        if present.size < self.size:
            grown = np.zeros(self.size, dtype=np.bool_)
            grown[: present.size] = present
            present = grown
        kept = present[self._order]
        if kept.all():
            return self._order, self._sorted
        places = np.flatnonzero(kept)
        return self._order[places], [array.take(pa.array(places)) for array in self._sorted]

    def _extend_order(self) -> None:
        size = self.size
        if self._order.size == size:
            return
        if self._index is None:
            self._order = np.zeros(1, dtype=np.int64)
            return
        keys = self.keys_as_of_now()()
        if self._order.size == 0:
            self._order = order_of(keys)
        else:
            self._order = order_with_new(keys, self._order)
        places = pa.array(self._order)
        self._sorted = [array.take(places) for array in keys]
