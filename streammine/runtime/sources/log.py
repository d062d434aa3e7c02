"""An epoch log as a source: slices share its partitions, each reading its own in step by epoch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from streammine.model.contracts import DeadRows, IntArray, Position
from streammine.model.epoch_log import (
    DEAD_LETTERS_NAME,
    EPOCHS_NAME,
    MANIFEST_NAME,
    Manifest,
    Partition,
    SegmentReader,
)
from streammine.model.epochs import BEGINNING, INFINITY, EpochDefinition
from streammine.model.errors import InputError
from streammine.model.ids import FILE_COLUMN, ROW_COLUMN
from streammine.model.locations import below
from streammine.model.source_order import usable_event_times
from streammine.runtime.sources.due_epochs import DueEpochs, ListedEpochs
from streammine.runtime.sources.files import OpenFile, read_whole
from streammine.runtime.sources.runs import RowRun

_DEAD_ROWS = 1000
"""Dead letters that are handed on at once."""

_NOTHING = pa.RecordBatch.from_pylist([], schema=pa.schema([]))


def read_manifest(folder: str) -> Manifest:
    """The manifest of the log in a folder. Raises InputError when there is none or it is
    damaged."""
    return Manifest.decode(read_whole(below(folder, MANIFEST_NAME)).to_pybytes(), folder)


class LogRuns:
    """Partitions `slice_index`, `slice_index + slices`, … of a log; slice 0 has the dead letters
    too.

    `with_numbers`: rows get their numbers in the log's order, which a pace needs.
    """

    def __init__(
        self,
        folder: str,
        definition: EpochDefinition,
        columns: Sequence[str] | None,
        slice_index: int = 0,
        slices: int = 1,
        with_numbers: bool = False,
    ) -> None:
        manifest = read_manifest(folder)
        self._total_rows = manifest.rows_read
        self._rows_used = manifest.rows_used
        self._definition = definition
        self._visible = list(manifest.schema.names if columns is None else columns)
        self._first_rows = _first_rows(folder, len(manifest.partitions)) if with_numbers else None
        mine = range(slice_index, len(manifest.partitions), slices)
        # the event time is read even where no operator asks for it
        time = [] if definition.column in (None, *self._visible) else [definition.column]
        read = [*self._visible, *time]
        self._partitions = [
            _PartitionBatches(folder, number, manifest.partitions[number], read) for number in mine
        ]
        has_letters = slice_index == 0 and manifest.rows_dead > 0
        self._letters = _DeadLetters(folder) if has_letters else None

    @property
    def total_rows(self) -> int | None:
        return self._total_rows

    @property
    def due_epochs(self) -> DueEpochs | None:
        """Where the epochs begin in the log's order, if rows have numbers in it."""
        if self._first_rows is None:
            return None
        firsts = [numbers[0] for numbers in self._first_rows.values()]
        return ListedEpochs(firsts, list(self._first_rows), self._rows_used)

    def next_run(self) -> RowRun | None:
        partition = min(
            self._partitions, key=lambda each: (each.next_epoch, each.number), default=None
        )
        next_epoch = INFINITY if partition is None else partition.next_epoch
        if self._letters is not None and (taken := self._letters.take(next_epoch)) is not None:
            dead, epochs = taken
            return RowRun(_NOTHING, self._open_epoch(), dead, dead_epochs=epochs)
        if partition is None or next_epoch == INFINITY:
            return None
        epoch, first, batch = partition.take()
        times: IntArray | None = None
        if self._definition.kind == "time":
            column = batch.column(self._definition.column)
            times = usable_event_times(column, self._definition.unit)[0]
        number = 0
        if self._first_rows is not None:
            number = self._first_rows[epoch][partition.number] + first
        return RowRun(
            batch.select(self._visible),
            self._open_epoch(),
            number=number,
            files=batch.column(FILE_COLUMN).to_numpy(),
            rows=batch.column(ROW_COLUMN).to_numpy(),
            times=times,
            epoch=epoch,
        )

    def _open_epoch(self) -> int:
        lowest = INFINITY if self._letters is None else self._letters.next_epoch
        return min([lowest, *(each.next_epoch for each in self._partitions)])

    def position(self) -> Position:
        return {
            "partitions": [each.place for each in self._partitions],
            "letters": None if self._letters is None else self._letters.offset_bytes,
        }

    def seek(self, position: Position) -> None:
        for partition, place in zip(self._partitions, position["partitions"], strict=True):
            partition.seek(*place)
        if self._letters is not None:
            self._letters.seek(position["letters"])

    def close(self) -> None:
        self._partitions = []
        if self._letters is not None:
            self._letters.close()


