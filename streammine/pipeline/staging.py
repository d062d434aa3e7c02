"""First step: raw rows, parsed once, into sorted chunks on shared storage.

A task reads its units and writes what it got as one Arrow file of *chunks*: record batches of at
most CHUNK_ROWS rows, each sorted, with its first and last sort key in an index that goes to the
driver. Chunks that were cut from one sorted run do not overlap; those of different runs may. So the
second step can merge them, reading each chunk once and holding few at a time, and nothing is parsed
twice.

Where epochs count rows, dead rows are staged, too, as rows of nulls with a mark: they have a place
in the order and so a number.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from streammine.model.contracts import DeadRows
from streammine.model.epochs import BEGINNING
from streammine.model.ids import FILE_COLUMN, ROW_COLUMN
from streammine.model.preparation import PrepareRequest
from streammine.model.readable_rows import readable_rows
from streammine.model.source_order import reached_at
from streammine.pipeline.ordering import SortKeys, event_times, merge_keys, running_maximum
from streammine.pipeline.raw_files import Block, Unit, blocks_of
from streammine.pipeline.storage import Folder, HashedFile

CHUNK_ROWS = 16_384
CHUNK_BYTES = 4 * 2**20
RUN_BYTES = 64 * 2**20
"""A task sorts this much at once."""

KEY_COLUMN = "__key"
DEAD_COLUMN = "__dead"
CHUNK_FIELDS = 8
"""Of a chunk in the index: batch number, rows, first sort key (3), last sort key (3)."""

IntArray = npt.NDArray[np.int64]


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema without metadata, which files of one source need not share."""
    return pa.schema([pa.field(each.name, each.type, each.nullable) for each in schema])


def staged_schema(columns: pa.Schema) -> pa.Schema:
    """Columns of a chunk."""
    return pa.schema(
        [
            *(each.with_nullable(True) for each in columns),
            pa.field(KEY_COLUMN, pa.int64()),
            pa.field(FILE_COLUMN, pa.int32()),
            pa.field(ROW_COLUMN, pa.int64()),
            pa.field(DEAD_COLUMN, pa.bool_()),
        ]
    )


def sort_keys(batch: pa.RecordBatch | pa.Table) -> SortKeys:
    """The sort keys of staged rows."""
    key, file, row = (
        batch.column(name).to_numpy() if isinstance(batch, pa.Table) else _numpy(batch, name)
        for name in (KEY_COLUMN, FILE_COLUMN, ROW_COLUMN)
    )
    return SortKeys(key, file.astype(np.int64), row)


def _numpy(batch: pa.RecordBatch, name: str) -> IntArray:
    values: IntArray = batch.column(name).to_numpy(zero_copy_only=True)
    return values


@dataclass
class UnitCount:
    """Rows of a unit, and for time epochs its first and latest usable time (microseconds)."""

    read: int = 0
    dead: int = 0
    first: int = BEGINNING
    latest: int = BEGINNING


@dataclass
class Staged:
    """What a task staged. `chunks` is an int64 matrix of CHUNK_FIELDS columns.

    `epochs` and `rows` (int64) count the usable rows per time epoch; both are empty for count
    epochs. `reached` (int64, time epochs only): for each dead row the latest usable time before it in
    its unit, or BEGINNING.
    """

    counts: list[UnitCount] = field(default_factory=list)
    chunks: IntArray = field(default_factory=lambda: np.zeros((0, CHUNK_FIELDS), np.int64))
    epochs: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    rows: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    reached: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))


def stage(
    units: tuple[Unit, ...], request: PrepareRequest, folder: Folder, name: str, dead_name: str
) -> Staged:
    """Read the units; write chunks to `name` and dead letters, in order, to `dead_name`.

    Raises InputError when a unit can't be read and OSError when the folder can't be written.
    """
    staged = Staged()
    with (
        folder.create(name, xxhash.xxh3_64()) as file,
        folder.create(dead_name, xxhash.xxh3_64()) as dead_file,
    ):
        writer = _ChunkWriter(file, request)
        reached = [staged.reached]
        for unit in units:
            count = UnitCount()
            staged.counts.append(count)
            for batch in _staged_batches(unit, request, count, dead_file, reached):
                writer.add(batch)
        writer.close()
    staged.reached = np.concatenate(reached)
    staged.chunks = writer.index()
    staged.epochs, staged.rows = writer.histogram()
    return staged


