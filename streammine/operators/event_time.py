"""The event time of an operator's rows, for those that look at it row by row.

Where a row's epoch follows from its event time, all rows before the watermark have come when an epoch is
closed. Behind an operator that computes another time, or keeps one of its rows for later, that is not so:
a row may lie before the watermark of the epoch in which it comes. It is *late* then, and each operator says
what becomes of late rows.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streammine.model.contracts import IntArray
from streammine.model.epochs import EpochDefinition, event_ticks, in_microseconds
from streammine.model.errors import TopologyError
from streammine.operators.expressions import unknown_column

EARLIEST, LATEST = -(2**62), 2**62
"""Event times lie between these, in microseconds, so that a length can be added to one."""


class EventTime:
    """Which column of an operator's input holds the event time, and how it is read."""

    def __init__(
        self,
        operator: str,
        schema: pa.Schema,
        epoch: EpochDefinition,
        column: str | None = None,
        setting: str = "time",
    ) -> None:
        """`column`: default, that of the epochs; `setting`: where the user names it. Raises TopologyError,
        naming what would be right."""
        name = column if column is not None else epoch.column
        if name is None:
            raise TopologyError(
                f"operator {operator!r} looks at event time, and epochs of rows know none; name the "
                "column, time: ts, or write epoch: {time: 60s, column: ts}"
            )
        if name not in schema.names:
            hint = (
                ""
                if column is not None
                else " Name another with time: COLUMN, or keep it with map."
            )
            raise TopologyError(
                f"operator {operator!r}: {setting}: {unknown_column(name, schema)}{hint}"
            )
        kind = schema.field(name).type
        if not (pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
            raise TopologyError(
                f"operator {operator!r}: {setting}: column {name!r} has type {kind}; event time is an "
                "integer, a timestamp or a date"
            )
        self.column = name
        self.type: pa.DataType = kind
        self.epoch = epoch
        self._unit = epoch.unit

    def of(self, batch: pa.RecordBatch) -> tuple[IntArray, IntArray]:
        """Event times (int64 microseconds) of the rows that have one, and these rows' numbers (int64).

        A null has none, nor has what lies further from 1970 than microseconds in 62 bits reach.
        """
        column = batch.column(self.column)
        rows: IntArray = np.arange(batch.num_rows, dtype=np.int64)
        if column.null_count:
            rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)).astype(np.int64)
            column = column.drop_null()
        ticks, factor = event_ticks(column, self._unit)
        # in units of the column: the product may be more than 64 bits hold
        low, high = -(-EARLIEST // factor), LATEST // factor
        if len(ticks) and (int(ticks.min()) < low or int(ticks.max()) > high):
            fits = np.flatnonzero((ticks >= low) & (ticks <= high))
            rows, ticks = rows[fits], ticks[fits]
        return in_microseconds(ticks, factor), rows
