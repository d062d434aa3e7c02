"""The taxi rides' cells, outliers and generator, against plain Python with decimals."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.taxi import check, draw, make_trips
from apps.taxi.operators import POINTS, Areas, Outliers, Routes, cells
from streammine.testing import check_operator

EAST, SOUTH = 5_986, 4_491.556

MILLIONTHS = st.one_of(
    st.integers(-180_000_000, 180_000_000),
    # near the borders of cells, where halves of steps lie
    st.integers(-1, 601).map(lambda n: -74_913_585 + n * EAST // 4),
    st.integers(-1, 1202).map(lambda n: 41_474_937 - round(n * SOUTH / 4)),
)


def degrees(millionths: int) -> Decimal:
    return Decimal(millionths).scaleb(-6)


def batch_of(points: list[tuple[Any, Any]], **others: list[Any]) -> pa.RecordBatch:
    """Trips from each point to the centre of cell 1.1."""
    rows = len(points)
    columns: dict[str, Any] = {
        "medallion": ["taxi"] * rows,
        "pickup_datetime": pa.array([0] * rows, pa.timestamp("s")),
        "dropoff_datetime": pa.array([60] * rows, pa.timestamp("s")),
        **dict(zip(POINTS[:2], zip(*points, strict=True), strict=True)),
        POINTS[2]: [-74.913585] * rows,
        POINTS[3]: [41.474937] * rows,
        "fare_amount": [1.0] * rows,
        "tip_amount": [0.0] * rows,
    }
    columns |= others
    schema = make_trips.Trips().schema
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    return pa.record_batch(arrays, schema=schema)


@given(
    st.lists(st.tuples(MILLIONTHS, MILLIONTHS), min_size=1, max_size=20), st.sampled_from([1, 2])
)
def test_cells_are_those_of_exact_fractions(points: list[tuple[int, int]], parts: int) -> None:
    given_points = [(east / 1e6, north / 1e6) for east, north in points]
    start, end = cells(batch_of(given_points), parts)
    for (east, north), found in zip(points, start.tolist(), strict=True):
        cell = check.cell_of((degrees(east), degrees(north)), parts)
        assert found == (0 if cell is None else cell[0] * 1000 + cell[1])
    assert set(end.tolist()) == {1001}


def test_the_grid_ends_half_a_cell_west_and_north_of_the_first_centre() -> None:
    #   1.1 is centred at 41.474937 N, 74.913585 W and reaches 2993 millionths westward
    points = [
        (-74.913585 - 0.002993, 41.474937),
        (-74.913585 - 0.002994, 41.474937),
        (-74.913585 + 0.002993, 41.474937),
        (-74.913585 + 0.002992, 41.474937),
        (-74.913585 + 0.005986 * 299, 41.474937 - 0.004491556 * 299),
        (-74.913585 + 0.005986 * 300, 41.474937),
    ]
    start, _ = cells(batch_of(points), 1)
    assert start.tolist() == [1001, 0, 2001, 1001, 300_300, 0]


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), -1e300, 0.0])
def test_what_is_no_place_is_outside(value: float | None) -> None:
    batch = batch_of([(value, 40.75), (-73.98, value), (-73.98, 40.75)])
    start, _ = cells(batch, 1)
    assert start.tolist()[:2] == [0, 0]
    assert start.tolist()[2] > 0


def test_every_trip_counts_or_is_an_outlier_with_a_reason() -> None:
    batch = batch_of(
        [(-73.98, 40.75)] * 6 + [(0.0, 0.0), (-73.98, 40.75)],
        fare_amount=[1.0, -0.01, 2.0, None, 3.0, 0.0, 4.0, -0.004],
        tip_amount=[0.0, 0.0, -5.0, 0.0, float("nan"), 0.0, 0.0, 0.0],
        medallion=["a", "a", "a", "a", "a", None, "a", "a"],
    )
    areas, kept = Areas().map_batch(batch)
    assert kept.tolist() == [0]
    assert areas["cents"].to_pylist() == [100]
    reasons, rows = Outliers().map_batch(batch)
    assert rows.tolist() == [1, 2, 3, 4, 5, 6, 7]
    negative = "negative fare or tip, or none"
    assert reasons["reason"].to_pylist() == [
        *[negative] * 4,
        "no taxi",
        "outside of the grid of 500 m",
        negative,
    ]
    _, of_routes = Routes().map_batch(batch)
    assert of_routes.tolist() == [0, 1, 2, 3, 4, 5, 7]


@pytest.mark.parametrize("operator", [Routes, Areas, Outliers])
def test_the_mappers_keep_what_they_promise(operator: Any) -> None:
    check_operator(operator, [make_trips.Trips(per_minute=50, taxis=5).rows(0, 200)])


@given(st.integers(0, 5_000), st.lists(st.integers(1, 40), min_size=1, max_size=5), st.booleans())
def test_trips_are_the_same_however_they_are_asked_for(
    first: int, counts: list[int], whole_minutes: bool
) -> None:
    made = make_trips.Trips(per_minute=30, taxis=40, whole_minutes=whole_minutes)
    whole = made.rows(first, sum(counts))
    starts = np.cumsum([first, *counts])
    parts = [made.rows(int(at), count) for at, count in zip(starts, counts, strict=False)]
    assert pa.Table.from_batches(parts).equals(pa.Table.from_batches([whole]))


def test_trips_have_ties_hot_spots_and_outliers() -> None:
    batch = make_trips.Trips(whole_minutes=True).rows(0, 20_000)
    times = batch.column("dropoff_datetime").cast(pa.int64()).to_numpy()
    assert (np.diff(times) >= 0).all()
    assert len(set(times.tolist())) == pytest.approx(20_000 / 350, abs=1)
    assert (batch.column("pickup_datetime").cast(pa.int64()).to_numpy() <= times).all()
    routes, kept = Routes().map_batch(batch)
    assert 0.97 < len(kept) / 20_000 < 0.99
    found: dict[Any, int] = {}
    for route in zip(
        *(routes[name].to_pylist() for name in ("start_cell", "end_cell")), strict=True
    ):
        found[route] = found.get(route, 0) + 1
    assert max(found.values()) > 20 * len(kept) / len(found)


def test_the_shipped_trips_are_those_that_are_made(tmp_path: Path) -> None:
    made = make_trips.write_trips(tmp_path / "trips.csv")
    assert made.read_bytes() == make_trips.FILE.read_bytes()


def test_plain_python_reads_lines_that_can_be_read(tmp_path: Path) -> None:
    line = "a,b,2013-01-01 00:00:00,2013-01-01 00:02:00,120,0.44,-73.95,40.71,-73.96,40.71,CSH,3.5,0,0,0,0,4"
    broken = line.replace("2013-01-01 00:02:00", "yesterday")
    (tmp_path / "trips.csv").write_text(f"{line}\n{broken}\nx,y\n{line}\n")
    trips = list(check.trips_of(tmp_path / "trips.csv"))
    assert len(trips) == 2
    assert len(list(check.frequent_routes(trips))) == 1


def test_plain_python_counts_a_trip_in_the_query_that_needs_nothing_it_lacks(
    tmp_path: Path,
) -> None:
    whole = "a,b,2013-01-01 00:00:00,2013-01-01 00:02:00,120,0.44,-73.95,40.71,-73.96,40.71,CSH,3.5,0,0,1,0,4"
    values = whole.split(",")
    lines = {
        "no fare": [*values[:11], "", *values[12:]],
        "no tip": [*values[:14], "", *values[15:]],
        "no number as a tip": [*values[:14], "much", *values[15:]],
        "no start": [*values[:6], "", *values[7:]],
        "cut": values[:15],
    }
    counted = {}
    for name, line in lines.items():
        path = tmp_path / "trips.csv"
        path.write_text(",".join(line) + "\n")
        trips = list(check.trips_of(path))
        counted[name] = [len(list(query(trips))) for query in check.QUERIES.values()]
    assert counted == {
        "no fare": [1, 0],
        "no tip": [1, 0],
        "no number as a tip": [0, 0],
        "no start": [0, 0],
        "cut": [0, 0],
    }


WHOLE = "a,b,2013-01-01 00:00:00,{0},120,0.44,-73.95,40.71,-73.96,40.71,CSH,{1},0,0,{2},0,4"


def trips_in(
    folder: Path, *lines: tuple[str, str, str], prepared: bool = False
) -> list[check.Trip]:
    """The trips of lines with these drop-offs, fares and tips."""
    path = folder / "trips.csv"
    path.write_text("\n".join(WHOLE.format(*line) for line in lines))
    return list(check.trips_of(path, prepared))


def test_plain_python_leaves_out_lines_of_minutes_that_are_over(tmp_path: Path) -> None:
    times = ["00:02:30", "00:02:10", "00:01:59", "00:03:00", "00:02:59", "00:03:00"]
    lines = [(f"2013-01-01 {time}", "1", "0") for time in times]
    in_time = trips_in(tmp_path, *lines)
    minute = in_time[0].dropoff // 60 * 60
    assert [trip.dropoff - minute for trip in in_time] == [10, 30, 60, 60]
    prepared = trips_in(tmp_path, *lines, prepared=True)
    assert [trip.dropoff - minute for trip in prepared] == [-1, 10, 30, 59, 60, 60]


def test_plain_python_and_the_operator_round_cents_alike(tmp_path: Path) -> None:
    amounts = ["3.505", "3.515", "0.125", "-0.004", "nan", "inf", "1e11", "10995116277.75", "2.675"]
    lines = [("2013-01-01 00:02:00", amount, "1") for amount in amounts]
    found = [trip.cents for trip in trips_in(tmp_path, *lines)]
    batch = batch_of(
        [(-73.98, 40.75)] * len(amounts),
        fare_amount=[float(amount) for amount in amounts],
        tip_amount=[1.0] * len(amounts),
    )
    areas, kept = Areas().map_batch(batch)
    assert [cents for cents in found if cents is not None] == areas["cents"].to_pylist()
    assert [n for n, cents in enumerate(found) if cents is not None] == kept.tolist()


def test_a_trip_that_does_not_say_when_it_began_is_an_outlier(tmp_path: Path) -> None:
    times = pa.array([None, 0], pa.timestamp("s"))
    batch = batch_of([(-73.98, 40.75)] * 2, pickup_datetime=times)
    for operator in (Routes, Areas):
        assert operator().map_batch(batch)[1].tolist() == [1]
    assert Outliers().map_batch(batch)[0]["reason"].to_pylist() == ["no time of pick-up"]
    path = tmp_path / "trips.csv"
    path.write_text(WHOLE.format("2013-01-01 00:02:00", 1, 1).replace("2013-01-01 00:00:00", ""))
    assert not list(check.trips_of(path))


def test_the_picture_shows_mean_profitability_by_cell() -> None:
    nothing = [None] * 4
    rows = [(0, 0, "1.2", 1, 5.0, 5.0, *nothing), (0, 0, "1.2", 2, 6.0, 3.0, "2.1", 1, 9.0, 9.0)]
    assert draw.means(rows) == {(1, 2): 4.0, (2, 1): 9.0}
