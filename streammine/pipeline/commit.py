"""Last step, on the driver: the parts of a log become the log.

The manifest is written last and in one move, so a log is whole or is none. What an older log left
in the folder goes first, its manifest before all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.model.epoch_log import (
    DEAD_LETTERS_NAME,
    EPOCHS_NAME,
    MANIFEST_NAME,
    STAGING_PREFIX,
    InputFile,
    Manifest,
    Partition,
    Segment,
    epochs_schema,
    segment_name,
)
from streammine.model.preparation import PrepareRequest
from streammine.pipeline.dead_letters import dead_letters
from streammine.pipeline.raw_files import Unit
from streammine.pipeline.row_numbers import RowNumbers
from streammine.pipeline.segments import WrittenSegment
from streammine.pipeline.staging import plain_schema
from streammine.pipeline.storage import Folder

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LogParts:
    """What the tasks made. `rows_read` goes with `units`; `dead_names` are staged files in row
    order, `dead_epochs` (int64) the epochs of the letters in them.

    `segments` and `cells` ((epoch, partition, rows), int64) are those of each range, in order.
    """

    units: list[Unit]
    rows_read: list[int]
    dead_names: list[str]
    dead_epochs: IntArray
    numbers: RowNumbers
    segments: list[list[WrittenSegment]]
    cells: list[IntArray]


def commit(output: Folder, staging: Folder, request: PrepareRequest, parts: LogParts) -> Manifest:
    """Move the parts into place and write the manifest. Raises OSError."""
    _clear(output, staging)
    partitions, moves = _partitions(parts.segments, request.partitions)
    output.adopt(staging, moves)
    letters = dead_letters(staging, parts.dead_names, parts.units, parts.numbers, parts.dead_epochs)
    dead_letters_digest = output.write(DEAD_LETTERS_NAME, letters)
    rows_dead = len(parts.dead_epochs)
    epochs = _epochs(parts.cells, request.partitions)
    epochs_digest = output.write(EPOCHS_NAME, [_arrow_file(epochs)])
    rows_used = sum(partition.rows for partition in partitions)
    rows_read = sum(parts.rows_read)
    assert rows_read == rows_used + rows_dead, "no row is lost"
    numbers = epochs.column("epoch")
    manifest = Manifest(
        source_schema=plain_schema(request.schema).serialize().to_pybytes().hex(),
        epoch=request.epoch,
        order=_order(request),
        rows_read=rows_read,
        rows_used=rows_used,
        rows_dead=rows_dead,
        epochs=epochs.num_rows,
        first_epoch=numbers[0].as_py() if epochs.num_rows else None,
        last_epoch=numbers[-1].as_py() if epochs.num_rows else None,
        files=_files(request, parts),
        partitions=partitions,
        epochs_digest=epochs_digest,
        dead_letters_digest=dead_letters_digest,
        fingerprint=request.fingerprint,
    ).sealed()
    output.write(MANIFEST_NAME, [manifest.encode()])
    return manifest


def _clear(output: Folder, staging: Folder) -> None:
    """Take away an older log, and what a `prepare` that died left behind."""
    output.remove_file(MANIFEST_NAME)
    for name in output.names():
        if name.startswith(("partition-", STAGING_PREFIX)):
            folder = output.below(name)
            if folder.location != staging.location:
                folder.remove()
        elif name in (EPOCHS_NAME, DEAD_LETTERS_NAME) or name.endswith(".part"):
            output.remove_file(name)


def _partitions(
    ranges: list[list[WrittenSegment]], count: int
) -> tuple[tuple[Partition, ...], list[tuple[str, str]]]:
    """The log's partitions, and for each segment (name in the staging folder, name in the log)."""
    segments: list[list[Segment]] = [[] for _ in range(count)]
    moves: list[tuple[str, str]] = []
    for written in ranges:
        for each in written:
            mine = segments[each.partition]
            name = segment_name(each.partition, len(mine))
            moves.append((each.name, name))
            mine.append(
                Segment(
                    name=name,
                    rows=each.rows,
                    bytes=each.bytes,
                    batches=each.batches,
                    first_epoch=each.first_epoch,
                    last_epoch=each.last_epoch,
                    digest=each.digest,
                )
            )
    partitions = tuple(
        Partition(rows=sum(each.rows for each in mine), segments=tuple(mine)) for mine in segments
    )
    return partitions, moves


def _epochs(cells: list[IntArray], partitions: int) -> pa.RecordBatch:
    """Rows per epoch and partition; a cell may have come in several pieces."""
    matrix = np.concatenate([np.zeros((0, 3), dtype=np.int64), *cells])
    epochs, places = np.unique(matrix[:, 0], return_inverse=True)
    rows = np.zeros((len(epochs), partitions), dtype=np.int64)
    np.add.at(rows, (places, matrix[:, 1]), matrix[:, 2])
    schema = epochs_schema(partitions)
    counts = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), type=schema.field(1).type)
    return pa.RecordBatch.from_arrays([pa.array(epochs), counts], schema=schema)


def _arrow_file(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _files(request: PrepareRequest, parts: LogParts) -> tuple[InputFile, ...]:
    rows = [0] * len(request.files)
    for unit, read in zip(parts.units, parts.rows_read, strict=True):
        rows[unit.file] += read
    return tuple(
        InputFile(path=file.path, rows=count)
        for file, count in zip(request.ordered_files, rows, strict=True)
    )


def _order(request: PrepareRequest) -> Literal["position", "merge", "time"]:
    if request.epoch.kind == "time":
        return "time" if request.sort else "position"
    return "position" if request.merge_by is None else "merge"
