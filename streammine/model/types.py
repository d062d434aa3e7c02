"""Column types: the names that topologies use for Arrow types.

=====================  =====================================================
name                   Arrow type
=====================  =====================================================
int8 … int64           signed integers
uint8 … uint64         unsigned integers
float32, float64       floating point
string, binary, bool   as they say
date                   date32: days
timestamp[us]          s, ms, us or ns; ``timestamp[us, UTC]`` with the zone
decimal(18, 4)         exact: precision 1 to 38, scale 0 to precision
=====================  =====================================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa

from streammine.model.suggestions import nearest

_PLAIN: dict[str, pa.DataType] = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "string": pa.string(),
    "bool": pa.bool_(),
    "date": pa.date32(),
    "binary": pa.binary(),
}
_OTHER_NAMES = {
    "int": "int64",
    "integer": "int64",
    "long": "int64",
    "bigint": "int64",
    "float": "float64",
    "double": "float64",
    "real": "float64",
    "str": "string",
    "text": "string",
    "varchar": "string",
    "utf8": "string",
    "boolean": "bool",
    "bytes": "binary",
    "date32": "date",
    "datetime": "timestamp[us]",
    "timestamp": "timestamp[us]",
    "decimal": "decimal(18, 4)",
}
_TIMESTAMP = re.compile(r"timestamp\[\s*(s|ms|us|ns)\s*(?:,\s*(?:tz\s*=\s*)?(UTC)\s*)?\]")
_DECIMAL = re.compile(r"decimal\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\)")

TYPE_NAMES = (*_PLAIN, "timestamp[s|ms|us|ns]", "timestamp[us, UTC]", "decimal(precision, scale)")
"""What may be written, for error messages and documentation."""

TYPE_PATTERN = (
    r"^(u?int(8|16|32|64)|float(32|64)|string|bool|date|binary"
    r"|timestamp\[\s*(s|ms|us|ns)\s*(,\s*(tz\s*=\s*)?UTC\s*)?\]"
    r"|decimal\(\s*[0-9]{1,2}\s*,\s*[0-9]{1,2}\s*\))$"
)
"""The same as a regular expression, for editors."""


def arrow_type(text: str) -> pa.DataType:
    """The Arrow type of that name. Raises ValueError, which lists what is right."""
    name = text.strip()
    if name in _PLAIN:
        return _PLAIN[name]
    found = _TIMESTAMP.fullmatch(name)
    if found is not None:
        return pa.timestamp(found[1], tz=found[2])
    found = _DECIMAL.fullmatch(name)
    if found is not None:
        precision, scale = int(found[1]), int(found[2])
        if not (1 <= precision <= 38 and scale <= precision):
            raise ValueError(
                f"{name} is no decimal: precision is 1 to 38 and scale 0 to the precision"
            )
        return pa.decimal128(precision, scale)
    other = _OTHER_NAMES.get(name.lower())
    hint = f"; write {other}." if other else _nearest_type(name)
    raise ValueError(f"'{name}' is no column type{hint} Types: {', '.join(TYPE_NAMES)}")


def _nearest_type(name: str) -> str:
    right = nearest(name, [*_PLAIN, *_OTHER_NAMES])
    return f"; did you mean '{_OTHER_NAMES.get(right, right)}'?" if right is not None else "."


def type_name(kind: pa.DataType) -> str:
    """The name of an Arrow type; `arrow_type` takes it back. Raises ValueError for other types."""
    for name, plain in _PLAIN.items():
        if kind == plain:
            return name
    if pa.types.is_large_string(kind):
        return "string"
    if pa.types.is_large_binary(kind):
        return "binary"
    if pa.types.is_timestamp(kind) and kind.tz in (None, "UTC"):
        return f"timestamp[{kind.unit}, UTC]" if kind.tz else f"timestamp[{kind.unit}]"
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    raise ValueError(f"columns of type {kind} can't be used. Types: {', '.join(TYPE_NAMES)}")


def arrow_schema(columns: Mapping[str, str]) -> pa.Schema:
    """Schema from column names and type names, in their order. Raises ValueError."""
    return pa.schema([pa.field(name, arrow_type(text)) for name, text in columns.items()])
