"""Both queries of the taxi rides on virtual clusters: any slices and replicas, and faults."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest

from apps.taxi import check
from apps.taxi.make_trips import Trips, as_lines
from streammine import Topology, read_topology
from streammine.simulation.faults import parse_kinds
from streammine.simulation.trials import Trials
from streammine.simulation.workload import Workload
from streammine.testing import assert_deterministic

FOLDER = Path(__file__).resolve().parents[2] / "apps" / "taxi"
TRIPS = 260
PER_MINUTE = 4
TAXIS = 12


def taxi(slices: int = 2, sources: int = 2, replicas: int = 1, epoch: str = "60s") -> Topology:
    """The application's topology with other slices and epochs."""
    sinks = {
        "sinks.routes_out": "{input: routes_rows, format: console, ordered: true}",
        "sinks.areas_out": "{input: areas_rows, format: console, ordered: true}",
        "sinks.outliers_out": "{input: outliers, format: console}",
    }
    trackers = ("trips_of_routes", "profits", "empty_taxis")
    settings: dict[str, Any] = {
        **sinks,
        **{f"operators.{name}.slices": slices for name in trackers},
        "sources.trips.slices": sources,
        "epoch.time": epoch,
        "replicas": replicas,
    }
    return read_topology(FOLDER / "topology.yaml", {k: str(v) for k, v in settings.items()})


def trips(whole_minutes: bool = True) -> pa.Table:
    made = Trips(per_minute=PER_MINUTE, taxis=TAXIS, whole_minutes=whole_minutes)
    return pa.Table.from_batches([made.rows(0, TRIPS)])


def expected(table: pa.Table, tmp_path: Path) -> dict[str, list[check.Row]]:
    """The answers of plain Python, which reads lines."""
    path = tmp_path / "trips.csv"
    (batch,) = table.to_batches()
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
    pyarrow.csv.write_csv(as_lines(batch), path, options)
    return {name: list(query(check.trips_of(path))) for name, query in check.QUERIES.items()}


def rows_of(outputs: dict[int, pa.Table]) -> list[check.Row]:
    rows: list[check.Row] = []
    for _, table in sorted(outputs.items()):
        for pickup, dropoff, *others in zip(*table.to_pydict().values(), strict=True):
            times = (time.replace(tzinfo=datetime.UTC).timestamp() for time in (pickup, dropoff))
            rows.append((*map(int, times), *others))
    return rows


@pytest.mark.parametrize(
    ("slices", "sources", "epoch"), [(1, 1, "60s"), (3, 2, "60s"), (5, 3, "7s"), (2, 2, "1h")]
)
def test_any_slices_and_epochs_give_the_rows_of_plain_python(
    slices: int, sources: int, epoch: str, tmp_path: Path
) -> None:
    table = trips(whole_minutes=epoch != "7s")
    topology = taxi(slices, sources, epoch=epoch)
    result = assert_deterministic(topology, {"trips": table}, seeds=range(2), base=str(FOLDER))
    right = expected(table, tmp_path)
    assert right["routes"]
    assert right["areas"]
    for name, rows in right.items():
        assert rows_of(result.outputs[f"{name}_out"]) == rows
    outliers = [row for each in result.outputs["outliers_out"].values() for row in each.to_pylist()]
    near = sum(row["reason"] != "outside of the grid of 500 m" for row in outliers)
    assert sum(row["trips"] for row in outliers) > near


def test_what_breaks_on_the_way_changes_nothing() -> None:
    workload = Workload(taxi(3), {"trips": trips()}, str(FOLDER))
    trials = Trials(workload, parse_kinds("all"))
    done = [trials.run(seed) for seed in range(3)]
    assert [trial.problem for trial in done] == [None] * len(done)
    assert sum(sum(trial.faults.values()) for trial in done) > 0
