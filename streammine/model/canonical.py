"""The canonical encoding of rows: bytes whose order is the rows' order.

Two rows are equal if and only if their encodings are, and one comes before another if and only if
its encoding is less, byte by byte from the left. The order is ascending column by column; numbers
by value; floats -inf < ... < -0.0 < 0.0 < ... < inf < NaN, all NaNs being one; strings and binary
by their bytes; lists by their elements; null after everything.

A row's encoding is its columns' values one after the other. A value is

* ``01`` and its payload, or
* for a null ``02`` and as many zero bytes as the payload of its type has, where the payload of a
  variable-width type counts as one byte and a struct's as that of its fields, each null.

Payloads, all of them big-endian:

* bool: ``00`` or ``01``;
* unsigned integers: the number in its own width;
* signed integers, dates, times, timestamps, durations, decimals: the stored number in its own
  width, two's complement, with the sign bit inverted;
* floats: the IEEE 754 bits (of a NaN: 7e00, 7fc00000, 7ff8000000000000), all inverted if the sign
  bit is set, else with the sign bit inverted;
* string and binary in any variant: the bytes, each ``00`` as ``00 ff``, and at the end ``00``;
* lists in any variant: per element ``01`` and its value, and at the end ``00``;
* struct: its fields' values; null: nothing.

A dictionary column counts as its decoded values. Maps, unions and intervals have no encoding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streammine.model.errors import TopologyError

Bytes = npt.NDArray[np.uint8]
IntArray = npt.NDArray[np.int64]
Words = npt.NDArray[Any]
_Part: TypeAlias = "Words | int | pa.Array"
"""What every row has next: a fixed number of bytes (an unsigned array, or one byte that is the
same in all rows) or varying ones (a large_binary array without nulls)."""

_PRESENT = 1
_NULL = 2
_END = 0
_ROWS_AT_ONCE = 1 << 18
_FEW_ROWS, _SHORT_ROWS = 1024, 4096


def is_encodable(kind: pa.DataType) -> bool:
    """Whether values of this type have a canonical encoding."""
    types = pa.types
    if types.is_dictionary(kind) or _is_list(kind):
        return is_encodable(kind.value_type)
    if types.is_struct(kind):
        return all(is_encodable(field.type) for field in kind)
    return bool(types.is_null(kind) or _is_bytes(kind) or _is_fixed(kind))


def type_name(kind: pa.DataType) -> str:
    """A type's name without what a file format may lose: offset width, dictionaries, item names."""
    types = pa.types
    if types.is_dictionary(kind):
        return type_name(kind.value_type)
    if _is_list(kind):
        return f"list<{type_name(kind.value_type)}>"
    if types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {type_name(field.type)}' for field in kind)}>"
    if _is_bytes(kind):
        return "string" if _is_text(kind) else "binary"
    return str(kind)


def without_views(rows: pa.Table) -> pa.Table:
    """The rows with string and binary views as large variants, for kernels that know no views."""
    types = pa.types
    fields = []
    for field in rows.schema:
        if types.is_string_view(field.type):
            field = field.with_type(pa.large_string())
        elif types.is_binary_view(field.type):
            field = field.with_type(pa.large_binary())
        fields.append(field)
    schema = pa.schema(fields)
    return rows if schema.equals(rows.schema) else rows.cast(schema)


def encode_rows(rows: pa.RecordBatch | pa.Table) -> tuple[Bytes, IntArray]:
    """Encode all rows.

    Returns the bytes (uint8) and n + 1 offsets (int64): row i is ``data[offsets[i] : offsets[i +
    1]]``. Raises TopologyError for a column whose type has no encoding.
    """
    pieces: list[Bytes] = []
    offsets = [np.zeros(1, np.int64)]
    size = 0
    for data, ends in encoded_chunks(rows):
        pieces.append(data)
        offsets.append(ends[1:] + size)
        size += len(data)
    if len(pieces) == 1:
        return pieces[0], np.concatenate(offsets)
    return (np.concatenate(pieces) if pieces else np.empty(0, np.uint8)), np.concatenate(offsets)


def encoded_chunks(rows: pa.RecordBatch | pa.Table) -> Iterator[tuple[Bytes, IntArray]]:
    """Like `encode_rows`, but some hundred thousand rows at a time, so that memory stays
    bounded."""
    for field in rows.schema:
        _require_encodable(field)
    for start in range(0, rows.num_rows, _ROWS_AT_ONCE):
        piece = rows.slice(start, _ROWS_AT_ONCE)
        parts: list[_Part] = []
        for column in piece.columns:
            parts += _parts(_one_array(column))
        yield _join(parts, piece.num_rows)


