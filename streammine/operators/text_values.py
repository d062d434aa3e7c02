"""Values that a text file holds in another shape: binary, durations, half floats, dictionaries; and times
that it can't hold."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streammine.model.errors import OutputError

_DAYS = np.datetime64("0001-01-01"), np.datetime64("10000-01-01")
"""The first day that has a text that is read everywhere, and the first one after those."""

_UNITS = {
    "D": "days",
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
}


def text_ready_type(kind: pa.DataType) -> pa.DataType:
    """The type in which a column of type `kind` is written into a text file."""
    types = pa.types
    if types.is_dictionary(kind):
        return text_ready_type(kind.value_type)
    if _is_binary(kind):
        return pa.string()
    if types.is_duration(kind):
        return pa.int64()
    if types.is_float16(kind):
        return pa.float32()
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    return kind


def text_ready(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column in the type that `text_ready_type` names."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return text_ready(column.cast(kind.value_type))
    target = text_ready_type(kind)
    if _is_binary(kind):
        return pa.chunked_array([_hexadecimal(chunk) for chunk in column.chunks], pa.string())
    return column if kind.equals(target) else column.cast(target)


def from_text_ready(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Back to type `kind`."""
    value_type = kind.value_type if pa.types.is_dictionary(kind) else kind
    if _is_binary(value_type):
        column = pa.chunked_array([_from_hexadecimal(one) for one in column.chunks], pa.binary())
    if not column.type.equals(value_type):
        column = column.cast(value_type)
    return column if value_type.equals(kind) else column.cast(kind)


def check_times(table: pa.Table) -> None:
    """Raise OutputError for a time that has no text that reads back: of a year before 1 or after 9999."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        for chunk in column.chunks:
            for times in _times_in(chunk):
                _check_range(name, times)


def _times_in(array: pa.Array) -> Iterator[pa.Array]:
    """The times and dates of a column, also of those within lists and structs."""
    types = pa.types
    kind = array.type
    if types.is_timestamp(kind) or types.is_date(kind):
        yield array
    elif types.is_dictionary(kind):
        # a dictionary may have values that no row has
        yield from _times_in(array.dictionary_decode())
    elif types.is_struct(kind):
        for field in array.flatten():
            yield from _times_in(field)
    elif types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        yield from _times_in(array.flatten())


def _check_range(name: str, times: pa.Array) -> None:
    unit = "D" if pa.types.is_date32(times.type) else getattr(times.type, "unit", "ms")
    if unit == "ns":
        # 64 bits of them are the years 1677 to 2262
        return
    numbers = times.view(pa.int32() if unit == "D" else pa.int64())
    lowest, highest = pc.min_max(numbers).values()
    if not lowest.is_valid:
        return
    first, end = (int(day.astype(f"datetime64[{unit}]").astype(np.int64)) for day in _DAYS)
    for number in (lowest.as_py(), highest.as_py()):
        if not first <= number < end:
            time = np.array(number, f"datetime64[{unit}]")
            year = time.astype("datetime64[Y]").astype(np.int64) + 1970
            raise OutputError(
                f"column {name!r} has a time in the year {year} ({number} {_UNITS[unit]} since 1970), for "
                "which text files have no notation; is it told in another unit? Parquet can hold it"
            )


def _is_binary(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    )


def _hexadecimal(array: pa.Array) -> pa.Array:
    """Two digits for each byte, all values at once."""
    array = array.cast(pa.binary())
    validity, offset_buffer, data = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(array) + 1, array.offset * 4)
    used = data[int(offsets[0]) : int(offsets[-1])] if data is not None else b""
    digits = bytes(used).hex().encode()
    bounds = ((offsets - offsets[0]) * 2).astype(np.int32)
    texts = pa.StringArray.from_buffers(len(array), pa.py_buffer(bounds), pa.py_buffer(digits))
    return texts if validity is None else _with_nulls(texts, array)


def _from_hexadecimal(array: pa.Array) -> pa.Array:
    array = array.cast(pa.string())
    validity, offset_buffer, data = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(array) + 1, array.offset * 4)
    used = data[int(offsets[0]) : int(offsets[-1])] if data is not None else b""
    raw = bytes.fromhex(bytes(used).decode())
    bounds = ((offsets - offsets[0]) // 2).astype(np.int32)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(raw)]
    values = pa.BinaryArray.from_buffers(pa.binary(), len(array), buffers)
    return values if validity is None else _with_nulls(values, array)


def _with_nulls(values: pa.Array, like: pa.Array) -> pa.Array:
    return pc.if_else(like.is_valid(), values, pa.scalar(None, values.type))
