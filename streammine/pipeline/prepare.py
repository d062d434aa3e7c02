"""`prepare`: raw input into an epoch log, on Spark.

Run as ``python -m streammine.pipeline.prepare REQUEST.json``. Standard output gets JSON lines:
progress while it runs, then one line with the report (exit code 0) or the failure (1).

Two steps, each a set of Spark tasks:

1. *parse*: every task reads some raw files once and stages their rows as sorted chunks on the
   log's own storage (`staging`). The driver learns the rows of each file and epoch and where each
   chunk stands.
2. *write*: the order of all rows is cut into ranges (`chunk_index`); every task merges one
   (`merging`), finds each row's epoch and partition by its rank (`cells`) and writes segments
   (`segments`). The driver adopts one attempt's segments of each task and writes the manifest last.

Memory is bounded by a sorted run (64 MB) and a parsed block per task in step 1, and by the chunks
that overlap in step 2. Storage needs room for the input's rows twice. No row is late here: time
epochs are cut out of the whole input sorted by time.
"""

from __future__ import annotations

import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from streammine.model.epoch_log import STAGING_PREFIX
from streammine.model.errors import InputError, OutputError
from streammine.model.ids import FILE_COLUMN, ROW_COLUMN
from streammine.model.preparation import PrepareReport, PrepareRequest
from streammine.model.spark_job import SparkProgress
from streammine.pipeline.cells import EpochTable
from streammine.pipeline.chunk_index import ChunkIndex
from streammine.pipeline.command import print_line, run_command
from streammine.pipeline.commit import LogParts, commit
from streammine.pipeline.dead_letters import UnitTimes, epochs_by_count, epochs_by_time
from streammine.pipeline.merging import RangeMerge
from streammine.pipeline.ordering import SortKey
from streammine.pipeline.raw_files import Unit, tasks_of, units_of
from streammine.pipeline.row_numbers import RowNumbers
from streammine.pipeline.segments import SegmentWriter, WrittenSegment
from streammine.pipeline.session import ProgressListener, run_tasks, start_session, stop_session
from streammine.pipeline.staging import CHUNK_FIELDS, DEAD_COLUMN, plain_schema, stage
from streammine.pipeline.storage import Folder
from streammine.pipeline.task_results import array, task_result, unpacked

IntArray = npt.NDArray[np.int64]


def prepare(request: PrepareRequest, listener: ProgressListener) -> PrepareReport:
    """Make the log that the request describes and tell about it.

    Raises InputError (a file can't be read), OutputError (the log can't be written) and
    ClusterError (Spark can't be started).
    """
    started = time.perf_counter()
    if not request.files:
        raise InputError("there is nothing to prepare: a source needs at least one file")
    output = Folder(request.output)
    staging = output.below(f"{STAGING_PREFIX}{uuid.uuid4().hex}")
    try:
        staging.make()
        with tempfile.TemporaryDirectory(prefix="streammine-prepare-") as scratch:
            listener(SparkProgress(step="start Spark", done=0, total=1))
            session = start_session(request.master, Path(scratch), "streammine prepare")
            try:
                parts = _parts(session, request, staging, listener)
            finally:
                stop_session(session)
        manifest = commit(output, staging, request, parts)
    except OSError as error:
        raise OutputError(f"epoch log {request.output} can't be written: {error}") from None
    finally:
        staging.remove()
    return PrepareReport(
        log=request.output,
        rows_read=manifest.rows_read,
        rows_used=manifest.rows_used,
        rows_dead=manifest.rows_dead,
        epochs=manifest.epochs,
        partitions=len(manifest.partitions),
        bytes=sum(each.bytes for part in manifest.partitions for each in part.segments),
        seconds=round(time.perf_counter() - started, 3),
        digest=manifest.digest,
    )


def _parts(
    session: SparkSession, request: PrepareRequest, staging: Folder, listener: ProgressListener
) -> LogParts:
    """Both steps."""
    units = units_of(request)
    tasks = tasks_of(units, request)
    # Tasks have their units; thousands of other files' names would only weigh down every task.
    slim = request.model_copy(update={"files": ()})
    work = partial(_stage_task, tasks=tasks, request=slim, staging=staging.location)
    answers = unpacked(run_tasks(session, "parse", len(tasks), work, listener), request.output)
    counts = [count for answer in answers for count in answer["counts"]]
    rows_read = [int(count["read"]) for count in counts]
    index = ChunkIndex.of([array(answer["chunks"], CHUNK_FIELDS) for answer in answers])
    numbers = RowNumbers.of(units, rows_read)
    epochs = _epoch_table(request, sum(rows_read), answers)
    assert int(index.rows.sum()) == epochs.total_rows
    bounds: list[SortKey | None] = [None, *index.bounds(), None]
    names = tuple(answer["name"] for answer in answers)
    ranges = _RangeTask(index, names, bounds, numbers, epochs, slim, staging.location)
    count = len(bounds) - 1 if len(index) else 0
    written = unpacked(run_tasks(session, "write", count, ranges, listener), request.output)
    return LogParts(
        units=units,
        rows_read=rows_read,
        dead_names=[answer["dead_name"] for answer in answers],
        dead_epochs=_dead_epochs(request, units, answers, written),
        numbers=numbers,
        segments=[[WrittenSegment(**each) for each in answer["segments"]] for answer in written],
        cells=[array(answer["cells"], 3) for answer in written],
    )


