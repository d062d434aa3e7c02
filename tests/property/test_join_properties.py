"""Every kind of join against joins in plain Python, however rows arrive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.model.topology.join_kinds import JoinKind
from streammine.operators.checking.events import Events
from streammine.operators.event_time import EventTime
from streammine.operators.interval_join import IntervalJoin
from streammine.operators.join import EquiJoin
from streammine.operators.table_join import TableJoin, TableTimes
from streammine.operators.windows import AlignedWindows
from tests.property.join_references import in_interval, windowed, with_table
from tests.property.operator_trials import assert_as_reference, dead_of, events_of, minutes
from tests.property.window_reference import WINDOWS

SECONDS = 10
EPOCH = minutes(seconds=SECONDS)
KEY_VALUES: dict[str, list[Any]] = {
    "int64": [None, 1, 1, 2],
    "string": [None, "", "a key of more than eight bytes"],
    "float64": [None, 0.0, -0.0, float("nan"), 1.5],
}
many = settings(max_examples=200, deadline=None)

Row = tuple[Any, ...]
Sides = tuple[list[Row], list[Row]]


def schema_of(key_type: str, *more: pa.Field) -> pa.Schema:
    return pa.schema(
        [
            ("key", pa.type_for_alias(key_type)),
            ("ts", pa.int64()),
            ("value", pa.int64()),
            *more,
        ]
    )


@st.composite
def arrivals(
    draw: st.DrawFn, key_type: str, unfit: int = 0, gone: bool = False
) -> dict[int, Sides]:
    """Rows by epoch. `unfit`: of so many rows one has no time or one out of its epoch."""
    numbers = sorted(draw(st.sets(st.integers(-2, 4), min_size=1, max_size=5)))
    fewest = draw(st.integers(0, 3))
    keys = st.sampled_from(KEY_VALUES[key_type])

    def rows(epoch: int, table: bool) -> list[Row]:
        inside = st.integers(epoch * SECONDS, (epoch + 1) * SECONDS - 1)
        outside = st.one_of(st.none(), st.integers((epoch - 2) * SECONDS, (epoch + 3) * SECONDS))
        times = inside
        if unfit:
            times = st.integers(0, unfit).flatmap(lambda n: inside if n else outside)  # type: ignore[assignment]
        columns: list[st.SearchStrategy[Any]] = [keys, times, st.integers(0, 2)]
        if table:
            columns.append(st.sampled_from([None, False, False, True]))
        return draw(st.lists(st.tuples(*columns), min_size=fewest, max_size=6))

    return {number: (rows(number, False), rows(number, gone)) for number in numbers}


def sent(key_type: str, rows: dict[int, Sides], *more: pa.Field) -> Events:
    return events_of(EPOCH, [schema_of(key_type), schema_of(key_type, *more)], rows)


key_types = st.sampled_from(sorted(KEY_VALUES))
kinds = st.sampled_from(list(JoinKind))
seeds = st.integers(0, 2**32 - 1)


@many
@given(st.data(), key_types, kinds, WINDOWS, seeds)
def test_joins_in_windows(
    data: st.DataObject, key_type: str, kind: JoinKind, window: AlignedWindows, seed: int
) -> None:
    rows = data.draw(arrivals(key_type))
    schema = schema_of(key_type)

    def make(_: bool) -> EquiJoin:
        return EquiJoin(
            "join",
            schema,
            schema,
            (["key"], ["key"]),
            kind=kind,
            window=window,
            ordered=True,
        )

    expected = windowed(kind, rows, window)
    assert_as_reference(make, sent(key_type, rows), expected, np.random.default_rng(seed))


@many
@given(
    st.data(),
    key_types,
    kinds,
    st.tuples(st.integers(-25, 25), st.integers(-25, 25)),
    st.booleans(),
    seeds,
)
def test_joins_in_an_interval(
    data: st.DataObject,
    key_type: str,
    kind: JoinKind,
    bounds: tuple[int, int],
    ordered: bool,
    seed: int,
) -> None:
    lowest, highest = sorted(bounds)
    rows = data.draw(arrivals(key_type, unfit=5))
    schema = schema_of(key_type)

    def make(_: bool) -> IntervalJoin:
        return IntervalJoin(
            "join",
            (schema, schema),
            (("key",), ("key",)),
            (EventTime("join", schema, EPOCH), EventTime("join", schema, EPOCH)),
            (lowest * 1_000_000, highest * 1_000_000),
            EPOCH,
            kind=kind,
            ordered=ordered,
        )

    expected, dead = in_interval(kind, rows, lowest, highest, SECONDS)
    events = sent(key_type, rows)
    assert_as_reference(make, events, expected, np.random.default_rng(seed), ordered=ordered)
    assert len(dead_of(make, events)) == dead


@many
@given(st.data(), kinds, st.integers(-15, 15), st.integers(0, 15), seeds)
def test_joins_in_an_interval_without_keys(
    data: st.DataObject, kind: JoinKind, lowest: int, length: int, seed: int
) -> None:
    rows = {
        epoch: tuple([(1, *row[1:]) for row in side] for side in sides)
        for epoch, sides in data.draw(arrivals("int64")).items()
    }
    left = schema_of("int64")
    right = pa.schema([("other", pa.int64()), ("ts", pa.int64()), ("value", pa.int64())])

    def make(_: bool) -> IntervalJoin:
        return IntervalJoin(
            "join",
            (left, right),
            ((), ()),
            (EventTime("join", left, EPOCH), EventTime("join", right, EPOCH)),
            (lowest * 1_000_000, (lowest + length) * 1_000_000),
            EPOCH,
            kind=kind,
            ordered=True,
        )

    expected, _ = in_interval(kind, rows, lowest, lowest + length, SECONDS)  # type: ignore[arg-type]
    shown = {
        epoch: [_with_other(kind, row) for row in of_epoch] for epoch, of_epoch in expected.items()
    }
    events = events_of(EPOCH, [left, right], rows)  # type: ignore[arg-type]
    assert_as_reference(make, events, shown, np.random.default_rng(seed))


def _with_other(kind: JoinKind, row: Row) -> Sequence[Any]:
    """Without keys both sides show their first column: null where the row's other columns are."""
    if not kind.pairs:
        return row
    epoch, _, ts, value, right_ts, right_value = row
    sides = (None if ts is None else 1, None if right_ts is None else 1)
    return (epoch, sides[0], ts, value, sides[1], right_ts, right_value)


@many
@given(
    st.data(),
    key_types,
    st.sampled_from([JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI]),
    st.sampled_from(["epoch", "timed", "as of"]),
    seeds,
)
def test_joins_with_a_table(
    data: st.DataObject, key_type: str, kind: JoinKind, looks: str, seed: int
) -> None:
    rows = data.draw(arrivals(key_type, unfit=5, gone=True))
    gone = pa.field("gone", pa.bool_())
    left, table = schema_of(key_type), schema_of(key_type, gone)
    clocks = (EventTime("join", table, EPOCH), EventTime("join", left, EPOCH))
    times = {
        "epoch": TableTimes(),
        "timed": TableTimes(clocks[0]),
        "as of": TableTimes(*clocks),
    }[looks]

    def make(_: bool) -> TableJoin:
        return TableJoin(
            "join",
            (left, table),
            (("key",), ("key",)),
            times,
            kind=kind,
            delete="gone",
            ordered=True,
        )

    expected, dead = with_table(kind, rows, SECONDS, looks == "as of", looks != "epoch")
    events = sent(key_type, rows, gone)
    assert_as_reference(make, events, expected, np.random.default_rng(seed))
    assert len(dead_of(make, events)) == dead
