"""A pace by event time: what happened together comes together, whatever the source, its slices and files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streammine import Topology
from streammine.model.durations import Rate
from streammine.model.epochs import BEGINNING, INFINITY, EpochDefinition
from streammine.model.source_contracts import Delivery
from streammine.model.topology.sources import FilesSource, GeneratorSource, LogSource
from streammine.runtime.sources import first_event_time, open_reader, opening, resolve_source
from streammine.runtime.sources.epoch_reader import EpochReader
from streammine.runtime.sources.pace import LINGER_SECONDS, LONGEST_LINGER_SECONDS, Pace
from streammine.runtime.submission import prepare_submission
from streammine.testing import SimulationSettings, simulate
from tests.unit.epoch_logs import write_log
from tests.unit.source_reading import SCHEMA

SECOND = 1_000_000
TIME = EpochDefinition("time", 10 * SECOND, "ts")
START = 1_000
SPEED = 20
KINDS = ("json", "csv files", "parquet", "log", "log with dead rows", "generator")


def uneven() -> list[int]:
    """Seconds that rise: many at once, a few, none for three epochs, then many again."""
    gaps = [0] * 30 + [5] * 4 + [35] + [0, 1] * 30
    return (START + np.cumsum(gaps)).tolist()


def source(kind: str, base: Path, speed: float | None = SPEED) -> tuple[Any, list[int]]:
    """(the source, its event times in seconds)."""
    paced = {} if speed is None else {"speed": speed}
    times = uneven()
    if kind.startswith("log"):
        write_log(
            base / "log",
            3,
            {100: 7, 101: 1, 104: 10},
            dead=kind != "log",
            definition=TIME,
        )
        return LogSource.model_validate({"log": "log", **paced}), []
    if kind == "generator":
        document = {"generator": "keys", "rows": 5000, "with": {"per_second": 100}}
        return GeneratorSource.model_validate(document | paced), [row // 100 for row in range(5000)]
    names = ["a"] if kind != "csv files" else ["a", "b", "c"]
    suffix = kind.split()[0]
    for place, name in enumerate(names):
        mine = times[place :: len(names)]
        path = base / f"{name}.{suffix}"
        if suffix == "parquet":
            table = pa.table({"ts": mine, "v": np.arange(len(mine)) / 4})
            pq.write_table(table, path, row_group_size=10)
        elif suffix == "csv":
            path.write_text("ts,v\n" + "".join(f"{each},0\n" for each in mine))
        else:
            path.write_text("".join(json.dumps({"ts": each, "v": 0}) + "\n" for each in mine))
    document = {"files": f"*.{suffix}", "prepare": "none", "schema": SCHEMA, **paced}
    return FilesSource.model_validate(document), times


def rows_at(
    settings: Any, base: Path, slices: int, now: float, begins: int
) -> tuple[list[int], list[int]]:
    """(event times in microseconds, open epochs of slices that have more) that slices give by `now`."""
    resolved = resolve_source("s", settings, TIME, str(base))
    times: list[int] = []
    open_epochs = []
    for index in range(slices):
        reader = open_reader(resolved, settings, TIME, index, slices, None, None, begins)
        delivery = reader.read(7, now)
        while True:
            for piece in delivery.pieces:
                assert piece.times is not None
                times += piece.times.tolist()
            if delivery.exhausted or delivery.wake_after_seconds is not None:
                break
            delivery = reader.read(7, now)
        if not delivery.exhausted:
            open_epochs.append(delivery.open_epoch)
    return times, open_epochs


@pytest.mark.parametrize(
    ("kind", "slices"),
    # a slice reads files of text that cover the same time a block at a time
    [(kind, slices) for kind in KINDS for slices in (1, 2) if kind != "csv files"]
    + [("csv files", 3)],
)
def test_rows_and_epoch_ends_come_when_event_time_has_come_to_them(
    kind: str, slices: int, tmp_path: Path
) -> None:
    settings, _ = source(kind, tmp_path)
    every, _ = rows_at(settings.unpaced, tmp_path, slices, 0.0, 0)
    assert every
    begins = min(every)
    for now in (0.0, 0.049, 0.5, 1.0, 2.5, 2.999, 3.5, 1e6):
        times, open_epochs = rows_at(settings, tmp_path, slices, now, begins)
        reached = begins + round(now * SPEED * SECOND)
        assert sorted(times) == sorted(each for each in every if each <= reached)
        for each in open_epochs:
            # the end of a quiet epoch comes in its time, too, and none before
            assert each == reached // TIME.length


def test_who_waits_is_woken_for_a_row_or_for_an_epochs_end(tmp_path: Path) -> None:
    #   1000 ... 1000 1005 1010 1015 1020        1055 1055 1056 ...
    settings, _ = source("json", tmp_path)
    resolved = resolve_source("s", settings, TIME, str(tmp_path))
    reader = open_reader(resolved, settings, TIME, 0, 1, None, None, START * SECOND)
    assert reader.read(100, 0.0).wake_after_seconds == pytest.approx(5 / SPEED)
    last = reader.read(100, 20 / SPEED)
    assert (last.rows_read, last.open_epoch) == (4, 102)
    assert last.wake_after_seconds == pytest.approx(10 / SPEED), "epoch 102 is over, with no row"
    quiet = reader.read(100, 30 / SPEED)
    assert (quiet.rows_read, quiet.open_epoch) == (0, 103)


def test_rows_say_how_long_they_have_been_due(tmp_path: Path) -> None:
    #   1000 ... 1000 1005 | 1010 1015 | 1020 |    1055 1055 1056 ...
    settings, _ = source("json", tmp_path)
    resolved = resolve_source("s", settings, TIME, str(tmp_path))
    reader = open_reader(resolved, settings, TIME, 0, 1, None, None, START * SECOND)
    waited = {each.epoch: each.waited_seconds for each in reader.read(100, 20 / SPEED).pieces}
    assert waited == {
        100: pytest.approx(20 / SPEED),
        101: pytest.approx(10 / SPEED),
        102: pytest.approx(0),
    }
    (tmp_path / "b.csv").write_text("ts,v\n" + "".join(f"{each},0\n" for each in (0, 10, 3, 20)))
    document = {"files": "b.csv", "prepare": "none", "schema": SCHEMA, "rate": "2/s"}
    turned = FilesSource.model_validate(document | {"lateness": "20s"})
    resolved = resolve_source("s", turned, TIME, str(tmp_path))
    reader = open_reader(resolved, turned, TIME, 0, 1, None)
    pieces = reader.read(100, 4.0).pieces
    # of rows that go up and down any piece may have the first ones
    assert [(each.epoch, each.waited_seconds) for each in pieces] == [(0, 4.0), (1, 4.0), (2, 4.0)]
    unpaced = open_reader(resolved, turned.unpaced, TIME, 0, 1, None)
    assert {each.waited_seconds for each in unpaced.read(100, 4.0).pieces} == {0.0}


def test_a_row_that_lies_behind_in_its_file_comes_with_those_before_it(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ts,v\n" + "".join(f"{each},0\n" for each in (0, 8, 3, 9)))
    document = {"files": "a.csv", "prepare": "none", "schema": SCHEMA, "speed": 1}
    settings = FilesSource.model_validate(document | {"lateness": "20s"})
    assert rows_at(settings, tmp_path, 1, 5.0, 0)[0] == [0]
    assert rows_at(settings, tmp_path, 1, 8.0, 0)[0] == [0, 8 * SECOND, 3 * SECOND]


def test_a_position_says_how_far_event_time_had_come(tmp_path: Path) -> None:
    settings, _ = source("json", tmp_path)
    resolved = resolve_source("s", settings, TIME, str(tmp_path))
    reader = open_reader(resolved, settings, TIME, 0, 1, None, None, START * SECOND)
    assert reader.position()["number"] == START * SECOND
    reader.read(100, 10 / SPEED)
    assert reader.position()["number"] == (START + 10) * SECOND + 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_event_time_is_found_without_reading_the_source(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, given = EpochReader.read, list[int]()

    def noted(
        self: EpochReader, rows: int, elapsed_seconds: float, given_below: int = BEGINNING
    ) -> Delivery:
        delivery = read(self, rows, elapsed_seconds, given_below)
        given.append(delivery.rows_read)
        return delivery

    monkeypatch.setattr(EpochReader, "read", noted)
    monkeypatch.setattr(opening, "FIRST_ROWS", 5)
    settings, times = source(kind, tmp_path)
    resolved = resolve_source("s", settings, TIME, str(tmp_path))
    expected = 100 * TIME.length if kind.startswith("log") else times[0] * SECOND
    assert first_event_time(resolved, settings, TIME) == expected
    # dead letters come before the rows
    assert 0 < sum(given) <= 5 or kind == "log with dead rows"


def topology(base: Path, **more: Any) -> Topology:
    """Two sources: the first one's rows begin 20 s before the second one's, which is slower."""
    for name, first in (("early", 1000), ("later", 1020)):
        table = pa.table({"ts": [first + each for each in range(90)], "v": np.arange(90) / 4})
        pq.write_table(table, base / f"{name}.parquet")
    built = Topology(name="two", epoch={"time": "10s", "column": "ts"}, **more)
    for name in ("early", "later"):
        built = built.source(name, files=f"{name}.parquet", prepare="none", speed=SPEED)
    return built.operator("both", join={"left": "early", "right": "later", "on": ["ts"]}).sink(
        "result", input="both", format="console"
    )


def test_all_sources_of_a_job_begin_with_the_first_row_of_them_all(tmp_path: Path) -> None:
    submission = prepare_submission(
        topology(tmp_path, snapshot="none"), tmp_path, str(tmp_path / "work"), sign=bytes, store=""
    )
    begins = submission.spec.recovery.pace_begins
    assert begins == {"early": 1000 * SECOND, "later": 1000 * SECOND}


def test_the_simulation_keeps_the_pace_and_the_output_does_not_change(tmp_path: Path) -> None:
    paced = topology(tmp_path)
    sources = {name: each.unpaced for name, each in paced.sources.items()}
    unpaced = paced.model_copy(update={"sources": sources})
    inputs = {name: pq.read_table(tmp_path / f"{name}.parquet") for name in sources}
    expected = simulate(unpaced, inputs)
    for seed in range(6):
        run = simulate(
            paced,
            inputs,
            seed=seed,
            nodes=1 + seed % 3,
            settings=SimulationSettings(read_rows=5, checkpoint_epochs=3),
        )
        assert run.digest == expected.digest
        # the last row comes 109 s of event time after the first
        assert 109 / SPEED <= run.virtual_seconds < 109 / SPEED + 3
    assert expected.virtual_seconds < 3


def test_a_source_without_rows_has_no_first_event_time_and_is_over_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ts,v\n")
    document = {"files": "a.csv", "prepare": "none", "schema": SCHEMA, "speed": 1}
    settings = FilesSource.model_validate(document)
    resolved = resolve_source("s", settings, TIME, str(tmp_path))
    assert first_event_time(resolved, settings, TIME) is None
    reader = open_reader(resolved, settings, TIME, 0, 1, None)
    assert reader.read(10, 0.0) == Delivery((), INFINITY, 0, exhausted=True)


def test_rows_from_before_the_pace_have_been_due_since_it_began() -> None:
    pace = Pace.of_rows(Rate(10), 1000)
    assert pace.waited_seconds(0, 0.5) == pace.waited_seconds(1000, 0.5) == 0.5
    assert pace.waited_seconds(1010, 0.5) == 0.0


@pytest.mark.parametrize(
    ("mark", "last_of_epoch", "wait"),
    [
        (500, None, LINGER_SECONDS),
        (500, 504, 0.005),
        # too soon to be worth a wake, and too late to be waited for
        (500, 500, LINGER_SECONDS),
        (500, 506, 0.007),
        # half of what is left, but not for ever, and never before there is a row
        (500, 519, 0.010),
        (500, 9000, LONGEST_LINGER_SECONDS),
        (510, 519, 0.011),
        (515, 519, 0.016),
        (700, 504, 0.201),
    ],
)
def test_rows_leave_together_the_longer_it_is_until_their_epoch_ends(
    mark: int, last_of_epoch: int | None, wait: float
) -> None:
    pace = Pace.of_rows(Rate(1000))
    assert pace.wake_after_seconds(mark, 0.499, last_of_epoch) == pytest.approx(wait)
