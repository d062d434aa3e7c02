"""Sessions against a slow, obvious reference: all rows of a key in order of time, cut at the gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.model.durations import Duration
from streammine.model.topology.aggregates import AggregateCall
from streammine.operators.aggregates import keys as key_tables
from streammine.operators.aggregates import sessions as open_sessions
from streammine.operators.event_time import EventTime
from streammine.operators.session_aggregate import SessionAggregate
from tests.property.operator_trials import (
    assert_as_reference,
    dead_of,
    events_of,
    minutes,
)
from tests.property.test_aggregate_properties import highest, key_order, lowest, total
from tests.property.window_reference import moment

EPOCH_SECONDS = 10
EPOCHS = minutes("ts", EPOCH_SECONDS)
SCHEMA = pa.schema([("word", pa.string()), ("ts", pa.int64()), ("f", pa.float64())])
CALLS = {
    "rows": AggregateCall.parse("count()"),
    "sum": AggregateCall.parse("sum(f)"),
    "low": AggregateCall.parse("min(f)"),
    "high": AggregateCall.parse("max(f)"),
    "first": AggregateCall.parse("min(ts)"),
}
Row = tuple[str | None, int | None, float | None]
WORDS = st.none() | st.sampled_from(["a", "b", "longer than eight"])
FLOATS = st.none() | st.sampled_from([0.1, 0.2, -0.0, 1e300, 5e-324, float("inf"), float("nan")])


def rows_of(epoch: int) -> st.SearchStrategy[list[Row]]:
    """Most rows lie in their epoch, some before and some after it."""
    start = epoch * EPOCH_SECONDS
    times = st.integers(start, start + EPOCH_SECONDS - 1) | st.integers(start - 45, start + 45)
    return st.lists(st.tuples(WORDS, st.none() | times, FLOATS), max_size=8)


INPUT = st.sets(st.integers(-6, 12), min_size=1, max_size=9).flatmap(
    lambda numbers: st.fixed_dictionaries({number: rows_of(number) for number in sorted(numbers)})
)


@settings(max_examples=200, deadline=None)
@given(INPUT, st.integers(1, 35), st.booleans(), st.integers(0, 4), st.integers(0, 2**32 - 1))
def test_sessions_are_rows_between_gaps(
    epochs: dict[int, list[Row]], gap: int, keyed: bool, kept: int, seed: int
) -> None:
    """What no session needs any more is given up at once."""
    keys = ("word",) if keyed else ()

    def make(combined: bool) -> SessionAggregate:
        time = EventTime("a", SCHEMA, EPOCHS)
        return SessionAggregate(
            "a", SCHEMA, keys, CALLS, event_time=time, gap=Duration(gap * 1_000_000), spans=True
        )

    events = events_of(EPOCHS, [SCHEMA], {number: [rows] for number, rows in epochs.items()})
    expected, dead = sessions_of(epochs, gap, keys)
    with (
        patch.object(key_tables, "_SIZE_ALWAYS_KEPT", kept),
        patch.object(key_tables, "_UNUSED_FACTOR", 1),
        patch.object(open_sessions, "_SLOTS_ALWAYS_KEPT", kept),
    ):
        assert_as_reference(make, events, expected, np.random.default_rng(seed), trials=2)
    assert dead_of(make, events) == sorted(map(text_of, dead))
    used = sum(row[3 + len(keys)] for rows in expected.values() for row in rows)
    assert used + len(dead) == sum(map(len, epochs.values()))


@dataclass
class Session:
    """Rows of one key."""

    rows: list[Row]

    @property
    def start(self) -> int:
        return min(time_of(row) for row in self.rows)

    @property
    def last(self) -> int:
        return max(time_of(row) for row in self.rows)


def sessions_of(
    epochs: Mapping[int, Sequence[Row]], gap: int, keys: Sequence[str]
) -> tuple[dict[int, list[tuple[Any, ...]]], list[Row]]:
    """What leaves, by epoch, and the rows that can't be used."""
    is_open: dict[tuple[Any, ...], list[Session]] = {}
    left: dict[tuple[Any, ...], list[Session]] = {}
    dead: list[Row] = []
    found: dict[int, list[tuple[Any, ...]]] = {}
    for epoch in range(-20, 40):
        new: dict[tuple[Any, ...], list[Row]] = {}
        for row in epochs.get(epoch, ()):
            key = (row[0],) if keys else ()
            sessions = (is_open.get(key, []), left.get(key, []))
            if row[1] is None or is_late(row[1], *sessions, gap, epoch * EPOCH_SECONDS):
                dead.append(row)
            else:
                new.setdefault(key, []).append(row)
        for key, rows in new.items():
            rows += [row for session in is_open.get(key, ()) for row in session.rows]
            is_open[key] = cut(rows, gap)
        watermark = (epoch + 1) * EPOCH_SECONDS
        found[epoch] = []
        for key in sorted(is_open, key=key_order):
            for session in is_open[key]:
                if session.last + gap <= watermark:
                    left.setdefault(key, []).append(session)
                    span = (moment(session.start), moment(session.last + gap))
                    found[epoch].append((epoch, *span, *key, *results(session.rows)))
            is_open[key] = [each for each in is_open[key] if each.last + gap > watermark]
    return found, dead


def is_late(
    time: int, is_open: Sequence[Session], left: Sequence[Session], gap: int, over_until: int
) -> bool:
    if any(time < session.last + gap for session in left):
        return True
    covered = any(session.start <= time < session.last + gap for session in is_open)
    return time + gap <= over_until and not covered


def cut(rows: list[Row], gap: int) -> list[Session]:
    ordered = sorted(rows, key=time_of)
    sessions = [Session([ordered[0]])]
    for row in ordered[1:]:
        if time_of(row) - sessions[-1].last < gap:
            sessions[-1].rows.append(row)
        else:
            sessions.append(Session([row]))
    return sessions


def time_of(row: Row) -> int:
    assert row[1] is not None
    return row[1]


def results(rows: Sequence[Row]) -> list[Any]:
    floats = [row[2] for row in rows if row[2] is not None]
    return [len(rows), total(floats), lowest(floats), highest(floats), min(map(time_of, rows))]


def text_of(row: Row) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in zip(SCHEMA.names, row, strict=True))
