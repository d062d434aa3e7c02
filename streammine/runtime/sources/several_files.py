"""Several files as one source: one after the other, or side by side in event time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from streammine.model.contracts import Position
from streammine.model.epochs import INFINITY, EpochDefinition
from streammine.runtime.sources.runs import RowRun
from streammine.runtime.sources.usable import FileClock, dead_numbers


class FileStream(Protocol):
    """One file, read in order. `rows_read` counts raw rows; `clock` is there for time epochs."""

    file: int
    rows_read: int
    clock: FileClock | None

    def next_run(self) -> RowRun | None: ...

    def position(self) -> Position: ...

    def seek(self, position: Position) -> None: ...

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
        self._at = 0
        self._definition = definition
        self._first_number = 0
        self._total_rows = total_rows

    @property
    def total_rows(self) -> int | None:
        return self._total_rows

    def next_run(self) -> RowRun | None:
        while self._at < len(self._files):
            stream = self._files[self._at]
            run = stream.next_run()
            if run is None:
                self._first_number += stream.rows_read
                self._at += 1
                continue
            first = self._first_number
            dead_epochs = None
            if run.dead is not None:
                dead_epochs = self._definition.of_rows(first + dead_numbers(run.dead))
            return replace(
                run,
                number=first + run.number,
                numbers=None if run.numbers is None else first + run.numbers,
                open_epoch=self._definition.lowest_open(first + stream.rows_read),
                dead_epochs=dead_epochs,
            )
        return None

    def position(self) -> Position:
        stream = self._files[self._at].position() if self._at < len(self._files) else None
        return {"file": self._at, "first": self._first_number, "stream": stream}

    def seek(self, position: Position) -> None:
        self._at = position["file"]
        self._first_number = position["first"]
        if self._at < len(self._files):
            self._files[self._at].seek(position["stream"])

    def close(self) -> None:
        for stream in self._files:
            stream.close()


@dataclass(frozen=True)
class _Held:
    """File number `place`, its next run and the file's position before that."""

    place: int
    before: Position
    run: RowRun


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
        self._files = list(files)
        self._unread = list(range(len(files)))
        self._definition = definition
        self._held: list[_Held] = []
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
        lowest = [self._lowest_epoch(held.run) for held in self._held]
        index = lowest.index(min(lowest))
        held = self._held.pop(index)
        run = held.run
        self._hold(index, held.place)
        numbers = np.arange(self._rows, self._rows + run.row_count, dtype=np.int64)
        self._rows += run.row_count
        return replace(
            run,
            open_epoch=min((self._lowest_epoch(held.run) for held in self._held), default=INFINITY),
            numbers=self._slice_index + self._slices * numbers,
        )

    def _hold(self, index: int, place: int) -> None:
        stream = self._files[place]
        before = stream.position()
        run = stream.next_run()
        if run is not None:
            self._held.insert(index, _Held(place, before, run))

    def _lowest_epoch(self, run: RowRun) -> int:
        """The lowest epoch that a row of this run or a later one of its file can have."""
        lowest = run.open_epoch
        if run.times is not None and len(run.times):
            lowest = min(lowest, self._definition.lowest_open(int(run.times.min())))
        if run.dead_epochs is not None:
            lowest = min(lowest, int(run.dead_epochs[0]))
        return lowest

    def position(self) -> Position:
        files = [(held.place, held.before) for held in self._held]
        files += [(place, self._files[place].position()) for place in self._unread]
        return {"rows": self._rows, "files": files}

    def seek(self, position: Position) -> None:
        self._rows = position["rows"]
        self._unread = [place for place, _ in position["files"]]
        for place, before in position["files"]:
            self._files[place].seek(before)

    def close(self) -> None:
        for stream in self._files:
            stream.close()
