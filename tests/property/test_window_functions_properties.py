"""Every aggregate function, with `where` and `having`, over windows that slide and sessions.

What the functions give of some rows is what `test_value_aggregates_properties` has as its reference; here it
is which rows they are given, by each kind of window.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.model.durations import Duration
from streammine.model.topology.aggregates import AggregateCall
from streammine.operators.event_time import EventTime
from streammine.operators.session_aggregate import SessionAggregate
from streammine.operators.sliding_aggregate import SlidingAggregate
from streammine.operators.windows import AlignedWindows
from tests.property.operator_trials import assert_as_reference, events_of, minutes
from tests.property.test_value_aggregates_properties import CASES, COLUMNS, ROWS, SCHEMA, Row
from tests.property.window_reference import WINDOWS, epochs_by_window, moment

EPOCH_SECONDS = 10
SECONDS = minutes("ts", EPOCH_SECONDS)
RANDOM = st.integers(0, 2**32).map(np.random.default_rng)
CALLS = st.lists(st.sampled_from(sorted(CASES)), min_size=1, max_size=4, unique=True)
EPOCHS = st.dictionaries(st.integers(-4, 9), st.lists(ROWS, max_size=8), min_size=1, max_size=7)
KEYS = st.sampled_from([(), ("key",), ("key", "i")])
HAVING = st.booleans()
"""Whether only groups of two rows or more leave; their count is then the first of the results."""


def settings_of(keys: Sequence[str], names: Sequence[str], having: bool) -> dict[str, Any]:
    calls = ({"rows": "count()"} if having else {}) | {name: name for name in names}
    return {
        "keys": keys,
        "aggregates": {name: AggregateCall.parse(text) for name, text in calls.items()},
        "having": "rows >= 2" if having else None,
    }


def groups_of(rows: Iterable[Row], keys: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    """The rows of each key."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[COLUMNS[name]] for name in keys), []).append(row)
    return groups


def results(names: Sequence[str], having: bool, rows: Sequence[Row]) -> tuple[Any, ...] | None:
    """None: the group does not leave."""
    if having and len(rows) < 2:
        return None
    return (*((len(rows),) if having else ()), *(CASES[name](rows) for name in names))


@settings(max_examples=250, deadline=None)
@given(EPOCHS, WINDOWS, CALLS, KEYS, HAVING, RANDOM)
def test_windows_that_slide(
    epochs: dict[int, list[Row]],
    window: AlignedWindows,
    names: list[str],
    keys: tuple[str, ...],
    having: bool,
    random: np.random.Generator,
) -> None:
    def make(combined: bool) -> SlidingAggregate:
        return SlidingAggregate(
            "a",
            SCHEMA,
            window=window,
            combined=combined,
            time="ts",
            **settings_of(keys, names, having),
        )

    expected = {
        last: [
            (last, *key, *found)
            for key, rows in groups_of(
                (row for each in inside for row in epochs[each]), keys
            ).items()
            if (found := results(names, having, rows)) is not None
        ]
        for last, inside in epochs_by_window(epochs, window).items()
    }
    events = events_of(SECONDS, [SCHEMA], {epoch: [rows] for epoch, rows in epochs.items()})
    assert_as_reference(make, events, expected, random, trials=2)


@settings(max_examples=250, deadline=None)
@given(EPOCHS, st.integers(1, 25), CALLS, KEYS, HAVING, RANDOM)
def test_sessions(
    epochs: dict[int, list[Row]],
    gap: int,
    names: list[str],
    keys: tuple[str, ...],
    having: bool,
    random: np.random.Generator,
) -> None:
    """Of rows in their epochs, none of which is late."""
    timed = {
        epoch: [
            (epoch * EPOCH_SECONDS + (row[0] or 0) * 3 % EPOCH_SECONDS, *row[1:]) for row in rows
        ]
        for epoch, rows in epochs.items()
    }

    def make(combined: bool) -> SessionAggregate:
        return SessionAggregate(
            "a",
            SCHEMA,
            event_time=EventTime("a", SCHEMA, SECONDS),
            gap=Duration(gap * 1_000_000),
            spans=True,
            time="ts",
            **settings_of(keys, names, having),
        )

    expected: dict[int, list[tuple[Any, ...]]] = {}
    for key, rows in groups_of((row for each in timed.values() for row in each), keys).items():
        for session in cut(rows, gap):
            end = session[-1][0] + gap
            found = results(names, having, session)
            if found is not None:
                span = moment(session[0][0]), moment(end)
                epoch = -(-end // EPOCH_SECONDS) - 1
                expected.setdefault(epoch, []).append((epoch, *span, *key, *found))
    events = events_of(SECONDS, [SCHEMA], {epoch: [rows] for epoch, rows in timed.items()})
    assert_as_reference(make, events, expected, random, trials=2)


def cut(rows: Sequence[Row], gap: int) -> list[list[Row]]:
    """Between two sessions lies the gap, or more."""
    ordered = sorted(rows, key=lambda row: row[0])
    sessions = [[ordered[0]]]
    for row in ordered[1:]:
        if row[0] - sessions[-1][-1][0] < gap:
            sessions[-1].append(row)
        else:
            sessions.append([row])
    return sessions
