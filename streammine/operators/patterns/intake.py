"""Which of the rows that arrive can take part in a match, and what is kept of them.

A row is kept if its own content fits an event of the pattern, with the columns that the pattern reads, its
event time (`TIME`, int64 microseconds) and which events it fits (`FITS`, uint64, one bit per event). Where
matches are strict every row is kept, because each one can stand between two others.

Rows without event time and late ones are set aside. A row is late if its time lies before the epoch in
which it comes: matches that it could have been part of, or could have prevented, have left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streammine.model.contracts import DeadRows, IntArray
from streammine.model.ids import HIDDEN_PREFIX
from streammine.model.readable_rows import readable_rows
from streammine.operators.collected_rows import in_one
from streammine.operators.event_time import EventTime
from streammine.operators.expressions import evaluated
from streammine.operators.patterns.references import EventExpression
from streammine.operators.set_aside import row_text

TIME = f"{HIDDEN_PREFIX}time"
FITS = f"{HIDDEN_PREFIX}fits"

_ROWS_AT_ONCE = 65_536


class Intake:
    """What a pattern takes in of its input."""

    def __init__(
        self,
        schema: pa.Schema,
        time: EventTime,
        columns: frozenset[str],
        events: Sequence[str],
        own: Mapping[str, EventExpression],
        *,
        all_rows: bool,
    ) -> None:
        """`columns` are kept; `events` are numbered as they stand, and `own` are their conditions."""
        self._time = time
        self._names = [name for name in schema.names if name in columns]
        conditions = [own.get(event) for event in events]
        self._conditions = [None if each is None else each.expression for each in conditions]
        self._references = {
            name: reference.column
            for each in conditions
            if each is not None
            for name, reference in each.references.items()
        }
        self._all_rows = all_rows
        self.schema = pa.schema(
            [
                *(schema.field(name) for name in self._names),
                pa.field(TIME, pa.int64()),
                pa.field(FITS, pa.uint64()),
            ]
        )

    def take(
        self, batches: Iterable[pa.RecordBatch], epoch_start: int
    ) -> tuple[list[pa.RecordBatch], DeadRows | None]:
        """What is kept of an epoch's rows, in `schema`, and what is set aside."""
        kept: list[pa.RecordBatch] = []
        dead: list[tuple[pa.RecordBatch, IntArray]] = []
        for batch in _gathered(batches):
            times, rows = self._time.of(batch)
            on_time = times >= epoch_start
            if len(rows) == batch.num_rows and on_time.all():
                kept.append(self._candidates(batch, times))
                continue
            usable = np.zeros(batch.num_rows, np.bool_)
            usable[rows[on_time]] = True
            dead.append((batch.filter(pa.array(~usable)), self._when(batch, times, rows)[~usable]))
            kept.append(self._candidates(batch.filter(pa.array(usable)), times[on_time]))
        return kept, self._dead(dead, epoch_start) if dead else None

    def _candidates(self, batch: pa.RecordBatch, times: IntArray) -> pa.RecordBatch:
        fits = np.zeros(batch.num_rows, np.uint64)
        met = iter(self._met(batch))
        for number, condition in enumerate(self._conditions):
            bit = np.uint64(1 << number)
            fits |= bit if condition is None else _true(next(met)) * bit
        columns = [*(batch.column(name) for name in self._names), pa.array(times), pa.array(fits)]
        rows = pa.record_batch(columns, schema=self.schema)
        return rows if self._all_rows or fits.all() else rows.filter(pa.array(fits != 0))

    def _met(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """For each condition whether it is met, for rows that may be its event."""
        if self._references:
            columns = [batch.column(name) for name in self._references.values()]
            batch = pa.record_batch(columns, names=list(self._references))
        return evaluated([each for each in self._conditions if each is not None], batch)

    @staticmethod
    def _when(batch: pa.RecordBatch, times: IntArray, rows: IntArray) -> IntArray:
        """int64[n, 2]: per row whether it has a time, and the time."""
        found = np.zeros((batch.num_rows, 2), np.int64)
        found[rows, 0] = 1
        found[rows, 1] = times
        return found

    def _dead(self, dead: Sequence[tuple[pa.RecordBatch, IntArray]], epoch_start: int) -> DeadRows:
        """The rows in the order of their texts, as the order in which they came is chance."""
        letters = []
        for batch, when in dead:
            for row, (timed, time) in zip(readable_rows(batch), when.tolist(), strict=True):
                text = row_text(row)
                seconds = (epoch_start - time) / 1e6
                reason = (
                    f"late for the pattern: its event time lies {seconds:g} s before the epoch in which "
                    "it came"
                    if timed
                    else f"column {self._time.column!r} holds no event time that can be used"
                )
                letters.append((text, reason))
        letters.sort()
        nothing = (None,) * len(letters)
        texts, reasons = zip(*letters, strict=True)
        return DeadRows(reasons, texts, nothing, nothing)


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    """The rows in batches that are worth a call each."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= _ROWS_AT_ONCE:
            yield in_one(waiting)
            waiting, rows = [], 0
    if rows:
        yield in_one(waiting)


def _true(values: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    if values.null_count:
        values = pc.fill_null(values, False)
    flags: np.ndarray[tuple[int], np.dtype[np.bool_]] = values.to_numpy(zero_copy_only=False)
    return flags
