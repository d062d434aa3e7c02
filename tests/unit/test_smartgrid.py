"""The smart grid's load forecasts against plain Python, and the generator of its readings."""

from __future__ import annotations

import gzip
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.smartgrid import check, make_readings
from apps.smartgrid.make_readings import SCHEMA, START, Grid
from apps.smartgrid.operators import DAY_MINUTES, SLICE_MINUTES, Forecasts, Loads, Stream, medians
from streammine import UserCodeError, read_topology
from streammine.model.contracts import EpochClose
from streammine.model.epochs import EpochDefinition
from streammine.operators.user.mapper import UserMapper
from streammine.operators.user.slice import UserSliceOperator
from streammine.testing import assert_deterministic, check_operator

TIME = EpochDefinition("time", 30_000_000, "ts")
DAY = 86_400
TOPOLOGY = check.FOLDER / "topology.yaml"

Row = tuple[int, float, int, int, int, int]
"""ts, value, property, plug, household, house, as in the files."""


def batch(rows: Iterable[Row]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    return pa.record_batch(
        [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], SCHEMA
    )


def load(at: int, watts: float, plug: int = 0, household: int = 0, house: int = 0) -> Row:
    """A load `at` so many seconds after the start."""
    return START + at, watts, 1, plug, household, house


def readings(rows: pa.RecordBatch | pa.Table) -> list[check.Reading]:
    return [
        check.Reading(ts, (house, household, plug), round(value * 1000))
        for ts, value, kind, plug, household, house in zip(*rows.to_pydict().values(), strict=True)
        if kind == 1
    ]


def sums(rows: pa.RecordBatch, start: int = START) -> pa.RecordBatch:
    """What the topology's aggregate makes of an epoch."""
    loads = pa.Table.from_batches(
        [UserMapper("loads", Loads(start), rows.schema).apply(rows).batch]
    )
    keys = ["house_id", "household_id", "plug_id", "minute"]
    wanted = [("milliwatts", "sum"), ("milliwatts", "count")]
    found = loads.group_by(keys).aggregate(wanted).combine_chunks()
    columns = [found[name] for name in (*keys, "milliwatts_sum", "milliwatts_count")]
    return pa.table(columns, [*keys, "milliwatts", "readings"]).to_batches()[0]


def by_epoch(rows: pa.RecordBatch, start: int = START) -> dict[int, pa.RecordBatch]:
    """The sums of each epoch that has loads."""
    epochs = rows.column("ts").to_numpy() // 30
    return {
        epoch: sums(some, start)
        for epoch in np.unique(epochs).tolist()
        if 1 in (some := rows.filter(pa.array(epochs == epoch))).column("property").to_pylist()
    }


def operator(epoch: pa.RecordBatch, **more: int) -> UserSliceOperator:
    return UserSliceOperator("forecasts", Forecasts(**more), [epoch.schema], [["house_id"]])


def found(rows: pa.RecordBatch | list[Row], **more: int) -> check.Forecasts:
    """What the operators make of the rows, epoch by epoch."""
    start = more.get("start", START)
    epochs = by_epoch(batch(rows) if isinstance(rows, list) else rows, start)
    made = operator(next(iter(epochs.values())), **more)
    streams: check.Forecasts = {
        (level, minutes): defaultdict(set)
        for level in ("house", "plug")
        for minutes in SLICE_MINUTES
    }
    for epoch, some in epochs.items():
        close = EpochClose(epoch, TIME.watermark(epoch), TIME)
        for left in made.run(close, iter([(0, some)])):
            for (level, minutes), stream in streams.items():
                mapper = UserMapper("stream", Stream(minutes, level), left.schema)
                for row in mapper.apply(left).batch.to_pylist():
                    stream[epoch].add(tuple(row.values()))
    return streams


def last(streams: check.Forecasts, level: str, minutes: int) -> set[check.Row]:
    return streams[level, minutes][max(streams[level, minutes])]


def same_hours(grid: Grid, days: int, rounds: int) -> pa.RecordBatch:
    """Some rounds at the same time of so many days."""
    daily = DAY // grid.interval
    tables = [grid.readings(day * daily + 7, rounds).batch for day in range(days)]
    return pa.Table.from_batches(tables).combine_chunks().to_batches()[0]


@pytest.mark.parametrize("seed", range(4))
def test_forecasts_of_generated_days_are_those_of_plain_python(seed: int) -> None:
    rows = same_hours(Grid(houses=3, plugs=11, interval=17, seed=seed), days=4, rounds=40)
    expected = check.forecasts(readings(rows))
    assert check.first_difference(found(rows), expected) is None
    # the last day has three before it
    assert len(expected["plug", 1]) > 80


loads = st.tuples(
    st.sampled_from([0, 1, 2, 3]),  # day
    st.integers(0, 400),
    st.decimals(0, 3_000, places=3).map(float),
    st.sampled_from([0, 1]),  # property
    st.integers(0, 2),
    st.integers(0, 1),
    st.integers(0, 2),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(loads, min_size=1, max_size=60))
def test_any_readings_are_forecast_as_in_plain_python(drawn: list[Any]) -> None:
    rows = sorted((START + day * DAY + at, *others) for day, at, *others in drawn)
    if not any(row[2] for row in rows):
        return
    expected = check.forecasts(readings(batch(rows)))
    assert check.first_difference(found(batch(rows)), expected) is None


def test_a_slice_begins_one_second_after_the_minute_and_is_predicted_two_slices_ahead() -> None:
    #  epoch       |  0 ...  28 | 29 ... 58 | 59 ... 88 |
    #  slice of 1'    0             0          0 at 59, then 1
    streams = found([load(10, 4.0), load(58, 8.0), load(59, 60.0), load(60, 1.0)])
    first, second, third = (START // 30 + epoch for epoch in range(3))
    assert streams["plug", 1][first] == {(START + 120, 0, 0, 0, 4.0)}
    assert streams["plug", 1][second] == {(START + 120, 0, 0, 0, 6.0)}
    assert streams["plug", 1][third] == {(START + 180, 0, 0, 0, 1.0)}
    # the second 59 is in slice 0, and all are in that of five minutes
    assert streams["plug", 5][third] == {(START + 600, 0, 0, 0, 73.0 / 4)}


def test_a_second_that_ends_a_slice_counts_in_it_though_a_later_epoch_has_it() -> None:
    # the day before: 4 and 60 in the slice at 0 s; today's slice at -120 s predicts that at 0 s
    before = [load(10, 4.0), load(59, 60.0)]
    streams = found([*before, load(DAY - 110, 10.0)])
    assert last(streams, "plug", 1) == {(START + DAY, 0, 0, 0, (10.0 + 32.0) / 2)}


@pytest.mark.parametrize("start", [START - 1, START - 16, START - 31])
def test_slices_may_begin_at_any_second(start: int) -> None:
    rows = same_hours(Grid(houses=2, plugs=5, interval=7), days=2, rounds=30)
    expected = check.forecasts(readings(rows), start)
    assert check.first_difference(found(rows, start=start), expected) is None


def test_on_the_first_day_the_current_average_is_predicted() -> None:
    streams = found([load(0, 1.5), load(1, 2.5)])
    for minutes in SLICE_MINUTES:
        ts = START + 2 * 60 * minutes
        assert last(streams, "plug", minutes) == {(ts, 0, 0, 0, 2.0)}
        assert last(streams, "house", minutes) == {(ts, 0, 2.0)}


@pytest.mark.parametrize(
    ("before", "usual"),
    [((5.0,), 5.0), ((5.0, 9.0), 7.0), ((9.0, 1.0, 2.0), 2.0), ((9.0, 1.0, 2.0, 4.0), 3.0)],
)
def test_the_median_of_an_even_number_of_days_is_the_mean_of_the_middle_two(
    before: Sequence[float], usual: float
) -> None:
    rows = [load(day * DAY + 120, watts) for day, watts in enumerate(before)]
    streams = found([*rows, load(len(before) * DAY, 1.0)])
    assert last(streams, "plug", 1) == {(START + len(before) * DAY + 120, 0, 0, 0, (1 + usual) / 2)}


def test_a_slice_without_readings_is_left_out() -> None:
    # day 0: plug 0 tells 8, plug 1 nothing; day 1: nothing at all; day 2: plug 0 tells 2 and plug 1 tells 3
    rows = [load(120, 8.0), load(2 * DAY, 2.0), load(2 * DAY, 3.0, plug=1)]
    streams = found(rows)
    ts = START + 2 * DAY + 120
    assert last(streams, "plug", 1) == {(ts, 0, 0, 0, 5.0), (ts, 0, 0, 1, 3.0)}
    assert last(streams, "house", 1) == {(ts, 0, (5.0 + 8.0) / 2)}


def test_a_house_is_updated_where_one_of_its_plugs_tells_a_load() -> None:
    #  plug 0 of house 0 in the first half minute, plug 1 in the second; house 1 in the first alone
    streams = found([load(0, 1.0), load(0, 7.0, house=1), load(29, 4.0, plug=1)])
    assert last(streams, "plug", 1) == {(START + 120, 0, 0, 0, 1.0), (START + 120, 0, 0, 1, 4.0)}
    assert last(streams, "house", 1) == {(START + 120, 0, 5.0)}


def test_doubled_readings_count_twice() -> None:
    assert last(found([load(0, 1.0), load(0, 1.0), load(1, 4.0)]), "plug", 1) == {
        (START + 120, 0, 0, 0, 2.0)
    }


def test_averages_are_the_floats_nearest_to_the_mean() -> None:
    watts = [0.1, 0.2, 0.3, 1999.999, 0.001]
    streams = found([load(second, each) for second, each in enumerate(watts)])
    mean = float(sum(Fraction(str(each)) for each in watts) / 5)
    assert last(streams, "plug", 120) == {(START + 14_400, 0, 0, 0, mean)}


def test_days_that_are_too_long_ago_are_forgotten() -> None:
    rows = [load(day * DAY + 120, watts) for day, watts in enumerate((9.0, 1.0, 2.0))]
    rows.append(load(3 * DAY, 1.0))
    for days, usual in ((1, 2.0), (2, 1.5), (3, 2.0), (30, 2.0)):
        streams = found(rows, days=days)
        assert last(streams, "plug", 1) == {(START + 3 * DAY + 120, 0, 0, 0, (1.0 + usual) / 2)}


def test_what_is_kept_does_not_grow_beyond_the_days() -> None:
    rows = same_hours(Grid(houses=1, plugs=4, interval=30), days=8, rounds=10)
    epochs = by_epoch(rows)
    made = operator(next(iter(epochs.values())), days=2)
    sizes = {}
    for epoch, some in epochs.items():
        made.run(EpochClose(epoch, TIME.watermark(epoch), TIME), iter([(0, some)]))
        sizes[(epoch * 30 - START) // DAY] = made.state_nbytes
    assert sizes[7] == sizes[3] == sizes[4] > sizes[0]


def test_the_order_of_an_epochs_rows_and_a_restore_midway_can_not_be_seen() -> None:
    rows = same_hours(Grid(houses=3, plugs=11, interval=30), days=3, rounds=6)
    batches = list(by_epoch(rows).values())
    # epochs are counted here, so that all readings are of one minute or another of the day
    check_operator(lambda: _Counted(batches[0].schema), batches)


class _Counted(UserSliceOperator):
    """Closes epochs of counted rows as those of the half minutes whose sums they hold."""

    def __init__(self, schema: pa.Schema) -> None:
        super().__init__("forecasts", Forecasts(), [schema], [["house_id"]])

    def run(self, epoch: EpochClose, bag: Any) -> list[pa.RecordBatch]:
        held = list(bag)
        minute = max((max(rows.column("minute").to_pylist()) for _, rows in held), default=0)
        at = (START + 60 * minute) // 30
        return super().run(EpochClose(at, TIME.watermark(at), TIME), iter(held))


def test_the_topology_gives_the_same_whatever_nodes_and_slices() -> None:
    rows = same_hours(Grid(houses=3, plugs=8, interval=30), days=2, rounds=5)
    overrides = {"operators.forecasts.slices": "3", "operators.sums.slices": "1"}
    for changes in ({}, overrides):
        topology = read_topology(TOPOLOGY, changes)
        result = assert_deterministic(
            topology,
            {"readings": pa.Table.from_batches([rows])},
            seeds=(1, 2),
            base=str(check.FOLDER),
        )
        streams = {
            (level, minutes): {
                epoch: {tuple(row.values()) for row in table.to_pylist()}
                for epoch, table in result.outputs[f"{level}s_{minutes}_minutes"].items()
                if table.num_rows
            }
            for level in ("house", "plug")
            for minutes in SLICE_MINUTES
        }
        assert check.first_difference(streams, check.forecasts(readings(rows))) is None


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (load(0, float("nan")), "nan is no load in watts"),
        (load(0, float("-inf")), "-inf is no load in watts"),
        (load(0, 1_000_001.0), "1000001.0 is no load in watts"),
        (load(-1, 1.0), "from before the first slice, 1377986401"),
        (load(60 * 2**31, 1.0), "of no time in seconds: more than 2147483647 minutes on"),
        (load(0, 1.0, plug=-1), "ids are from 0 to 1048575"),
        (load(0, 1.0, house=1 << 20), "ids are from 0 to 1048575"),
        ((START, None, 1, 0, 0, 0), "a reading lacks a value"),
    ],
)
def test_what_is_no_load_is_a_dead_letter(odd: Any, reason: str) -> None:
    rows = batch([load(0, 1.0), odd, load(0, 2.0), (START, 5.0, 0, 0, 0, 0)])
    mapped = UserMapper("loads", Loads(), SCHEMA, dead_letter=True).apply(rows)
    assert mapped.batch.column("milliwatts").to_pylist() == [1000, 2000]
    assert mapped.dead is not None
    assert len(mapped.dead) == 1
    assert reason in mapped.dead.reasons[0]
    with pytest.raises(UserCodeError, match=r"Loads.map_batch raised ValueError"):
        UserMapper("loads", Loads(), SCHEMA).apply(rows)


def test_a_reading_of_no_load_may_hold_anything() -> None:
    mapped = UserMapper("loads", Loads(), SCHEMA).apply(batch([(START, float("nan"), 0, 0, 0, 0)]))
    assert mapped.batch.num_rows == 0


def test_loads_do_not_depend_on_batches() -> None:
    rows = Grid(houses=2, plugs=5).readings(0, 30).batch
    check_operator(Loads, [rows.slice(0, 150), rows.slice(150)])


@pytest.mark.parametrize(("minutes", "level"), [(2, "plug"), (1, "household")])
def test_there_are_ten_streams(minutes: int, level: str) -> None:
    with pytest.raises(ValueError, match=r"slices of .1, 5, 15, 60, 120. minutes"):
        Stream(minutes, level)


def test_medians_leave_out_what_is_not_there() -> None:
    nan = float("nan")
    lines = np.array([[1.0, nan, nan, 4.0], [3.0, nan, 5.0, 2.0], [nan, nan, nan, 9.0]])
    assert medians(lines).tolist()[2:] == [5.0, 4.0]
    assert medians(lines)[0] == 2.0
    assert np.isnan(medians(lines)[1])
    assert np.isnan(medians(lines[:0])).all()


def test_slices_divide_the_day() -> None:
    assert all(DAY_MINUTES % minutes == 0 for minutes in SLICE_MINUTES)


class TestGrid:
    def test_the_full_shape_is_the_challenges(self) -> None:
        plugs = Grid().sockets
        assert len(plugs.house) == 2_125
        assert set(plugs.house.tolist()) == set(range(40))
        assert len(set(zip(plugs.house, plugs.household, plugs.plug, strict=True))) == 2_125
        assert len(set(Counter(plugs.house.tolist()).values())) > 10, "houses differ"

    def test_any_cut_of_the_rounds_gives_the_same_rows(self) -> None:
        grid = Grid(houses=4, plugs=50, seed=9)
        whole = grid.readings(100, 40)
        cut = [grid.readings(100, 1), grid.readings(101, 13), grid.readings(114, 26)]
        table = pa.Table.from_batches([each.batch for each in cut]).combine_chunks()
        assert table.to_batches()[0].equals(whole.batch)
        assert np.concatenate([each.malformed for each in cut]).tolist() == whole.malformed.tolist()

    def test_another_seed_gives_other_rows(self) -> None:
        assert not Grid(seed=1).readings(0, 1).batch.equals(Grid(seed=2).readings(0, 1).batch)

    def test_readings_are_missing_doubled_and_malformed(self) -> None:
        rows = Grid(houses=5, plugs=200).readings(0, 600)
        names = ("ts", "property", "plug_id", "household_id", "house_id")
        told = Counter(zip(*(rows.batch.column(name).to_pylist() for name in names), strict=True))
        slots = 2 * 200 * 600
        assert 0.005 < 1 - len(told) / slots < 0.03
        assert 0.005 < sum(count == 2 for count in told.values()) / slots < 0.03
        assert max(told.values()) == 2
        assert 0.5 < rows.malformed.sum() / (40 / 65_536 * slots / 2) < 2
        times = rows.batch.column("ts").to_numpy()
        assert np.all(np.diff(times) >= 0)

    def test_loads_follow_the_hours_and_work_never_falls(self) -> None:
        rows = pa.Table.from_batches([Grid(interval=600).readings(0, 144).batch]).to_pydict()
        loads: dict[int, list[float]] = defaultdict(list)
        work: dict[Any, list[float]] = defaultdict(list)
        for ts, value, kind, *plug in zip(*rows.values(), strict=True):
            if kind == 1:
                loads[(ts - START) // 3600].append(value)
            else:
                work[tuple(plug)].append(value)
        means = [sum(loads[hour]) / len(loads[hour]) for hour in range(24)]
        assert max(means[19:23]) > 3 * min(means[4:8])
        assert min(map(min, loads.values())) >= 0
        assert all(sorted(each) == each for each in work.values())

    def test_all_layouts_hold_the_same_loads(self, tmp_path: Path) -> None:
        grid = Grid(houses=3, plugs=60)
        paths = [tmp_path / name for name in ("a.csv", "a.txt", "a.csv.gz", "a.txt.gz")]
        counts = {make_readings.write_readings(path, grid, 90) for path in paths}
        assert len(counts) == 1
        delimiters = [" " if ".txt" in path.name else "," for path in paths]
        found = [
            list(check.readings_of(path, delimiter))
            for path, delimiter in zip(paths, delimiters, strict=True)
        ]
        assert all(each == found[0] for each in found)
        lines = paths[0].read_text().splitlines()
        assert len(lines) == counts.pop()
        assert lines[0].startswith(f"1,{START},")
        bad = [line for line in lines if line.count(",") != 6 or ",n/a," in line or ",-," in line]
        assert bad
        parquet = tmp_path / "a.parquet"
        make_readings.write_readings(parquet, grid, 90)
        table = pq.read_table(parquet)
        assert table.column("ts").null_count == len(bad)
        assert readings(table.filter(table["ts"].is_valid())) == found[0]

    def test_the_same_call_writes_the_same_bytes(self, tmp_path: Path) -> None:
        for name in ("a.csv.gz", "b.csv.gz"):
            make_readings.write_readings(tmp_path / name, Grid(houses=2, plugs=9), 20)
        one, other = ((tmp_path / name).read_bytes() for name in ("a.csv.gz", "b.csv.gz"))
        assert one == other
        assert gzip.decompress(one).count(b"\n") > 300

    def test_the_shipped_readings_are_what_the_script_writes(self, tmp_path: Path) -> None:
        written = make_readings.write_small(tmp_path)
        assert written.read_bytes() == (make_readings.FOLDER / "readings.csv").read_bytes()

    @pytest.mark.parametrize("odd", [{"houses": 0}, {"plugs": 3}, {"interval": 0}])
    def test_a_grid_that_can_not_be_is_refused(self, odd: dict[str, int]) -> None:
        with pytest.raises(ValueError, match="a grid has houses, a plug or more in each"):
            Grid(**odd)


HOSTILE = (
    ("1,{0},2.5,1,3,2,1", 2_500),
    ("2,{0},-2.5,1,3,2,1", -2_500),
    ("2,{0},-2.5,1,3,2,1", -2_500),  # doubled
    ("3, {0} ,1e-3,0x1,3,2,1", 1),
    ("4,{0},0.0005,1,3,2,1", 0),
    ("5,{0},0.0015,1,3,2,1", 2),
    ('6,{0},"1",1,3,2,1048575', 1_000),
    ("7,{0},1e6,1,3,2,1", 10**9),
    ("8,{0},1000000.1,1,3,2,1", None),
    ("9,{0},nan,1,3,2,1", None),
    ("10,{0},1/3,1,3,2,1", None),
    ("11,{0},1_0,1,3,2,1", None),
    ("12,{0},2.5,0,3,2,1", None),
    ("13,{0},2.5,1,-1,2,1", None),
    ("14,{0},2.5,1,3,1048576,1", None),
    ("15,{0},2.5,1,3,2,4294967297", None),
    ("16,{0},,1,3,2,1", None),
    ("17,{0},2.5,1,3,2,1,9", None),
    ("18,{0},2.5", None),
    ("19,yesterday,2.5,1,3,2,1", None),
    ("20,{1},2.5,1,3,2,1", None),
    ("21,{2},2.5,1,3,2,1", None),
    ("22,{3},2.5,1,3,2,1", 2_500),
    ('23,{0},"2.5,1,3,2,1', None),
    ("24,{0},2.5,1,3,2,1", 2_500),
)
"""Lines, and their milliwatts or None where they are no load that counts. {0} is the first second, {1} the
one before, {2} the first that is too far on and {3} the one before."""


def hostile_lines() -> list[str]:
    end = START + 60 * 2**31
    return [line.format(START, START - 1, end, end - 1) for line, _ in HOSTILE]


def test_the_reference_takes_the_loads_that_the_application_says(tmp_path: Path) -> None:
    path = tmp_path / "readings.csv"
    path.write_text("\n".join(hostile_lines()) + "\n")
    expected = [milliwatts for _, milliwatts in HOSTILE if milliwatts is not None]
    assert [each.milliwatts for each in check.readings_of(path)] == expected


def test_the_operator_takes_the_same_loads() -> None:
    rows = [
        (line, milliwatts)
        for line, (_, milliwatts) in zip(hostile_lines(), HOSTILE, strict=True)
        if re.fullmatch(r"\d+,\d+,[-.e\d]+,\d,-?\d+,\d{1,9},\d{1,9}", line)
    ]
    assert len(rows) == 14
    for line, milliwatts in rows:
        _, ts, value, *others = line.split(",")
        row = batch([(int(ts), float(value), *map(int, others))])  # type: ignore[list-item]
        try:
            found = Loads().map_batch(row)[0]["milliwatts"].to_pylist()
        except ValueError:
            found = []
        assert found == ([] if milliwatts is None else [milliwatts]), line


def test_the_check_tells_the_first_row_that_differs() -> None:
    ours: check.Forecasts = {("plug", 1): {7: {(1, 0, 0, 0, 2.0)}}}
    theirs: check.Forecasts = {("plug", 1): {7: {(1, 0, 0, 0, 3.0)}}}
    assert check.first_difference(ours, ours) is None
    assert "plugs, 1 minutes, epoch 7: (1, 0, 0, 0, 2.0)" in str(
        check.first_difference(ours, theirs)
    )
