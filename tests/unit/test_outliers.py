"""Outliers of the smart grid against sorted lists: on generated readings, and on the challenge's own."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from apps.smartgrid import outliers_check as check
from apps.smartgrid import outliers_draw
from apps.smartgrid.check import FOLDER
from apps.smartgrid.make_readings import Grid
from streammine import Topology, read_topology
from streammine.testing import SimulationResult, assert_deterministic, simulate

TOPOLOGY = FOLDER / "outliers.yaml"
BASE = str(FOLDER)
REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "smartgrid"
COLUMNS = ("ts", "value", "property", "plug_id", "household_id", "house_id")


def shipped(short: int, long: int, **settings: str) -> Topology:
    """The app's topology, with windows of so many seconds."""
    return read_topology(TOPOLOGY, {"short": f"{short}s", "long": f"{long}s", **settings})


def table(readings: list[check.Reading]) -> pa.Table:
    house, household, plug = zip(*(reading.plug for reading in readings), strict=True)
    values = {
        "ts": [reading.ts for reading in readings],
        "value": [reading.milliwatts / 1000 for reading in readings],
        "property": [1] * len(readings),
        "plug_id": plug,
        "household_id": household,
        "house_id": house,
    }
    types = {"ts": pa.int64(), "value": pa.float64()}
    return pa.table({name: pa.array(values[name], types.get(name, pa.int32())) for name in COLUMNS})


def rows_of(result: SimulationResult) -> check.Rows:
    found: check.Rows = {}
    for epoch, each in result.outputs["result"].items():
        rows = [tuple(row.values()) for row in each.to_pylist()]
        assert len(rows) == len(set(rows))
        if rows:
            found[epoch] = {(row[0], row[1], row[2], row[3]) for row in rows}
    return found


def real(name: str) -> list[check.Reading]:
    path = REAL / name
    if not path.is_file():
        pytest.skip(f"the challenge's readings are not in {path}")
    return list(check.readings_of(path, " " if ".txt" in name else ","))


def test_generated_readings_have_the_outliers_that_sorted_lists_find() -> None:
    grid = Grid(houses=4, plugs=30, interval=60)
    readings = grid.readings(0, 150).batch
    expected = check.outliers(readings_in(readings), (420, 3000))
    topology = shipped(420, 3000)
    result = assert_deterministic(
        topology, {"readings": pa.Table.from_batches([readings])}, seeds=range(3), base=BASE
    )
    assert rows_of(result) == expected
    assert sum(map(len, expected.values())) > 50


def readings_in(batch: pa.RecordBatch) -> list[check.Reading]:
    return [
        check.Reading(
            row["ts"],
            (row["house_id"], row["household_id"], row["plug_id"]),
            round(row["value"] * 1000),
        )
        for row in batch.to_pylist()
        if row["property"] == 1
    ]


@pytest.mark.parametrize("windows", [(5, 20), (3_600, 86_400)])
def test_ten_real_houses(windows: tuple[int, int]) -> None:
    readings = real("houses0-9-84s.txt.gz")
    result = simulate(shipped(*windows), {"readings": table(readings)}, seed=1, base=BASE)
    assert rows_of(result) == check.outliers(readings, windows)


@pytest.mark.slow
def test_an_hour_of_a_real_house() -> None:
    """One reading a minute: most seconds are gaps, and each of them is an epoch in which windows move."""
    windows = (300, 1_200)
    readings = real("house0-minutely.csv.gz")
    readings = [each for each in readings if each.ts < readings[0].ts + 3_600]
    result = simulate(shipped(*windows), {"readings": table(readings)}, seed=1, base=BASE)
    assert rows_of(result) == check.outliers(readings, windows)


def test_all_real_houses_for_two_seconds() -> None:
    readings = real("houses0-39-2s.csv.gz")
    result = simulate(shipped(1, 2), {"readings": table(readings)}, seed=1, base=BASE)
    assert rows_of(result) == check.outliers(readings, (1, 2))


def test_the_picture_shows_what_was_told_last() -> None:
    strips = outliers_draw.strips(
        {
            9: {(0, 10, 7, 50.0), (5, 10, 7, 25.0)},
            12: {(3, 13, 7, None), (3, 13, 8, 100.0)},
            15: {(6, 16, 8, 0.0)},
        }
    )
    assert strips[5] == {7: [(10, 25.0)]}
    times, lines = outliers_draw.grid(strips[10])
    assert times == [10, 13, 16, 17]
    assert repr(lines) == "[[50.0, nan, nan], [nan, 100.0, 0.0]]"
