"""Deduplicate against plain Python: in windows, and within a length of event time."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.operators import best_rows, keyed_rows, row_chunks
from streammine.operators.deduplicate import DistinctRows
from streammine.operators.deduplicate_within import DistinctWithin
from streammine.operators.event_time import EventTime
from streammine.operators.windows import AlignedWindows
from tests.property.operator_trials import assert_as_reference, dead_of, events_of, minutes
from tests.property.orders import canonical, group_of, normal

EPOCH_SECONDS = 10
DEFINITION = minutes(seconds=EPOCH_SECONDS)
SCHEMA = pa.schema([("ts", pa.int64()), ("key", pa.float64()), ("text", pa.string())])
KEYS = st.none() | st.sampled_from([0.0, -0.0, 1.0, math.nan])
TEXTS = st.none() | st.sampled_from(["", "a", "b"])
MOST_EPOCHS = 6

Epochs = dict[int, list[Any]]
Keep = Literal["first", "last"]


@pytest.fixture(autouse=True, params=["whole", "cut often"])
def _cuts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done once in some ten thousand rows is done for a few."""
    if request.param == "cut often":
        monkeypatch.setattr(best_rows, "_ROWS_NOT_CUT", 4)
        monkeypatch.setattr(best_rows, "_ROWS_NOT_SCREENED", 2)
        monkeypatch.setattr(keyed_rows, "_FEW_ROWS", 2)
        monkeypatch.setattr(row_chunks, "_CHUNK_ROWS", 2)


def normal_row(row: Any) -> Any:
    return (row[0], normal(row[1]), row[2])


def output(epoch: int, row: Any) -> Any:
    return (epoch, row[1], row[0], row[2])


# --- in windows -----------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(
        st.integers(-2, MOST_EPOCHS),
        st.lists(st.tuples(st.none() | st.integers(0, 3), KEYS, TEXTS), max_size=12),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(["first", "last"]),
    st.integers(1, 3),
    st.integers(0, 2**32),
)
def test_the_first_or_last_row_of_each_key_and_window_stays(
    epochs: Epochs, keep: Keep, window: int, seed: int
) -> None:
    def make(combined: bool) -> DistinctRows:
        del combined
        last = keep == "last"
        return DistinctRows(
            "distinct", SCHEMA, ["key"], "ts", last=last, window=AlignedWindows.tumbling(window)
        )

    def order(row: Any) -> Any:
        sign = -1 if keep == "last" else 1
        return (row[0] is None, sign * (row[0] or 0), canonical(row))

    groups: dict[Any, list[Any]] = {}
    for epoch, rows in epochs.items():
        for row in rows:
            last_epoch = (epoch // window + 1) * window - 1
            groups.setdefault((last_epoch, group_of(row[1:2])), []).append(normal_row(row))
    wanted: Epochs = {}
    for (last_epoch, _), rows in groups.items():
        wanted.setdefault(last_epoch, []).append(output(last_epoch, min(rows, key=order)))
    events = events_of(DEFINITION, [SCHEMA], {epoch: [rows] for epoch, rows in epochs.items()})
    assert_as_reference(make, events, wanted, np.random.default_rng(seed), trials=2)


# --- within a length of event time ----------------------------------------------------------------


@st.composite
def timed_epochs(draw: st.DrawFn) -> Epochs:
    """Rows in the epochs of their times, but for some that come too early or too late, or have no time."""
    epochs: Epochs = {}
    for epoch in draw(st.sets(st.integers(-2, MOST_EPOCHS), min_size=1, max_size=5)):
        times = st.integers(epoch * EPOCH_SECONDS, (epoch + 1) * EPOCH_SECONDS - 1)
        if draw(st.integers(0, 3)) == 0:
            times = st.none() | st.integers(-2 * EPOCH_SECONDS, (MOST_EPOCHS + 2) * EPOCH_SECONDS)
        epochs[epoch] = draw(st.lists(st.tuples(times, KEYS, TEXTS), min_size=1, max_size=8))
    return epochs


def usable(epoch: int, row: Any) -> bool:
    return row[0] is not None and row[0] >= epoch * EPOCH_SECONDS


def bursts(rows: list[Any], within: int) -> list[list[Any]]:
    """The rows of one key, cut into bursts."""
    found: list[list[Any]] = []
    for row in sorted(rows, key=lambda row: (row[0], canonical(row))):
        if not found or row[0] - found[-1][0][0] >= within:
            found.append([])
        found[-1].append(row)
    return found


def within_expected(epochs: Epochs, keep: Keep, within: int) -> Epochs:
    groups: dict[Any, list[Any]] = {}
    for epoch, rows in epochs.items():
        for row in rows:
            if usable(epoch, row):
                groups.setdefault(group_of(row[1:2]), []).append(normal_row(row))
    wanted: Epochs = {}
    for rows in groups.values():
        for burst in bursts(rows, within):
            if keep == "first":
                row, epoch = burst[0], burst[0][0] // EPOCH_SECONDS
            else:
                latest = max(row[0] for row in burst)
                row = next(row for row in burst if row[0] == latest)
                # the first epoch by whose end nothing can come that belongs to it
                epoch = -(-(burst[0][0] + within) // EPOCH_SECONDS) - 1
            wanted.setdefault(epoch, []).append(output(epoch, row))
    return wanted


@settings(max_examples=300, deadline=None)
@given(
    timed_epochs(),
    st.sampled_from(["first", "last"]),
    st.sampled_from([1, 3, 10, 11, 25]),
    st.integers(0, 2**32),
)
def test_one_row_of_each_burst_stays(epochs: Epochs, keep: Keep, within: int, seed: int) -> None:
    def make(combined: bool) -> DistinctWithin:
        del combined
        return DistinctWithin(
            "distinct",
            SCHEMA,
            ["key"],
            EventTime("distinct", SCHEMA, DEFINITION),
            DEFINITION,
            within * 1_000_000,
            last=keep == "last",
        )

    events = events_of(DEFINITION, [SCHEMA], {epoch: [rows] for epoch, rows in epochs.items()})
    wanted = within_expected(epochs, keep, within)
    assert_as_reference(make, events, wanted, np.random.default_rng(seed), trials=2)
    dead = [row for epoch, rows in epochs.items() for row in rows if not usable(epoch, row)]
    texts = (f"ts={row[0]}, key={row[1]!r}, text={row[2]!r}" for row in map(normal_row, dead))
    assert dead_of(make, events) == sorted(texts)
