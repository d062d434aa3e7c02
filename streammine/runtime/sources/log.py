"""An epoch log as a source: slices share its partitions, each reading its own in step by epoch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import pyarrow as pa

from streammine.model.contracts import DeadRows, IntArray
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
from streammine.model.source_order import usable_event_times
from streammine.runtime.sources.files import OpenFile, read_whole
from streammine.runtime.sources.runs import RowRun

_DEAD_ROWS = 1000
"""Dead letters that are handed on at once."""


def read_manifest(folder: str) -> Manifest:
    """The manifest of the log in a folder. Raises InputError when there is none or it is
    damaged."""
    return Manifest.decode(read_whole(f"{folder}/{MANIFEST_NAME}").to_pybytes(), folder)


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
        letters = _dead_letters(folder) if slice_index == 0 and manifest.rows_dead else iter(())
        self._dead = letters

    @property
    def total_rows(self) -> int | None:
        return self._total_rows

    def next_run(self) -> RowRun | None:
        dead = next(self._dead, None)
        if dead is not None:
            return RowRun(pa.RecordBatch.from_pylist([], schema=pa.schema([])), BEGINNING, dead)
        self._partitions = [each for each in self._partitions if each.next_epoch != INFINITY]
        if not self._partitions:
            return None
        partition = min(self._partitions, key=lambda each: (each.next_epoch, each.number))
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
            min(each.next_epoch for each in self._partitions),
            number=number,
            files=batch.column(FILE_COLUMN).to_numpy(),
            rows=batch.column(ROW_COLUMN).to_numpy(),
            times=times,
            epoch=epoch,
        )

    def close(self) -> None:
        self._partitions = []
        self._dead = iter(())


class _PartitionBatches:
    """The batches of one partition, in order. `next_epoch` is that of the next one, or INFINITY."""

    def __init__(
        self, folder: str, number: int, partition: Partition, columns: Sequence[str]
    ) -> None:
        self.number = number
        self._folder = folder
        self._columns = columns
        self._segments = list(partition.segments)
        self._reader: SegmentReader | None = None
        self._index = 0
        self._next: tuple[int, pa.RecordBatch] | None = None
        self._rows_of_epoch = 0
        self.next_epoch = self._segments[0].first_epoch if self._segments else INFINITY

    def take(self) -> tuple[int, int, pa.RecordBatch]:
        """(epoch, number of the batch's first row in the partition's run of that epoch, batch)."""
        if self._next is None:
            self._next = self._read()
        assert self._next is not None, "`next_epoch` was not INFINITY"
        epoch, batch = self._next
        first = self._rows_of_epoch
        self._next = self._read()
        self.next_epoch = INFINITY if self._next is None else self._next[0]
        self._rows_of_epoch = first + batch.num_rows if self.next_epoch == epoch else 0
        return epoch, first, batch

    def _read(self) -> tuple[int, pa.RecordBatch] | None:
        while self._reader is None or self._index == self._reader.batches:
            if not self._segments:
                return None
            name = f"{self._folder}/{self._segments.pop(0).name}"
            self._reader = SegmentReader(read_whole(name), name, self._columns)
            self._index = 0
        self._index += 1
        return self._reader.read(self._index - 1)


def _first_rows(folder: str, partitions: int) -> dict[int, list[int]]:
    """For each epoch, the number of the first row of each partition's run, in the log's order."""
    name = f"{folder}/{EPOCHS_NAME}"
    try:
        with pa.ipc.open_file(pa.BufferReader(read_whole(name))) as reader:
            table = reader.read_all()
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{name} is damaged: {error}; prepare the log anew") from error
    epochs = table.column("epoch").to_pylist()
    counts = table.column("rows").combine_chunks().flatten().to_numpy()
    firsts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)[:-1]])
    return dict(zip(epochs, firsts.reshape(-1, partitions).tolist(), strict=True))


def _dead_letters(folder: str) -> Iterator[DeadRows]:
    """The rows that `prepare` could not use, in portions."""
    name = f"{folder}/{DEAD_LETTERS_NAME}"
    file = OpenFile(name)
    try:
        lines = _lines(file)
        while portion := list(islice(lines, _DEAD_ROWS)):
            try:
                letters = [json.loads(line) for line in portion]
                yield DeadRows(
                    reasons=tuple(letter["reason"] for letter in letters),
                    rows=tuple(letter["text"] for letter in letters),
                    files=tuple(letter["file"] for letter in letters),
                    numbers=tuple(letter["row"] for letter in letters),
                )
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(f"{name} is damaged: {error}; prepare the log anew") from error
    finally:
        file.close()


def _lines(file: OpenFile) -> Iterator[bytes]:
    pending = b""
    while data := file.read(2**20):
        *lines, pending = (pending + data).split(b"\n")
        yield from lines
    if pending:
        yield pending