def canonical_order(
    rows: pa.RecordBatch | pa.Table, columns: Sequence[str] | None = None
) -> IntArray:
    """Row numbers (int64[n]) that put the rows in canonical order by `columns` (None: all of them).

    Rows that are equal in these columns keep their order; where all columns count, they are the
    same anyway. Raises TopologyError for a column whose type has no encoding.
    """
    names = list(rows.schema.names) if columns is None else list(columns)
    keys: list[Any] = []
    for name in names:
        index = rows.schema.get_field_index(name)
        assert index >= 0, f"column {name} is missing or there twice in {rows.schema.names}"
        _require_encodable(rows.schema.field(index))
        keys += _sort_keys(_one_array(rows.column(index)))
    keys = [key for key in keys if not isinstance(key, int)]
    if not keys or rows.num_rows < 2:
        return np.arange(rows.num_rows, dtype=np.int64)
    if _ascend(keys):
        return np.arange(rows.num_rows, dtype=np.int64)
    if rows.num_rows <= _FEW_ROWS and all(isinstance(key, np.ndarray) for key in keys):
        few: IntArray = np.lexsort(keys[::-1]).astype(np.int64, copy=False)
        return few
    if rows.num_rows <= _SHORT_ROWS:
        return _short_sort(keys)
    return _long_sort(keys, stable=columns is not None)


def _ascend(keys: Sequence[Any]) -> bool:
    """Whether the rows are in order already, where that is cheap to see; most others are found out soon."""
    tied: Any = True
    for key in keys:
        if not isinstance(key, np.ndarray):
            return False
        before, after = key[:-1], key[1:]
        if np.any((after < before) & tied):
            return False
        tied &= after == before
    return True


def _short_sort(keys: Sequence[Any]) -> IntArray:
    """By Arrow, which begins at once and keeps the order of equal rows."""
    table = pa.table({str(number): key for number, key in enumerate(keys)})
    by = [(name, "ascending") for name in table.column_names]
    order: IntArray = pc.sort_indices(table, sort_keys=by).to_numpy().astype(np.int64)
    return order


def _long_sort(keys: Sequence[Any], stable: bool) -> IntArray:
    """By Polars, which takes a while to begin and sorts faster, on several cores if it may."""
    # Imported here, because whoever only needs the words of the model needs no Polars.
    import polars

    series = [
        polars.Series(str(number), key) if isinstance(key, np.ndarray) else polars.from_arrow(key)
        for number, key in enumerate(keys)
    ]
    frame = polars.DataFrame({str(number): column for number, column in enumerate(series)})
    # The keys have no nulls: markers stand for them. `nulls_last` would cost seven times as much.
    order = frame.select(polars.arg_sort_by(frame.columns, maintain_order=stable)).to_series()
    return order.to_numpy().astype(np.int64)


def _sort_keys(array: pa.Array) -> list[Any]:
    """Unsigned arrays and byte arrays, without nulls, whose lexicographic order is the column's."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if _is_bytes(array.type):
        kind = pa.large_string() if _is_text(array.type) else pa.large_binary()
        values = _bytes_as(array, kind)
        if not array.null_count:
            return [values]
        return [_marker(array), pc.fill_null(values, pa.scalar("", pa.string()).cast(kind))]
    if _is_list(array.type) or pa.types.is_struct(array.type):
        data, offsets = _join(_parts(array), len(array))
        return [_binary_array(data, offsets)]
    return list(_parts(array))


def _require_encodable(field: pa.Field) -> None:
    if not is_encodable(field.type):
        raise TopologyError(
            f"column {field.name} has type {field.type}, whose values have no canonical order; "
            "turn it into numbers, texts, times, lists or structs of those"
        )


def _one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    combined = column.combine_chunks()
    # Texts above 2 GiB don't fit into one array of 32-bit offsets, so they are widened.
    if isinstance(combined, pa.ChunkedArray):
        combined = pa.concat_arrays([_widened(chunk) for chunk in combined.chunks])
    return combined


def _widened(array: pa.Array) -> pa.Array:
    kind = pa.large_string() if _is_text(array.type) else pa.large_binary()
    return array.cast(kind) if _is_bytes(array.type) else array


def _parts(array: pa.Array) -> list[_Part]:
    """What the encoding of this column's values consists of, from left to right."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _parts(array.dictionary_decode())
    if pa.types.is_null(kind):
        return [_NULL]
    marker = _marker(array)
    if pa.types.is_struct(kind):
        # `flatten` gives the fields with the struct's own nulls in them.
        return [marker, *(part for child in array.flatten() for part in _parts(child))]
    if _is_list(kind):
        return [marker, _list_bytes(array), _END]
    if _is_bytes(kind):
        return [marker, _escaped(array), _END]
    words = _ordered_words(array)
    if not isinstance(marker, int):
        words = [np.where(marker == _PRESENT, word, word.dtype.type(0)) for word in words]
    return [marker, *words]


def _marker(array: pa.Array) -> Words | int:
    """Per value whether it is a null, as the encoding says it."""
    if array.null_count == 0:
        return _PRESENT
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    return np.where(valid, np.uint8(_PRESENT), np.uint8(_NULL))


