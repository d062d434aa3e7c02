"""Groups rows by key for user code: dense ids per row, and the keys as Python sees them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.operators.aggregates.key_order import order_of
from streammine.operators.kernels.group_index import GroupIndex
from streammine.operators.keys import check_key
from streammine.operators.rows import column_values
from streammine.operators.state import Key, canonical_value

IntArray = npt.NDArray[np.int64]


def key_fields(schema: pa.Schema, keys: Sequence[str], operator: str) -> list[pa.Field]:
    """The fields of the key columns. Raises TopologyError when one can't be a key."""
    for key in keys:
        check_key(operator, key, schema)
    return [schema.field(key) for key in keys]


class KeyGroups:
    """Ids 0, 1, … of keys in the order of their first rows.

    Without key columns all rows are group 0.
    """

    def __init__(self, fields: Sequence[pa.Field]) -> None:
        self._fields = list(fields)
        self._index = GroupIndex([field.type for field in fields]) if fields else None
        self._size_without_keys = 0

    @property
    def size(self) -> int:
        return self._size_without_keys if self._index is None else self._index.size

    @property
    def nbytes(self) -> int:
        return 0 if self._index is None else self._index.nbytes

    def keys_as_of_now(self) -> Callable[[], list[pa.Array]]:
        """Makes the key columns of the groups known now, by id; may run on another thread."""
        return list if self._index is None else self._index.keys_as_of_now()

    def ids(self, columns: Sequence[pa.Array], rows: int) -> tuple[IntArray, IntArray]:
        """Group of each row, and the first row of each group that is new, in the order of ids."""
        before = self.size
        if self._index is None:
            self._size_without_keys = max(before, int(rows > 0))
            return np.zeros(rows, np.int64), np.arange(self._size_without_keys - before)
        ids = self._index.ids(columns)
        if self._index.size == before:
            return ids, np.empty(0, np.int64)
        highest = np.maximum.accumulate(ids)
        new = ids >= before
        new[1:] &= ids[1:] > highest[:-1]
        return ids, np.flatnonzero(new)

    def ordered(self, ids: npt.NDArray[np.int64] | None = None) -> tuple[IntArray, list[pa.Array]]:
        """Ids in canonical order of their keys, and the key columns in that order.

        `ids`: only these groups; None for all.
        """
        if self._index is None:
            return np.arange(self.size) if ids is None else ids, []
        keys = self._index.keys()
        if ids is not None:
            keys = [column.take(pa.array(ids)) for column in keys]
        if not len(keys[0]):
            return np.empty(0, np.int64), keys
        order = order_of(keys)
        places = pa.array(order)
        return (order if ids is None else ids[order]), [column.take(places) for column in keys]


def python_keys(columns: Sequence[pa.Array], rows: int) -> list[Key]:
    """Key tuples with canonical values."""
    if not columns:
        return [()] * rows
    return list(zip(*map(_canonical_values, columns), strict=True))


def _canonical_values(column: pa.Array) -> list[Any]:
    values = column_values(column)
    return list(map(canonical_value, values)) if pa.types.is_floating(column.type) else values


def shown_keys(keys: list[Key], width: int) -> list[Any]:
    """Keys as user code gets them: the value itself where there is one column."""
    return [key[0] for key in keys] if width == 1 else list(keys)


def ordered_keys(
    keys: Sequence[Key], fields: Sequence[pa.Field]
) -> tuple[list[Key], list[pa.Array]]:
    """Key tuples in canonical order, and the same as columns."""
    columns = key_columns(keys, fields)
    if len(keys) < 2 or not fields:
        return list(keys), columns
    order = order_of(columns)
    places = pa.array(order)
    return [keys[place] for place in order.tolist()], [column.take(places) for column in columns]


def key_columns(keys: Sequence[Key], fields: Sequence[pa.Field]) -> list[pa.Array]:
    """Key tuples as columns."""
    if not keys:
        return [pa.array([], field.type) for field in fields]
    columns = zip(*keys, strict=True)
    return [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
