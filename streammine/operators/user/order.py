"""Positions of the rows that an Operator emits.

A row made of an event takes the event's position and adds its index among the rows of that event. A
row made at an epoch's end has all the key's events for parents; it is known by its key, and stands
behind the rows of events; so does one that is made when a timer fires. So positions follow from the
input alone, never from slices, and a strict consumer or an ordered sink sees the same order however many
slices there are. They travel in hidden columns, and only where somebody downstream needs them.

Columns, most significant first, where n is the number of one-to-many stages before: event time, if
all inputs have it; ``__closing<n>`` (int8: 0 event, 1 timer, 2 epoch end, 3 input end), if the operator
has such methods; ``__port<n>`` (int32), if it has several inputs; the inputs' own order columns
(visible ones copied as ``__by<n>_<name>``); ``__key<n>_<name>`` if it has closing methods;
``__index<n>`` (int32).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streammine.model.ids import HIDDEN_PREFIX, TIME_COLUMN, index_column, next_index_column
from streammine.operators.rows import IntArray

EVENT, TIMER, EPOCH_END, INPUT_END = range(4)


class OutputOrder:
    """The hidden order columns of one Operator's output."""

    def __init__(
        self, inputs: Sequence[Sequence[pa.Field]], keys: Sequence[pa.Field], closes: bool
    ) -> None:
        """`inputs`: for each port the fields that order its rows, most significant first."""
        names = {field.name for fields in inputs for field in fields}
        index = next_index_column(names)
        depth = int(index.removeprefix(index_column(0)[:-1]))
        self._sources = [
            {self._hidden_name(field.name, depth): field.name for field in fields}
            for fields in inputs
        ]
        carried: dict[str, pa.DataType] = {}
        for fields in inputs:
            for field in fields:
                carried.setdefault(self._hidden_name(field.name, depth), field.type)
        self._has_time = all(TIME_COLUMN in source for source in self._sources)
        if self._has_time:
            carried.pop(TIME_COLUMN)
        self._carried = carried
        self._closes = closes
        self._several = len(inputs) > 1
        self._keys = list(keys) if closes else []
        self.fields: tuple[pa.Field, ...] = (
            *([pa.field(TIME_COLUMN, pa.int64())] if self._has_time else []),
            *([pa.field(f"__closing{depth}", pa.int8())] if closes else []),
            *([pa.field(f"__port{depth}", pa.int32())] if self._several else []),
            *(pa.field(name, kind) for name, kind in carried.items()),
            *(pa.field(f"__key{depth}_{field.name}", field.type) for field in self._keys),
            pa.field(index, pa.int32()),
        )

    @staticmethod
    def _hidden_name(name: str, depth: int) -> str:
        return name if name.startswith(HIDDEN_PREFIX) else f"__by{depth}_{name}"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    def of_events(self, port: int, batch: pa.RecordBatch, parents: IntArray) -> list[pa.Array]:
        """Columns for rows made of the events at these rows of a batch."""
        rows = len(parents)
        places = pa.array(parents)
        source = self._sources[port]
        columns = []
        if self._has_time:
            columns.append(batch.column(TIME_COLUMN).take(places))
        if self._closes:
            columns.append(_constant(EVENT, rows, pa.int8()))
        if self._several:
            columns.append(_constant(port, rows, pa.int32()))
        for name, kind in self._carried.items():
            if name in source:
                columns.append(batch.column(source[name]).take(places))
            else:
                columns.append(pa.nulls(rows, kind))
        columns += [pa.nulls(rows, field.type) for field in self._keys]
        return [*columns, _index_in_run(parents)]

    def of_closing(
        self, stage: int, keys: Sequence[pa.Array], parents: IntArray, time: int
    ) -> list[pa.Array]:
        """Columns for rows made of keys: `keys` are all keys, `parents` the key of each row."""
        rows = len(parents)
        columns = []
        if self._has_time:
            columns.append(_constant(time, rows, pa.int64()))
        columns.append(_constant(stage, rows, pa.int8()))
        if self._several:
            columns.append(_constant(0, rows, pa.int32()))
        columns += [pa.nulls(rows, kind) for kind in self._carried.values()]
        columns += [column.take(pa.array(parents)) for column in keys]
        return [*columns, _index_in_run(parents)]


def _constant(value: int, rows: int, kind: pa.DataType) -> pa.Array:
    return pa.array(np.full(rows, value, dtype=kind.to_pandas_dtype()))


def _index_in_run(parents: IntArray) -> pa.Array:
    """For each row its index among the rows of its parent (int32); parents are ascending."""
    places = np.arange(len(parents))
    starts = np.flatnonzero(np.diff(parents, prepend=-1))
    lengths = np.diff(np.append(starts, len(parents)))
    return pa.array((places - np.repeat(starts, lengths)).astype(np.int32))
