"""Columns of plain Python values in snapshots: numbers and texts as Arrow holds them, the rest encoded.

The values of a key's column, or of a cell, are of one type almost always. To make a column of them costs
a tenth of what encoding each by itself does (see plain_data), and as long as it takes, no other thread
runs Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa

from streammine.operators.plain_data import decode, encode

_ARROW_TYPES = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.large_string(),
}
_UNCHANGING = frozenset([type(None), *_ARROW_TYPES])
_NUMBER_BYTES = 8


class Captured(NamedTuple):
    """Values as they were at one moment, whatever becomes of the objects that held them.

    `kinds`: the types of the values, none where they are bytes that `plain_data.encode` gave. `nbytes`:
    about how much of a column they are.
    """

    values: Sequence[Any]
    kinds: frozenset[type]
    nbytes: int


def captured(values: Sequence[Any]) -> Captured:
    """Plain values as they are now. Raises NotPlainError."""
    kinds = frozenset(map(type, values))
    if kinds <= _UNCHANGING:
        try:
            length = len("".join(filter(_is_text, values)).encode()) if str in kinds else 0
        except UnicodeEncodeError:
            pass  # half a surrogate pair, which is no text: `encode` says so
        else:
            return Captured(values, kinds, _NUMBER_BYTES * len(values) + length)
    return captured_bytes(list(map(encode, values)))


def captured_bytes(values: Sequence[bytes]) -> Captured:
    """Values that are encoded already."""
    return Captured(values, frozenset(), sum(map(len, values)))


def column_of(parts: Sequence[Captured]) -> pa.Array:
    """All values of the parts, one after the other."""
    parts = [part for part in parts if part.values]
    kinds = frozenset().union(*(part.kinds for part in parts)) - {type(None)}
    if len(kinds) == 1 and all(part.kinds for part in parts):
        values = list(chain.from_iterable(part.values for part in parts))
        try:
            return pa.array(values, _ARROW_TYPES[next(iter(kinds))])
        except OverflowError:
            pass  # a whole number of more than 64 bits
    encoded = (map(encode, part.values) if part.kinds else part.values for part in parts)
    return pa.array(list(chain.from_iterable(encoded)), pa.binary())


def values_of(column: pa.Array) -> list[Any]:
    """The inverse of `column_of`."""
    values: list[Any] = column.to_pylist()
    return list(map(decode, values)) if pa.types.is_binary(column.type) else values


def _is_text(value: Any) -> bool:
    return type(value) is str
