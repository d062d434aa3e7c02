"""Static sources: all rows in the epoch before all others, from any files, in any number of slices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streammine.model.epochs import BEGINNING, FIRST_TIME, EpochDefinition
from streammine.model.topology.sources import FilesSource
from streammine.runtime.sources import open_reader, resolve_source
from tests.unit.source_reading import COUNT, TIME, assert_independent

SCHEMA = {"v": "float64"}


def static(pattern: str, **settings: Any) -> FilesSource:
    return FilesSource.model_validate({"files": pattern, "static": True, **settings})


def test_it_is_read_directly() -> None:
    assert static("t.csv", schema=SCHEMA).prepare is None


@pytest.mark.parametrize(("definition", "epoch"), [(COUNT, -1), (TIME, FIRST_TIME // 10_000_000)])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_all_rows_have_one_epoch(
    tmp_path: Path, definition: EpochDefinition, epoch: int, kind: str
) -> None:
    for name, first in (("a", 0), ("b", 100)):
        table = pa.table({"v": [float(number) for number in range(first, first + 100)]})
        if kind == "csv":
            lines = "\n".join(map(str, table.column("v").to_pylist()))
            (tmp_path / f"{name}.csv").write_text(f"v\n{lines}\n")
        else:
            pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=30)
    read = assert_independent(static(f"*.{kind}", schema=SCHEMA), definition, tmp_path)
    assert sorted(read.rows) == [
        (epoch, number // 100, number % 100, (float(number),)) for number in range(200)
    ]
    for delivery in read.deliveries:
        assert delivery.open_epoch in (BEGINNING, epoch, 2**63 - 1)
        for piece in delivery.pieces:
            assert (piece.times is None) == (definition.kind == "count")


def test_malformed_rows_are_dead_in_that_epoch(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("v\n1.5\nfive\n2.5\n")
    settings = static("t.csv", schema=SCHEMA)
    resolved = resolve_source("t", settings, TIME, str(tmp_path))
    reader = open_reader(resolved, settings, TIME, 0, 1, None)
    found = reader.read(100, 0.0)
    reader.close()
    assert found.rows_read == 3
    assert [(epoch, len(dead)) for epoch, dead in found.dead] == [(TIME.before_all, 1)]


def test_it_goes_on_from_a_position(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("v\n" + "\n".join(map(str, range(50))) + "\n")
    settings = static("t.csv", schema=SCHEMA)
    resolved = resolve_source("t", settings, COUNT, str(tmp_path))
    reader = open_reader(resolved, settings, COUNT, 0, 1, None)
    reader.read(20, 0.0)
    position = reader.position()
    reader.close()
    again = open_reader(resolved, settings, COUNT, 0, 1, None, position)
    values = [
        v for piece in again.read(100, 0.0).pieces for v in piece.batch.column("v").to_pylist()
    ]
    again.close()
    assert values[-1] == 49.0
