"""Parquet rows that nobody wants: their other columns are not decoded, and that changes nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streammine.model.epochs import EpochDefinition
from streammine.model.errors import InputError
from streammine.model.source_contracts import SourceReader
from streammine.model.topology.sources import FilesSource
from streammine.runtime.sources import open_reader, parquet, plain_columns, resolve_source
from streammine.runtime.sources.deferred import Demand

TIME = EpochDefinition("time", 10_000_000, "ts", "s")
ROWS = 600
FIRST_FILE = 300
EPOCHS = 30
COLUMNS = ("ts", "a", "b")

Wanted = Callable[[int], bool]
WANTED: dict[str, Wanted] = {
    "all": lambda _: True,
    "none": lambda _: False,
    "the last": lambda epoch: epoch == EPOCHS - 1,
    "one in five": lambda epoch: epoch % 5 == 2,
    "some in a row": lambda epoch: 12 <= epoch < 19,
}


class Decoded:
    """Which columns of which rows were decoded: names, and (file, first row, rows)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads: list[tuple[tuple[str, ...], tuple[str, int, int]]] = []
        table = plain_columns._table

        def noted(path: str, row: int, rows: int, wanted: pa.Schema) -> pa.Table:
            self.reads.append((tuple(wanted.names), (Path(path).stem, row, rows)))
            return table(path, row, rows, wanted)

        monkeypatch.setattr(plain_columns, "_table", noted)

    def count(self, name: str) -> int:
        rows = [
            (file, each)
            for names, (file, row, rows) in self.reads
            for each in range(row, row + rows)
            if name in names
        ]
        assert len(rows) == len(set(rows)), "nothing is decoded twice"
        return len(rows)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Decoded:
    return Decoded(monkeypatch)


