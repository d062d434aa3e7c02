"""Arrow batches as Polars frames and back, in the types that batches carry."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

_ONE_ROW = pl.DataFrame({"": [0]})


def rows_of(batch: pa.RecordBatch, names: Sequence[str]) -> pl.DataFrame:
    """These columns for Polars; one row twice, since a column of one row is a single value, with which Polars
    computes otherwise: -x is -0.0 or 0.0."""
    if not names:
        return _ONE_ROW
    read = batch.select(names)
    return _frame(pa.concat_batches([read, read]) if batch.num_rows == 1 else read)


def null_rows(schema: pa.Schema) -> pl.DataFrame:
    """Three rows of nothing but nulls; where there are no columns, one row."""
    nulls = [pa.nulls(3, field.type) for field in schema]
    return _frame(pa.record_batch(nulls, schema=schema)) if nulls else _ONE_ROW


def _frame(batch: pa.RecordBatch) -> pl.DataFrame:
    """The batch for Polars, integers below 64 bits widened so that they do not wrap around; fixed-width
    columns of 64 bits are not copied."""
    frame = pl.from_arrow(batch)
    assert isinstance(frame, pl.DataFrame)
    narrow = [
        name
        for name, dtype in frame.schema.items()
        if dtype.is_integer() and dtype not in (pl.Int64, pl.UInt64)
    ]
    return frame.with_columns(pl.col(narrow).cast(pl.Int64)) if narrow else frame


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
