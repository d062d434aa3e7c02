"""Leaders against plain Python that sorts all keys again after each event."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.model.topology import Leading
from streammine.operators.checking.events import Events
from streammine.operators.leaders import Leaders
from tests.property.event_order_cases import EPOCH_SECONDS, MINUTE, Row, timed_rows
from tests.property.operator_trials import assert_as_reference, events_of

BY_EVENT = (
    pa.field("__time", pa.int64()),
    pa.field("__by_event0", pa.int8()),
    pa.field("__row", pa.int64()),
)
PRICES = pa.schema([("ts", pa.int64()), ("key", pa.int64()), ("price", pa.float64())])
STOCKS = pa.schema([("ts", pa.int64()), ("key", pa.int64()), ("change", pa.int64())])
SETTINGS = Leading.model_validate(
    {
        "count": 3,
        "measures": {"price": "latest(price)", "stock": "sum(change)"},
        "by": "case when stock > 0 then price / stock end",
        "show": {"key": "key", "stock": "stock"},
        "keep": ["ts"],
    }
)
KEYS = st.integers(0, 5)
PRICE = st.sampled_from([None, 0.0, -0.0, 1.0, 2.0, 2.0, 4.0, -6.0, float("nan"), float("inf")])

CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just(0), KEYS, PRICE),
        st.tuples(st.just(1), KEYS, st.sampled_from([1, 1, 1, 2, -1])),
    ),
    max_size=3,
)
"""What one event, or time alone, changes: port, key and value."""


def told_rows(rows: list[Row]) -> Mapping[int, list[Row]]:
    told: dict[int, list[Row]] = defaultdict(list)
    price: dict[int, Any] = defaultdict(lambda: None)
    stock: dict[int, int] = defaultdict(int)
    stamps: dict[int, int] = {}
    stamp = 0
    last: list[Any] = []
    for time, by_event, changes in rows:
        for port, key, value in sorted(changes, key=lambda change: change[0]):
            if port == 0:
                price[key] = value
            else:
                stock[key] += value
            if by_event or key not in stamps:
                stamp += 1
                stamps[key] = stamp
            if price[key] is None and not stock[key]:
                del stamps[key]
        if not by_event or not changes:
            continue
        ranked = []
        for key in stamps:
            value = price[key]
            if value is not None and stock[key] > 0 and value == value:
                ranked.append((-value / stock[key], -stamps[key], key))
        first = [(key, stock[key]) for _, _, key in sorted(ranked)[:3]]
        if first != last:
            last = first
            columns = [value for each in first for value in each]
            told[time // EPOCH_SECONDS].append((time, *columns, *[None] * (6 - len(columns))))
    return told


def events_in_order(rows: list[Row]) -> Events:
    """Ports of prices and stocks."""
    epochs: dict[int, list[list[Row]]] = {}
    for number, (time, by_event, changes) in enumerate(rows):
        ports = epochs.setdefault(time // EPOCH_SECONDS, [[], []])
        for port, key, value in changes:
            row = (time if by_event else None, key, value, time * 1_000_000, int(by_event), number)
            ports[port].append(row)
    schemas = [pa.schema([*schema, *BY_EVENT]) for schema in (PRICES, STOCKS)]
    return events_of(MINUTE, schemas, epochs)


def in_order(rows: list[Row]) -> list[Row]:
    """What time alone changes comes before the events of that time."""
    return sorted(rows, key=lambda row: row[:2])


@settings(max_examples=250, deadline=None)
@given(timed_rows(st.booleans(), CHANGES, most=40), st.integers(0, 2**32))
def test_leaders_are_those_of_a_sorted_list(rows: list[Row], seed: int) -> None:
    def make(combined: bool) -> Leaders:
        return Leaders("leaders", [PRICES, STOCKS], ["key"], SETTINGS, orders=[BY_EVENT, BY_EVENT])

    rows = in_order(rows)
    events = events_in_order(rows)
    assert_as_reference(
        make,
        events,
        told_rows(rows),
        np.random.default_rng(seed),
        ordered=False,
        in_sequence=True,
    )
