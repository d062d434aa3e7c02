"""Texts into typed columns, where a file format has no conversion of its own that fits.

Times are written with or without a zone offset; without one they are UTC. Whether a text can be
converted depends on nothing but itself.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

_ZONE_PATTERN = r"[T ]\d.*(Z|[+-]\d\d(:?\d\d)?)$"


def is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind))


def to_timestamps(texts: pa.Array, kind: pa.TimestampType) -> pa.Array:
    """ISO 8601 texts (string, nulls allowed) as timestamps. Raises ArrowInvalid for any other."""
    plain = pa.timestamp(kind.unit)
    try:
        times = pc.cast(texts, plain)
    except pa.ArrowInvalid:
        texts = pc.utf8_trim_whitespace(texts)
        zoned = pc.match_substring_regex(texts, _ZONE_PATTERN)
        nothing = pa.scalar(None, pa.string())
        absolute = pc.cast(pc.if_else(zoned, texts, nothing), pa.timestamp(kind.unit, "UTC"))
        local = pc.cast(pc.if_else(zoned, nothing, texts), plain)
        times = pc.coalesce(absolute.cast(pa.int64()), local.cast(pa.int64()))
    return times.cast(pa.int64()).cast(kind)


def from_texts(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Texts (string, nulls allowed) as `kind`; like `to_timestamps` for times. Raises
    ArrowInvalid."""
    if is_time(kind):
        return to_timestamps(texts, kind)
    return pc.cast(texts, kind)


def csv_cells(cells: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cells of a CSV column (binary, no nulls) as `kind`, as the whole-block conversion does it.

    Raises ArrowInvalid when one of them has no such value.
    """
    if is_time(kind):
        return to_timestamps(pc.cast(cells, pa.string()), kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pc.cast(cells, kind)
    quoted = (b'"' + cell.replace(b'"', b'""') + b'"\n' for cell in cells.to_pylist())
    data = b"".join(quoted)
    table = arrow_csv.read_csv(
        pa.py_buffer(data),
        arrow_csv.ReadOptions(use_threads=False, column_names=["cell"], block_size=len(data) + 1),
        arrow_csv.ParseOptions(newlines_in_values=True),
        arrow_csv.ConvertOptions(column_types={"cell": kind}, null_values=[]),
    )
    numbers = table.column(0).combine_chunks()
    if pa.types.is_signed_integer(kind):
        refuse_wrapped(cells, numbers)
    return numbers


def refuse_wrapped(cells: pa.Array, numbers: pa.Array) -> None:
    """Raise ArrowInvalid where a hexadecimal number of these cells (binary) became a negative one: Arrow
    takes its digits for the bits of the integer, so that 0x80 would be -128 as an int8."""
    negative = cells.filter(pc.less(numbers, 0))
    if pc.any(pc.match_substring_regex(negative, r"^\s*0[xX]")).as_py():
        raise pa.ArrowInvalid("a hexadecimal number does not fit its column")


_INTEGER_PATTERN = r"^\s*[+-]?(0[xX][0-9a-fA-F]+|[0-9]+)\s*$"
_FLOAT_PATTERN = (
    r"^\s*[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]*)?|(?i:nan(\(.*\))?|inf(inity)?))\s*$"
)


def surely_refused(cells: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Which cells (string) do not even look like values of a number type; None: can't be told.

    Cheaper than trying; whatever the conversion takes looks so, but not the other way round.
    """
    if pa.types.is_integer(kind):
        return pc.invert(pc.match_substring_regex(cells, _INTEGER_PATTERN))
    if pa.types.is_floating(kind):
        return pc.invert(pc.match_substring_regex(cells, _FLOAT_PATTERN))
    return None
