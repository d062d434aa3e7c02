"""Raw files: which tasks read which of them, and the blocks of rows that come out.

A *unit* is what one task reads in one go: a file, or a stretch of one that can be entered midway.
Files are split only where that is exact: uncompressed text and JSON lines at line ends, Parquet at
row groups. A compressed file or a CSV file (whose quoted values may hold line ends) is one unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from streammine.model.contracts import DeadRows
from streammine.model.errors import InputError
from streammine.model.formats import RawFormat, parse
from streammine.model.locations import without_options
from streammine.model.preparation import FormatSettings, PrepareRequest, RawFile
from streammine.pipeline.storage import file_system

BLOCK_BYTES = 4 * 2**20
"""Raw bytes that are parsed at once."""

TASK_BYTES = 32 * 2**20
"""Small files are read by one task until they reach this together."""

TASK_BYTES_LEAST = 2**20
"""The same for a small input, which would else keep only one core busy."""

TASK_FILES = 256
"""Most files of one task."""

SPLIT_BYTES = 128 * 2**20
"""Larger files are split where that is exact."""

_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
_PARQUET_BATCH_ROWS = 65_536


@dataclass(frozen=True)
class Unit:
    """A stretch of file number `file`: bytes [start, stop), or row groups of a Parquet file.

    Rows of a unit get provisional numbers from `first_row` on, which grow from unit to unit of a
    file; what they are to be corrected by is known when all units were read.
    """

    file: int
    path: str
    first_row: int = 0
    start: int = 0
    stop: int | None = None


@dataclass(frozen=True)
class Block:
    """Rows of a unit: the good ones with their numbers in the unit (int64), `raw_rows` of all, the
    dead."""

    batch: pa.RecordBatch
    rows: npt.NDArray[np.int64]
    raw_rows: int
    dead: DeadRows | None


def units_of(request: PrepareRequest) -> list[Unit]:
    """All units in the order of the rows. Raises InputError for a Parquet file that can't be
    read."""
    units: list[Unit] = []
    for number, file in enumerate(request.ordered_files):
        units.extend(_split(number, file, request))
    return units


def _split(number: int, file: RawFile, request: PrepareRequest) -> Iterator[Unit]:
    kind = request.format.kind
    if file.size_bytes <= SPLIT_BYTES or request.merge_by is not None:
        yield Unit(number, file.path)
    elif kind == "parquet":
        yield from _row_group_units(number, file.path)
    elif kind in ("text", "json") and _compression(file.path) is None:
        for start in range(0, file.size_bytes, SPLIT_BYTES):
            # Each row has at least one byte, so byte offsets are provisional row numbers that grow.
            yield Unit(number, file.path, start, start, min(start + SPLIT_BYTES, file.size_bytes))
    else:
        yield Unit(number, file.path)


def _row_group_units(number: int, path: str) -> Iterator[Unit]:
    with _parquet(path) as parquet:
        groups = [parquet.metadata.row_group(at) for at in range(parquet.metadata.num_row_groups)]
    first = 0
    rows = 0
    size = 0
    for at, group in enumerate(groups):
        size += group.total_byte_size
        if size >= SPLIT_BYTES or at == len(groups) - 1:
            yield Unit(number, path, rows, first, at + 1)
            rows += sum(each.num_rows for each in groups[first : at + 1])
            first = at + 1
            size = 0


def tasks_of(units: list[Unit], request: PrepareRequest) -> list[tuple[Unit, ...]]:
    """Units by task: neighbours together until they are worth one. Depends on the input alone."""
    files = request.ordered_files
    total_bytes = sum(file.size_bytes for file in files)
    wanted_bytes = min(TASK_BYTES, max(TASK_BYTES_LEAST, total_bytes // 16))
    tasks: list[tuple[Unit, ...]] = []
    open_units: list[Unit] = []
    size = 0
    for unit in units:
        open_units.append(unit)
        size += files[unit.file].size_bytes if unit.stop is None else SPLIT_BYTES
        if size >= wanted_bytes or len(open_units) == TASK_FILES:
            tasks.append(tuple(open_units))
            open_units = []
            size = 0
    if open_units:
        tasks.append(tuple(open_units))
    return tasks


def blocks_of(unit: Unit, settings: FormatSettings, schema: pa.Schema) -> Iterator[Block]:
    """The rows of a unit, block by block. Raises InputError naming the file and what was read of
    it."""
    if settings.kind == "parquet":
        yield from _parquet_blocks(unit, schema)
        return
    raw_format = RawFormat(
        kind=settings.kind,
        delimiter=settings.delimiter,
        header=settings.header,
        columns=settings.columns,
        quote=settings.quote,
        null_values=settings.null_values,
    )
    stream = _open(unit)
    with stream.source:
        for block in parse(stream, raw_format, schema, None, unit.path, BLOCK_BYTES):
            yield Block(block.batch, block.rows, block.raw_rows, block.dead)


def _compression(path: str) -> str | None:
    plain = without_options(path)[0].lower()
    return next((name for end, name in _COMPRESSIONS.items() if plain.endswith(end)), None)


def _open(unit: Unit) -> LineRange:
    try:
        system, path = file_system(unit.path)
        if unit.stop is None:
            source = system.open_input_stream(path, compression=_compression(path))
        else:
            source = system.open_input_file(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{unit.path}: can't be opened: {error}") from None
    return LineRange(source, unit.start, unit.stop)


class LineRange:
    """The lines of a file whose first byte lies in [start, stop); the whole file when stop is
    None."""

    def __init__(self, source: pa.NativeFile, start: int, stop: int | None) -> None:
        self.source = source
        self._at = start
        self._stop = stop
        self._skipping = start > 0
        self._over = False
        if self._skipping:
            # A line starts at `start` exactly when the byte before it ends one.
            self._at = start - 1
            source.seek(self._at)

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; b"" only at the end."""
        while not self._over:
            data: bytes = self.source.read(size)
            if self._stop is None:
                return data
            self._over = not data
            data = self._cut(data)
            if data:
                return data
        return b""

    def _cut(self, data: bytes) -> bytes:
        """What of the bytes at `_at` belongs to this range."""
        assert self._stop is not None
        begin = self._at
        self._at += len(data)
        drop = 0
        if self._skipping:
            found = data.find(b"\n")
            if found < 0:
                self._over = self._over or self._at >= self._stop
                return b""
            self._skipping = False
            drop = found + 1
            if begin + drop >= self._stop:
                self._over = True
                return b""
        if self._at >= self._stop:
            found = data.find(b"\n", max(drop, self._stop - 1 - begin))
            if found >= 0:
                self._over = True
                return data[drop : found + 1]
        return data[drop:]