@dataclass
class Found:
    """Rows of the epochs that were wanted, by epoch: (epoch, row, values). All dead ones: (epoch, row, text).
    How many rows the reader counted."""

    rows: list[Any] = field(default_factory=list)
    dead: list[Any] = field(default_factory=list)
    count: int = 0


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Portions of some rows, for small files to have many."""
    monkeypatch.setattr(parquet, "DECODED_ROWS", 25)
    monkeypatch.setattr(parquet, "RUN_ROWS", 60)


def times(shape: str) -> list[int | None]:
    """20 rows in each epoch."""
    ascending = np.arange(ROWS) // 2
    if shape == "ascending":
        return list(ascending.tolist())
    jitter = np.random.default_rng(5).integers(0, 12, ROWS)
    found: list[int | None] = np.maximum(0, ascending - jitter).tolist()
    if shape == "with late and missing ones":
        found[77] = found[301] = None
        found[400] = 3
    return found


def written(folder: Path, shape: str = "ascending", group: int = 10) -> FilesSource:
    """`a` has nulls; the second file goes on where the first one ends, and has an empty row group."""
    rows = np.arange(ROWS)
    gaps = pa.array(rows, mask=rows % 7 == 3)
    table = pa.table([pa.array(times(shape), pa.int64()), gaps, pa.array(rows / 4)], COLUMNS)
    pq.write_table(table.slice(0, FIRST_FILE), folder / "a.parquet", row_group_size=group)
    with pq.ParquetWriter(folder / "b.parquet", table.schema) as writer:
        writer.write_table(table.slice(FIRST_FILE, 110), row_group_size=group)
        writer.write_table(table.slice(0, 0))
        writer.write_table(table.slice(FIRST_FILE + 110), row_group_size=group)
    settings = {"files": "*.parquet", "prepare": "none", "lateness": "15s"}
    return FilesSource.model_validate(settings)


def opened(
    source: FilesSource,
    folder: Path,
    place: Any = None,
    columns: Sequence[str] = ("a", "b"),
    share: tuple[int, int] = (0, 1),
) -> SourceReader:
    resolved = resolve_source("s", source, TIME, str(folder))
    return open_reader(resolved, source, TIME, *share, columns, place)


def read(reader: SourceReader, wanted: Wanted, portion: int = 7) -> Found:
    found = Found()
    while True:
        delivery = reader.read(portion, 0.0)
        found.count += delivery.rows_read
        for piece in delivery.pieces:
            if wanted(piece.epoch):
                batch = piece.batch
                assert piece.num_rows == batch.num_rows
                places = piece.rows
                if places is None:
                    places = piece.row + np.arange(piece.num_rows)
                epochs = [piece.epoch] * piece.num_rows
                found.rows += zip(epochs, places.tolist(), batch.to_pylist(), strict=True)
        for epoch, dead in delivery.dead:
            found.dead += zip([epoch] * len(dead), dead.numbers, dead.rows, strict=True)
        if delivery.exhausted:
            reader.close()
            found.rows.sort(key=lambda row: row[:2])
            return found


@pytest.mark.parametrize("group", [10, 13, 40])
@pytest.mark.parametrize("shape", ["ascending", "jittered", "with late and missing ones"])
@pytest.mark.parametrize("which", WANTED)
def test_who_asks_for_some_rows_only_gets_what_is_there(
    tmp_path: Path, shape: str, which: str, group: int
) -> None:
    source = written(tmp_path, shape, group)
    found = read(opened(source, tmp_path), WANTED[which])
    everything = read(opened(source, tmp_path), WANTED["all"])
    assert found.dead == everything.dead
    assert found.rows == [each for each in everything.rows if WANTED[which](each[0])]
    assert bool(found.rows) == (which != "none")
    assert found.count == everything.count == len(everything.rows) + len(everything.dead) == ROWS
    check_values(tmp_path, everything, shape)


def check_values(folder: Path, everything: Found, shape: str) -> None:
    """Each is that of its row in its file, in dead letters as well."""
    files = [pq.read_table(folder / f"{name}.parquet").to_pylist() for name in "ab"]
    left = [{name: row[name] for name in ("a", "b")} for rows in files for row in rows]
    for _, _, values in everything.rows:
        left.remove(values)
    assert bool(left) == (shape == "with late and missing ones")
    dead = [json.loads(text) for _, _, text in everything.dead]
    assert sorted(row["b"] for row in dead) == sorted(row["b"] for row in left)
    assert {row["b"]: row["a"] for row in dead} == {row["b"]: row["a"] for row in left}


@pytest.mark.parametrize("columns", [["a", "b"], ["b", "ts"], ["ts"], ["b"], []])
@pytest.mark.parametrize("shape", ["ascending", "with late and missing ones"])
def test_columns_come_as_they_are_asked_for(tmp_path: Path, columns: list[str], shape: str) -> None:
    source = written(tmp_path, shape)
    for index in range(3):
        share = (index, 3)
        asked = read(opened(source, tmp_path, None, columns, share), WANTED["one in five"])
        everything = read(opened(source, tmp_path, None, columns, share), WANTED["all"])
        assert asked.rows == [each for each in everything.rows if each[0] % 5 == 2] != []
        assert all(list(values) == (columns or ["ts"]) for _, _, values in asked.rows)
        assert (asked.dead, asked.count) == (everything.dead, everything.count)


def test_what_nobody_wants_is_not_decoded_but_for_its_time(
    tmp_path: Path, decoded: Decoded
) -> None:
    source = written(tmp_path)
    read(opened(source, tmp_path), WANTED["none"])
    assert decoded.count("ts") == ROWS
    assert decoded.count("a") == decoded.count("b") == 60, "the first ones might have been wanted"


def test_where_all_is_wanted_nothing_is_decoded_apart(tmp_path: Path, decoded: Decoded) -> None:
    source = written(tmp_path)
    read(opened(source, tmp_path), WANTED["all"])
    assert [decoded.count(name) for name in COLUMNS] == [ROWS] * 3
    assert {names for names, _ in decoded.reads} == {COLUMNS}


def test_what_is_wanted_again_is_decoded_and_soon_at_once(tmp_path: Path, decoded: Decoded) -> None:
    source = written(tmp_path)
    read(opened(source, tmp_path), lambda epoch: 6 <= epoch < 11)
    # 20 rows an epoch, 60 a run of row groups, 30 at a time where their time was read before
    everything, rest, time = COLUMNS, ("a", "b"), ("ts",)
    assert decoded.reads[:8] == [
        (everything, ("a", 0, 60)),
        (time, ("a", 60, 60)),
        (time, ("a", 120, 60)),
        (rest, ("a", 120, 30)),
        (rest, ("a", 150, 30)),
        (everything, ("a", 180, 60)),
        (everything, ("a", 240, 60)),
        (time, ("b", 0, 60)),
    ]


@pytest.mark.parametrize("reads", [1, 20, 21, 40])
def test_who_goes_on_from_a_place_gets_what_was_left(tmp_path: Path, reads: int) -> None:
    source = written(tmp_path, "with late and missing ones")
    everything = read(opened(source, tmp_path), WANTED["all"])
    first = opened(source, tmp_path)
    before = sum(first.read(9, 0.0).rows_read for _ in range(reads))
    again = read(opened(source, tmp_path, first.position()), WANTED["all"])
    rest = read(first, WANTED["all"])
    assert before + again.count == before + rest.count == ROWS
    assert [each for each in again.rows if each in rest.rows] == rest.rows != []
    assert [each for each in everything.rows if each in again.rows] == again.rows
    assert again.dead == everything.dead[-len(again.dead) :] != []
    assert rest.dead == again.dead[-len(rest.dead) :] != []


def test_a_file_that_goes_before_its_rows_are_wanted_is_named(tmp_path: Path) -> None:
    source = written(tmp_path)
    reader = opened(source, tmp_path)
    while True:
        pieces = reader.read(10, 0.0).pieces
        if pieces and pieces[-1].row >= 60:
            break
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(InputError, match=r"a\.parquet: can't be read from row 60 on: "):
        assert pieces[-1].batch


def test_half_of_the_rows_is_no_low_demand() -> None:
    demand = Demand()
    assert not demand.low, "nothing is known"
    demand.read(10)
    demand.take(4)
    assert demand.low
    demand.take(1)
    assert not demand.low
    demand.begin_anew()
    demand.read(10)
    assert demand.low
