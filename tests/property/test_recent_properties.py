"""Recent and latest against plain Python that looks at all rows again for each change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.model.topology import RecentCall
from streammine.operators.latest import Latest
from streammine.operators.recent import Recent
from tests.property.event_order_cases import (
    EPOCH_SECONDS,
    MINUTE,
    ORDER,
    Row,
    events_in_order,
    timed_rows,
)
from tests.property.operator_trials import assert_as_reference

VISIBLE = pa.schema([("ts", pa.int64()), ("key", pa.string()), ("value", pa.int32())])
CALLS = {
    "rows": RecentCall("count", None),
    "values": RecentCall("count", "value"),
    "total": RecentCall("sum", "value"),
    "middle": RecentCall("median", "value"),
}
KEYS = st.sampled_from(["a", "b", "c", "", None])
VALUES = st.sampled_from([None, 0, 1, 1, 2, 5, -3, 2**31 - 1, -(2**31)])

Changes = Iterator[tuple[int, bool, Row]]


def changes_of(rows: list[Row], length: int) -> Changes:
    """(time, whether the row comes, row): first those that leave at a time, then those that come."""
    found = [(row[0], 1, number) for number, row in enumerate(rows)]
    found += [(row[0] + length, 0, number) for number, row in enumerate(rows)]
    return ((time, bool(comes), rows[number]) for time, comes, number in sorted(found))


def aggregates(held: list[Row]) -> tuple[Any, ...]:
    values = sorted(row[2] for row in held if row[2] is not None)
    middle = None
    if values:
        middle = (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2
    return (len(held) or None, len(values) or None, sum(values) if values else None, middle)


def recent_rows(rows: list[Row], length: int, calls: list[str]) -> Mapping[int, list[Row]]:
    told: dict[int, list[Row]] = defaultdict(list)
    held: dict[Any, list[Row]] = defaultdict(list)
    shown = [list(CALLS).index(name) for name in calls]
    for time, comes, row in changes_of(rows, length):
        of_key = held[row[1]]
        before = aggregates(of_key)
        if comes:
            of_key.append(row)
        else:
            of_key.remove(row)
        after = aggregates(of_key)
        if comes or any(before[place] != after[place] for place in shown):
            columns = [after[place] for place in shown]
            told[time // EPOCH_SECONDS].append((row[1], *columns, row[0] if comes else None))
    return told


@settings(max_examples=200, deadline=None)
@given(
    timed_rows(KEYS, VALUES),
    st.sampled_from([1, 3, 10, 25, 60]),
    st.lists(st.sampled_from(list(CALLS)), min_size=1, unique=True),
    st.integers(0, 2**32),
)
def test_recent_tells_what_the_last_while_amounts_to(
    rows: list[Row], length: int, calls: list[str], seed: int
) -> None:
    def make(combined: bool) -> Recent:
        return Recent(
            "recent",
            VISIBLE,
            ["key"],
            {name: CALLS[name] for name in calls},
            length * 1_000_000,
            ["ts"],
            MINUTE,
            order=ORDER,
        )

    assert_as_reference(
        make,
        events_in_order(VISIBLE, rows),
        recent_rows(rows, length, calls),
        np.random.default_rng(seed),
        ordered=False,
        in_sequence=True,
    )


def latest_rows(rows: list[Row], length: int) -> Mapping[int, list[Row]]:
    told: dict[int, list[Row]] = defaultdict(list)
    latest: dict[Any, tuple[int, Row]] = {}
    numbers = {id(row): number for number, row in enumerate(rows)}
    for time, comes, row in changes_of(rows, length):
        epoch, number = time // EPOCH_SECONDS, numbers[id(row)]
        if comes:
            if row[1] in latest:
                told[epoch].append((latest[row[1]][1][2], -1, row[0]))
            told[epoch].append((row[2], 1, row[0]))
            latest[row[1]] = (number, row)
        elif latest.get(row[1], (None,))[0] == number:
            told[epoch].append((row[2], -1, None))
            del latest[row[1]]
    return told


@settings(max_examples=200, deadline=None)
@given(
    timed_rows(KEYS, VALUES),
    st.sampled_from([1, 3, 10, 25, 60]),
    st.integers(0, 2**32),
)
def test_latest_tells_each_row_that_comes_and_goes(rows: list[Row], length: int, seed: int) -> None:
    # hypothesis may draw equal rows as one object
    rows = [(*row,) for row in rows]

    def make(combined: bool) -> Latest:
        return Latest(
            "latest",
            VISIBLE,
            ["key"],
            ["value"],
            length * 1_000_000,
            ["ts"],
            MINUTE,
            order=ORDER,
        )

    assert_as_reference(
        make,
        events_in_order(VISIBLE, rows),
        latest_rows(rows, length),
        np.random.default_rng(seed),
        ordered=False,
        in_sequence=True,
    )
