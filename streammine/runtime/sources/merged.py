"""Files interleaved by a column, for count epochs: rows are numbered in the merged order.

Of all files' next rows the one with the smallest value comes first, ties by file. A row that is out
of order in its file, or dead, comes right behind the row before it: as if the column held its
running maximum. Rows are merged in batches: what is not above the lowest value that all files were
read to can leave. Where a row stands in the merged order is also what it is ordered by: it has its number
there as its row in file 0, and only dead letters tell file and row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from streammine.model.contracts import DeadRows, IntArray, Position
from streammine.model.epochs import BEGINNING, EpochDefinition
from streammine.model.source_order import merge_keys, running_maximum
from streammine.runtime.sources.runs import RowRun
from streammine.runtime.sources.several_files import FileStream
from streammine.runtime.sources.usable import dead_between


@dataclass
class _Head:
    """What was read of file number `number` of the list and has not left.

    `keys`, `rows` and `places` (int64) are about its raw rows, of which those from `at` on are left; a
    row's place is its index in `batch`, or -1 for a dead one, which are all in `dead`. `before`: the
    file's position before them, when `highest` was the highest value.
    """

    number: int
    stream: FileStream
    before: Position
    highest: int
    batch: pa.RecordBatch
    dead: DeadRows | None
    keys: IntArray
    rows: IntArray
    places: IntArray
    at: int = 0

    @property
    def bound(self) -> tuple[int, int]:
        """(key, file) that no row still to be read from the file comes before."""
        return int(self.keys[-1]), self.stream.file

    @property
    def next_row(self) -> int:
        return int(self.rows[0]) + self.at

    @property
    def reached(self) -> int:
        """The highest value before the next row."""
        return int(self.keys[self.at - 1]) if self.at else self.highest

    def dead_before(self, index: int) -> int:
        """How many of the first raw rows are dead."""
        return int(np.count_nonzero(self.places[:index] < 0)) if self.dead is not None else 0


class _Unread(NamedTuple):
    """Of file number `number` of the list, rows from `next_row` on are to be read; `highest` is the
    highest value before."""

    number: int
    next_row: int
    highest: int


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
        self._files = list(files)
        self._unread = [_Unread(number, 0, BEGINNING) for number in range(len(files))]
        self._heads: list[_Head] = []
        self._definition = definition
        self._merge_by = merge_by
        self._first_number = 0
        self._total_rows = total_rows

    @property
    def total_rows(self) -> int | None:
        return self._total_rows

    def next_run(self) -> RowRun | None:
        while self._unread:
            self._read_on(len(self._heads), self._unread.pop(0))
        for place in reversed(range(len(self._heads))):
            head = self._heads[place]
            if head.at == len(head.keys):
                self._heads.pop(place)
                self._read_on(place, _Unread(head.number, head.next_row, head.reached))
        return self._merge() if self._heads else None

    def _read_on(self, place: int, unread: _Unread) -> None:
        """Hold the next rows of a file, of which there may be none."""
        stream = self._files[unread.number]
        while True:
            before = stream.position()
            first = stream.rows_read
            run = stream.next_run()
            if run is None:
                return
            if stream.rows_read > max(first, unread.next_row):
                break
        good = run.row_array
        rows = np.arange(first, stream.rows_read, dtype=np.int64)
        places = np.full(len(rows), -1, dtype=np.int64)
        places[good - first] = np.arange(len(good))
        keys = np.zeros(len(rows), dtype=np.int64)
        keys[good - first] = merge_keys(run.batch.column(self._merge_by))[0]
        keys = running_maximum(keys, places >= 0, unread.highest)
        at = max(0, unread.next_row - first)
        head = _Head(
            unread.number,
            stream,
            before,
            unread.highest,
            run.batch,
            run.dead,
            keys,
            rows,
            places,
            at,
        )
        self._heads.insert(place, head)

    def position(self) -> Position:
        files = [(head.number, head.before, head.next_row, head.reached) for head in self._heads]
        for number, next_row, highest in self._unread:
            files.append((number, self._files[number].position(), next_row, highest))
        return {"number": self._first_number, "files": files}

    def seek(self, position: Position) -> None:
        self._first_number = position["number"]
        self._unread = []
        for number, before, next_row, highest in position["files"]:
            self._files[number].seek(before)
            self._unread.append(_Unread(number, next_row, highest))

    def _merge(self) -> RowRun:
        key, file = min(head.bound for head in self._heads)
        batches: list[pa.RecordBatch] = []
        dead: list[DeadRows] = []
        parts: list[tuple[IntArray, IntArray]] = []
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
            if head.dead is not None:
                dead.append(
                    dead_between(head.dead, head.dead_before(head.at), head.dead_before(stop))
                )
            parts.append((head.keys[head.at : stop], places))
            head.at = stop
        keys, places = (np.concatenate(column) for column in zip(*parts, strict=True))
        # Heads stand in file order and rows in theirs, so a stable sort leaves ties by position.
        order = np.argsort(keys, kind="stable")
        schema = self._heads[0].batch.schema
        table = pa.Table.from_batches(batches, schema).combine_chunks()
        buried = np.cumsum(places < 0) - 1
        places = places[order]
        alive = places >= 0
        first_number = self._first_number
        self._first_number += len(places)
        dead_rows, dead_epochs = None, None
        if not bool(alive.all()):
            dead_rows = _in_order(dead, buried[order][~alive])
            dead_epochs = self._definition.of_rows(first_number + np.flatnonzero(~alive))
        numbers = None if dead_rows is None else first_number + np.flatnonzero(alive)
        return RowRun(
            _single(table.take(pa.array(places[alive])), schema),
            self._definition.lowest_open(self._first_number),
            dead_rows,
            row=first_number,
            number=first_number,
            rows=numbers,
            numbers=numbers,
            dead_epochs=dead_epochs,
        )

    def close(self) -> None:
        for stream in self._files:
            stream.close()


def _in_order(parts: list[DeadRows], order: IntArray) -> DeadRows:
    rows = [
        row
        for part in parts
        for row in zip(part.reasons, part.rows, part.files, part.numbers, strict=True)
    ]
    return DeadRows(*zip(*(rows[index] for index in order.tolist()), strict=True))


def _single(table: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=schema)
