"""From runs of rows to deliveries: cut into epochs, in portions, at the pace that was asked for.

How rows are cut into runs and portions changes neither their epochs nor their positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from streammine.model.contracts import DeadRows, Delivery, IntArray, Piece
from streammine.model.epochs import BEGINNING, INFINITY, EpochDefinition
from streammine.runtime.sources.pace import Pace
from streammine.runtime.sources.runs import RowRun, RunReader


class EpochReader:
    """A SourceReader over a run reader. `columns` are handed out (None: those of the runs)."""

    def __init__(
        self,
        runs: RunReader,
        definition: EpochDefinition,
        columns: Sequence[str] | None,
        pace: Pace | None = None,
    ) -> None:
        self._runs = runs
        self._definition = definition
        self._columns = None if columns is None else list(columns)
        self._pace = pace
        self._open_epoch = BEGINNING
        self._run: _CutRun | None = None
        self._at = 0
        self._exhausted = False

    @property
    def total_rows(self) -> int | None:
        return self._runs.total_rows

    def close(self) -> None:
        self._runs.close()

    def read(self, rows: int, elapsed_seconds: float) -> Delivery:
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
        wake_after_seconds = None
        if self._pace is not None and stop > start:
            due = self._pace.due_among(run.numbers[start:stop], elapsed_seconds)
            if due < stop - start:
                stop = start + due
                next_number = int(run.numbers[stop])
                wake_after_seconds = self._pace.wake_after_seconds(next_number, elapsed_seconds)
        dead = run.take_dead()
        pieces = tuple(run.pieces(start, stop))
        assert all(piece.epoch >= self._open_epoch for piece in pieces), "epochs never reopen"
        self._at = stop
        self._open_epoch = max(self._open_epoch, run.open_epoch(stop))
        if stop == run.row_count:
            self._run = None
            self._exhausted = self._open_epoch == INFINITY
        return Delivery(
            pieces,
            self._open_epoch,
            stop - start + (len(dead) if dead is not None else 0),
            dead,
            self._exhausted,
            wake_after_seconds,
        )

    def _start_run(self) -> None:
        run = self._runs.next_run()
        self._run = None if run is None else _CutRun(run, self._definition, self._columns)
        self._at = 0


class _CutRun:
    """A run, and which epochs its rows have."""

    def __init__(self, run: RowRun, definition: EpochDefinition, columns: list[str] | None) -> None:
        self._run = run
        self._dead = run.dead
        self._definition = definition
        self._batch = run.batch
        if columns is not None and columns != run.batch.schema.names:
            self._batch = run.batch.select(columns)
        self.row_count = run.row_count
        self._numbers: IntArray | None = None
        self._epochs: IntArray | None = None
        self._lowest_from: IntArray | None = None
        self._epoch = _common_epoch(run, definition)
        if self._epoch is None:
            if run.times is not None:
                self._epochs = definition.of_time(run.times)
            elif run.numbers is not None:
                self._epochs = definition.of_rows(run.numbers)
        epochs = self._epochs
        if epochs is not None and not bool(np.all(epochs[1:] >= epochs[:-1])):
            self._lowest_from = np.minimum.accumulate(epochs[::-1])[::-1]

    @property
    def numbers(self) -> IntArray:
        if self._numbers is None:
            self._numbers = self._run.number_array
        return self._numbers

    def take_dead(self) -> DeadRows | None:
        """The dead rows, once."""
        dead, self._dead = self._dead, None
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


def _common_epoch(run: RowRun, definition: EpochDefinition) -> int | None:
    """The epoch of all rows of a run, if they have one; most runs of time epochs do."""
    if run.epoch is not None or run.times is None or not len(run.times):
        return run.epoch
    lowest = definition.lowest_open(int(run.times.min()))
    return lowest if definition.lowest_open(int(run.times.max())) == lowest else None
