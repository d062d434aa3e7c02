"""The order of changes: of what happens by an event, and of what happens because time goes on.

Operators that look at one event after the other are given rows in strict order, by event time and position
(`engine.order`), in the hidden columns that say so. What such an operator tells by an event has the event's
own place in that order. What it tells because a row got too old has the time at which that was so, and comes
before the events of that time; among each other these are in the order of the rows that leave.

Hidden columns of changes, most significant first: event time; ``__by_event<n>`` (int8: 0 time alone, 1 an
event), where n is the number of operators before that have such a column; the input's others; where one event
may tell several changes, ``__index<n>``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streammine.model.contracts import IntArray
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import TopologyError
from streammine.model.ids import TIME_COLUMN, next_index_column

_BY_EVENT = "__by_event"
PROBED: tuple[pa.Field, ...] = (pa.field(TIME_COLUMN, pa.int64()),)
"""Stands for the order of an input while a topology is checked and positions are not planned yet."""


def check_time_epochs(operator: str, definition: EpochDefinition) -> None:
    """Refuse epochs that know no event time. Raises TopologyError."""
    if definition.kind != "time":
        raise TopologyError(
            f"operator {operator!r} looks at event time, and epochs of rows know none; write "
            "epoch: {time: 60s, column: ts}"
        )


def checked_order(operator: str, fields: Sequence[pa.Field]) -> tuple[pa.Field, ...]:
    """The fields that order an input's rows, which must be event time and whole numbers.

    Raises TopologyError.
    """
    order = tuple(fields) or PROBED
    wrong = [field for field in order if not pa.types.is_integer(field.type)]
    if order[0].name != TIME_COLUMN or wrong:
        raise TopologyError(
            f"operator {operator!r} takes events one after the other, each with its event time and its "
            "place in a source; it can read from a source, also by way of map, filter and flat_map, or "
            "from recent and latest, and not from what puts rows together, as aggregate and join do"
        )
    return order


class ChangeOrder:
    """The hidden columns that order the changes which an operator tells of its one input."""

    def __init__(self, order: Sequence[pa.Field], several: bool) -> None:
        """`order`: the fields that order the input's rows. `several`: an event may tell several changes."""
        names = [field.name for field in order]
        depth = sum(name.startswith(_BY_EVENT) for name in names)
        self.places = tuple(names[1:])
        """The input's columns that say the place of an event of one time."""
        self._several = several
        self.fields = (
            pa.field(TIME_COLUMN, pa.int64()),
            pa.field(f"{_BY_EVENT}{depth}", pa.int8()),
            *order[1:],
            *([pa.field(next_index_column(names), pa.int32())] if several else []),
        )
        self._types = [field.type.to_pandas_dtype() for field in self.fields]

    def columns(
        self, times: IntArray, by_event: IntArray, places: Sequence[IntArray], index: IntArray
    ) -> list[pa.Array]:
        """The columns: microseconds, 0 or 1, values of `places`, and of several the index in an event."""
        values = [times, by_event, *places, *([index] if self._several else [])]
        return [
            pa.array(value.astype(kind, copy=False))
            for value, kind in zip(values, self._types, strict=True)
        ]


def place_values(batch: pa.RecordBatch, names: Sequence[str]) -> list[IntArray]:
    """Columns of whole numbers as int64."""
    return [
        batch.column(name).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        for name in names
    ]


def is_by_event(name: str) -> bool:
    """Whether a hidden column tells changes by events from those by time."""
    return name.startswith(_BY_EVENT)
