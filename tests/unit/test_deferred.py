"""Parquet rows that nobody wants: their other columns are not decoded, and that changes nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streammine.model.contracts import SourceReader
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import InputError
from streammine.model.topology.sources import FilesSource
from streammine.runtime.sources import open_reader, parquet, plain_columns, resolve_source

TIME = EpochDefinition("time", 10_000_000, "ts", "s")
ROWS = 600
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
    """Which columns of which rows were decoded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cells: list[tuple[str, int]] = []
        table = plain_columns._table

        def noted(path: str, row: int, rows: int, wanted: pa.Schema) -> pa.Table:
            self.cells += [(name, each) for name in wanted.names for each in range(row, row + rows)]
            return table(path, row, rows, wanted)

        monkeypatch.setattr(plain_columns, "_table", noted)

    def count(self, name: str) -> int:
        rows = [row for column, row in self.cells if column == name]
        assert len(rows) == len(set(rows)), "nothing is decoded twice"
        return len(rows)


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
    rows = np.arange(ROWS)
    columns = [pa.array(times(shape), pa.int64()), pa.array(rows), pa.array(rows / 4)]
    pq.write_table(pa.table(columns, COLUMNS), folder / "a.parquet", row_group_size=group)
    settings = {"files": "a.parquet", "prepare": "none", "lateness": "15s"}
    return FilesSource.model_validate(settings)


def opened(source: FilesSource, folder: Path, place: Any = None) -> SourceReader:
    resolved = resolve_source("s", source, TIME, str(folder))
    return open_reader(resolved, source, TIME, 0, 1, ["a", "b"], place)


def read(reader: SourceReader, wanted: Wanted, portion: int = 7) -> tuple[list[Any], list[Any]]:
    """Rows of the epochs that are wanted, by epoch, and all dead ones."""
    rows: list[Any] = []
    dead: list[Any] = []
    while True:
        delivery = reader.read(portion, 0.0)
        for piece in delivery.pieces:
            if wanted(piece.epoch):
                assert piece.batch.schema.names == ["a", "b"]
                assert piece.num_rows == piece.batch.num_rows
                found = (
                    piece.rows if piece.rows is not None else piece.row + np.arange(piece.num_rows)
                )
                values = piece.batch.to_pylist()
                rows += zip([piece.epoch] * piece.num_rows, found.tolist(), values, strict=True)
        dead += [(epoch, each.rows, each.numbers) for epoch, each in delivery.dead]
        if delivery.exhausted:
            reader.close()
            return sorted(rows, key=lambda row: row[:2]), dead


@pytest.mark.parametrize("group", [10, 13, 40, 600])
@pytest.mark.parametrize("shape", ["ascending", "jittered", "with late and missing ones"])
@pytest.mark.parametrize("which", WANTED)
def test_who_asks_for_some_rows_only_gets_what_is_there(
    tmp_path: Path, shape: str, which: str, group: int
) -> None:
    source = written(tmp_path, shape, group)
    table = pq.read_table(tmp_path / "a.parquet", columns=["a", "b"]).to_pylist()
    rows, dead = read(opened(source, tmp_path), WANTED[which])
    all_rows, all_dead = read(opened(source, tmp_path), WANTED["all"])
    assert dead == all_dead
    assert bool(dead) == (shape == "with late and missing ones")
    assert rows == [each for each in all_rows if WANTED[which](each[0])]
    assert bool(rows) == (which != "none")
    assert all(values == table[row] for _, row, values in all_rows)
    assert len(all_rows) + sum(len(numbers) for _, _, numbers in all_dead) == ROWS


def test_what_nobody_wants_is_not_decoded_but_for_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = written(tmp_path)
    decoded = Decoded(monkeypatch)
    read(opened(source, tmp_path), WANTED["none"])
    assert decoded.count("ts") == ROWS
    assert decoded.count("a") == decoded.count("b") == 60, "the first ones might have been wanted"


def test_where_all_is_wanted_nothing_is_decoded_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = written(tmp_path)
    decoded = Decoded(monkeypatch)
    read(opened(source, tmp_path), WANTED["all"])
    assert [decoded.count(name) for name in COLUMNS] == [ROWS] * 3
    places = [place for place, (name, _) in enumerate(decoded.cells) if name == "ts"]
    assert places[:61] == [*range(60), 180], "of each run of row groups all columns at once"


def test_what_is_wanted_again_is_decoded_and_soon_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = written(tmp_path)
    decoded = Decoded(monkeypatch)
    read(opened(source, tmp_path), WANTED["some in a row"])
    taken = {row for name, row in decoded.cells if name == "a"}
    assert not set(range(240, 380)) - taken, sorted(set(range(240, 380)) - taken)
    assert not taken & {*range(60, 240), *range(480, ROWS)}, "from one run on, to one behind"


@pytest.mark.parametrize("reads", [1, 20, 21, 40])
def test_a_position_is_good_whoever_asks_for_rows(tmp_path: Path, reads: int) -> None:
    source = written(tmp_path, "jittered")
    first = opened(source, tmp_path)
    for _ in range(reads):
        first.read(9, 0.0)
    place = first.position()
    rest, _ = read(first, WANTED["all"])
    again, _ = read(opened(source, tmp_path, place), WANTED["all"])
    assert [each for each in again if each in rest] == rest != []


def test_a_file_that_goes_before_its_rows_are_wanted_is_named(tmp_path: Path) -> None:
    source = written(tmp_path)
    reader = opened(source, tmp_path)
    pieces = [piece for _ in range(7) for piece in reader.read(10, 0.0).pieces]
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(InputError, match=r"a\.parquet: can't be read from row 60 on: "):
        assert pieces[-1].batch