def _staged_batches(
    unit: Unit,
    request: PrepareRequest,
    count: UnitCount,
    dead_file: HashedFile,
    reached: list[IntArray],
) -> Iterator[pa.RecordBatch]:
    """The unit's rows in their order, with hidden columns; its dead letters go to `dead_file`, and
    the times before them to `reached`."""
    highest = BEGINNING
    columns = plain_schema(request.schema)
    for block in blocks_of(unit, request.format, columns):
        numbers = block.rows - count.read
        key, usable = _keys(block, request)
        dead = _all_dead(block, usable, unit, request)
        _write_dead(dead_file, dead, unit)
        if request.epoch.kind == "count":
            # Where each raw row of the block stands among its good ones, or -1.
            indices = np.full(block.raw_rows, -1, dtype=np.int64)
            indices[numbers[usable]] = np.flatnonzero(usable)
            numbers = np.arange(block.raw_rows, dtype=np.int64)
            alive = indices >= 0
            if request.merge_by is not None and block.raw_rows:
                spread = key[indices] if len(key) else np.zeros(block.raw_rows, np.int64)
                key = running_maximum(spread, alive, highest)
                highest = int(key[-1])
            else:
                key = np.zeros(block.raw_rows, dtype=np.int64)
        else:
            reached.append(_reached(block, key, usable, dead, count))
            indices = np.flatnonzero(usable)
            numbers, key = numbers[indices], key[indices]
            alive = np.ones(len(indices), dtype=np.bool_)
        rows = numbers + (unit.first_row + count.read)
        count.read += block.raw_rows
        count.dead += len(dead)
        if len(rows):
            yield _with_hidden(_taken(block.batch, indices, alive), key, unit.file, rows, ~alive)


def _reached(
    block: Block,
    times: IntArray,
    usable: npt.NDArray[np.bool_],
    dead: list[tuple[int, str, str]],
    count: UnitCount,
) -> IntArray:
    """The latest usable time of the unit up to each of the block's dead rows; `count` goes on."""
    numbers = np.array([number for number, _, _ in dead], dtype=np.int64)
    before = count.latest
    highest = running_maximum(times, usable, before)
    if bool(usable.any()):
        if count.first == BEGINNING:
            count.first = int(times[usable][0])
        count.latest = int(highest[-1])
    return reached_at(numbers, block.rows, highest, before)


def _keys(block: Block, request: PrepareRequest) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Keys of the block's good rows (event times, values to merge by, or none), and which are
    usable."""
    if request.epoch.kind == "time":
        assert request.epoch.column is not None
        return event_times(block.batch.column(request.epoch.column), request.epoch.unit)
    if request.merge_by is not None:
        return merge_keys(block.batch.column(request.merge_by), request.merge_by)
    rows = block.batch.num_rows
    return np.zeros(rows, dtype=np.int64), np.ones(rows, dtype=np.bool_)


def _taken(
    batch: pa.RecordBatch, indices: IntArray, alive: npt.NDArray[np.bool_]
) -> pa.RecordBatch:
    """Rows by index, of nulls where they are not alive."""
    if len(indices) == batch.num_rows and bool(alive.all()):
        return batch
    return batch.take(pa.array(indices, mask=~alive))


def _with_hidden(
    batch: pa.RecordBatch,
    key: IntArray,
    file: int,
    rows: IntArray,
    dead: npt.NDArray[np.bool_],
) -> pa.RecordBatch:
    hidden = [key, np.full(len(rows), file, dtype=np.int32), rows, dead]
    arrays = [*batch.columns, *(pa.array(each) for each in hidden)]
    return pa.RecordBatch.from_arrays(arrays, schema=staged_schema(batch.schema))


def _all_dead(
    block: Block, usable: npt.NDArray[np.bool_], unit: Unit, request: PrepareRequest
) -> list[tuple[int, str, str]]:
    """(number in the unit, reason, text) of the block's dead rows, by number."""
    found: list[tuple[int, str, str]] = []
    if block.dead is not None:
        found.extend(_parsed_dead(block.dead))
    unusable = np.flatnonzero(~usable)
    if len(unusable):
        column = request.epoch.column if request.epoch.kind == "time" else request.merge_by
        assert column is not None, "what orders the rows decides which can be used"
        role = "event time" if request.epoch.kind == "time" else "merge_by"
        for index, row in zip(
            unusable.tolist(), readable_rows(block.batch.take(pa.array(unusable))), strict=True
        ):
            value = row[column]
            why = "is missing" if value is None else f"is {value}, which can't be used"
            text = json.dumps(row, default=str, ensure_ascii=False)
            found.append((int(block.rows[index]), f"{role} column '{column}' {why}", text))
    return sorted(found)


