"""Quantiles, first values, lists, filters and having on a cluster: one output, whatever happens to it."""

from __future__ import annotations

from statistics import median

import numpy as np
import pyarrow as pa
import pytest

from streammine import Topology, TopologyError
from streammine.model.document import parse_topology
from streammine.simulation.workload import Workload
from streammine.testing import assert_deterministic, simulate
from tests.simulation.seeds import Seeds

DOCUMENT = """\
name: loads
epoch: {time: 10s, column: ts}
sources:
  readings:
    files: readings.parquet
    schema: {ts: int64, plug: string, value: float64, property: int64}
operators:
  loads:
    input: readings
    key: plug
    window: 20s
    aggregate:
      middle: median(value)
      high: quantile(value, 0.95) where property = 1
      spread: stddev(value)
      first: first(value)
      last: last(value, ts) where value is not null
      peak: arg_max(ts, value)
      different: count_distinct(value)
      values: collect(value)
    having: different > 2
    slices: 3
sinks:
  parquet: {input: loads, format: parquet, path: parquet}
  json: {input: loads, format: json, path: json}
  console: {input: loads, format: console}
"""


def readings(rows: int = 400) -> pa.Table:
    random = np.random.default_rng(7)
    values = [None if value < -2 else round(value, 1) for value in random.standard_normal(rows)]
    return pa.table(
        {
            "ts": np.arange(rows) // 4,
            "plug": [f"p{number}" for number in random.integers(0, 5, rows)],
            "value": pa.array(values, pa.float64()),
            "property": random.integers(0, 2, rows),
        }
    )


def test_every_seed_gives_the_same_lists_in_every_format() -> None:
    table = readings()
    result = assert_deterministic(
        parse_topology(DOCUMENT, "t.yaml"), {"readings": table}, seeds=range(6)
    )
    found = result.table("parquet").to_pylist()
    assert found == result.table("json").to_pylist() == result.table("console").to_pylist()
    assert len(found) == 25
    rows = table.to_pylist()
    for row in found:
        start = (row["epoch"] - 1) * 10
        window = [
            one
            for one in rows
            if start <= one["ts"] < start + 20
            and one["plug"] == row["plug"]
            and one["value"] is not None
        ]
        values = sorted(one["value"] for one in window)
        assert row["values"] == values
        assert row["middle"] == pytest.approx(median(values), rel=1e-15)
        assert row["different"] == len(set(values))
        assert row["first"] == min((one["ts"], one["value"]) for one in window)[1]


def test_whatever_happens_to_the_cluster_the_lists_are_the_same() -> None:
    workload = Workload(parse_topology(DOCUMENT, "t.yaml"), {"readings": readings()})
    seeds = Seeds(workload)
    trials = seeds.run("all", range(6))
    assert sum(sum(trial.faults.values()) for trial in trials) > 0
    assert sum(trial.checkpoints for trial in trials) > 0


def test_a_list_in_a_csv_sink_is_refused_before_anything_starts() -> None:
    topology = (
        Topology(name="lists", epoch={"count": 10})
        .source("rows", files="rows.parquet", schema={"k": "int64", "v": "int64"})
        .operator("lists", input="rows", key="k", aggregate={"values": "collect(v)"})
        .sink("result", input="lists", format="csv", path="out")
    )
    with pytest.raises(TopologyError, match=r"column values has type list.*CSV can't hold"):
        simulate(topology, {"rows": pa.table({"k": [1], "v": [2]})}, seed=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("median(value)", "median(plug)"), "median takes numbers; column 'plug' has type string"),
        (("property = 1", "propety = 1"), "unknown column 'propety'; did you mean 'property'"),
        (("property = 1", "property + 1"), "a condition gives a boolean"),
        (("different > 2", "diferent > 2"), "unknown column 'diferent'; did you mean 'different'"),
    ],
)
def test_wrong_types_are_found_before_anything_starts(
    change: tuple[str, str], message: str
) -> None:
    with pytest.raises(TopologyError, match=message):
        simulate(
            parse_topology(DOCUMENT.replace(*change), "t.yaml"), {"readings": readings(8)}, seed=1
        )
