"""Whole topologies with every kind of join, over nodes, slices and delays."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streammine import Topology
from streammine.model.topology.join_kinds import JoinKind
from streammine.operators.windows import AlignedWindows
from streammine.testing import assert_deterministic, assert_rows, simulate
from tests.property.join_references import in_interval, windowed, with_table

SECONDS = 10
COLUMNS = {"key": "int64", "ts": "int64", "value": "int64"}
SEEDS = range(4)


def events(seed: int, rows: int = 400) -> pa.Table:
    """Rows in order of time, with gaps and some nulls as keys."""
    random = np.random.default_rng(seed)
    times = np.sort(random.choice(200, rows) + 300 * random.integers(0, 2, rows))
    keys = random.integers(0, 12, rows)
    return pa.table(
        {
            "key": pa.array(keys, mask=keys == 11),
            "ts": times,
            "value": random.integers(0, 1000, rows),
        }
    )


def by_epoch(left: pa.Table, right: pa.Table) -> dict[int, tuple[list[Any], list[Any]]]:
    sides: dict[int, tuple[list[Any], list[Any]]] = {}
    for port, table in enumerate((left, right)):
        for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
            sides.setdefault(row[1] // SECONDS, ([], []))[port].append(row)
    return dict(sorted(sides.items()))


def topology(join: dict[str, Any], **settings: Any) -> Topology:
    made = Topology(name="joins", epoch={"time": f"{SECONDS}s", "column": "ts"})
    for name in ("left", "right"):
        made = made.source(name, files=f"{name}.csv", schema=COLUMNS)
    made = made.operator("pairs", join={"left": "left", **join}, slices=3, **settings)
    return made.sink("result", input="pairs", format="console")


def _instant(seconds: int) -> datetime.datetime:
    return datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("window", "epochs"),
    [
        ("30s", AlignedWindows.tumbling(3)),
        ({"length": "30s", "slide": "20s"}, AlignedWindows(3, 2)),
    ],
    ids=["tumbling", "sliding"],
)
@pytest.mark.parametrize("kind", list(JoinKind))
def test_joins_in_windows(kind: JoinKind, window: Any, epochs: AlignedWindows) -> None:
    inputs = {"left": events(1, 60), "right": events(2, 60)}
    made = topology({"right": "right", "on": "key", "kind": kind}, window=window)
    result = assert_deterministic(made, inputs, seeds=SEEDS)
    expected = windowed(kind, by_epoch(**inputs), epochs)
    seconds = ((epoch + 1) * SECONDS for epoch in expected)
    spans = [tuple(map(_instant, (end - 30, end))) for end in seconds]
    rows = [
        (row[0], *span, *row[1:])
        for span, rows in zip(spans, expected.values(), strict=True)
        for row in rows
    ]
    assert_rows(result.table("result"), rows)


@pytest.mark.parametrize("kind", list(JoinKind))
def test_joins_in_an_interval(kind: JoinKind) -> None:
    inputs = {"left": events(3), "right": events(4)}
    when = "left.ts between right.ts - 2s and right.ts + 25s"
    made = topology({"right": "right", "on": "key", "kind": kind, "when": when})
    result = assert_deterministic(made, inputs, seeds=SEEDS)
    expected, _ = in_interval(kind, by_epoch(**inputs), -2, 25, SECONDS)
    assert_rows(result.table("result"), [row for rows in expected.values() for row in rows])


@pytest.mark.parametrize("as_of", [None, "ts"])
@pytest.mark.parametrize("kind", [JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI])
def test_joins_with_a_table_that_changes(kind: JoinKind, as_of: str | None) -> None:
    left, right = events(5), events(6)
    gone = pa.array(np.random.default_rng(7).random(right.num_rows) < 0.3)
    inputs = {"left": left, "right": right.append_column("gone", gone)}
    made = Topology(name="joins", epoch={"time": f"{SECONDS}s", "column": "ts"})
    made = made.source("left", files="left.csv", schema=COLUMNS)
    made = made.source("right", files="right.csv", schema={**COLUMNS, "gone": "bool"})
    join = {"left": "left", "table": "right", "on": "key", "kind": kind, "delete": "gone"}
    made = made.operator("found", join={**join, "as_of": as_of}, slices=3)
    made = made.sink("result", input="found", format="console")
    result = assert_deterministic(made, inputs, seeds=SEEDS)
    expected, dead = with_table(kind, by_epoch(**inputs), SECONDS, as_of is not None, True)
    assert_rows(result.table("result"), [row for rows in expected.values() for row in rows])
    assert dead == right.column("key").null_count
    assert result.dead_letters.num_rows == dead


@pytest.mark.parametrize("epoch", [{"count": 7}, {"time": "10s", "column": "ts"}])
def test_a_static_table_is_there_before_the_first_row(epoch: dict[str, Any]) -> None:
    rows = events(8)
    limits = pa.table({"key": list(range(8)), "limit": [10 * key for key in range(8)]})
    made = (
        Topology(name="limits", epoch=epoch)
        .source("rows", files="rows.csv", schema=COLUMNS)
        .source("limits", files="l.csv", schema={"key": "int64", "limit": "int64"}, static=True)
        .operator("both", join={"left": "rows", "table": "limits", "on": "key", "kind": "left"})
        .sink("result", input="both", format="console")
    )
    result = assert_deterministic(made, {"rows": rows, "limits": limits}, seeds=SEEDS)
    found = result.table("result").drop_columns(["epoch"])
    known = dict(zip(range(8), range(0, 80, 10), strict=True))
    assert_rows(found, [(*row.values(), known.get(row["key"])) for row in rows.to_pylist()])


def test_a_static_table_alone_has_the_epoch_before_all_others() -> None:
    made = (
        Topology(name="alone", epoch={"count": 2})
        .source("table", files="t.csv", schema={"key": "int64"}, static=True)
        .operator("count", input="table", aggregate={"count": "count()"})
        .sink("result", input="count", format="console")
    )
    result = simulate(made, {"table": pa.table({"key": list(range(9))})})
    assert_rows(result.table("result"), [(-1, 9)])
