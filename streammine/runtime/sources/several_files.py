"""Several files as one source: one after the other, or side by side in event time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from streammine.model.epochs import INFINITY, EpochDefinition
from streammine.runtime.sources.runs import RowRun
from streammine.runtime.sources.usable import FileClock


class FileStream(Protocol):
    """One file, read in order. `rows_read` counts raw rows; `clock` is there for time epochs."""

    file: int
    rows_read: int
    clock: FileClock | None

    def next_run(self) -> RowRun | None: ...

    def close(self) -> None: ...


class ConcatenatedFiles:
    """Files one after the other, for count epochs: rows are numbered through."""

    def __init__(
        self,
        files: Sequence[FileStream],
        definition: EpochDefinition,
        total_rows: int | None = None,
    ) -> None:
        assert definition.kind == "count"
        self._files = list(files)
        self._definition = definition
        self._first_number = 0
        self._total_rows = total_rows

    @property
    def total_rows(self) -> int | None:
        return self._total_rows

    def next_run(self) -> RowRun | None:
        while self._files:
            stream = self._files[0]
            run = stream.next_run()
            if run is None:
                self._first_number += stream.rows_read
                self._files.pop(0)
                continue
            first = self._first_number
            return replace(
                run,
                number=first + run.number,
                numbers=None if run.numbers is None else first + run.numbers,
                open_epoch=self._definition.lowest_open(first + stream.rows_read),
            )
        return None

    def close(self) -> None:
        for stream in self._files:
            stream.close()


class ParallelFiles:
    """Files side by side, for time epochs: whichever is furthest behind is read on.

    So an epoch is over when all files have passed it, whether the files follow each other in time
    or cover the same time. One run of each file is held, for its first time; the first one is
    small. Row numbers are approximate, which is enough for a pace: this is share `slice_index` of
    `slices`.
    """

    def __init__(
        self,
        files: Sequence[FileStream],
        definition: EpochDefinition,
        slice_index: int = 0,
        slices: int = 1,
        total_rows: int | None = None,
    ) -> None:
        assert definition.kind == "time"
        self._unread = list(files)
        self._definition = definition
        self._held: list[tuple[FileStream, RowRun]] = []
        self._slice_index = slice_index
        self._slices = slices
        self._rows = 0
        self._total_rows = total_rows

    @property
    def total_rows(self) -> int | None:
        return self._total_rows

    def next_run(self) -> RowRun | None:
        while self._unread:
            self._hold(len(self._held), self._unread.pop(0))
        if not self._held:
            return None
        lowest = [self._lowest_epoch(run) for _, run in self._held]
        place = lowest.index(min(lowest))
        stream, run = self._held.pop(place)
        self._hold(place, stream)
        numbers = np.arange(self._rows, self._rows + run.row_count, dtype=np.int64)
        self._rows += run.row_count
        return replace(
            run,
            open_epoch=min((self._lowest_epoch(each) for _, each in self._held), default=INFINITY),
            numbers=self._slice_index + self._slices * numbers,
        )

    def _hold(self, place: int, stream: FileStream) -> None:
        run = stream.next_run()
        if run is not None:
            self._held.insert(place, (stream, run))

    def _lowest_epoch(self, run: RowRun) -> int:
        """The lowest epoch that a row of this run or a later one of its file can have."""
        if run.times is None or not len(run.times):
            return run.open_epoch
        return min(run.open_epoch, self._definition.lowest_open(int(run.times.min())))

    def close(self) -> None:
        for stream in (*self._unread, *(stream for stream, _ in self._held)):
            stream.close()
