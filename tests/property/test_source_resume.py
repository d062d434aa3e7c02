"""A reader that goes on from a position gives what an uninterrupted one gives from there on."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streammine.model.contracts import Position
from streammine.model.epochs import BEGINNING, INFINITY, EpochDefinition
from streammine.model.source_contracts import SourceReader
from streammine.model.topology.sources import FilesSource, GeneratorSource, LogSource
from streammine.runtime.sources import (
    delimited,
    generated,
    log,
    open_reader,
    parquet,
    resolve_source,
)
from streammine.simulation.sources import TableReader, ordered_rows
from tests.unit.epoch_logs import write_log

COUNT = EpochDefinition("count", 23)
TIME = EpochDefinition("time", 10_000_000, "ts")
SCHEMA = {"ts": "int64", "v": "float64"}
LATENESS_SECONDS = 5

Opened = Callable[[Position | None], SourceReader]


@dataclass
class Given:
    """What readers gave: rows as (epoch, file, row, time, values) and dead ones as (epoch, file, row,
    reason, text)."""

    rows: list[Any] = field(default_factory=list)
    dead: list[Any] = field(default_factory=list)
    rows_read: int = 0


def take(
    reader: SourceReader,
    portions: list[int],
    given: Given,
    elapsed_seconds: float = 1e6,
    given_below: int = BEGINNING,
) -> bool:
    """Read portion by portion, over and over until the end if the last portion is 0; is it over?"""
    open_epoch = BEGINNING
    endless = portions[-1] == 0
    at = 0
    while endless or at < len(portions):
        portion = portions[at % (len(portions) - 1) if endless else at]
        at += 1
        delivery = reader.read(portion, elapsed_seconds + at, given_below)
        epochs = [piece.epoch for piece in delivery.pieces]
        dead_epochs = [epoch for epoch, _ in delivery.dead]
        for each in (epochs, dead_epochs):
            assert each == sorted(each)
            assert all(epoch >= open_epoch for epoch in each)
        open_epoch = delivery.open_epoch
        given.rows_read += delivery.rows_read
        for piece in delivery.pieces:
            count = piece.batch.num_rows
            rows = piece.rows if piece.rows is not None else piece.row + np.arange(count)
            files = piece.files if piece.files is not None else np.full(count, piece.file)
            times = piece.times if piece.times is not None else np.zeros(count, np.int64)
            values = [tuple(row.values()) for row in piece.batch.to_pylist()]
            columns = [[piece.epoch] * count, files.tolist(), rows.tolist(), times.tolist(), values]
            given.rows += zip(*columns, strict=True)
        for epoch, dead in delivery.dead:
            numbered = zip(dead.files, dead.numbers, dead.reasons, dead.rows, strict=True)
            given.dead += [(epoch, *each) for each in numbered]
        if delivery.exhausted:
            assert open_epoch == INFINITY
            return True
    return False


def times(seed: int, count: int = 160, first: int = 0) -> list[int | None]:
    """Times that rise by and by, some too late, some missing, the first three among them."""
    random = np.random.default_rng(seed)
    found: list[int | None] = (
        first + np.arange(count) // 2 + random.integers(-14, 15, count)
    ).tolist()
    for row in (0, 1, 2, 40, 77):
        found[row] = None
    return found


def table(ts: list[int | None], text: bool = False) -> pa.Table:
    values: Any = np.arange(len(ts)) / 4
    return pa.table({"ts": pa.array(ts, pa.int64()), "v": values.astype(str) if text else values})


def write_delimited(path: Path, ts: list[int | None], broken: int = 50) -> None:
    rows = [("" if each is None else each, row / 4) for row, each in enumerate(ts)]
    if ".csv" in path.name:
        lines = ["ts,v", *(f"{each},{value}" for each, value in rows)]
        lines[broken] = "broken,1"
    else:
        lines = [
            json.dumps({"ts": None if each == "" else each, "v": value}) for each, value in rows
        ]
        lines[broken] = "{broken"
        lines[broken + 1] = "\ufeff" + lines[broken + 1]
    data = ("\n".join(lines) + ("" if broken % 2 else "\n")).encode()
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)


FILES = {
    "parquet": "*.parquet",
    "strings.parquet": "strings/*.parquet",
    "json": "*.json",
    "csv": "*.csv",
    "gzip": "*.csv.gz",
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("resume")
    (folder / "strings").mkdir()
    for number in range(3):
        ts = times(number, first=30 * number)
        pq.write_table(table(ts), folder / f"{number}.parquet", row_group_size=20)
        pq.write_table(table(ts, True), folder / f"strings/{number}.parquet", row_group_size=30)
        for suffix in ("json", "csv", "csv.gz"):
            write_delimited(folder / f"{number}.{suffix}", ts, 50 + number)
    empty: list[int | None] = [None] * 30
    pq.write_table(table(empty), folder / "3.parquet", row_group_size=20)
    write_delimited(folder / "3.json", empty, 10)
    for name, definition in (("count", COUNT), ("time", TIME)):
        write_log(folder / name, 3, {-1: 30, 2: 5, 3: 40}, definition=definition)
    (folder / "lines.txt").write_text("\n\n".join(f"line {row}" for row in range(200)))
    (folder / "mine_resumed.py").write_text(
        "import pyarrow as pa\n"
        "class Gappy:\n"
        "    schema = pa.schema([('ts', pa.int64())])\n"
        "    def rows(self, first, count, seed):\n"
        "        rows = range(first, first + count)\n"
        "        values = [None if row < 90 or row % 7 == 0 else row - row % 13 * 3"
        " for row in rows]\n"
        "        return pa.record_batch([pa.array(values, pa.int64())], schema=self.schema)\n"
    )
    return folder


FAST = 20.0
"""Some of what is read is due and some is not."""


def keys_source(rate: str | None) -> GeneratorSource:
    more = {} if rate is None else {"rate": rate}
    return GeneratorSource.model_validate(
        {"generator": "keys", "rows": 300, "with": {"per_second": 3}, **more}
    )


def opened(base: Path, kind: str, epoch: EpochDefinition, slice_index: int, slices: int) -> Opened:
    source: Any
    if kind.startswith("log"):
        speed = {"speed": FAST} if kind.endswith("fast") else {}
        source = LogSource.model_validate({"log": epoch.kind, **speed})
    elif kind == "text":
        source = FilesSource.model_validate({"files": "lines.txt", "prepare": "none"})
    elif kind.startswith("generator"):
        source = keys_source("200/s" if kind.endswith("paced") else None)
    elif kind == "user generator":
        source = GeneratorSource.model_validate({"generator": "mine_resumed:Gappy", "rows": 900})
    else:
        name, _, more = kind.partition(" ")
        settings: dict[str, Any] = {"files": FILES[name], "prepare": "none"}
        if not name.endswith("parquet"):
            settings["schema"] = SCHEMA
        if more == "merged":
            settings["merge_by"] = "ts"
        elif more == "paced":
            settings["rate"] = "1000000/s"
        elif more == "fast":
            settings["speed"] = FAST
        settings["lateness"] = f"{LATENESS_SECONDS}s"
        source = FilesSource.model_validate(settings)
    resolved = resolve_source("s", source, epoch, str(base))

    def reader(position: Position | None) -> SourceReader:
        return open_reader(resolved, source, epoch, slice_index, slices, None, position)

    return reader


KINDS = [
    *(
        (kind, epoch)
        for kind in ("parquet", "strings.parquet", "json", "csv", "gzip", "json paced", "log")
        for epoch in (COUNT, TIME)
    ),
    *((f"{kind} merged", COUNT) for kind in ("parquet", "strings.parquet", "json", "gzip")),
    *((f"{kind} fast", TIME) for kind in ("parquet", "json", "csv", "log")),
    ("text", COUNT),
    ("generator", COUNT),
    ("generator", TIME),
    ("generator paced", COUNT),
    ("generator paced", TIME),
    ("user generator", TIME),
]


@pytest.fixture(autouse=True)
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(delimited, "_FIRST_BLOCK_BYTES", 400)
    monkeypatch.setattr(parquet, "DECODED_ROWS", 9)
    monkeypatch.setattr(parquet, "RUN_ROWS", 60)
    monkeypatch.setattr(generated, "BLOCK_ROWS", 40)
    monkeypatch.setattr(log, "_DEAD_ROWS", 1)


PORTIONS = st.lists(st.integers(1, 40), min_size=1, max_size=25)
MANY = settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def check_sequence(rows: list[Any], whole: list[Any]) -> None:
    """The rows of an epoch stand in one order, wherever reading begins and however it is cut."""
    places = {row: place for place, row in enumerate(whole)}
    for epoch in {row[0] for row in rows}:
        found = [places[row] for row in rows if row[0] == epoch]
        assert found == sorted(found), f"the rows of epoch {epoch} come in another order"


def check_resumed(open_at: Opened, stretches: list[list[int]]) -> None:
    whole = Given()
    assert take(open_at(None), [64, 0], whole)
    seen = Given()
    position: Position | None = None
    for portions in [*stretches, [17, 0]]:
        reader = open_at(position)
        given = Given()
        over = take(reader, portions, given)
        position = json.loads(json.dumps(reader.position()))
        reader.close()
        for got, all_of in ((given.rows, whole.rows), (given.dead, whole.dead)):
            assert len(set(got)) == len(got), "each row once"
            assert set(got) <= set(all_of)
        check_sequence(given.rows, whole.rows)
        seen.rows += given.rows
        seen.dead += given.dead
        seen.rows_read += given.rows_read
    assert over
    assert seen.rows_read == whole.rows_read, "each row counts once"
    assert set(seen.rows) == set(whole.rows)
    assert set(seen.dead) == set(whole.dead)


@pytest.mark.parametrize(
    ("kind", "epoch"), KINDS, ids=[f"{kind}-{each.kind}" for kind, each in KINDS]
)
@pytest.mark.parametrize(("slice_index", "slices"), [(0, 1), (1, 2)])
@MANY
@given(st.lists(PORTIONS, min_size=1, max_size=4))
def test_rows_dead_ones_and_epochs_are_those_of_an_uninterrupted_reader(
    base: Path,
    kind: str,
    epoch: EpochDefinition,
    slice_index: int,
    slices: int,
    stretches: list[list[int]],
) -> None:
    check_resumed(opened(base, kind, epoch, slice_index, slices), stretches)


@pytest.mark.parametrize(
    ("kind", "epoch"), KINDS, ids=[f"{kind}-{each.kind}" for kind, each in KINDS]
)
def test_what_came_before_a_position_is_not_read_again_from_the_start(
    base: Path, kind: str, epoch: EpochDefinition
) -> None:
    open_at = opened(base, kind, epoch, 0, 1)
    whole = Given()
    reader = open_at(None)
    assert take(reader, [64, 0], whole)
    over = Given()
    assert take(open_at(reader.position()), [64, 0], over)
    assert not over.rows
    assert not over.dead
    reader = open_at(None)
    assert not take(reader, [30] * 12, Given())
    rest = Given()
    assert take(open_at(reader.position()), [64, 0], rest)
    assert len(rest.rows) < len(whole.rows)


RATES = st.sampled_from([None, "1/s", "130/s", "6000/min", "100000/s"])
ATTEMPTS = st.lists(st.tuples(RATES, st.lists(PORTIONS, min_size=3, max_size=3)), max_size=4)


@pytest.mark.parametrize("epoch", [COUNT, TIME], ids=["count", "time"])
@settings(MANY, max_examples=40)
@given(st.integers(2, 3), ATTEMPTS, st.booleans(), RATES)
def test_slices_that_go_on_at_another_rate_give_each_row_once(
    tmp_path: Path,
    epoch: EpochDefinition,
    slices: int,
    attempts: list[tuple[str | None, list[list[int]]]],
    earlier_version: bool,
    last_rate: str | None,
) -> None:
    places: list[Position | None] = [None] * slices
    seen: list[set[Any]] = [set() for _ in range(slices)]

    def go_on(index: int, rate: str | None, portions: list[int]) -> None:
        source = keys_source(rate)
        resolved = resolve_source("s", source, epoch, str(tmp_path))
        reader = open_reader(resolved, source, epoch, index, slices, None, places[index])
        given = Given()
        take(reader, portions, given, elapsed_seconds=0.0, given_below=INFINITY)
        assert len(set(given.rows)) == len(given.rows)
        seen[index] |= set(given.rows)
        places[index] = json.loads(json.dumps(reader.position()))

    if earlier_version:
        for index in range(slices):
            go_on(index, None, [1])
            place = places[index]
            assert place is not None
            del place["runs"]["block_rows"]
    for rate, portions in attempts:
        for index in range(slices):
            go_on(index, rate, portions[index])
    for index in range(slices):
        go_on(index, last_rate, [50, 0])
    rows = sorted(row[2] for each in seen for row in each)
    assert rows == list(range(300))


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("epoch", [COUNT, TIME], ids=["count", "time"])
@pytest.mark.parametrize("kind", ["parquet", "json"])
def test_simulated_sources_agree_with_real_ones(
    base: Path, kind: str, epoch: EpochDefinition, merged: bool
) -> None:
    real = Given()
    for index in range(3):
        take(
            opened(base, f"{kind} merged" if merged else kind, epoch, index, 3)(None), [9, 0], real
        )
    settings: dict[str, Any] = {"files": "*.parquet", "prepare": "none", "lateness": "5s"}
    source = FilesSource.model_validate(settings | ({"merge_by": "ts"} if merged else {}))
    tables = [pq.read_table(base / f"{number}.parquet") for number in range(4)]
    if kind == "json":
        # the simulation knows no rows that can't be parsed; those whose time is missing go like them
        tables = [
            each.set_column(0, "ts", pa.array(broken(each, [50, 51, 52, 10][number]), pa.int64()))
            for number, each in enumerate(tables)
        ]
    simulated = Given()
    rows = ordered_rows(tables, source, epoch)
    places = np.arange(len(rows.epochs), dtype=np.int64)

    def open_at(position: Position | None) -> TableReader:
        return TableReader("s", rows, places, None, None, None, position)

    take(open_at(None), [31, 0], simulated)
    if kind == "parquet" or epoch.kind == "time" or merged:
        assert sorted(simulated.rows) == sorted(real.rows)
        names = {file: f"s/{place}" for place, file in enumerate(sorted({d[1] for d in real.dead}))}
        assert sorted(each[:3] for each in simulated.dead) == sorted(
            (epoch, names[file], row) for epoch, file, row, _, _ in real.dead
        )
    check_resumed(open_at, [[5, 40], [3, 3, 30]])


def broken(data: pa.Table, row: int) -> list[int | None]:
    found: list[int | None] = data.column("ts").to_pylist()
    found[row] = found[row + 1] = None
    return found


def test_where_everything_was_down_the_pace_goes_on_from_the_row_it_had_come_to(
    tmp_path: Path,
) -> None:
    reopened, stood = _reopened(tmp_path)
    resumed = reopened(stood, stood["number"])
    first = resumed.read(1000, 0.05)
    given = sum(piece.batch.num_rows for piece in first.pieces)
    assert given == 41, "what was given before, and the next row"
    assert first.rows_read == 1, "what was given before counts once"
    assert first.wake_after_seconds == pytest.approx(0.05)
    assert resumed.read(1000, 0.09).rows_read == 0
    assert resumed.read(1000, 0.35).rows_read == 3
    assert resumed.position()["number"] == 44


def test_a_slice_that_was_down_makes_up_for_it(tmp_path: Path) -> None:
    reopened, stood = _reopened(tmp_path)
    resumed = reopened(stood, 0)
    assert resumed.read(1000, 6.95).rows_read == 30, "all that are due on the job's own clock"
    assert resumed.read(1000, 7.05).rows_read == 1


def test_no_row_is_due_before_the_pace_begins(tmp_path: Path) -> None:
    reopened, _ = _reopened(tmp_path)
    reader = reopened(None, 0)
    early = reader.read(1000, -0.25)
    assert (early.rows_read, early.open_epoch) == (0, 0)
    assert early.wake_after_seconds == pytest.approx(0.25)
    assert reader.read(1000, 0.0).rows_read == 1


def test_what_another_replica_has_given_is_not_waited_for_where_late_rows_may_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "DECODED_ROWS", 10)
    pq.write_table(table(list(range(100))), tmp_path / "a.parquet")
    source = FilesSource.model_validate(
        {"files": "a.parquet", "prepare": "none", "lateness": "30s", "rate": "1/s"}
    )
    resolved = resolve_source("s", source, TIME, str(tmp_path))
    reader = open_reader(resolved, source, TIME, 0, 1, None)
    told = [reader.read(50, 0.0, 5).open_epoch for _ in range(10)]
    assert told[-1] >= 5, "its slice would read again and again until the rows are due"


def _reopened(folder: Path) -> tuple[Callable[[Position | None, int], SourceReader], Position]:
    """(opens a source of ten rows a second at a position, when so many rows had been given; where it stood
    after 40 rows)."""
    (folder / "a.txt").write_text("".join(f"{row}\n" for row in range(100)))
    source = FilesSource.model_validate({"files": "a.txt", "prepare": "none", "rate": "10/s"})
    resolved = resolve_source("s", source, COUNT, str(folder))

    def reopened(position: Position | None, begins: int) -> SourceReader:
        return open_reader(resolved, source, COUNT, 0, 1, None, position, begins)

    reader = reopened(None, 0)
    assert reader.read(1000, 3.95).rows_read == 40
    return reopened, reader.position()
