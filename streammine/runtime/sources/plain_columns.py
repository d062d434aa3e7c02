"""Columns of plain numbers out of Parquet, by Polars.

Polars decodes them with about a quarter less work than Arrow does, and hands them over as Arrow arrays
without a copy. Texts and everything else would have to be converted back, so they are left to Arrow.

Of rows that nobody may want, only one column is read at first: see `deferred_batches`.

Each read looks at the footer anew. Over a run of row groups that is little, but it would add up for a
file with very many of them, and so it would over tiny parts that are decoded later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from streammine.model.errors import InputError
from streammine.runtime.sources.deferred import DecodedLater, DeferredBatch, Demand

MOST_COLUMN_CHUNKS = 4_096
"""Files with more column chunks than that in their footer are not read this way."""


def are_plain(file: pq.ParquetFile, path: str, wanted: pa.Schema) -> bool:
    """Whether these columns of a file can be read by `plain_batches`, in the types of `wanted`."""
    metadata = file.metadata
    if "://" in path or metadata.num_row_groups * metadata.num_columns > MOST_COLUMN_CHUNKS:
        return False
    stored = file.schema_arrow
    return len(wanted) > 0 and all(
        stored.field(field.name).type == field.type
        and (
            pa.types.is_integer(field.type)
            or pa.types.is_float32(field.type)
            or pa.types.is_float64(field.type)
        )
        for field in wanted
    )


def plain_batches(
    path: str, row: int, rows: int, wanted: pa.Schema, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Rows [row, row + rows) of a local file in batches of up to `batch_rows`.

    Raises OSError when the file can't be read.
    """
    yield from _table(path, row, rows, wanted).to_batches(batch_rows)


def deferred_batches(
    path: str,
    row: int,
    parts: Sequence[int],
    wanted: pa.Schema,
    first_column: str,
    demand: Demand,
    batch_rows: int,
) -> Iterator[DeferredBatch]:
    """Rows from `row` on of a local file in batches of up to `batch_rows`. Of all of them `first_column`
    alone is decoded now; the others are, of as many rows at a time as `parts` say, once any of these are
    wanted.

    Raises OSError when the file can't be read, and who asks for a batch's rows gets an InputError.
    """
    others = pa.schema([field for field in wanted if field.name != first_column])
    only_first = pa.schema([wanted.field(first_column)])
    firsts = _table(path, row, sum(parts), only_first).combine_chunks()
    for rows in parts:
        ready = _whole(firsts.slice(0, rows))
        firsts = firsts.slice(rows)
        later = DecodedLater(ready, wanted, partial(_late, path, row, rows, others), demand)
        row += rows
        for start in range(0, rows, batch_rows):
            places = range(start, min(rows, start + batch_rows))
            yield DeferredBatch(later, wanted.names, places)


def _late(path: str, row: int, rows: int, wanted: pa.Schema) -> pa.RecordBatch:
    try:
        return _whole(_table(path, row, rows, wanted))
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: can't be read from row {row:,} on: {error}") from error


def _whole(table: pa.Table) -> pa.RecordBatch:
    """Numbers are never too long for one batch."""
    (batch,) = table.combine_chunks().to_batches()
    return batch


def _table(path: str, row: int, rows: int, wanted: pa.Schema) -> pa.Table:
    scan = pl.scan_parquet(path, glob=False, hive_partitioning=False, cache=False)
    try:
        frame = scan.select(wanted.names).slice(row, rows).collect()
    except pl.exceptions.PolarsError as error:
        raise OSError(str(error)) from error
    if frame.height != rows:
        raise OSError(
            f"{rows:,} rows were expected from row {row:,} on, {frame.height:,} are there"
        )
    return frame.to_arrow().cast(wanted)
