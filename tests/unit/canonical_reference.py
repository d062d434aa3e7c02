"""The canonical encoding once more, value by value in plain Python, from its description alone."""

from __future__ import annotations

import math
import struct
from typing import Any

import pyarrow as pa

SIGNED = {8: ">b", 16: ">h", 32: ">i", 64: ">q"}


def encode_row(row: dict[str, Any], schema: pa.Schema) -> bytes:
    """The bytes of a row as `stored` gives it."""
    return b"".join(_value(row[field.name], field.type) for field in schema)


def stored(table: pa.Table) -> list[dict[str, Any]]:
    """Rows with times as their stored numbers and decimals as unscaled integers."""
    columns = {}
    for field, column in zip(table.schema, table.columns, strict=True):
        columns[field.name] = [_stored(value, field.type) for value in column]
    return [{name: columns[name][number] for name in columns} for number in range(table.num_rows)]


def _stored(value: pa.Scalar, kind: pa.DataType) -> Any:
    if not value.is_valid:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _stored(value[field.name], field.type) for field in kind}
    if pa.types.is_nested(kind):
        return [_stored(one, kind.value_type) for one in value.values]
    if pa.types.is_temporal(kind):
        return value.value
    if pa.types.is_decimal(kind):
        sign, digits, exponent = value.as_py().as_tuple()
        number = int("".join(map(str, digits))) * 10 ** (exponent + kind.scale)
        return -number if sign else number
    return value.as_py()


def _value(value: Any, kind: pa.DataType) -> bytes:
    if pa.types.is_null(kind):
        return b"\x02"
    if value is None:
        return b"\x02" + _zero(kind)
    return b"\x01" + _payload(value, kind)


def _zero(kind: pa.DataType) -> bytes:
    if pa.types.is_struct(kind):
        return b"".join(_value(None, field.type) for field in kind)
    if pa.types.is_boolean(kind) or _is_variable(kind):
        return b"\x00"
    return bytes(kind.bit_width // 8)


def _is_variable(kind: pa.DataType) -> bool:
    return pa.types.is_nested(kind) or any(word in str(kind) for word in ("string", "binary"))


def _payload(value: Any, kind: pa.DataType) -> bytes:
    if pa.types.is_boolean(kind):
        return bytes([value])
    if pa.types.is_struct(kind):
        return b"".join(_value(value[field.name], field.type) for field in kind)
    if pa.types.is_nested(kind):
        return b"".join(b"\x01" + _value(one, kind.value_type) for one in value) + b"\x00"
    if _is_variable(kind):
        raw = value.encode() if isinstance(value, str) else bytes(value)
        return raw.replace(b"\x00", b"\x00\xff") + b"\x00"
    size: int = kind.bit_width // 8
    if pa.types.is_floating(kind):
        bits = int.from_bytes(struct.pack({2: ">e", 4: ">f", 8: ">d"}[size], value))
        if math.isnan(value):
            bits = {2: 0x7E00, 4: 0x7FC00000, 8: 0x7FF8000000000000}[size]
        sign = 1 << (8 * size - 1)
        ordered: int = bits ^ (2 * sign - 1) if bits & sign else bits ^ sign
        return ordered.to_bytes(size)
    if pa.types.is_unsigned_integer(kind):
        return int(value).to_bytes(size)
    return (int(value) + (1 << (8 * size - 1))).to_bytes(size)
