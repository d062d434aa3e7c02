"""From runs of rows to deliveries: cut into epochs, in portions, at the pace that was asked for.

How rows are cut into runs and portions changes neither their epochs nor their positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from streammine.model.contracts import DeadRows, IntArray, Position
from streammine.model.epochs import BEGINNING, INFINITY, EpochDefinition
from streammine.model.source_contracts import Delivery, Piece
from streammine.runtime.sources.due_epochs import DueEpochs
from streammine.runtime.sources.pace import Pace
from streammine.runtime.sources.runs import RowRun, RunReader
from streammine.runtime.sources.usable import dead_between


class EpochReader:
    """A SourceReader over a run reader. `columns` are handed out (None: those of the runs).

    Its position is the start of the run that is being handed out, or of what is read together with it. Where
    it keeps a pace, the position's `number` is the lowest mark (see Pace) above those of the rows that were
    handed out.
    With `due_epochs` no epoch is said to be over before the rows of the whole source up to its end are due.
    """

    def __init__(
        self,
        runs: RunReader,
        definition: EpochDefinition,
        columns: Sequence[str] | None,
        pace: Pace | None = None,
        position: Position | None = None,
        due_epochs: DueEpochs | None = None,
    ) -> None:
        self._runs = runs
        self._definition = definition
        self._columns = None if columns is None else list(columns)
        self._pace = pace
        self._due_epochs = due_epochs
        self._open_epoch = BEGINNING
        self._told_epoch = BEGINNING
        self._run: _CutRun | None = None
        self._at = 0
        self._exhausted = False
        self._next_number = 0 if pace is None else pace.first
        self._given = 0
        self._repeated = 0
        if position is not None:
            runs.seek(position["runs"])
            self._next_number = position["number"]
            self._repeated = position["given"]
        self._run_position = runs.position()

    @property
    def total_rows(self) -> int | None:
        return self._runs.total_rows

    def close(self) -> None:
        self._runs.close()

    def position(self) -> Position:
        """See SourceReader."""
        return {
            "runs": self._run_position,
            "number": self._next_number,
            "given": self._given + self._repeated,
        }

    def read(self, rows: int, elapsed_seconds: float, given_below: int = BEGINNING) -> Delivery:
        """See SourceReader."""
        assert rows > 0
        if self._run is None and not self._exhausted:
            self._start_run()
        run = self._run
        if run is None:
            self._exhausted = True
            return Delivery((), INFINITY, 0, exhausted=True)
        start = self._at
        stop = min(start + rows, run.row_count)
        wanted = stop
        waits_for: int | None = None
        if self._pace is not None and stop > start:
            bound = self._pace.due_bound(elapsed_seconds)
            marks = run.marks(self._pace)
            due = start + int(marks[start:stop].searchsorted(bound))
            if due < stop and self._pace.is_soon(run.last_mark(due, self._pace), elapsed_seconds):
                # the rest of that epoch leaves with its last row
                due = max(start, run.begin_of_epoch(due))
            stop = max(due, start + run.rows_below(given_below, start, stop))
            if stop > start:
                self._next_number = max(self._next_number, int(marks[stop - 1]) + 1)
            waits_for = None if stop == wanted else int(marks[stop])
        dead = run.take_dead()
        assert all(epoch >= self._open_epoch for epoch, _ in dead), "epochs never reopen"
        pieces = tuple(run.pieces(start, stop))
        if self._pace is not None and pieces:
            pieces = run.with_waits(pieces, self._pace, start, elapsed_seconds)
        assert all(piece.epoch >= self._open_epoch for piece in pieces), "epochs never reopen"
        self._at = stop
        self._open_epoch = max(self._open_epoch, run.open_epoch(stop))
        count = stop - start + sum(len(rows) for _, rows in dead)
        repeated = min(count, self._repeated)
        self._repeated -= repeated
        self._given += count
        if stop == run.row_count:
            self._run = None
            position = self._runs.position()
            if position != self._run_position:
                # else several runs begin at one place, and are all given again from there
                self._run_position, self._given = position, 0
            self._exhausted = self._open_epoch == INFINITY
        wake_after_seconds = self._tell(waits_for, elapsed_seconds, given_below)
        return Delivery(
            pieces,
            self._told_epoch,
            count - repeated,
            dead,
            self._exhausted,
            wake_after_seconds,
        )

    def _tell(
        self, waits_for: int | None, elapsed_seconds: float, given_below: int
    ) -> float | None:
        """Note which epochs are over and due; returns how long there is nothing to do where the next row,
        with the mark `waits_for`, is not due."""
        open_epoch = self._open_epoch
        pace, due_epochs = self._pace, self._due_epochs
        last_of_epoch: int | None = None
        if pace is not None and due_epochs is not None and not self._exhausted:
            due, until = due_epochs.at(pace.due_bound(elapsed_seconds))
            last_of_epoch = until - 1
            open_epoch = min(open_epoch, max(due, given_below))
            if waits_for is not None and open_epoch < self._open_epoch:
                waits_for = min(waits_for, last_of_epoch)
        elif pace is not None and waits_for is not None:
            assert self._run is not None, "the row that it waits for is there"
            last_of_epoch = self._run.last_mark(self._at, pace)
        self._told_epoch = max(self._told_epoch, open_epoch)
        if pace is None or waits_for is None:
            return None
        return pace.wake_after_seconds(waits_for, elapsed_seconds, last_of_epoch)

    def _start_run(self) -> None:
        run = self._runs.next_run()
        self._run = None if run is None else _CutRun(run, self._definition, self._columns)
        self._at = 0


class _CutRun:
    """A run, and which epochs its rows have."""

    def __init__(self, run: RowRun, definition: EpochDefinition, columns: list[str] | None) -> None:
        self._run = run
        self._dead = _by_epoch(run)
        self._definition = definition
        self._batch = run.batch
        if columns is not None and columns != run.batch.schema.names:
            self._batch = run.batch.select(columns)
        self.row_count = run.row_count
        self._marks: IntArray | None = None
        self._epochs: IntArray | None = None
        self._lowest_from: IntArray | None = None
        self._epoch = _common_epoch(run, definition)
        if self._epoch is None:
            if run.times is not None:
                self._epochs = definition.of_time(run.times)
            elif run.numbers is not None:
                self._epochs = definition.of_rows(run.numbers)
        epochs = self._epochs
        if epochs is not None and not run.ascending and not _ascends(epochs):
            self._lowest_from = np.minimum.accumulate(epochs[::-1])[::-1]

    def marks(self, pace: Pace) -> IntArray:
        """Of the rows, ascending: one that lies behind another in time does not come before it."""
        if self._marks is None:
            if not pace.by_time:
                self._marks = self._run.number_array
            else:
                assert self._run.times is not None, "a pace by event time needs time epochs"
                times = self._run.times
                self._marks = times if self._run.ascending else np.maximum.accumulate(times)
        return self._marks

    def last_mark(self, position: int, pace: Pace) -> int:
        """The mark of the run's last row before which the epoch that is open at `position` can't be over."""
        marks = self.marks(pace)
        if self._epoch is not None:
            last = self.row_count
        elif self._lowest_from is not None:
            last = int(self._lowest_from.searchsorted(self._lowest_from[position], "right"))
        elif self._epochs is not None:
            last = int(self._epochs.searchsorted(self._epochs[position], "right"))
        else:
            epoch = self._lowest_epoch(position)
            last = min(self.row_count, (epoch + 1) * self._definition.length - self._run.number)
        return int(marks[last - 1])

    def begin_of_epoch(self, position: int) -> int:
        """The first of the run's rows that count to the epoch that is open at `position`."""
        if self._epoch is not None:
            return 0
        lowest_from = self._epochs if self._lowest_from is None else self._lowest_from
        if lowest_from is not None:
            return int(lowest_from.searchsorted(lowest_from[position]))
        epoch = self._lowest_epoch(position)
        return max(0, epoch * self._definition.length - self._run.number)

    def take_dead(self) -> tuple[tuple[int, DeadRows], ...]:
        """The dead rows by epoch, once."""
        dead, self._dead = self._dead, ()
        return dead

    def open_epoch(self, position: int) -> int:
        """The lowest epoch that rows from `position` on, or of later runs, can have."""
        if position == self.row_count:
            return self._run.open_epoch
        return min(self._run.open_epoch, self._lowest_epoch(position))

    def _lowest_epoch(self, position: int) -> int:
        if self._epoch is not None:
            return self._epoch
        if self._lowest_from is not None:
            return int(self._lowest_from[position])
        if self._epochs is not None:
            return int(self._epochs[position])
        return self._definition.lowest_open(self._run.number + position)

    def rows_below(self, epoch: int, start: int, stop: int) -> int:
        """How many of the rows [start, stop) to hand out for none of a lower epoch to be left there, nor in
        runs behind this one."""
        if self._run.open_epoch < epoch:
            return stop - start
        if self._epoch is not None:
            return stop - start if self._epoch < epoch else 0
        lowest_from = self._epochs if self._lowest_from is None else self._lowest_from
        if lowest_from is not None:
            return int(lowest_from[start:stop].searchsorted(epoch))
        first = epoch * self._definition.length - self._run.number
        return min(max(start, first), stop) - start

    def pieces(self, start: int, stop: int) -> Iterator[Piece]:
        """Rows [start, stop) as pieces of one epoch each, epochs ascending."""
        if start == stop:
            return
        if self._epoch is not None:
            yield self._slice(self._epoch, start, stop)
        elif self._epochs is None:
            yield from self._contiguous(start, stop)
        elif self._lowest_from is None:
            epochs = self._epochs[start:stop]
            edges = np.flatnonzero(epochs[1:] != epochs[:-1]) + start + 1
            bounds = [start, *edges.tolist(), stop]
            for first, last in pairwise(bounds):
                yield self._slice(int(self._epochs[first]), first, last)
        else:
            yield from self._gathered(start, stop)

    def with_waits(
        self, pieces: tuple[Piece, ...], pace: Pace, start: int, elapsed_seconds: float
    ) -> tuple[Piece, ...]:
        """Pieces of the rows from `start` on, with how long they have been due."""
        marks = self.marks(pace)
        waiting: list[Piece] = []
        for piece in pieces:
            waited = pace.waited_seconds(int(marks[start]), elapsed_seconds)
            waiting.append(replace(piece, waited_seconds=waited))
            if self._lowest_from is None:
                # else the rows of any piece may be the first ones
                start += piece.num_rows
        return tuple(waiting)

    def _contiguous(self, start: int, stop: int) -> Iterator[Piece]:
        length = self._definition.length
        number = self._run.number
        while start < stop:
            epoch = (number + start) // length
            last = min(stop, (epoch + 1) * length - number)
            yield self._slice(epoch, start, last)
            start = last

    def _slice(self, epoch: int, start: int, stop: int) -> Piece:
        run = self._run
        batch = self._batch
        if stop - start < self.row_count:
            batch = batch.slice(start, stop - start)
        times = None if run.times is None else run.times[start:stop]
        if run.rows is None:
            return Piece(epoch, batch, run.file, run.row + start, times=times)
        files = run.file_array[start:stop]
        return Piece(epoch, batch, files=files, rows=run.rows[start:stop], times=times)

    def _gathered(self, start: int, stop: int) -> Iterator[Piece]:
        """Pieces of rows whose epochs go up and down: each epoch's rows are taken together."""
        assert self._epochs is not None
        run = self._run
        epochs = self._epochs[start:stop]
        order = np.argsort(epochs, kind="stable")
        edges = np.flatnonzero(np.diff(epochs[order])) + 1
        files, rows = run.file_array, run.row_array
        for part in np.split(order + start, edges):
            yield Piece(
                int(self._epochs[part[0]]),
                self._batch.take(pa.array(part)),
                files=files[part],
                rows=rows[part],
                times=None if run.times is None else run.times[part],
            )


def _by_epoch(run: RowRun) -> tuple[tuple[int, DeadRows], ...]:
    """A run's dead rows by epoch, epochs ascending."""
    if run.dead is None or not len(run.dead):
        return ()
    epochs = run.dead_epochs
    assert epochs is not None
    assert len(epochs) == len(run.dead)
    bounds = [0, *(np.flatnonzero(epochs[1:] != epochs[:-1]) + 1).tolist(), len(epochs)]
    return tuple(
        (int(epochs[first]), dead_between(run.dead, first, last))
        for first, last in pairwise(bounds)
    )


def _common_epoch(run: RowRun, definition: EpochDefinition) -> int | None:
    """The epoch of all rows of a run, if they have one; most runs of time epochs do."""
    if run.epoch is not None or run.times is None or not len(run.times):
        return run.epoch
    first, last = (run.times[0], run.times[-1]) if run.ascending else _range(run.times)
    lowest = definition.lowest_open(int(first))
    return lowest if definition.lowest_open(int(last)) == lowest else None


def _range(times: IntArray) -> tuple[np.int64, np.int64]:
    return times.min(), times.max()


def _ascends(values: IntArray) -> bool:
    return bool(np.all(values[1:] >= values[:-1]))
