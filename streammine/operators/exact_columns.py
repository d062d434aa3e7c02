"""Columns of the values that user code returns, none of them cut to fit.

Arrow takes 1.9 for a column of whole numbers and makes 1 of it, drops what a time has below the unit of its
column, and makes infinity of a float that is too large. What user code returns is either told as it is or
refused. A float32 column rounds, as floats do.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_WHOLE = frozenset((int, type(None)))
_FLOATS = (float, np.floating)
_TIMES = (datetime.datetime, datetime.time, datetime.timedelta)


def exact_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """The values as Arrow takes them. Raises ValueError, beside what Arrow raises, for one that would be told
    as another than it is."""
    array = pa.array(values, kind)
    if pa.types.is_integer(kind):
        _check_whole(values, array)
    elif pa.types.is_temporal(kind):
        _check_temporal(values, kind)
    elif pa.types.is_floating(kind) and kind != pa.float64():
        _check_finite(values, array)
    return array


def _check_whole(values: Sequence[Any], array: pa.Array | pa.ChunkedArray) -> None:
    if _WHOLE.issuperset(map(type, values)):
        return
    for value, taken in zip(values, array.to_pylist(), strict=True):
        if taken is not None and value != taken:
            raise ValueError(f"{value!r} is no whole number; // divides whole numbers")


def _check_temporal(values: Sequence[Any], kind: pa.DataType) -> None:
    kinds = set(map(type, values))
    if any(issubclass(each, _FLOATS) for each in kinds):
        raise ValueError("a float is no time; a whole number counts units since 1970")
    if not any(issubclass(each, _TIMES) for each in kinds):
        return
    if pa.types.is_date(kind):
        for each in values:
            if isinstance(each, datetime.datetime) and each.time() != datetime.time():
                raise ValueError(f"{each} is more than a date")
        return
    finest = _finest(kind)
    if finest is None:
        return
    timed = [each if isinstance(each, _TIMES) else None for each in values]
    try:
        pa.array(timed, finest).cast(kind)
    except pa.ArrowInvalid as error:
        raise ValueError(f"a {kind} column can't hold it exactly: {error}") from error


def _finest(kind: pa.DataType) -> pa.DataType | None:
    """The type of the same kind in microseconds, Python's unit; None where that is no finer."""
    if kind.unit not in ("s", "ms"):
        return None
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return pa.duration("us") if pa.types.is_duration(kind) else pa.time64("us")


def _check_finite(values: Sequence[Any], array: pa.Array | pa.ChunkedArray) -> None:
    infinite = pc.is_inf(array.cast(pa.float64()))
    if not pc.any(infinite).as_py():
        return
    for value, became_infinite in zip(values, infinite.to_pylist(), strict=True):
        if became_infinite and abs(value) != np.inf:
            raise ValueError(f"{value!r} is beyond the range of {array.type}")