def _stage_task(
    task: int, attempt: int, *, tasks: list[tuple[Unit, ...]], request: PrepareRequest, staging: str
) -> bytes:
    """First step of one task: its units into a staged file."""

    def work() -> dict[str, Any]:
        name = f"parsed-{task:06d}-{attempt}.arrow"
        dead_name = f"dead-{task:06d}-{attempt}.jsonl"
        staged = stage(tasks[task], request, Folder(staging), name, dead_name)
        return {**asdict(staged), "name": name, "dead_name": dead_name}

    return task_result(work)


class _RangeTask:
    """Second step of one task: a range of rows into segments."""

    def __init__(
        self,
        index: ChunkIndex,
        names: tuple[str, ...],
        bounds: list[SortKey | None],
        numbers: RowNumbers,
        epochs: EpochTable,
        request: PrepareRequest,
        staging: str,
    ) -> None:
        self._index = index
        self._names = names
        self._bounds = bounds
        self._numbers = numbers
        self._epochs = epochs
        self._request = request
        self._staging = staging

    def __call__(self, task: int, attempt: int) -> bytes:
        return task_result(partial(self._write, task, attempt))

    def _write(self, task: int, attempt: int) -> dict[str, Any]:
        folder = Folder(self._staging)
        lower, upper = self._bounds[task], self._bounds[task + 1]
        merge = RangeMerge(self._index, folder, self._names, lower, upper)
        rank = merge.first_rank()
        schema = plain_schema(self._request.schema)
        with SegmentWriter(folder, f"segment-{task:06d}-{attempt}", schema) as writer:
            dead = [np.zeros((0, 3), np.int64)]
            for table in merge.tables():
                numbered = self._numbered(table)
                dead.append(_dead_places(numbered, rank))
                self._write_rows(writer, self._ordered(numbered, rank), rank)
                rank += table.num_rows
            segments, cells = writer.close()
        return {
            "segments": [asdict(each) for each in segments],
            "cells": cells,
            "dead": np.concatenate(dead),
        }

    def _numbered(self, table: pa.Table) -> pa.Table:
        if not self._numbers.corrections:
            return table
        files, rows = table.column(FILE_COLUMN).to_numpy(), table.column(ROW_COLUMN).to_numpy()
        numbers = pa.array(self._numbers.corrected(files, rows))
        return table.set_column(table.schema.get_field_index(ROW_COLUMN), ROW_COLUMN, numbers)

    def _ordered(self, table: pa.Table, rank: int) -> pa.Table:
        """Rows of interleaved files have their number in that order as their position."""
        if self._request.merge_by is None or self._request.epoch.kind == "time":
            return table
        files = pa.array(np.zeros(table.num_rows, np.int32))
        rows = pa.array(np.arange(rank, rank + table.num_rows, dtype=np.int64))
        names = table.schema.names
        return table.set_column(names.index(FILE_COLUMN), FILE_COLUMN, files).set_column(
            names.index(ROW_COLUMN), ROW_COLUMN, rows
        )

    def _write_rows(self, writer: SegmentWriter, table: pa.Table, rank: int) -> None:
        some_dead = pc.any(table.column(DEAD_COLUMN)).as_py()
        for run in self._epochs.runs(rank, table.num_rows):
            rows = table.slice(run.start, run.stop - run.start)
            if some_dead:
                rows = rows.filter(pc.invert(rows.column(DEAD_COLUMN)))
            writer.add(run, rows)


def _dead_places(table: pa.Table, rank: int) -> IntArray:
    """(file, row, place in the order of all rows) of the dead rows, which are staged where epochs
    count rows."""
    dead = np.flatnonzero(table.column(DEAD_COLUMN).to_numpy())
    files = table.column(FILE_COLUMN).to_numpy()[dead].astype(np.int64)
    return np.column_stack([files, table.column(ROW_COLUMN).to_numpy()[dead], rank + dead])


def _dead_epochs(
    request: PrepareRequest,
    units: Sequence[Unit],
    answers: Sequence[dict[str, Any]],
    written: Sequence[dict[str, Any]],
) -> IntArray:
    """The epochs of the dead letters, in the order in which they were staged."""
    definition = request.epoch.definition
    if definition.kind == "count":
        return epochs_by_count([array(each["dead"], 3) for each in written], definition.length)
    times: list[UnitTimes] = []
    for answer in answers:
        ends = np.cumsum([count["dead"] for count in answer["counts"]])
        parts = np.split(array(answer["reached"]), ends[:-1])
        times += [
            UnitTimes(count["first"], count["latest"], part)
            for count, part in zip(answer["counts"], parts, strict=True)
        ]
    return epochs_by_time(units, times, definition)


def _epoch_table(
    request: PrepareRequest, rows_read: int, answers: Sequence[dict[str, Any]]
) -> EpochTable:
    if request.epoch.kind == "count":
        return EpochTable.of_count(request.partitions, rows_read, request.epoch.length)
    epochs = np.concatenate([array(answer["epochs"]) for answer in answers])
    rows = np.concatenate([array(answer["rows"]) for answer in answers])
    numbers, places = np.unique(epochs, return_inverse=True)
    totals = np.zeros(len(numbers), dtype=np.int64)
    np.add.at(totals, places, rows)
    return EpochTable.of_time(request.partitions, numbers, totals)


def main(arguments: Sequence[str], write_line: Callable[[str], None]) -> int:
    """The command; returns its exit code."""
    module = "streammine.pipeline.prepare"
    return run_command(arguments, module, PrepareRequest, prepare, write_line)


if __name__ == "__main__":
    # Spark writes to standard output at times; what the launcher reads must stay apart from that.
    sys.exit(main(sys.argv[1:], print_line))
