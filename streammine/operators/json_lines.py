"""JSON lines: one object per row, all columns in their order, nulls written out.

Numbers are JSON numbers, floats the shortest decimals that read back as the same number, with a
point or an exponent so that they stay floats. JSON has no NaN and no infinities: they are the
texts "NaN", "Infinity" and "-Infinity". Times are ISO 8601 texts, decimals texts, binary
hexadecimal digits, a duration the number of its units, lists arrays, structs objects. Texts are
escaped where JSON demands it and nowhere else.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from streammine.operators.text_values import from_text_ready, text_ready, text_ready_type

_ESCAPES = {0x08: "\\b", 0x09: "\\t", 0x0A: "\\n", 0x0C: "\\f", 0x0D: "\\r"}


def encode_json(table: pa.Table) -> pa.Buffer:
    """The rows as UTF-8 JSON lines."""
    sink = pa.BufferOutputStream()
    for batch in table.combine_chunks().to_batches(max_chunksize=1 << 18):
        lines = _object_texts(batch.schema, batch.columns, batch.num_rows, "\n")
        _, offset_buffer, data = lines.buffers()
        offsets = np.frombuffer(offset_buffer, np.int64, len(lines) + 1, lines.offset * 8)
        sink.write(data[int(offsets[0]) : int(offsets[-1])])
    return sink.getvalue()


def decode_json(data: pa.Buffer, schema: pa.Schema) -> pa.Table:
    """The rows of JSON lines written by `encode_json`."""
    if data.size and all(_is_plain(field.type) for field in schema):
        table = _decode_fast(data, schema)
        if table is not None:
            return table
    lines = bytes(data).decode().split("\n")[:-1]
    rows = [json.loads(line) for line in lines]
    columns = [
        pa.array([_value(row[field.name], field.type) for row in rows], field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _decode_fast(data: pa.Buffer, schema: pa.Schema) -> pa.Table | None:
    """By Arrow's reader; None where it gives up, as it does at a "NaN" among numbers."""
    read = pa.schema([(field.name, _read_type(field.type)) for field in schema])
    try:
        table = pa.json.read_json(
            pa.BufferReader(data),
            read_options=pa.json.ReadOptions(block_size=max(1 << 20, min(data.size, 2**31 - 1))),
            parse_options=pa.json.ParseOptions(explicit_schema=read),
        )
    except pa.ArrowInvalid:
        return None
    columns = []
    for field in schema:
        column = table.column(field.name)
        if not column.type.equals(text_ready_type(field.type)):
            column = _from_texts(column, text_ready_type(field.type))
        columns.append(from_text_ready(column, field.type))
    return pa.table(columns, schema=schema)


def _from_texts(texts: Any, kind: pa.DataType) -> Any:
    """Texts (array or scalar) as times, dates or decimals."""
    if not pa.types.is_time(kind):
        return texts.cast(kind)
    # Arrow parses no times of a day, but timestamps.
    day = pa.scalar("1970-01-01T")
    moments = pc.binary_join_element_wise(day, texts, pa.scalar(""))
    return moments.cast(pa.timestamp(kind.unit)).cast(kind)


def _is_plain(kind: pa.DataType) -> bool:
    return not pa.types.is_nested(kind) and not pa.types.is_null(kind)


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _read_type(kind: pa.DataType) -> pa.DataType:
    kind = text_ready_type(kind)
    return kind if _is_number(kind) else pa.string()


def _texts(array: pa.Array) -> pa.Array:
    """Each value as JSON: large_string without nulls."""
    kind = array.type
    if pa.types.is_null(kind):
        return pa.array(["null"] * len(array), pa.large_string())
    if pa.types.is_struct(kind):
        names = pa.schema(list(kind))
        texts = _object_texts(names, array.flatten(), len(array), "")
    elif (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    ):
        texts = _list_texts(array)
    else:
        texts = _scalar_texts(array)
    if array.null_count:
        texts = pc.if_else(array.is_valid(), texts, pa.scalar("null", pa.large_string()))
    return texts


