"""Makes sources for tests, and reads them whole, in any number of slices and portions."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from streammine.model.epochs import BEGINNING, INFINITY, EpochDefinition
from streammine.model.source_contracts import Delivery, SourceReader
from streammine.model.topology.sources import FilesSource, GeneratorSource
from streammine.runtime.sources import open_reader, resolve_source

COUNT = EpochDefinition("count", 70)
TIME = EpochDefinition("time", 10_000_000, "ts")
SCHEMA = {"ts": "int64", "v": "float64"}


def files(pattern: str, **settings: Any) -> FilesSource:
    return FilesSource.model_validate({"files": pattern, "prepare": "none", **settings})


def generator(name: str, rows: int, rate: str | None = None, **settings: Any) -> GeneratorSource:
    document = {"generator": name, "rows": rows, "with": settings}
    return GeneratorSource.model_validate(document if rate is None else document | {"rate": rate})


def write_parquet(path: Path, ts: list[int | None], group: int = 30) -> None:
    table = pa.table({"ts": pa.array(ts, pa.int64()), "v": np.arange(len(ts)) / 4})
    pq.write_table(table, path, row_group_size=group)


def jittered(first: int, count: int, jitter: int = 0, seed: int = 3) -> list[int | None]:
    random = np.random.default_rng(seed)
    times: list[int | None] = (
        first + np.arange(count) // 3 + random.integers(-jitter, jitter + 1, count)
    ).tolist()
    return times


@dataclass
class Read:
    """All that a reader gave. A row is (epoch, file, row, its values)."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    dead: list[tuple[str | None, int | None, str]] = field(default_factory=list)
    dead_epochs: list[tuple[str | None, int | None, int]] = field(default_factory=list)
    rows_read: int = 0
    deliveries: list[Delivery] = field(default_factory=list)


def read_all(reader: SourceReader, portion: int, read: Read, now: float = 0.0) -> None:
    open_epoch = BEGINNING
    while True:
        delivery = reader.read(portion, now)
        read.deliveries.append(delivery)
        read.rows_read += delivery.rows_read
        epochs = [piece.epoch for piece in delivery.pieces]
        assert epochs == sorted(epochs)
        assert all(epoch >= open_epoch for epoch in epochs)
        assert delivery.open_epoch >= open_epoch
        assert sum(piece.batch.num_rows for piece in delivery.pieces) <= portion
        before, open_epoch = open_epoch, delivery.open_epoch
        for piece in delivery.pieces:
            count = piece.batch.num_rows
            rows = piece.rows if piece.rows is not None else piece.row + np.arange(count)
            files = piece.files if piece.files is not None else np.full(count, piece.file)
            assert len(rows) == len(files) == count
            values = [tuple(row.values()) for row in piece.batch.to_pylist()]
            epoch_column = [piece.epoch] * count
            read.rows += zip(epoch_column, files.tolist(), rows.tolist(), values, strict=True)
            assert (piece.times is None) or len(piece.times) == count
        dead_epochs = [epoch for epoch, _ in delivery.dead]
        assert dead_epochs == sorted(set(dead_epochs))
        assert all(epoch >= before for epoch in dead_epochs)
        for epoch, dead in delivery.dead:
            read.dead += zip(dead.files, dead.numbers, dead.reasons, strict=True)
            read.dead_epochs += zip(dead.files, dead.numbers, [epoch] * len(dead), strict=True)
        if delivery.exhausted:
            break
    assert open_epoch == INFINITY
    reader.close()


def read_source(
    source: Any,
    epoch: EpochDefinition,
    base: Path,
    slices: int = 1,
    portion: int = 65_536,
    columns: list[str] | None = None,
    now: float = 0.0,
) -> Read:
    resolved = resolve_source("s", source, epoch, str(base))
    read = Read()
    for index in range(slices):
        reader = open_reader(resolved, source, epoch, index, slices, columns)
        read_all(reader, portion, read, now)
    read.rows.sort(key=lambda row: row[:3])
    read.dead.sort(key=lambda dead: (dead[0] or "", dead[1] or 0))
    read.dead_epochs.sort()
    return read


def assert_independent(source: Any, epoch: EpochDefinition, base: Path) -> Read:
    """Reads with many slices and portions; all the same, which is returned."""
    expected = read_source(source, epoch, base)
    assert expected.rows_read == len(expected.rows) + len(expected.dead)
    for slices in (1, 2, 3, 5):
        for portion in (1, 7, 64, 1000):
            got = read_source(source, epoch, base, slices, portion)
            assert got.rows == expected.rows, (slices, portion)
            assert got.dead == expected.dead, (slices, portion)
            assert got.dead_epochs == expected.dead_epochs, (slices, portion)
            assert got.rows_read == expected.rows_read
    return expected
