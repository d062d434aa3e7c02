"""Second step, second half: rows in order become the segments of a range, one per partition.

Segments are written under names of the attempt, so that a task that is killed, repeated or run
twice at once disturbs nobody; the driver adopts those whose attempt it heard from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import TracebackType

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from streammine.model.epoch_log import BATCH_ROWS, epoch_metadata, log_schema
from streammine.pipeline.cells import CellRun
from streammine.pipeline.storage import Folder, HashedFile

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class WrittenSegment:
    """A segment under its attempt's name."""

    partition: int
    name: str
    rows: int
    bytes: int
    batches: int
    first_epoch: int
    last_epoch: int
    digest: str


class SegmentWriter:
    """Writes rows that come cell by cell; a batch is full at BATCH_ROWS rows or where its cell
    ends."""

    def __init__(self, folder: Folder, prefix: str, columns: pa.Schema) -> None:
        self._folder = folder
        self._prefix = prefix
        self._schema = log_schema(columns)
        self._open: dict[int, _OpenSegment] = {}
        self._cell: tuple[int, int] | None = None
        self._pieces: list[pa.Table] = []
        self._rows = 0
        self._counts: list[tuple[int, int, int]] = []

    def add(self, run: CellRun, rows: pa.Table) -> None:
        """Rows of a cell, in order; cells come in the order of epoch and partition."""
        cell = (run.epoch, run.partition)
        if cell != self._cell:
            assert self._cell is None or self._cell < cell, "cells come in order"
            self._flush()
            self._cell = cell
        start = 0
        while start < rows.num_rows:
            piece = rows.slice(start, BATCH_ROWS - self._rows)
            self._pieces.append(piece)
            self._rows += piece.num_rows
            start += piece.num_rows
            if self._rows == BATCH_ROWS:
                self._flush()

    def close(self) -> tuple[list[WrittenSegment], IntArray]:
        """The segments by partition, and a matrix (int64) of (epoch, partition, rows) of the
        cells."""
        self._flush()
        segments = [self._open[partition].finish() for partition in sorted(self._open)]
        self._open = {}
        return segments, np.array(self._counts, dtype=np.int64).reshape(-1, 3)

    def __enter__(self) -> SegmentWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for segment in self._open.values():
            segment.file.close()

    def _flush(self) -> None:
        if not self._pieces:
            return
        assert self._cell is not None
        epoch, partition = self._cell
        segment = self._open.get(partition)
        if segment is None:
            name = f"{self._prefix}-{partition:05d}.arrow"
            file = self._folder.create(name, xxhash.xxh3_128())
            segment = _OpenSegment(partition, name, file, self._schema)
            self._open[partition] = segment
        table = pa.concat_tables(self._pieces)
        self._pieces = []
        self._rows = 0
        self._counts.append((epoch, partition, table.num_rows))
        for batch in canonical_batches(table, self._schema):
            segment.write(batch, epoch)


@dataclass
class _OpenSegment:
    """A segment that is being written."""

    partition: int
    name: str
    file: HashedFile
    schema: pa.Schema
    rows: int = 0
    batches: int = 0
    epochs: tuple[int, int] | None = None
    _writer: pa.RecordBatchFileWriter = field(init=False)

    def __post_init__(self) -> None:
        # Zeroed padding and no compression: the bytes are a function of the rows.
        self._sink = pa.PythonFile(self.file, mode="w")
        self._writer = pa.ipc.new_file(self._sink, self.schema)

    def write(self, batch: pa.RecordBatch, epoch: int) -> None:
        self._writer.write_batch(batch, custom_metadata=epoch_metadata(epoch))
        self.rows += batch.num_rows
        self.batches += 1
        self.epochs = (self.epochs[0] if self.epochs else epoch, epoch)

    def finish(self) -> WrittenSegment:
        assert self.epochs is not None
        self._writer.close()
        self._sink.flush()
        self.file.close()
        return WrittenSegment(
            self.partition,
            self.name,
            self.rows,
            self.file.bytes,
            self.batches,
            *self.epochs,
            self.file.hexdigest(),
        )


def canonical_batches(table: pa.Table, schema: pa.Schema) -> list[pa.RecordBatch]:
    """The table's rows in one batch (more only where a column outgrows 2 GiB), in canonical bytes.

    Equal rows give equal buffers: nothing that lies under a null, behind the last row or before an
    offset is kept.
    """
    batches = table.select(schema.names).combine_chunks().to_batches()
    return [
        pa.RecordBatch.from_arrays([_canonical(column) for column in batch.columns], schema=schema)
        for batch in batches
    ]


def _canonical(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_boolean(kind):
        values = _bits(pc.fill_null(array, False))
        return pa.Array.from_buffers(kind, len(array), [_validity(array), values])
    fixed_width = (
        pa.types.is_primitive(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_fixed_size_binary(kind)
    )
    if array.null_count == 0 or not fixed_width:
        return array
    width = kind.bit_width // 8
    start = array.offset * width
    data = np.frombuffer(array.buffers()[1], np.uint8)[start : start + len(array) * width]
    values = data.reshape(len(array), width).copy()
    values[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return pa.Array.from_buffers(kind, len(array), [_validity(array), pa.py_buffer(values)])


def _validity(array: pa.Array) -> pa.Buffer | None:
    return _bits(array.is_valid()) if array.null_count else None


def _bits(flags: pa.BooleanArray) -> pa.Buffer:
    packed = np.packbits(flags.to_numpy(zero_copy_only=False), bitorder="little")
    return pa.py_buffer(packed)
