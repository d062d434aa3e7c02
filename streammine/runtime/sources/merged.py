"""Files interleaved by a column, for count epochs: rows are numbered in the merged order.

Of all files' next rows the one with the smallest value comes first, ties by file. A row that is out
of order in its file, or dead, comes right behind the row before it: as if the column held its
running maximum. Rows are merged in batches: what is not above the lowest value that all files were
read to can leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from streammine.model.contracts import DeadRows, IntArray
from streammine.model.epochs import BEGINNING, EpochDefinition
from streammine.model.source_order import merge_keys, running_maximum
from streammine.runtime.sources.runs import RowRun
from streammine.runtime.sources.several_files import FileStream
from streammine.runtime.sources.usable import joined_dead


@dataclass
class _Head:
    """What was read of a file and has not left. `keys`, `rows` and `places` (int64) are about its
    raw rows from `at` on; a row's place is its index in `batch`, or -1 for a dead one."""

    stream: FileStream
    batch: pa.RecordBatch
    keys: IntArray
    rows: IntArray
    places: IntArray
    at: int = 0

    @property
    def bound(self) -> tuple[int, int]:
        """(key, file) that no row still to be read from the file comes before."""
        return int(self.keys[-1]), self.stream.file


class MergedFiles:
    """The one reader of files interleaved by the column `merge_by`."""

    def __init__(
        self,
        files: Sequence[FileStream],
        definition: EpochDefinition,
        merge_by: str,
        total_rows: int | None = None,
    ) -> None:
        assert definition.kind == "count"
        self._unread = list(files)
        self._heads: list[_Head] = []
        self._definition = definition
        self._merge_by = merge_by
        self._first_number = 0
        self._dead: DeadRows | None = None
        self._schema: pa.Schema | None = None
        self._total_rows = total_rows

    @property
    def total_rows(self) -> int | None:
        return self._total_rows

    def next_run(self) -> RowRun | None:
        while self._unread:
            self._read_on(len(self._heads), self._unread.pop(0), BEGINNING)
        for place in reversed(range(len(self._heads))):
            head = self._heads[place]
            if head.at == len(head.keys):
                self._heads.pop(place)
                self._read_on(place, head.stream, int(head.keys[-1]))
        if not self._heads:
            if self._dead is None:
                return None
            assert self._schema is not None
            return self._run(pa.RecordBatch.from_pylist([], schema=self._schema), *_nothing())
        return self._merge()

    def _read_on(self, place: int, stream: FileStream, highest: int) -> None:
        """Hold the next rows of a file, of which there may be none."""
        while True:
            first = stream.rows_read
            run = stream.next_run()
            if run is None:
                return
            self._schema = run.batch.schema
            if run.dead is not None:
                self._dead = joined_dead(self._dead, run.dead)
            if stream.rows_read > first:
                break
        good = run.row_array
        rows = np.arange(first, stream.rows_read, dtype=np.int64)
        places = np.full(len(rows), -1, dtype=np.int64)
        places[good - first] = np.arange(len(good))
        keys = np.zeros(len(rows), dtype=np.int64)
        keys[good - first] = merge_keys(run.batch.column(self._merge_by))[0]
        keys = running_maximum(keys, places >= 0, highest)
        self._heads.insert(place, _Head(stream, run.batch, keys, rows, places))

    def _merge(self) -> RowRun:
        key, file = min(head.bound for head in self._heads)
        batches: list[pa.RecordBatch] = []
        parts: list[tuple[IntArray, IntArray, IntArray, IntArray]] = []
        taken = 0
        for head in self._heads:
            side: Literal["left", "right"] = "right" if head.stream.file <= file else "left"
            stop = head.at + int(np.searchsorted(head.keys[head.at :], key, side))
            places = head.places[head.at : stop]
            alive = places >= 0
            if bool(alive.any()):
                first, last = int(places[alive][0]), int(places[alive][-1])
                batches.append(head.batch.slice(first, last + 1 - first))
                places = np.where(alive, places - first + taken, -1)
                taken += last + 1 - first
            files = np.full(len(places), head.stream.file, dtype=np.int64)
            parts.append((head.keys[head.at : stop], files, head.rows[head.at : stop], places))
            head.at = stop
        keys, files, rows, places = (np.concatenate(column) for column in zip(*parts, strict=True))
        # Heads stand in file order and rows in theirs, so a stable sort leaves ties by position.
        order = np.argsort(keys, kind="stable")
        schema = self._heads[0].batch.schema
        table = pa.Table.from_batches(batches, schema).combine_chunks()
        places = places[order]
        alive = places >= 0
        batch = _single(table.take(pa.array(places[alive])), schema)
        numbers = self._first_number + np.flatnonzero(alive)
        self._first_number += len(places)
        return self._run(batch, files[order][alive], rows[order][alive], numbers)

    def _run(
        self, batch: pa.RecordBatch, files: IntArray, rows: IntArray, numbers: IntArray
    ) -> RowRun:
        dead, self._dead = self._dead, None
        return RowRun(
            batch,
            self._definition.lowest_open(self._first_number),
            dead,
            files=files.astype(np.int32),
            rows=rows,
            numbers=numbers,
        )

    def close(self) -> None:
        for stream in (*self._unread, *(head.stream for head in self._heads)):
            stream.close()


def _nothing() -> tuple[IntArray, IntArray, IntArray]:
    empty = np.empty(0, np.int64)
    return empty, empty, empty


def _single(table: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=schema)