def _join(parts: Sequence[_Part], rows: int) -> tuple[Bytes, IntArray]:
    """The parts of each row one after the other: uint8 bytes and int64[rows + 1] offsets."""
    columns: list[Any] = []
    fixed: list[Words | int] = []
    for part in parts:
        if isinstance(part, pa.Array):
            if fixed:
                columns.append(_packed(fixed, rows))
                fixed = []
            columns.append(part)
        else:
            fixed.append(part)
    if not columns:
        packed = _packed(fixed, rows)
        width = packed.dtype.itemsize
        return packed.view(np.uint8), np.arange(rows + 1, dtype=np.int64) * width
    if fixed:
        columns.append(_packed(fixed, rows))
    arrays = [_as_binary(part) if isinstance(part, np.ndarray) else part for part in columns]
    joined = arrays[0]
    if len(arrays) > 1:
        separator = pa.scalar(b"", pa.large_binary())
        joined = pc.binary_join_element_wise(*arrays, separator)
    return _binary_buffers(joined)


def _packed(fields: Sequence[Words | int], rows: int) -> Words:
    """One structured array out of fixed-width fields, big-endian and without gaps."""
    formats = ["u1" if isinstance(one, int) else f">u{one.dtype.itemsize}" for one in fields]
    names = [f"f{number}" for number in range(len(fields))]
    packed = np.empty(rows, dtype=np.dtype(list(zip(names, formats, strict=True))))
    for name, one in zip(names, fields, strict=True):
        packed[name] = one
    return packed


def _as_binary(packed: Words) -> pa.Array:
    width = packed.dtype.itemsize
    kind = pa.binary(width)
    data = pa.py_buffer(packed.view(np.uint8))
    return pa.FixedSizeBinaryArray.from_buffers(kind, len(packed), [None, data]).cast(
        pa.large_binary()
    )


def _binary_array(data: Bytes, offsets: IntArray) -> pa.Array:
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def _binary_buffers(array: pa.Array) -> tuple[Bytes, IntArray]:
    """Bytes and offsets, from 0, of a large_binary array without nulls."""
    _, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64, len(array) + 1, array.offset * 8)
    if data_buffer is None:
        return np.empty(0, np.uint8), offsets
    data = np.frombuffer(data_buffer, np.uint8)[offsets[0] : offsets[-1]]
    return data, offsets - offsets[0] if offsets[0] else offsets


def _bytes_as(array: pa.Array, kind: pa.DataType) -> pa.Array:
    # A view type can't be cast to binary directly, but to its own large variant.
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    elif pa.types.is_binary_view(array.type):
        array = array.cast(pa.large_binary())
    return array if array.type.equals(kind) else array.cast(kind)


def _escaped(array: pa.Array) -> pa.Array:
    """The bytes as large_binary, null as none, each 00 followed by ff."""
    array = _bytes_as(array, pa.large_binary())
    if array.null_count:
        array = pc.fill_null(array, pa.scalar(b"", pa.large_binary()))
    data, _ = _binary_buffers(array)
    if len(data) and not data.all():
        array = pc.replace_substring(array, b"\x00", b"\x00\xff")
    return array


def _list_bytes(array: pa.Array) -> pa.Array:
    """Per list its elements' values, each after an 01, as large_binary."""
    elements = array.flatten()
    data, offsets = _join([_PRESENT, *_parts(elements)], len(elements))
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    bounds = np.zeros(len(array) + 1, np.int64)
    np.cumsum(lengths, out=bounds[1:])
    return _binary_array(data, offsets[bounds])


def _ordered_words(array: pa.Array) -> list[Words]:
    """Unsigned words, most significant first, that order as the fixed-width values do.

    What stands at a null is arbitrary.
    """
    kind = array.type
    if pa.types.is_boolean(kind):
        return [array.cast(pa.uint8()).fill_null(0).to_numpy()]
    size = kind.bit_width // 8
    words = max(1, size // 8)
    width = min(size, 8)
    buffer = array.buffers()[1]
    if buffer is None:
        return [np.zeros(len(array), f"u{width}") for _ in range(words)]
    raw = np.frombuffer(buffer, f"<u{width}", len(array) * words, array.offset * size)
    raw = raw.astype(f"=u{width}", copy=False)
    if pa.types.is_unsigned_integer(kind):
        return [raw]
    sign = raw.dtype.type(1 << (8 * width - 1))
    if pa.types.is_floating(kind):
        return [_ordered_floats(raw, sign)]
    if words == 1:
        return [raw ^ sign]
    by_row = raw.reshape(len(array), words)
    highest = by_row[:, -1] ^ sign
    return [highest, *(by_row[:, word] for word in range(words - 2, -1, -1))]


def _ordered_floats(bits: Words, sign: Any) -> Words:
    values = bits.view(f"=f{bits.dtype.itemsize}")
    not_numbers = np.isnan(values)
    if not_numbers.any():
        quiet = np.array(np.nan, values.dtype).view(bits.dtype) & ~sign
        bits = np.where(not_numbers, quiet, bits)
    ordered: Words = np.where(bits & sign, ~bits, bits ^ sign)
    return ordered


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        _is_text(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    )


def _is_fixed(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_date(kind)
        or types.is_time(kind)
        or types.is_timestamp(kind)
        or types.is_duration(kind)
    )