def _parsed_dead(dead: DeadRows) -> Iterator[tuple[int, str, str]]:
    for number, reason, text in zip(dead.numbers, dead.reasons, dead.rows, strict=True):
        assert number is not None, "the parser numbers the rows of a file"
        yield number, reason, text


def _write_dead(file: HashedFile, dead: list[tuple[int, str, str]], unit: Unit) -> None:
    for number, reason, text in dead:
        row = number + unit.first_row
        letter = {"file": unit.path, "row": row, "reason": reason, "text": text}
        file.write((json.dumps(letter, ensure_ascii=False) + "\n").encode("utf-8", "replace"))


class _ChunkWriter:
    """Gathers runs, sorts them and writes them as chunks."""

    def __init__(self, file: HashedFile, request: PrepareRequest) -> None:
        self._request = request
        self._definition = request.epoch.definition
        self._schema = staged_schema(plain_schema(request.schema))
        self._sink = pa.PythonFile(file, mode="w")
        self._writer = pa.ipc.new_file(self._sink, self._schema)
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._index: list[tuple[int, ...]] = []
        self._epochs: dict[int, int] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        self._pending.append(batch)
        self._pending_bytes += batch.nbytes
        if self._pending_bytes >= RUN_BYTES:
            self._write_run()

    def close(self) -> None:
        self._write_run()
        self._writer.close()
        self._sink.flush()

    def index(self) -> IntArray:
        return np.array(self._index, dtype=np.int64).reshape(-1, CHUNK_FIELDS)

    def histogram(self) -> tuple[IntArray, IntArray]:
        """Usable rows per time epoch, epochs ascending."""
        epochs = sorted(self._epochs)
        rows = [self._epochs[epoch] for epoch in epochs]
        return np.array(epochs, dtype=np.int64), np.array(rows, dtype=np.int64)

    def _write_run(self) -> None:
        if not self._pending:
            return
        table = pa.Table.from_batches(self._pending, self._schema)
        self._pending = []
        self._pending_bytes = 0
        if self._definition.kind == "time":
            table = self._in_epochs(table)
        keys = sort_keys(table)
        order = keys.order()
        if order is not None:
            table = table.take(pa.array(order))
        row_bytes = max(1, table.nbytes // table.num_rows)
        rows = max(1, min(CHUNK_ROWS, CHUNK_BYTES // row_bytes))
        for start in range(0, table.num_rows, rows):
            self._write_chunk(table.slice(start, rows))

    def _in_epochs(self, table: pa.Table) -> pa.Table:
        """Count the epochs' rows; where rows need no sorting by time, epochs become their keys."""
        epochs = self._definition.of_time(table.column(KEY_COLUMN).to_numpy())
        for epoch, rows in zip(
            *(part.tolist() for part in np.unique(epochs, return_counts=True)), strict=True
        ):
            self._epochs[epoch] = self._epochs.get(epoch, 0) + rows
        if self._request.sort:
            return table
        return table.set_column(table.schema.get_field_index(KEY_COLUMN), KEY_COLUMN, [epochs])

    def _write_chunk(self, table: pa.Table) -> None:
        for batch in table.combine_chunks().to_batches():
            keys = sort_keys(batch)
            bounds = (*keys.at(0), *keys.at(len(keys) - 1))
            self._index.append((len(self._index), batch.num_rows, *bounds))
            self._writer.write_batch(batch)