def _parquet(path: str) -> pq.ParquetFile:
    try:
        system, inner = file_system(path)
        return pq.ParquetFile(system.open_input_file(inner))
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: can't be read as Parquet: {error}") from None


def _parquet_blocks(unit: Unit, schema: pa.Schema) -> Iterator[Block]:
    with _parquet(unit.path) as parquet:
        names = parquet.schema_arrow.names
        missing = [name for name in schema.names if name not in names]
        if missing:
            raise InputError(
                f"{unit.path}: has no column '{missing[0]}'; its columns are {', '.join(names)}"
            )
        groups = None if unit.stop is None else list(range(unit.start, unit.stop))
        batches = parquet.iter_batches(_PARQUET_BATCH_ROWS, groups, schema.names, use_threads=False)
        rows = 0
        while True:
            try:
                batch = next(batches, None)
            except (OSError, pa.ArrowException) as error:
                raise InputError(
                    f"{unit.path}: can't be read on after {rows:,} whole rows: {error}"
                ) from None
            if batch is None:
                return
            numbers = np.arange(rows, rows + batch.num_rows, dtype=np.int64)
            yield Block(_cast(batch, schema, unit.path), numbers, batch.num_rows, None)
            rows += batch.num_rows


def _cast(batch: pa.RecordBatch, schema: pa.Schema, path: str) -> pa.RecordBatch:
    columns = []
    for field in schema:
        column = batch.column(field.name)
        try:
            columns.append(column if column.type == field.type else pc.cast(column, field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputError(
                f"{path}: column '{field.name}' is {column.type} and can't be read as"
                f" {field.type}: {error}"
            ) from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)
