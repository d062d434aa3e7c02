"""Rows of one file that can be used, and those that come too late or lack what orders them.

Lateness is judged per file, in the order of its rows: a row is late when its epoch lies wholly more
than `lateness` behind the latest time before it, because by then that epoch may be closed. So it
depends neither on slices nor on batches, nor on the other files.

So does the epoch of a dead row under time epochs: it is the one that its file had reached by then, the
epoch of the latest usable time up to it. Where no time was reached yet it is the epoch of the file's
first usable time, and epoch 0 where the file has none at all.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.model.contracts import DeadRows, IntArray
from streammine.model.epochs import BEGINNING, EpochDefinition
from streammine.model.formats.rejection import TEXT_LIMIT_CHARACTERS
from streammine.model.readable_rows import readable_rows
from streammine.model.source_order import (
    merge_keys,
    reached_at,
    running_maximum,
    usable_event_times,
)
from streammine.runtime.sources.deferred import DeferredBatch


@dataclass(frozen=True)
class SortedRows:
    """Rows of a batch that can be used, and the dead ones of its file up to its end.

    `rows` are their numbers in the file, int64; None where they are still contiguous. Where epochs go
    by time, `times` are the event times (int64 microseconds), `ascending` says that they never fall,
    and `dead_epochs` (int64) are the epochs of the dead rows.
    """

    batch: pa.RecordBatch | DeferredBatch
    rows: IntArray | None
    dead: DeadRows | None
    times: IntArray | None = None
    ascending: bool = False
    dead_epochs: IntArray | None = None


class FileClock:
    """The event time that a file has reached. `latest` is its highest usable time so far."""

    def __init__(
        self, epoch: EpochDefinition, lateness_microseconds: int, latest: int = BEGINNING
    ) -> None:
        self.epoch = epoch
        self.lateness_microseconds = lateness_microseconds
        self.latest = latest

    @property
    def bound(self) -> int:
        """Microseconds that no row still to come lies below, unless it is late."""
        if self.latest == BEGINNING:
            return BEGINNING
        return max(BEGINNING + 1, self.latest - self.lateness_microseconds)

    @property
    def open_epoch(self) -> int:
        return self.epoch.lowest_open(self.bound)

    def follow(self, times: IntArray) -> bool:
        """Go on with the file's next rows, all usable, if none lies behind one before it."""
        if len(times) and (times[0] < self.latest or not bool(np.all(times[1:] >= times[:-1]))):
            return False
        if len(times):
            self.latest = int(times[-1])
        return True

    def late(
        self, times: IntArray, usable: npt.NDArray[np.bool_] | None
    ) -> npt.NDArray[np.bool_] | None:
        """Which of the file's next rows are late (None: none of them); the clock goes on."""
        if not len(times):
            return None
        before = self.latest
        reached = running_maximum(times, usable, before)
        self.latest = int(reached[-1])
        preceding = np.concatenate([np.array([before], np.int64), reached[:-1]])
        started = preceding != BEGINNING
        lowest = np.maximum(preceding, BEGINNING + 1 + self.lateness_microseconds)
        closed = self.epoch.of_time(lowest - self.lateness_microseconds)
        late = started & (self.epoch.of_time(times) < closed)
        return late if bool(late.any()) else None