class _PartitionBatches:
    """The batches of one partition, in order. `next_epoch` is that of the next one, or INFINITY."""

    def __init__(
        self, folder: str, number: int, partition: Partition, columns: Sequence[str]
    ) -> None:
        self.number = number
        self._folder = folder
        self._columns = columns
        self._segments = partition.segments
        self._segment = 0
        self._index = 0
        self._reader: SegmentReader | None = None
        self._next: tuple[int, pa.RecordBatch] | None = None
        self._rows_of_epoch = 0
        self.next_epoch = self._segments[0].first_epoch if self._segments else INFINITY

    @property
    def place(self) -> tuple[int, int, int]:
        """(segment, batch in it, first row in the run of its epoch) of the next batch."""
        index = self._index if self._next is None else self._index - 1
        return self._segment, index, self._rows_of_epoch

    def seek(self, segment: int, index: int, rows_of_epoch: int) -> None:
        self._segment, self._index, self._rows_of_epoch = segment, index, rows_of_epoch
        self._look_ahead()

    def take(self) -> tuple[int, int, pa.RecordBatch]:
        """(epoch, number of the batch's first row in the partition's run of that epoch, batch)."""
        if self._next is None:
            self._look_ahead()
        assert self._next is not None, "`next_epoch` was not INFINITY"
        epoch, batch = self._next
        first = self._rows_of_epoch
        self._look_ahead()
        self._rows_of_epoch = first + batch.num_rows if self.next_epoch == epoch else 0
        return epoch, first, batch

    def _look_ahead(self) -> None:
        self._next = self._read()
        self.next_epoch = INFINITY if self._next is None else self._next[0]

    def _read(self) -> tuple[int, pa.RecordBatch] | None:
        while self._segment < len(self._segments):
            if self._reader is None:
                name = below(self._folder, self._segments[self._segment].name)
                self._reader = SegmentReader(read_whole(name), name, self._columns)
            if self._index < self._reader.batches:
                self._index += 1
                return self._reader.read(self._index - 1)
            self._segment += 1
            self._index = 0
            self._reader = None
        return None


class _DeadLetters:
    """The rows that `prepare` could not use, by epoch. `next_epoch` is that of the next one, or
    INFINITY; `offset_bytes` is where it stands in the file."""

    def __init__(self, folder: str) -> None:
        self._name = below(folder, DEAD_LETTERS_NAME)
        self._file: OpenFile | None = None
        self._lines: Iterator[bytes] = iter(())
        self._next: dict[str, Any] | None = None
        self._next_bytes = 0
        self.next_epoch = BEGINNING
        self.offset_bytes = 0

    def seek(self, offset_bytes: int) -> None:
        self.offset_bytes = offset_bytes

    def take(self, most: int) -> tuple[DeadRows, IntArray] | None:
        """Up to _DEAD_ROWS letters of epochs up to `most`, and their epochs; None: there are none."""
        if self._file is None:
            self._file = OpenFile(self._name, self.offset_bytes)
            self._lines = _lines(self._file)
            self._look_ahead()
        taken: list[dict[str, Any]] = []
        while self._next is not None and self.next_epoch <= most and len(taken) < _DEAD_ROWS:
            taken.append(self._next)
            self.offset_bytes += self._next_bytes
            self._look_ahead()
        if not taken:
            return None
        dead = DeadRows(
            reasons=tuple(letter["reason"] for letter in taken),
            rows=tuple(letter["text"] for letter in taken),
            files=tuple(letter["file"] for letter in taken),
            numbers=tuple(letter["row"] for letter in taken),
        )
        return dead, np.array([letter["epoch"] for letter in taken], np.int64)

    def _look_ahead(self) -> None:
        line = next(self._lines, None)
        self._next = None
        self.next_epoch = INFINITY
        if line is None:
            return
        self._next_bytes = len(line) + 1
        try:
            letter = json.loads(line)
            self.next_epoch = int(letter["epoch"])
            self._next = {name: letter[name] for name in ("reason", "text", "file", "row", "epoch")}
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self._name} is damaged: {error}; prepare the log anew") from error

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._lines = iter(())


def _first_rows(folder: str, partitions: int) -> dict[int, list[int]]:
    """For each epoch, the number of the first row of each partition's run, in the log's order."""
    name = below(folder, EPOCHS_NAME)
    try:
        with pa.ipc.open_file(pa.BufferReader(read_whole(name))) as reader:
            table = reader.read_all()
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{name} is damaged: {error}; prepare the log anew") from error
    epochs = table.column("epoch").to_pylist()
    counts = table.column("rows").combine_chunks().flatten().to_numpy()
    firsts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)[:-1]])
    return dict(zip(epochs, firsts.reshape(-1, partitions).tolist(), strict=True))


def _lines(file: OpenFile) -> Iterator[bytes]:
    pending = b""
    while data := file.read(2**20):
        *lines, pending = (pending + data).split(b"\n")
        yield from lines
    if pending:
        yield pending
