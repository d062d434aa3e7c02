"""A topology with a pattern gives one output, on whatever nodes and however its rows arrive."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from streammine import Topology
from streammine.simulation.workload import Workload
from streammine.testing import assert_deterministic, assert_rows
from tests.simulation.seeds import Seeds

SECONDS = 25


def readings(rows: int = 120, seed: int = 3) -> dict[str, pa.Table]:
    """Loads of three plugs, some at one time; some rows have no value."""
    random = Random(seed)
    time = 1_000
    columns: dict[str, list[Any]] = {"ts": [], "plug": [], "load": []}
    for _ in range(rows):
        time += random.choice((0, 0, 1, 1, 2, 9))
        columns["ts"].append(time)
        columns["plug"].append(random.choice((1, 1, 2, 3)))
        columns["load"].append(random.choice((None, 0, 5, 20, 60, 90)))
    schema = pa.schema([(name, pa.int64()) for name in columns])
    return {"readings": pa.table(columns, schema)}


def rises(matching: str, slices: int = 2) -> Topology:
    """A low load, higher ones, and no reading of nothing until the time is over."""
    return (
        Topology(name="rises", epoch={"time": "10s", "column": "ts"})
        .source("readings", files="readings.parquet", prepare="none", slices=slices)
        .operator(
            "rises",
            input="readings",
            key="plug",
            slices=slices,
            pattern={
                "sequence": [
                    {"low": "load < 10"},
                    {"high{1,2}": "load > low.load"},
                    {"not": {"off": "load = 0"}},
                ],
                "within": f"{SECONDS}s",
                "matching": matching,
                "output": {"begin": "low.ts", "count": "count(high)", "end": "last(high.ts)"},
            },
        )
        .sink("result", input="rises", format="console")
    )


def expected(table: pa.Table) -> list[tuple[int, ...]]:
    """(epoch, plug, begin, count, end) of every combination, in plain Python."""
    rows = [row for row in table.to_pylist() if row["load"] is not None]
    found = []
    for first, low in enumerate(rows):
        own = [
            (place, row)
            for place, row in enumerate(rows)
            if row["plug"] == low["plug"] and 0 <= row["ts"] - low["ts"] <= SECONDS
        ]
        highs = [(place, row) for place, row in own if row["load"] > low["load"]]
        sets = [[one] for one in highs]
        sets += [[one, other] for one in highs for other in highs if one[0] < other[0]]
        for chosen in sets if low["load"] < 10 else []:
            end = max(row["ts"] for _, row in chosen)
            offs = [place for place, row in own if row["load"] == 0 and row["ts"] >= end]
            if not set(offs) - {first}:
                epoch = (low["ts"] + SECONDS) // 10
                found.append((epoch, low["plug"], low["ts"], len(chosen), end))
    return found


@pytest.mark.parametrize("matching", ["any", "next", "strict"])
def test_every_seed_gives_the_same_matches(matching: str) -> None:
    inputs = readings()
    result = assert_deterministic(rises(matching), inputs, seeds=range(6))
    if matching == "any":
        assert_rows(result.table("result"), expected(inputs["readings"]))
    assert result.table("result").num_rows > 3


def test_the_number_of_slices_changes_nothing() -> None:
    digests = {
        assert_deterministic(rises("any", slices), readings(), seeds=range(2)).digest
        for slices in (1, 2, 3, 5)
    }
    assert len(digests) == 1


def test_faults_change_nothing() -> None:
    Seeds(Workload(rises("any"), readings())).run("all", range(5))
