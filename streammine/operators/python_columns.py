"""Columns of plain Python values in snapshots: numbers and texts as Arrow holds them, the rest encoded.

The values of a cell are of one type almost always. To make a column of them costs a fraction of what encoding
each by itself does (see plain_data), and as long as it takes, no other thread runs Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from streammine.operators.plain_data import decode, encode

_NUMPY_TYPES: dict[type, Any] = {int: np.int64, float: np.float64}
_ARROW_TYPES = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.large_string()}
_ENCODED = pa.binary()
_NONE = type(None)


def column_of(values: Sequence[Any]) -> pa.Array:
    """Plain values as they are now, whatever becomes of the objects. Raises NotPlainError.

    int64, float64, bool, large_string or null where that fits all of them, None being a null; otherwise
    binary: each by itself, as `plain_data.encode` gives it.
    """
    kinds = set(map(type, values))
    others = kinds - {_NONE}
    if not others:
        return pa.nulls(len(values))
    kind = others.pop()
    if not others and kind in _ARROW_TYPES:
        try:
            if len(kinds) == 1 and kind in _NUMPY_TYPES:
                return pa.array(np.fromiter(values, _NUMPY_TYPES[kind], len(values)))
            return pa.array(values, _ARROW_TYPES[kind])
        except (OverflowError, UnicodeEncodeError):
            pass  # a whole number of more than 64 bits, or half a surrogate pair: `encode` refuses that
    return encoded_column(list(map(encode, values)))


def encoded_column(values: Sequence[bytes]) -> pa.Array:
    """Values that are encoded already."""
    return pa.array(values, _ENCODED)


def joined_columns(columns: Sequence[pa.Array]) -> pa.Array:
    """The values of one column after the other, as one column."""
    kinds = {column.type for column in columns} - {pa.null()}
    if len(kinds) > 1:
        return encoded_column(list(map(encode, chain.from_iterable(map(values_of, columns)))))
    kind = kinds.pop() if kinds else pa.null()
    return pa.concat_arrays([column.cast(kind) for column in columns])


def values_of(column: pa.Array) -> list[Any]:
    """The inverse of `column_of`."""
    values: list[Any] = column.to_pylist()
    if column.type != _ENCODED:
        return values
    return [None if value is None else decode(value) for value in values]