def _object_texts(schema: pa.Schema, columns: list[pa.Array], rows: int, end: str) -> pa.Array:
    if not columns:
        return pa.array(["{}" + end] * rows, pa.large_string())
    pieces: list[Any] = []
    for number, (field, column) in enumerate(zip(schema, columns, strict=True)):
        name = json.dumps(field.name, ensure_ascii=False)
        pieces.append(pa.scalar(f"{',' if number else '{'}{name}:", pa.large_string()))
        pieces.append(_texts(column))
    pieces.append(pa.scalar("}" + end, pa.large_string()))
    return _joined(*pieces)


def _joined(*texts: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(*texts, pa.scalar("", pa.large_string()))


def _list_texts(array: pa.Array) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    bounds = np.zeros(len(array) + 1, np.int64)
    np.cumsum(lengths, out=bounds[1:])
    lists = pa.LargeListArray.from_arrays(pa.array(bounds), _texts(array.flatten()))
    inner = pc.binary_join(lists, pa.scalar(",", pa.large_string()))
    start, end = pa.scalar("[", pa.large_string()), pa.scalar("]", pa.large_string())
    return _joined(start, inner, end)


def _scalar_texts(array: pa.Array) -> pa.Array:
    """As `_texts`, with anything at all where a value is null."""
    types = pa.types
    array = text_ready(pa.chunked_array([array])).combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0)
    kind = array.type
    texts = pc.fill_null(array.cast(pa.string()).cast(pa.large_string()), "")
    if types.is_floating(kind):
        return _float_texts(array, texts)
    if _is_number(kind):
        return texts
    if types.is_timestamp(kind):
        texts = pc.replace_substring(texts, " ", "T", max_replacements=1)
    elif types.is_string(kind):
        texts = _escaped(texts)
    quote = pa.scalar('"', pa.large_string())
    return _joined(quote, texts, quote)


def _float_texts(array: pa.Array, texts: pa.Array) -> pa.Array:
    whole = pc.invert(pc.match_substring_regex(texts, "[.a-z]"))
    if pc.any(whole).as_py():
        point = _joined(texts, pa.scalar(".0", pa.large_string()))
        texts = pc.if_else(whole, point, texts)
    if pc.all(pc.is_finite(array), min_count=0).as_py():
        return texts
    for found, written in (("nan", '"NaN"'), ("inf", '"Infinity"'), ("-inf", '"-Infinity"')):
        replacement = pa.scalar(written, pa.large_string())
        texts = pc.if_else(pc.equal(texts, found), replacement, texts)
    return texts


def _escaped(texts: pa.Array) -> pa.Array:
    _, offset_buffer, data = texts.buffers()
    if data is None:
        return texts
    offsets = np.frombuffer(offset_buffer, np.int64, len(texts) + 1, texts.offset * 8)
    used = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    present = np.flatnonzero(np.bincount(used, minlength=256))
    if 0x5C in present:
        texts = pc.replace_substring(texts, "\\", "\\\\")
    if 0x22 in present:
        texts = pc.replace_substring(texts, '"', '\\"')
    for code in map(int, present[present < 0x20]):
        texts = pc.replace_substring(texts, chr(code), _ESCAPES.get(code, f"\\u{code:04x}"))
    return texts


def _value(value: Any, kind: pa.DataType) -> Any:
    """A parsed JSON value as what `pa.array` takes for this type."""
    types = pa.types
    if value is None:
        return None
    if types.is_dictionary(kind):
        return _value(value, kind.value_type)
    if types.is_struct(kind):
        return {field.name: _value(value[field.name], field.type) for field in kind}
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return [_value(one, kind.value_type) for one in value]
    if types.is_floating(kind):
        return math.inf if value == "Infinity" else float(value)
    if types.is_decimal(kind):
        return decimal.Decimal(value)
    if isinstance(value, str) and text_ready_type(kind).equals(pa.string()) and kind != pa.string():
        return value if types.is_large_string(kind) else bytes.fromhex(value)
    if isinstance(value, str) and (types.is_temporal(kind)):
        return _time_value(value, kind)
    return value


def _time_value(value: str, kind: pa.DataType) -> Any:
    if pa.types.is_date(kind):
        return datetime.date.fromisoformat(value)
    # Through Arrow's parser, because Python's times hold no nanoseconds.
    return _from_texts(pa.scalar(value), kind)
