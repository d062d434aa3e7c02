"""Aggregates that keep values, filters and having, against slow references in plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streammine.model.canonical import canonical_order
from streammine.model.topology.aggregates import AggregateCall
from streammine.operators.aggregate import KeyedAggregate
from streammine.operators.windows import TumblingWindow
from tests.property.operator_trials import assert_as_reference, batch_of, events_of, minutes

SCHEMA = pa.schema(
    [
        ("ts", pa.int64()),
        ("key", pa.string()),
        ("f", pa.float64()),
        ("i", pa.int64()),
        ("t", pa.string()),
        ("d", pa.decimal128(20, 3)),
    ]
)
COLUMNS = {name: place for place, name in enumerate(SCHEMA.names)}
Row = tuple[Any, ...]

FLOATS = st.one_of(
    st.floats(),
    st.floats(-1e3, 1e3),
    st.sampled_from([0.0, -0.0, 1.7e308, -1.7e308, 5e-324, 0.1, math.inf, -math.inf, math.nan]),
)
ROWS = st.tuples(
    st.none() | st.integers(0, 3),
    st.none() | st.sampled_from(["a", "b", "é"]),
    st.none() | FLOATS,
    st.none() | st.sampled_from([-1, 0, 1, 2]) | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.sampled_from(["", "a", "ab", "\0", "é", "longer than eight"]),
    st.none() | st.decimals(-99, 99, places=3),
)
EPOCHS = st.dictionaries(st.integers(0, 5), st.lists(ROWS, max_size=15), min_size=1, max_size=4)
RANDOM = st.integers(0, 2**32).map(np.random.default_rng)

Function = Callable[[Sequence[Row]], Any]


def canonical(values: Iterable[Any], kind: pa.DataType) -> list[Any]:
    """The values that are there, in canonical order."""
    array = pa.array([value for value in values if value is not None], kind)
    batch = pa.record_batch([array], ["value"])
    return list(array.take(pa.array(canonical_order(batch))).to_pylist())


def of_column(name: str, rows: Sequence[Row]) -> list[Any]:
    return canonical((row[COLUMNS[name]] for row in rows), SCHEMA.field(name).type)


def quantile(name: str, share: str, between: str, rows: Sequence[Row]) -> Any:
    values = of_column(name, rows)
    if not values:
        return None
    place = (len(values) - 1) * Fraction(share)
    low = values[math.floor(place)]
    high = values[math.ceil(place)]
    part = place - math.floor(place)
    if between != "linear":
        nearest = high if part > Fraction(1, 2) else low
        return {"lower": low, "higher": high, "nearest": nearest}[between]
    if part == 0 or repr(low) == repr(high):
        return float(low)
    if math.isfinite(low) and math.isfinite(high):
        return float((1 - part) * Fraction(low) + part * Fraction(high))
    return low * float(1 - part) + high * float(part)


def distinct(name: str, rows: Sequence[Row]) -> int:
    values = [row[COLUMNS[name]] for row in rows if row[COLUMNS[name]] is not None]
    return len({"NaN" if value != value else value for value in values})


def of_pairs(place: int, name: str, by: str, rows: Sequence[Row]) -> Any:
    pairs = [(row[COLUMNS[by]], row[COLUMNS[name]]) for row in rows]
    pairs = [pair for pair in pairs if None not in pair]
    if not pairs:
        return None
    columns = [
        pa.array([pair[side] for pair in pairs], SCHEMA.field(column).type)
        for side, column in enumerate((by, name))
    ]
    order = canonical_order(pa.record_batch(columns, ["by", "value"]))
    return pairs[order[place]][1]


def deviation(name: str, sample: bool, rows: Sequence[Row]) -> float | None:
    values = of_column(name, rows)
    if len(values) <= sample:
        return None
    if not all(map(math.isfinite, values)):
        return math.nan
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    return root(sum((value - mean) ** 2 for value in exact) / (len(exact) - sample))


def root(square: Fraction) -> float:
    """The double nearest to the root: half of the sum of it and what is just not it any more. An infinity
    where it is beyond all of them, as the deviation of two numbers may be."""
    scaled = square * 4**1200
    whole = math.isqrt(scaled.numerator // scaled.denominator)
    inexact = whole * whole != scaled
    try:
        return (2 * whole + inexact) / (2 << 1200)
    except OverflowError:
        return math.inf


def where(holds: Callable[[Row], Any], function: Function, rows: Sequence[Row]) -> Any:
    return function([row for row in rows if holds(row) is True])


def positive(row: Row) -> Any:
    return None if row[COLUMNS["i"]] is None else row[COLUMNS["i"]] > 0


def total(rows: Sequence[Row]) -> int | None:
    values = [row[COLUMNS["i"]] for row in rows if row[COLUMNS["i"]] is not None]
    return sum(values) if values else None


CASES: dict[str, Function] = {
    "median(f)": partial(quantile, "f", "0.5", "linear"),
    "median(i)": partial(quantile, "i", "0.5", "linear"),
    "quantile(f, 0.95)": partial(quantile, "f", "0.95", "linear"),
    "quantile(i, 0.3333333)": partial(quantile, "i", "0.3333333", "linear"),
    "quantile(d, 0.9)": partial(quantile, "d", "0.9", "linear"),
    "quantile(f, 1)": partial(quantile, "f", "1", "linear"),
    "quantile(t, 0.5, lower)": partial(quantile, "t", "0.5", "lower"),
    "quantile(d, 0.25, higher)": partial(quantile, "d", "0.25", "higher"),
    "quantile(f, 0.5, nearest)": partial(quantile, "f", "0.5", "nearest"),
    "quantile(i, 0.7, nearest)": partial(quantile, "i", "0.7", "nearest"),
    "count_distinct(f)": partial(distinct, "f"),
    "count_distinct(t)": partial(distinct, "t"),
    "count_distinct(d)": partial(distinct, "d"),
    "collect(f)": partial(of_column, "f"),
    "collect(i)": partial(of_column, "i"),
    "collect(t)": partial(of_column, "t"),
    "collect(d)": partial(of_column, "d"),
    "first(f)": partial(of_pairs, 0, "f", "ts"),
    "last(f)": partial(of_pairs, -1, "f", "ts"),
    "first(t)": partial(of_pairs, 0, "t", "ts"),
    "last(d, ts)": partial(of_pairs, -1, "d", "ts"),
    "arg_min(i, f)": partial(of_pairs, 0, "i", "f"),
    "arg_max(f, f)": partial(of_pairs, -1, "f", "f"),
    "arg_max(f, t)": partial(of_pairs, -1, "f", "t"),
    "arg_min(t, i)": partial(of_pairs, 0, "t", "i"),
    "stddev(f)": partial(deviation, "f", True),
    "stddev_population(f)": partial(deviation, "f", False),
    "count() where i > 0": partial(where, positive, len),
    "median(f) where i > 0": partial(where, positive, partial(quantile, "f", "0.5", "linear")),
    "collect(t) where i > 0": partial(where, positive, partial(of_column, "t")),
    "last(t) where i > 0": partial(where, positive, partial(of_pairs, -1, "t", "ts")),
    "stddev(f) where i > 0": partial(where, positive, partial(deviation, "f", True)),
    "count() where t = 'a' or f > 1": partial(
        where,
        lambda row: (
            row[COLUMNS["t"]] == "a"
            # NaN is greater than every number
            or (row[COLUMNS["f"]] is not None and not row[COLUMNS["f"]] <= 1)
        ),
        len,
    ),
}


def make(calls: Sequence[str], length: int, having: str | None, combined: bool) -> KeyedAggregate:
    return KeyedAggregate(
        "a",
        SCHEMA,
        ["key"],
        {call: AggregateCall.parse(call) for call in calls},
        window=TumblingWindow(length),
        combined=combined,
        having=having,
        time="ts",
    )


def expected(
    epochs: Mapping[int, Sequence[Row]], calls: Sequence[str], length: int
) -> dict[int, list[Row]]:
    windows: dict[int, dict[Any, list[Row]]] = {}
    for epoch, rows in epochs.items():
        groups = windows.setdefault((epoch // length + 1) * length - 1, {})
        for row in rows:
            groups.setdefault(row[COLUMNS["key"]], []).append(row)
    return {
        last: [(last, key, *(CASES[call](rows) for call in calls)) for key, rows in groups.items()]
        for last, groups in windows.items()
    }


@settings(max_examples=250, deadline=None)
@given(
    EPOCHS,
    st.lists(st.sampled_from(sorted(CASES)), min_size=1, max_size=4, unique=True),
    st.integers(1, 3),
    RANDOM,
)
@example(
    {0: [(None, None, value, None, None, None) for value in (1.7e308, -8.5e307)]},
    ["stddev(f)"],
    1,
    np.random.default_rng(0),
)
def test_functions_of_values_give_what_the_reference_gives(
    epochs: dict[int, list[Row]], calls: list[str], length: int, random: np.random.Generator
) -> None:
    events = events_of(minutes(), [SCHEMA], {epoch: [rows] for epoch, rows in epochs.items()})
    assert_as_reference(
        partial(make, calls, length, None),
        events,
        expected(epochs, calls, length),
        random,
        trials=3,
    )


@settings(max_examples=200, deadline=None)
@given(EPOCHS, st.integers(1, 3), RANDOM)
def test_only_rows_leave_for_which_having_is_true(
    epochs: dict[int, list[Row]], length: int, random: np.random.Generator
) -> None:
    calls = ["count_distinct(t)", "arg_min(i, f)"]
    having = '"count_distinct(t)" >= 2 and ("arg_min(i, f)" <> 0 or epoch = 2)'
    events = events_of(minutes(), [SCHEMA], {epoch: [rows] for epoch, rows in epochs.items()})
    kept = {
        last: [
            row
            for row in rows
            if row[2] >= 2 and (last == 2 or (row[3] is not None and row[3] != 0))
        ]
        for last, rows in expected(epochs, calls, length).items()
    }
    assert_as_reference(partial(make, calls, length, having), events, kept, random, trials=3)


@settings(max_examples=200, deadline=None)
@given(st.lists(ROWS, max_size=30), RANDOM)
def test_partials_of_equal_rows_are_equal_bytes(
    rows: list[Row], random: np.random.Generator
) -> None:
    """What a sending slice hands out does not show in which order its rows came."""
    operator = make(sorted(CASES), 1, None, True)
    found = []
    for _ in range(2):
        combiner = operator.combiner()
        batch = batch_of(SCHEMA, rows)
        cut = int(random.integers(len(rows) + 1))
        for part in (batch.slice(0, cut), batch.slice(cut)):
            combiner.add(part.take(pa.array(random.permutation(part.num_rows))))
        found.append(combiner.partials())
    assert str(found[0].to_pylist()) == str(found[1].to_pylist())
