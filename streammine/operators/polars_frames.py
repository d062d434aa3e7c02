"""Arrow batches as Polars frames and back, in the types that batches carry."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc


def frame_of(rows: pa.RecordBatch | pa.Table) -> pl.DataFrame:
    """The rows for Polars; fixed-width columns are not copied."""
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    return frame


def plain_type(value_type: pa.DataType) -> pa.DataType:
    """The type with 32-bit offsets that batches carry, for what Polars gives."""
    if pa.types.is_large_string(value_type) or pa.types.is_string_view(value_type):
        return pa.string()
    if pa.types.is_large_binary(value_type) or pa.types.is_binary_view(value_type):
        return pa.binary()
    return value_type


def type_text(kind: pl.DataType) -> str:
    """What a type of Polars is called, for people."""
    try:
        return str(plain_type(pl.Series(dtype=kind).to_arrow().type))
    except pa.ArrowInvalid:
        # Arrow has no integers of 128 bits
        return str(kind).lower()


def without_minus_zero(array: pa.Array) -> pa.Array:
    """The values with 0.0 for -0.0."""
    if not pa.types.is_floating(array.type):
        return array
    return pc.add(array, pa.scalar(0.0, array.type))


def plain_array(series: pl.Series, value_type: pa.DataType) -> pa.Array:
    """The values as one Arrow array of exactly this type."""
    array = series.to_arrow(compat_level=pl.CompatLevel.oldest())
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    return array if array.type == value_type else pc.cast(array, value_type)
