"""Rows in strict order for operators that take one event after the other, drawn by hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from streammine.model.epochs import EpochDefinition
from streammine.operators.checking.events import Events
from tests.property.operator_trials import events_of

EPOCH_SECONDS = 10
MINUTE = EpochDefinition("time", EPOCH_SECONDS * 1_000_000, "ts")
ORDER = (
    pa.field("__time", pa.int64()),
    pa.field("__file", pa.int32()),
    pa.field("__row", pa.int64()),
)

Row = tuple[Any, ...]
"""Event time in seconds, then other values."""


def timed_rows(*values: st.SearchStrategy[Any], most: int = 25) -> st.SearchStrategy[list[Row]]:
    """Rows by time, many of one time, with gaps of some epochs in between."""
    steps = st.sampled_from([0, 0, 0, 1, 1, 3, 9, 10, 11, 40])
    drawn = st.lists(st.tuples(steps, *values), min_size=1, max_size=most)
    return drawn.map(_with_times)


def _with_times(rows: Sequence[Row]) -> list[Row]:
    timed, time = [], 1_000
    for step, *values in rows:
        time += step
        timed.append((time, *values))
    return timed


def events_in_order(visible: pa.Schema, rows: Sequence[Row]) -> Events:
    """The rows by epoch, with the columns of their order behind their own."""
    schema = pa.schema([*visible, *ORDER])
    epochs: dict[int, list[list[Row]]] = {}
    for number, row in enumerate(rows):
        ports = epochs.setdefault(row[0] // EPOCH_SECONDS, [[]])
        ports[0].append((*row, row[0] * 1_000_000, 0, number))
    return events_of(MINUTE, [schema], epochs)
