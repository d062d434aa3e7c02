"""Counts, sums, means, extremes and variances, with conditions and having, per epoch, window and over all,
against slow references in plain Python."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.model.topology.aggregates import AggregateCall
from streammine.operators.aggregate import KeyedAggregate
from streammine.operators.global_aggregate import GlobalAggregate
from streammine.operators.windows import TumblingWindow
from tests.property.operator_trials import assert_as_reference, events_of, minutes
from tests.property.orders import group_of, in_order, normal
from tests.property.test_aggregate_properties import FLOATS, variance
from tests.property.test_aggregate_properties import total as float_total
from tests.property.test_value_aggregates_properties import CASES, root
from tests.property.test_value_aggregates_properties import ROWS as VALUE_ROWS
from tests.property.test_value_aggregates_properties import SCHEMA as VALUE_SCHEMA
from tests.property.three_valued import Condition, conditions

SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("other", pa.float64()),
        ("f", pa.float64()),
        ("i", pa.int64()),
        ("n", pa.int32()),
        ("d", pa.decimal128(20, 3)),
        ("t", pa.string()),
        ("day", pa.date32()),
    ]
)
Row = tuple[Any, ...]
ROWS = st.tuples(
    st.none() | st.sampled_from(["", "a", "é", "longer than eight"]),
    st.none() | st.sampled_from([0.0, -0.0, 1.5, math.nan]),
    st.none() | FLOATS,
    st.none() | st.sampled_from([-1, 0, 1]) | st.integers(-(2**56), 2**56),
    st.none() | st.sampled_from([-(2**31), 0, 7, 2**31 - 1]),
    st.none() | st.decimals(-99, 99, places=3),
    st.none() | st.sampled_from(["", "a", "ab", "\0", "é", "longer than eight"]),
    st.none() | st.dates(dt.date(1960, 1, 1), dt.date(1980, 1, 1)),
)
EPOCHS = st.dictionaries(st.integers(-3, 5), st.lists(ROWS, max_size=10), min_size=1, max_size=4)
RANDOM = st.integers(0, 2**32).map(np.random.default_rng)
KEYS = st.sampled_from([(), ("key",), ("other",), ("other", "key")])
WINDOWS = st.sampled_from([None, None, 2, 3, "global", "global"])
"""None: an epoch each; how many epochs; all rows."""

Window = int | str | None


def total(values: Sequence[Any]) -> Any:
    return sum(values) if values and isinstance(values[0], Decimal) else float_total(list(values))


def mean(values: Sequence[Any]) -> float | None:
    """Decimals count as their nearest float64."""
    numbers = [float(value) if isinstance(value, Decimal) else value for value in values]
    return float(total(numbers)) / len(numbers) if numbers else None


def least(values: Sequence[Any]) -> Any:
    return min(values, key=lambda value: in_order(value, True), default=None)


def greatest(values: Sequence[Any]) -> Any:
    return max(values, key=lambda value: in_order(value, True), default=None)


def spread(values: Sequence[Any], divisor_less: int) -> float | None:
    """The variance; decimals and integers count as their nearest float64."""
    return variance([float(value) for value in values], divisor_less)


def deviation(values: Sequence[Any], divisor_less: int) -> float | None:
    if len(values) <= divisor_less:
        return None
    if not all(map(math.isfinite, values)):
        return math.nan
    exact = [Fraction(float(value)) for value in values]
    average = sum(exact) / len(exact)
    return root(sum((value - average) ** 2 for value in exact) / (len(exact) - divisor_less))


FUNCTIONS: dict[str, Callable[[Sequence[Any]], Any]] = {
    "count": len,
    "sum": total,
    "mean": mean,
    "min": least,
    "max": greatest,
    "variance": lambda values: spread(values, 1),
    "variance_population": lambda values: spread(values, 0),
    "stddev": lambda values: deviation(values, 1),
    "stddev_population": lambda values: deviation(values, 0),
}
CALLS = [
    *((function, column) for function in FUNCTIONS for column in "find"),
    *((function, column) for function in ("count", "min", "max") for column in ("t", "day")),
]


def of_column(name: str, holds: Callable[[Any], bool]) -> Callable[[Mapping[str, Any]], Any]:
    return lambda row: None if row[name] is None else holds(row[name])


ATOMS = [
    Condition("i > 0", of_column("i", lambda i: i > 0)),
    Condition("f <= 1", of_column("f", lambda f: f <= 1)),
    Condition("t = 'a'", of_column("t", lambda t: t == "a")),
    Condition("day is not null", lambda row: row["day"] is not None),
    Condition("n <> 7", of_column("n", lambda n: n != 7)),
]
HAVING = [
    Condition("rows > 1", of_column("rows", lambda rows: rows > 1)),
    Condition("known = 0", of_column("known", lambda known: known == 0)),
    Condition("low < 0", of_column("low", lambda low: low < 0)),
    Condition("epoch >= 2", of_column("epoch", lambda epoch: epoch >= 2)),
]
ALWAYS = {"rows": "count()", "known": "count(f)", "low": "min(i)"}


@dataclass(frozen=True)
class Call:
    function: str
    column: str
    where: Condition | None

    def __str__(self) -> str:
        suffix = "" if self.where is None else f" where {self.where.text}"
        return f"{self.function}({self.column}){suffix}"

    def of(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        counted = [row for row in rows if self.where is None or self.where.holds(row) is True]
        values = [row[self.column] for row in counted if row[self.column] is not None]
        return FUNCTIONS[self.function](values)


CHOSEN = st.lists(
    st.builds(
        lambda call, where: Call(*call, where),
        st.sampled_from(CALLS),
        st.none() | conditions(ATOMS),
    ),
    min_size=1,
    max_size=3,
)


def left_in(epoch: int, window: Window, last: int) -> int:
    """The epoch in which the window leaves that holds this one; `last`: the last with data."""
    if window == "global":
        return last + 1
    length = window or 1
    assert isinstance(length, int)
    return (epoch // length + 1) * length - 1


def grouped(
    epochs: Mapping[int, Sequence[Row]], schema: pa.Schema, keys: Sequence[str], window: Window
) -> dict[int, list[tuple[Row, list[Row]]]]:
    """By the epoch in which they leave: the values of each key, and its rows."""
    places = [schema.names.index(key) for key in keys]
    windows: dict[int, dict[Any, tuple[Row, list[Row]]]] = {}
    for epoch, rows in epochs.items():
        groups = windows.setdefault(left_in(epoch, window, max(epochs)), {})
        for row in rows:
            values = tuple(normal(row[place]) for place in places)
            groups.setdefault(group_of(values), (values, []))[1].append(row)
    return {epoch: list(groups.values()) for epoch, groups in windows.items()}


def span(epoch: int, window: Window) -> tuple[dt.datetime, ...]:
    """Start and end of the tumbling window that ends with this epoch, a minute each."""
    if not isinstance(window, int):
        return ()
    first, end = (dt.timedelta(minutes=at) for at in (epoch + 1 - window, epoch + 1))
    return (dt.datetime(1970, 1, 1) + first, dt.datetime(1970, 1, 1) + end)


def maker(
    schema: pa.Schema,
    keys: Sequence[str],
    calls: Mapping[str, str],
    window: Window,
    having: str | None = None,
) -> Callable[[bool], KeyedAggregate | GlobalAggregate]:
    parsed = {name: AggregateCall.parse(text) for name, text in calls.items()}

    def make(combined: bool) -> KeyedAggregate | GlobalAggregate:
        if window == "global":
            return GlobalAggregate(
                "a", schema, keys, parsed, combined=combined, having=having, time="ts"
            )
        return KeyedAggregate(
            "a",
            schema,
            keys,
            parsed,
            window=TumblingWindow(window) if isinstance(window, int) else None,
            combined=combined,
            spans=window is not None,
            having=having,
            time="ts",
        )

    return make


@settings(max_examples=200, deadline=None)
@given(EPOCHS, KEYS, CHOSEN, WINDOWS, st.none() | conditions(HAVING), RANDOM)
def test_plain_functions_give_what_the_reference_gives(
    epochs: dict[int, list[Row]],
    keys: tuple[str, ...],
    chosen: list[Call],
    window: Window,
    having: Condition | None,
    random: np.random.Generator,
) -> None:
    expected: dict[int, list[Row]] = {}
    for epoch, groups in grouped(epochs, SCHEMA, keys, window).items():
        for key, rows in groups:
            named = [dict(zip(SCHEMA.names, row, strict=True)) for row in rows]
            shown = {
                "rows": len(rows),
                "known": Call("count", "f", None).of(named),
                "low": Call("min", "i", None).of(named),
            }
            if having is not None and having.holds({**shown, "epoch": epoch}) is not True:
                continue
            computed = (call.of(named) for call in chosen)
            row = (epoch, *span(epoch, window), *key, *shown.values(), *computed)
            expected.setdefault(epoch, []).append(row)
    calls = {**ALWAYS, **{f"c{number}": str(call) for number, call in enumerate(chosen)}}
    make = maker(SCHEMA, keys, calls, window, None if having is None else having.text)
    events = events_of(minutes(), [SCHEMA], {epoch: [rows] for epoch, rows in epochs.items()})
    assert_as_reference(make, events, expected, random, trials=2)


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(st.integers(0, 5), st.lists(VALUE_ROWS, max_size=12), min_size=1, max_size=4),
    st.sampled_from([(), ("key",)]),
    st.lists(st.sampled_from(sorted(CASES)), min_size=1, max_size=4, unique=True),
    RANDOM,
)
def test_functions_of_values_over_all_rows_leave_when_the_input_is_over(
    epochs: dict[int, list[Row]],
    keys: tuple[str, ...],
    calls: list[str],
    random: np.random.Generator,
) -> None:
    expected = {
        epoch: [(epoch, *key, *(CASES[call](rows) for call in calls)) for key, rows in groups]
        for epoch, groups in grouped(epochs, VALUE_SCHEMA, keys, "global").items()
    }
    make = maker(VALUE_SCHEMA, keys, {call: call for call in calls}, "global")
    events = events_of(minutes(), [VALUE_SCHEMA], {epoch: [rows] for epoch, rows in epochs.items()})
    assert_as_reference(make, events, expected, random, trials=3)
