"""Writes small epoch logs, as `prepare` lays them out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import xxhash

from streammine.model.epoch_log import (
    EpochSettings,
    InputFile,
    Manifest,
    Partition,
    Segment,
    epoch_metadata,
    epochs_schema,
    log_schema,
    segment_name,
)
from streammine.model.epochs import EpochDefinition
from tests.unit.source_reading import COUNT

COLUMNS = pa.schema({"ts": pa.int64(), "v": pa.float64()})
ROWS_PER_BATCH = 3


def write_log(
    folder: Path,
    partitions: int,
    epochs: dict[int, int],
    dead: bool = True,
    definition: EpochDefinition = COUNT,
) -> None:
    """An epoch log of the given rows per epoch, a segment per partition and batches of three
    rows. The time column has the rows' numbers or, under time epochs, a second of the epoch."""
    counts = {
        epoch: [len(part) for part in np.array_split(np.arange(rows), partitions)]
        for epoch, rows in epochs.items()
    }
    parts = [
        _write_segment(folder, segment_name(number, 0), batches)
        for number, batches in enumerate(_batches(counts, partitions, definition))
    ]
    table = pa.table(
        {"epoch": list(counts), "rows": list(counts.values())}, schema=epochs_schema(partitions)
    )
    with pa.ipc.new_file(str(folder / "epochs.arrow"), table.schema) as writer:
        writer.write_table(table)
    letters = ["bad", "worse"] if dead else []
    _write_letters(folder / "dead-letters.jsonl", letters, next(iter(epochs)))
    rows = sum(epochs.values())
    manifest = Manifest(
        source_schema=COLUMNS.serialize().to_pybytes().hex(),
        epoch=EpochSettings.of(definition),
        order="time" if definition.kind == "time" else "position",
        rows_read=rows + len(letters),
        rows_used=rows,
        rows_dead=len(letters),
        epochs=len(epochs),
        first_epoch=min(epochs),
        last_epoch=max(epochs),
        files=(InputFile(path="raw.csv", rows=rows),),
        partitions=tuple(parts),
        epochs_digest="",
        dead_letters_digest="",
        fingerprint="",
    )
    (folder / "manifest.json").write_bytes(manifest.sealed().encode())


def _batches(
    counts: dict[int, list[int]], partitions: int, definition: EpochDefinition
) -> list[list[tuple[int, pa.RecordBatch]]]:
    """Each partition's batches with their epochs. `counts`: rows of an epoch in each partition."""
    batches: list[list[tuple[int, pa.RecordBatch]]] = [[] for _ in range(partitions)]
    row = 0
    for epoch, shares in counts.items():
        start = row
        for number, share in enumerate(shares):
            rows = np.arange(row, row + share)
            row += share
            seconds = rows
            if definition.kind == "time":
                seconds = epoch * definition.length // 1_000_000 + rows - start
            values = [seconds, rows / 2, np.zeros(share, np.int32), rows]
            schema = log_schema(COLUMNS)
            batch = pa.record_batch([pa.array(each) for each in values], schema=schema)
            batches[number] += [
                (epoch, batch.slice(at, ROWS_PER_BATCH)) for at in range(0, share, ROWS_PER_BATCH)
            ]
    return batches


def _write_segment(
    folder: Path, name: str, batches: Sequence[tuple[int, pa.RecordBatch]]
) -> Partition:
    path = folder / name
    path.parent.mkdir(parents=True)
    if not batches:
        return Partition(rows=0, segments=())
    with pa.ipc.new_file(str(path), log_schema(COLUMNS)) as writer:
        for epoch, batch in batches:
            writer.write_batch(batch, custom_metadata=epoch_metadata(epoch))
    rows = sum(batch.num_rows for _, batch in batches)
    segment = Segment(
        name=name,
        rows=rows,
        bytes=path.stat().st_size,
        batches=len(batches),
        first_epoch=batches[0][0],
        last_epoch=batches[-1][0],
        digest=xxhash.xxh3_128_hexdigest(path.read_bytes()),
    )
    return Partition(rows=rows, segments=(segment,))


def _write_letters(path: Path, reasons: Sequence[str], epoch: int) -> None:
    letters = (
        {"file": "raw.csv", "row": 3 + 6 * at, "reason": reason, "text": "x", "epoch": epoch}
        for at, reason in enumerate(reasons)
    )
    path.write_text("".join(json.dumps(letter) + "\n" for letter in letters))
