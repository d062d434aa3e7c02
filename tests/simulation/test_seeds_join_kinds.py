"""Whatever happens to the cluster, rows near each other meet, and rows meet their table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from streammine import Topology
from streammine.simulation.workload import Workload
from tests.simulation.seeds import Seeds

COLUMNS = {"id": "int64", "ts": "int64", "value": "int64"}


def rows(seed: int, count: int = 150) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "id": random.integers(0, 9, count),
            "ts": np.sort(random.integers(0, 100, count)),
            "value": random.integers(0, 1000, count),
        }
    )


def both_joins() -> Topology:
    """An interval join and a table join of the same streams, the table static and changed by one of them."""
    limits = {"id": "int64", "limit": "int64"}
    return (
        Topology(
            name="both", nodes=3, epoch={"time": "4s", "column": "ts"}, snapshot={"every": "500ms"}
        )
        .source("left", files="left.csv", schema=COLUMNS, slices=2, rate="100/s")
        .source("right", files="right.csv", schema=COLUMNS, slices=2, rate="100/s")
        .source("limits", files="limits.csv", schema=limits, static=True)
        .operator(
            "near",
            join={
                "left": "left",
                "right": "right",
                "on": "id",
                "kind": "full",
                "when": "left.ts between right.ts - 5s and right.ts + 9s",
            },
            slices=2,
        )
        .operator(
            "newest",
            join={"left": "left", "table": "right", "on": "id", "kind": "left", "as_of": "ts"},
            slices=2,
        )
        .operator("limited", join={"left": "left", "table": "limits", "on": "id"}, slices=2)
        .sink("pairs", input="near", format="parquet", path="pairs")
        .sink("versions", input="newest", format="parquet", path="versions")
        .sink("allowed", input="limited", format="parquet", path="allowed")
    )


LIMITS = pa.table({"id": list(range(7)), "limit": list(range(7))})
JOINS = Seeds(Workload(both_joins(), {"left": rows(1), "right": rows(2), "limits": LIMITS}))


@pytest.mark.parametrize("first", range(0, 12, 4))
def test_all_faults(first: int) -> None:
    JOINS.run("all", range(first, first + 4))


def test_faults_take_effect() -> None:
    done = JOINS.run("all", range(12))
    assert sum(sum(trial.faults.values()) for trial in done) >= 30
    assert sum(trial.checkpoints for trial in done) >= 12
