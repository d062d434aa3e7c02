"""Joins and rankings over windows that slide, as whole jobs and as documents."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from streammine import Topology
from streammine.cli.explain_command import explain
from streammine.model.document import parse_topology
from streammine.model.errors import TopologyError
from streammine.testing import assert_deterministic

LENGTH, SLIDE = 30, 10
"""Seconds; an epoch is 5."""


def rows_of(seed: int, count: int) -> list[dict[str, int]]:
    source = random.Random(seed)
    return [
        {"ts": source.randrange(200), "k": source.randrange(4), f"v{seed}": number}
        for number in range(count)
    ]


def windows() -> range:
    """Starts of windows that hold anything of the first 200 seconds."""
    return range(-LENGTH + SLIDE, 200, SLIDE)


def inside(rows: list[dict[str, int]], start: int) -> list[dict[str, int]]:
    return [row for row in rows if start <= row["ts"] < start + LENGTH]


def moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)


def test_two_rows_meet_once_in_each_window_that_both_lie_in() -> None:
    left, right = rows_of(1, 40), rows_of(2, 40)
    topology = (
        Topology(name="sliding", epoch={"time": "5s", "column": "ts"})
        .source("left", files="left.parquet", prepare="none", slices=2)
        .source("right", files="right.parquet", prepare="none", slices=2)
        .operator(
            "met",
            join={"left": "left", "right": "right", "on": "k"},
            window={"length": "30s", "slide": "10s"},
        )
        .sink("result", input="met", format="console")
    )
    tables = {
        name: pa.Table.from_pylist(sorted(rows, key=lambda row: row["ts"]))
        for name, rows in (("left", left), ("right", right))
    }
    done = assert_deterministic(topology, tables, seeds=range(8))
    wanted = [
        {
            "epoch": (start + LENGTH) // 5 - 1,
            "window_start": moment(start),
            "window_end": moment(start + LENGTH),
            "k": one["k"],
            "ts": one["ts"],
            "v1": one["v1"],
            "ts_right": other["ts"],
            "v2": other["v2"],
        }
        for start in windows()
        for one in inside(left, start)
        for other in inside(right, start)
        if one["k"] == other["k"]
    ]

    def place(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["epoch"], row["v1"], row["v2"]

    found = done.table("result").to_pylist()
    assert sorted(found, key=place) == sorted(wanted, key=place)


def test_a_top_of_windows_that_slide_is_that_of_each_window() -> None:
    rows = rows_of(3, 80)
    topology = (
        Topology(name="sliding", epoch={"time": "5s", "column": "ts"})
        .source("rows", files="rows.parquet", prepare="none", slices=2)
        .operator(
            "best",
            input="rows",
            key="k",
            window={"length": "30s", "slide": "10s"},
            top={"count": 2, "by": "v3 desc"},
        )
        .sink("result", input="best", format="console")
    )
    table = pa.Table.from_pylist(sorted(rows, key=lambda row: row["ts"]))
    done = assert_deterministic(topology, {"rows": table}, seeds=range(8))
    wanted = []
    for start in windows():
        for key in range(4):
            of_key = [row for row in inside(rows, start) if row["k"] == key]
            best = sorted(of_key, key=lambda row: -row["v3"])[:2]
            epoch = (start + LENGTH) // 5 - 1
            wanted += [
                {"epoch": epoch, "k": key, "rank": rank, "ts": row["ts"], "v3": row["v3"]}
                for rank, row in enumerate(best, 1)
            ]
    found = done.table("result").to_pylist()
    assert sorted(found, key=lambda row: (row["epoch"], row["k"], row["rank"])) == wanted


RIGHT = """\
name: sliding
epoch: {count: 10}
sources:
  rows: {files: rows.parquet, prepare: none}
operators:
  best: {input: rows, window: {length: 6 epochs, slide: 2 epochs}, top: {count: 3, by: n desc}}
  ranks: {input: rows, window: 4 epochs, rank: {by: n asc}}
  pairs: {join: {left: best, right: ranks, on: n}, window: {length: 3 epochs, slide: 1 epoch}}
sinks:
  result: {input: pairs, format: parquet, path: out}
"""


def test_windows_in_epochs_survive_a_round_trip() -> None:
    topology = parse_topology(RIGHT, "t.yaml")
    assert str(topology.operators["best"].window) == "{length: 6 epochs, slide: 2 epochs}"
    assert Topology.model_validate(topology.model_dump(by_alias=True)) == topology


def test_explain_tells_windows_and_what_a_gap_takes_along(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(f"{RIGHT}recovery: {{max_time: 5s, semantics: gap}}\nsnapshot: {{every: 1s}}\n")
    pq.write_table(pa.table({"n": [1]}), tmp_path / "rows.parquet")
    done = CliRunner().invoke(explain, [str(path)], catch_exceptions=False)
    parts = {part.split()[1]: part for part in re.split(r"\n(?=\w)", done.output)}
    assert "window: sliding, 6 epochs every 2 epochs" in parts["best"]
    assert "window: tumbling, 4 epochs" in parts["ranks"]
    assert "window: sliding, 3 epochs every 1 epoch" in parts["pairs"]
    assert "with all the windows of 6 epochs" in parts["best"]
    assert "with the windows of 4 epochs" in parts["ranks"]
    assert "with all the windows of 3 epochs" in parts["pairs"]
    assert "window_start" not in parts["pairs"], "epochs of rows have no times"


@pytest.mark.parametrize(
    ("old", "new", "right"),
    [
        ("slide: 2 epochs", "slide: 7 epochs", "write a slide of at most the length"),
        (
            "{length: 6 epochs, slide: 2 epochs}",
            "global",
            "those of an aggregate; here a window is 5m",
        ),
        ("4 epochs", "5m", "a window of time needs time epochs"),
        ("4 epochs", "soon", "A window is 5m, 10 epochs or {length: 10m, slide: 1s}"),
        ("{length: 3 epochs, slide: 1 epoch}", "{slide: 1 epoch}", "needs a length"),
    ],
)
def test_mistakes_are_told(old: str, new: str, right: str) -> None:
    assert old in RIGHT
    with pytest.raises(TopologyError) as caught:
        parse_topology(RIGHT.replace(old, new, 1), "t.yaml")
    assert right in str(caught.value), str(caught.value)
