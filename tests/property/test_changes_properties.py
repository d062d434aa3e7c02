"""Changes against a dictionary of what was told last."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.operators import best_rows, keyed_rows, row_chunks
from streammine.operators.changes import ChangedRows
from streammine.operators.windows import AlignedWindows
from tests.property.operator_trials import assert_as_reference, events_of, minutes
from tests.property.orders import canonical, group_of, normal

SCHEMA = pa.schema(
    [
        ("key", pa.float64()),
        ("ts", pa.int64()),
        ("value", pa.float64()),
        ("list", pa.list_(pa.int64())),
    ]
)
ROWS = st.lists(
    st.tuples(
        st.none() | st.sampled_from([0.0, -0.0, 1.0]),
        st.none() | st.integers(0, 2),
        st.none() | st.sampled_from([0.0, -0.0, 1.5, math.nan]),
        st.none() | st.sampled_from([[], [1], [1, 2]]),
    ),
    max_size=6,
)
EPOCHS = st.dictionaries(st.integers(-2, 9), ROWS, min_size=1, max_size=7)
Epochs = dict[int, list[Any]]


@pytest.fixture(autouse=True, params=["whole", "cut often"])
def _cuts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done once in some ten thousand rows is done for a few."""
    if request.param == "cut often":
        monkeypatch.setattr(best_rows, "_ROWS_NOT_CUT", 4)
        monkeypatch.setattr(best_rows, "_ROWS_NOT_SCREENED", 2)
        monkeypatch.setattr(keyed_rows, "_FEW_ROWS", 2)
        monkeypatch.setattr(row_chunks, "_CHUNK_ROWS", 2)


def changed(
    epochs: Epochs,
    keyed: bool,
    compared: tuple[str, ...],
    window: int,
    gone: bool,
    forget: int | None,
) -> Epochs:
    """Rows by epoch."""
    windows: dict[int, dict[Any, Any]] = {}
    for epoch, rows in epochs.items():
        last_of_window = (epoch // window + 1) * window - 1
        kept = windows.setdefault(last_of_window, {})
        for row in rows:
            key = group_of(row[:1]) if keyed else ()
            row = (normal(row[0]) if keyed else row[0], *row[1:])
            best = kept.get(key)
            if best is None or order(row) < order(best):
                kept[key] = row
    told: dict[Any, Any] = {}
    seen: dict[Any, int] = {}
    wanted: Epochs = {}
    for last in range(min(windows), max(windows) + 2 * window, window):
        rows_of = windows.get(last, {})
        for key, row in rows_of.items():
            values = [comparable(row[SCHEMA.names.index(name)]) for name in compared]
            forgotten = forget is not None and key in seen and last - seen[key] > forget * window
            if key not in told or told[key] != values or forgotten:
                told[key] = values
                wanted.setdefault(last, []).append((last, *row, *([False] if gone else [])))
            seen[key] = last
        for key in [key for key in told if gone and key not in rows_of]:
            del told[key]
            ((is_null, value),) = key or ((True, None),)
            values = [None if is_null else value[1]] if keyed else [None]
            wanted.setdefault(last, []).append((last, *values, None, None, None, True))
    return wanted


def order(row: Any) -> Any:
    """The row that counts is the least: the greatest time, then canonical order."""
    return (row[1] is None, -(row[1] or 0), canonical(row))


def comparable(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


@settings(max_examples=300, deadline=None)
@given(
    EPOCHS,
    st.booleans(),
    st.sampled_from(
        [("of", ("value",)), ("of", ("value", "list")), ("ignore", ("ts",)), ("of", ())]
    ),
    st.integers(1, 3),
    st.sampled_from([(False, None), (True, None), (False, 1), (False, 2)]),
    st.integers(0, 2**32),
)
def test_rows_leave_when_they_differ_from_what_left(
    epochs: Epochs,
    keyed: bool,
    looking: tuple[str, tuple[str, ...]],
    window: int,
    forgetting: tuple[bool, int | None],
    seed: int,
) -> None:
    gone, forget = forgetting
    kind, columns = looking
    keys = ("key",) if keyed else ()

    def make(combined: bool) -> ChangedRows:
        del combined
        return ChangedRows(
            "changes",
            SCHEMA,
            keys,
            by="ts",
            gone="gone" if gone else None,
            forget_windows=forget,
            window=AlignedWindows.tumbling(window),
            **{kind: columns},
        )

    others = [name for name in SCHEMA.names if name not in keys]
    if kind == "of":
        compared = columns or tuple(others)
    else:
        compared = tuple(name for name in others if name not in columns)
    wanted = changed(epochs, keyed, compared, window, gone, forget)
    events = events_of(minutes(), [SCHEMA], {epoch: [rows] for epoch, rows in epochs.items()})
    assert_as_reference(make, events, wanted, np.random.default_rng(seed), trials=2)
