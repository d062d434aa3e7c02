"""Sliding windows against a slow, obvious reference: each window anew from its rows."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.model.epochs import EpochDefinition
from streammine.model.topology.aggregates import AggregateCall
from streammine.operators.aggregates import keys as key_tables
from streammine.operators.sliding_aggregate import SlidingAggregate
from streammine.operators.windows import AlignedWindows
from tests.property.operator_trials import assert_as_reference, events_of
from tests.property.test_aggregate_properties import (
    FLOATS,
    highest,
    in_order,
    key_order,
    lowest,
    mean,
    sample_variance,
    total,
)
from tests.property.window_reference import moment

SECOND = EpochDefinition("time", 1_000_000, "ts")
COUNTED = EpochDefinition("count", 10)
SCHEMA = pa.schema([("word", pa.string()), ("f", pa.float64()), ("i", pa.int64())])
CALLS = {
    name: AggregateCall.parse(text)
    for name, text in {
        "rows": "count()",
        "known": "count(f)",
        "sum_f": "sum(f)",
        "sum_i": "sum(i)",
        "mean": "mean(f)",
        "variance": "variance(f)",
        "low": "min(f)",
        "high": "max(i)",
        "last": "max(word)",
        "median": "median(i)",
        "words": "count_distinct(word)",
        "at_least": "arg_min(i, f)",
        "large": "count() where i > 0",
    }.items()
}
Row = tuple[str | None, float | None, int | None]
ROWS = st.lists(
    st.tuples(
        st.none() | st.sampled_from(["", "a", "b", "é", "longer than eight"]),
        st.none() | FLOATS,
        st.none() | st.integers(-(2**40), 2**40),
    ),
    max_size=8,
)
EPOCHS = st.dictionaries(st.integers(-12, 25), ROWS, min_size=1, max_size=14)
WINDOWS = st.integers(1, 9).flatmap(
    lambda length: st.builds(AlignedWindows, st.just(length), st.integers(1, length))
)


@settings(max_examples=200, deadline=None)
@given(EPOCHS, WINDOWS, st.booleans(), st.integers(0, 4), st.integers(0, 2**32 - 1))
def test_each_window_is_that_of_its_rows(
    epochs: dict[int, list[Row]],
    window: AlignedWindows,
    keyed: bool,
    keys_kept: int,
    seed: int,
) -> None:
    """Tables of keys that no row has any more are given up at once."""
    keys = ("word",) if keyed else ()

    def make(combined: bool) -> SlidingAggregate:
        return SlidingAggregate(
            "a", SCHEMA, keys, CALLS, window=window, combined=combined, spans=True
        )

    events = events_of(SECOND, [SCHEMA], {number: [rows] for number, rows in epochs.items()})
    expected = windows_of(epochs, window, keys)
    with (
        patch.object(key_tables, "_SIZE_ALWAYS_KEPT", keys_kept),
        patch.object(key_tables, "_UNUSED_FACTOR", 1),
    ):
        assert_as_reference(make, events, expected, np.random.default_rng(seed), trials=2)


@settings(max_examples=60, deadline=None)
@given(EPOCHS, WINDOWS, st.integers(0, 2**32 - 1))
def test_windows_of_epochs_of_rows_say_no_times(
    epochs: dict[int, list[Row]], window: AlignedWindows, seed: int
) -> None:
    def make(combined: bool) -> SlidingAggregate:
        return SlidingAggregate("a", SCHEMA, ("word",), CALLS, window=window, combined=combined)

    expected = {
        epoch: [(row[0], *row[3:]) for row in rows]
        for epoch, rows in windows_of(epochs, window, ("word",)).items()
    }
    events = events_of(COUNTED, [SCHEMA], {number: [rows] for number, rows in epochs.items()})
    assert_as_reference(make, events, expected, np.random.default_rng(seed), trials=2)


def windows_of(
    epochs: Mapping[int, Sequence[Row]], window: AlignedWindows, keys: Sequence[str]
) -> dict[int, list[tuple[Any, ...]]]:
    """By its last epoch, what each window gives."""
    found: dict[int, list[tuple[Any, ...]]] = {}
    for start in range(-30, 40):
        if start % window.slide:
            continue
        last = start + window.epochs - 1
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for epoch in range(start, last + 1):
            for row in epochs.get(epoch, ()):
                groups.setdefault((row[0],) if keys else (), []).append(row)
        found[last] = [
            (last, moment(start), moment(last + 1), *key, *results(groups[key]))
            for key in sorted(groups, key=key_order)
        ]
    return found


def results(rows: Sequence[Row]) -> list[Any]:
    words, floats, numbers = (
        [row[place] for row in rows if row[place] is not None] for place in range(3)
    )
    return [
        len(rows),
        len(floats),
        total(floats),
        total(numbers),
        mean(floats),
        sample_variance(floats),
        lowest(floats),
        highest(numbers),
        max(words, key=str.encode) if words else None,
        statistics.median(numbers) if numbers else None,
        len(set(words)),
        at_least(rows),
        sum(number > 0 for number in numbers),
    ]


def at_least(rows: Sequence[Row]) -> int | None:
    """The number with the least float, of equal ones the least number."""
    pairs = [(row[1], row[2]) for row in rows if row[1] is not None and row[2] is not None]
    return min(pairs, key=lambda pair: (in_order(pair[0]), pair[1]))[1] if pairs else None