class UsableRows:
    """Sorts out the rows of one file that its epoch or merge column makes unusable.

    `first_time` finds the file's first usable time in microseconds, or NO_TIME; it is asked only for
    dead rows before which, and in whose batch, there is none.
    """

    def __init__(
        self,
        path: str,
        clock: FileClock | None,
        merge_by: str | None,
        first_time: Callable[[], int],
    ) -> None:
        self._path = path
        self._clock = clock
        self._merge_by = merge_by
        self._first_time = first_time

    def sort_out(
        self,
        batch: pa.RecordBatch | DeferredBatch,
        row: int,
        rows: IntArray | None,
        dead: DeadRows | None,
    ) -> SortedRows:
        """Sort out rows that stand at `rows`, or at `row` and the following where that is None.

        `dead` are those among them that have been found before.
        """
        times = None
        late = None
        usable = None
        ascending = False
        latest = BEGINNING
        if self._clock is not None:
            column = self._clock.epoch.column
            assert column is not None
            times, usable = usable_event_times(batch.column(column), self._clock.epoch.unit)
            latest = self._clock.latest
            ascending = usable is None and self._clock.follow(times)
            if not ascending:
                late = self._clock.late(times, usable)
        elif self._merge_by is not None:
            column = self._merge_by
            _, usable = merge_keys(batch.column(column))
        if usable is None and late is None:
            dead_epochs = None
            if dead is not None and times is not None:
                assert rows is not None, "dead rows leave gaps"
                dead_epochs = self._epochs(dead, rows, times, usable, latest)
            return SortedRows(batch, rows, dead, times, ascending, dead_epochs)
        keep = np.ones(batch.num_rows, np.bool_) if usable is None else usable
        reasons: dict[int, str] = {
            index: self._unusable_reason(batch, index) for index in np.flatnonzero(~keep).tolist()
        }
        if late is not None and times is not None:
            reached = running_maximum(times, usable, latest)
            for index in np.flatnonzero(late & keep).tolist():
                reasons[index] = self._late_reason(int(reached[index]) - int(times[index]))
            keep = keep & ~late
        numbers = np.arange(row, row + batch.num_rows, dtype=np.int64) if rows is None else rows
        dead = self._with_dead(dead, batch, numbers, reasons)
        batch = batch.filter(pa.array(keep))
        if times is None:
            return SortedRows(batch, numbers[keep], dead)
        dead_epochs = self._epochs(dead, numbers, times, usable, latest)
        return SortedRows(batch, numbers[keep], dead, times[keep], False, dead_epochs)

    def _epochs(
        self,
        dead: DeadRows,
        numbers: IntArray,
        times: IntArray,
        usable: npt.NDArray[np.bool_] | None,
        latest: int,
    ) -> IntArray:
        """The epochs that the file had reached at its dead rows; `latest` was reached before all."""
        assert self._clock is not None
        reached = running_maximum(times, usable, latest)
        at = reached_at(dead_numbers(dead), numbers, reached, latest)
        early = at == BEGINNING
        if bool(early.any()):
            started = reached[reached != BEGINNING]
            at[early] = int(started[0]) if len(started) else self._first_time()
        return self._clock.epoch.of_time(at)

    def _unusable_reason(self, batch: pa.RecordBatch | DeferredBatch, index: int) -> str:
        role = "merge_by" if self._clock is None else "event time"
        column = self._merge_by if self._clock is None else self._clock.epoch.column
        assert column is not None
        value = batch.column(column)[index]
        why = "is missing" if not value.is_valid else f"is {value}, which can't be used"
        return f"{role} column '{column}' {why}"

    def _late_reason(self, behind_microseconds: int) -> str:
        assert self._clock is not None
        allowed = self._clock.lateness_microseconds
        return (
            f"late: {behind_microseconds / 1e6:g} s behind the latest time before it in its file;"
            f" lateness allows {allowed / 1e6:g} s, and its epoch is closed"
        )

    def _with_dead(
        self,
        dead: DeadRows | None,
        batch: pa.RecordBatch | DeferredBatch,
        numbers: IntArray,
        reasons: dict[int, str],
    ) -> DeadRows:
        indices = sorted(reasons)
        texts = [
            json.dumps(row, default=str, ensure_ascii=False)[:TEXT_LIMIT_CHARACTERS]
            for row in readable_rows(batch.take(pa.array(indices, pa.int64())))
        ]
        return joined_dead(
            dead,
            DeadRows(
                reasons=tuple(reasons[index] for index in indices),
                rows=tuple(texts),
                files=(self._path,) * len(indices),
                numbers=tuple(int(numbers[index]) for index in indices),
            ),
        )


def first_usable_time(column: pa.Array, unit: str) -> int | None:
    """The first time in a column that can be used."""
    times, usable = usable_event_times(column, unit)
    times = times if usable is None else times[usable]
    return int(times[0]) if len(times) else None


def dead_numbers(dead: DeadRows) -> IntArray:
    """The numbers of a file's dead rows in it."""
    return np.array(dead.numbers, dtype=np.int64)


def dead_between(dead: DeadRows, start: int, stop: int) -> DeadRows:
    """Those at the indices [start, stop)."""
    return DeadRows(
        dead.reasons[start:stop],
        dead.rows[start:stop],
        dead.files[start:stop],
        dead.numbers[start:stop],
    )


def joined_dead(first: DeadRows | None, second: DeadRows) -> DeadRows:
    """Dead rows of one file together, in the order of their numbers."""
    if first is None:
        return second
    both = (
        list(zip(each.numbers, each.reasons, each.rows, each.files, strict=True))
        for each in (first, second)
    )
    merged = sorted((row for rows in both for row in rows), key=lambda row: row[0] or 0)
    numbers, reasons, rows, files = zip(*merged, strict=True)
    return DeadRows(reasons=reasons, rows=rows, files=files, numbers=numbers)
