"""Top and rank against a sort in plain Python."""

from __future__ import annotations

import math
from functools import cmp_to_key
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.model.topology import OrderTerm
from streammine.operators import best_rows
from streammine.operators.top import Method, RankedRows
from streammine.operators.windows import AlignedWindows
from tests.property.operator_trials import assert_as_reference, events_of, minutes
from tests.property.orders import canonical, group_of, in_order, normal
from tests.property.window_reference import WINDOWS, epochs_by_window

SCHEMA = pa.schema(
    [
        ("epoch", pa.int64()),
        ("word", pa.string()),
        ("group", pa.float64()),
        ("count", pa.int32()),
        ("value", pa.float64()),
        ("flags", pa.list_(pa.bool_())),
    ]
)
NAMES = SCHEMA.names
FLOATS = st.none() | st.sampled_from([0.0, -0.0, 1.5, -2.0, math.nan, math.inf, -math.inf])
ROWS = st.lists(
    st.tuples(
        st.just(7),
        st.none() | st.sampled_from(["", "a", "ab", "b\x00", "é"]),
        FLOATS,
        st.none() | st.integers(-2, 2),
        FLOATS,
        st.none() | st.lists(st.booleans(), max_size=1),
    ),
    max_size=14,
)
EPOCHS = st.dictionaries(st.integers(-3, 6), ROWS, min_size=1, max_size=4)
KEYS = st.sampled_from([(), ("word",), ("group",), ("group", "count")])
TERMS = st.lists(
    st.sampled_from(["word", "group", "count", "value", "flags"]),
    min_size=1,
    max_size=2,
    unique=True,
).flatmap(
    lambda names: st.tuples(*(st.builds(OrderTerm, st.just(name), st.booleans()) for name in names))
)


@pytest.fixture(autouse=True, params=["whole", "cut often"])
def _cuts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done once in some ten thousand rows is done for a few."""
    if request.param == "cut often":
        monkeypatch.setattr(best_rows, "_ROWS_NOT_CUT", 4)
        monkeypatch.setattr(best_rows, "_ROWS_NOT_SCREENED", 2)


def compare(terms: tuple[OrderTerm, ...], left: Any, right: Any) -> int:
    """-1, 0 or 1 by the columns of the order alone."""
    for term in terms:
        one, other = (row[NAMES.index(term.column)] for row in (left, right))
        if one is None or other is None:
            if (one is None) != (other is None):
                return 1 if one is None else -1
            continue
        first, second = (
            canonical([each]) if isinstance(each, list) else in_order(each) for each in (one, other)
        )
        if first != second:
            return -1 if (first < second) != term.descending else 1
    return 0


def ranked(
    rows: list[Any], keys: tuple[str, ...], terms: tuple[OrderTerm, ...], method: Method
) -> list[Any]:
    """(key, rank, row) of each row, in order."""

    def before(one: Any, other: Any) -> int:
        return compare(terms, one, other) or (
            (canonical(one) > canonical(other)) - (canonical(one) < canonical(other))
        )

    groups: dict[Any, list[Any]] = {}
    for row in rows:
        key = group_of([row[NAMES.index(name)] for name in keys])
        # the key leaves as 0.0 where it is -0.0, and that is how it counts in ties
        row = tuple(
            normal(value) if name in keys else value for name, value in zip(NAMES, row, strict=True)
        )
        groups.setdefault(key, []).append(row)
    found = []
    for group in groups.values():
        group.sort(key=cmp_to_key(before))
        rank = 0
        for place, row in enumerate(group, 1):
            new = place == 1 or compare(terms, group[place - 2], row) != 0
            if method == "dense_rank":
                rank += new
            elif method == "row_number" or new:
                rank = place
            found.append((rank, row))
    return found


def expected(
    epochs: dict[int, list[Any]], keys: tuple[str, ...], window: AlignedWindows, rows_of: Any
) -> dict[int, list[Any]]:
    windows = {
        last: [row for epoch in inside for row in epochs[epoch]]
        for last, inside in epochs_by_window(epochs, window).items()
    }
    others = [name for name in NAMES if name not in (*keys, "epoch")]
    return {
        last: [
            (
                last,
                *(row[NAMES.index(key)] for key in keys),
                rank,
                *(row[NAMES.index(name)] for name in others),
            )
            for rank, row in rows_of(rows)
        ]
        for last, rows in windows.items()
    }


@settings(max_examples=200, deadline=None)
@given(EPOCHS, KEYS, TERMS, st.integers(1, 4), WINDOWS, st.integers(0, 2**32))
def test_top_gives_the_first_rows_of_a_sort(
    epochs: dict[int, list[Any]],
    keys: tuple[str, ...],
    terms: tuple[OrderTerm, ...],
    count: int,
    window: AlignedWindows,
    seed: int,
) -> None:
    def make(combined: bool) -> RankedRows:
        del combined
        return RankedRows("top", SCHEMA, keys, terms, count=count, window=window)

    def first(rows: list[Any]) -> list[Any]:
        return [each for each in ranked(rows, keys, terms, "row_number") if each[0] <= count]

    events = events_of(minutes(), [SCHEMA], {epoch: [rows] for epoch, rows in epochs.items()})
    wanted = expected(epochs, keys, window, first)
    assert_as_reference(make, events, wanted, np.random.default_rng(seed), trials=2)


@settings(max_examples=200, deadline=None)
@given(
    EPOCHS,
    KEYS,
    TERMS,
    st.sampled_from(["row_number", "rank", "dense_rank"]),
    WINDOWS,
    st.integers(0, 2**32),
)
def test_rank_numbers_the_rows_of_a_sort(
    epochs: dict[int, list[Any]],
    keys: tuple[str, ...],
    terms: tuple[OrderTerm, ...],
    method: Method,
    window: AlignedWindows,
    seed: int,
) -> None:
    def make(combined: bool) -> RankedRows:
        del combined
        return RankedRows("rank", SCHEMA, keys, terms, method=method, window=window)

    events = events_of(minutes(), [SCHEMA], {epoch: [rows] for epoch, rows in epochs.items()})
    wanted = expected(epochs, keys, window, lambda rows: ranked(rows, keys, terms, method))
    assert_as_reference(make, events, wanted, np.random.default_rng(seed), trials=2)
