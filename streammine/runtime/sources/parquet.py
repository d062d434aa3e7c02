"""Parquet: slices share the row groups, whose row numbers and times the footers tell beforehand.

Decoding goes in batches of the size that caches like, on one thread: the nodes share the cores.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from streammine.model.contracts import DeadRows, IntArray, Position
from streammine.model.epochs import BEGINNING, INFINITY, EpochDefinition
from streammine.model.errors import InputError
from streammine.model.formats.rejection import failing
from streammine.model.readable_rows import readable_rows
from streammine.model.source_order import NO_TIME, usable_event_times
from streammine.runtime.sources.deferred import DeferredBatch, Demand, decoded
from streammine.runtime.sources.files import open_random
from streammine.runtime.sources.plain_columns import are_plain, deferred_batches, plain_batches
from streammine.runtime.sources.runs import RowRun
from streammine.runtime.sources.usable import FileClock, UsableRows, dead_numbers

DECODED_ROWS = 65_536

RUN_ROWS = 491_520
"""About how many rows a slice reads in a row before the next slice's share begins."""

RUNS_PER_SLICE = 4
"""Each slice gets at least so many runs where there are row groups enough."""


def open_parquet(path: str, metadata: pq.FileMetaData | None = None) -> pq.ParquetFile:
    """`metadata`: the footer, if it was read before.

    Raises InputError naming the file when it is missing or no Parquet file.
    """
    file = open_random(path)
    try:
        return pq.ParquetFile(file, pre_buffer="://" in path, metadata=metadata)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: can't be read as Parquet: {error}") from error


@dataclass(frozen=True)
class RowGroup:
    """Row groups that follow each other in a file: where their rows stand in it and in the source. `parts`:
    how many rows each of them has.

    For time epochs, in microseconds: `earliest` of the usable rows, `latest_before` them in the file,
    and `dead_from`, what the file has at least reached at a row without usable time (INFINITY: there
    is none). `first_time` is the file's first one where such rows come before it.
    """

    path: str
    file: int
    indices: tuple[int, ...]
    row: int
    number: int
    parts: tuple[int, ...]
    earliest: int = BEGINNING
    latest_before: int = BEGINNING
    dead_from: int = INFINITY
    first_time: int = NO_TIME

    @cached_property
    def rows(self) -> int:
        return sum(self.parts)


def row_groups(
    paths: Sequence[tuple[int, str]], definition: EpochDefinition, schema: pa.Schema
) -> list[RowGroup]:
    """The row groups of the files (number, path), in order; row numbers follow each other over
    them.

    Raises InputError when a footer can't be read.
    """
    groups: list[RowGroup] = []
    number = 0
    for file, path in paths:
        with open_parquet(path) as parquet:
            row = 0
            latest = BEGINNING
            first_time: int | None = None
            for index in range(parquet.metadata.num_row_groups):
                rows = parquet.metadata.row_group(index).num_rows
                if not rows:
                    continue
                group = RowGroup(path, file, (index,), row, number + row, (rows,))
                row += rows
                if definition.kind == "time":
                    earliest, last, dying = _times(parquet, path, index, definition, schema)
                    group = replace(group, earliest=earliest, latest_before=latest)
                    if dying and latest == BEGINNING:
                        if first_time is None:
                            first_time = _first_time(parquet, path, definition, schema)
                        group = replace(group, dead_from=first_time, first_time=first_time)
                    elif dying:
                        group = replace(group, dead_from=latest)
                    latest = max(latest, last)
                groups.append(group)
            number += row
    return groups


def share(groups: Sequence[RowGroup], slice_index: int, slices: int) -> list[RowGroup]:
    """What one of `slices` slices reads: every so many runs of neighbouring row groups one.

    In a run an epoch stays together, so that it is combined in one place. Runs are short enough for each
    slice to get several.
    """
    if not groups:
        return []
    average_rows = max(1, sum(group.rows for group in groups) // len(groups))
    fair = -(-len(groups) // (slices * RUNS_PER_SLICE))
    length = max(1, min(fair, RUN_ROWS // average_rows))
    runs = [groups[start : start + length] for start in range(0, len(groups), length)]
    return [
        _joined(list(neighbours))
        for run in runs[slice_index::slices]
        for _, neighbours in groupby(run, key=lambda group: group.file)
    ]


def _joined(groups: list[RowGroup]) -> RowGroup:
    """Neighbours in one file as one."""
    return replace(
        groups[0],
        indices=tuple(index for group in groups for index in group.indices),
        parts=tuple(rows for group in groups for rows in group.parts),
        earliest=min(group.earliest for group in groups),
        dead_from=min(group.dead_from for group in groups),
    )


def _times(
    parquet: pq.ParquetFile, path: str, index: int, definition: EpochDefinition, schema: pa.Schema
) -> tuple[int, int, bool]:
    """(earliest, latest) event time of a row group's usable rows, and whether others may be there.

    The footer tells, unless values that do not fit the schema may make rows unusable.
    """
    assert definition.column is not None
    doubtful = _doubtful_columns(parquet.schema_arrow, schema)
    place = parquet.schema_arrow.get_field_index(definition.column)
    statistics = parquet.metadata.row_group(index).column(place).statistics
    if not doubtful and statistics is not None and statistics.has_min_max:
        kind = schema.field(definition.column).type
        ends = pa.array([statistics.min, statistics.max], type=kind)
        times, usable = usable_event_times(ends, definition.unit)
        if usable is None:
            complete = statistics.has_null_count and statistics.null_count == 0
            return int(times[0]), int(times[1]), not complete
    earliest, latest, usable_rows = INFINITY, BEGINNING, 0
    for times in usable_times(parquet, path, index, definition, schema):
        if len(times):
            earliest, latest = min(earliest, int(times.min())), max(latest, int(times.max()))
            usable_rows += len(times)
    return earliest, latest, usable_rows < parquet.metadata.row_group(index).num_rows


def _first_time(
    parquet: pq.ParquetFile, path: str, definition: EpochDefinition, schema: pa.Schema
) -> int:
    """The first usable event time of a file, or NO_TIME."""
    for index in range(parquet.metadata.num_row_groups):
        for times in usable_times(parquet, path, index, definition, schema):
            if len(times):
                return int(times[0])
    return NO_TIME


def usable_times(
    parquet: pq.ParquetFile, path: str, index: int, definition: EpochDefinition, schema: pa.Schema
) -> Iterator[IntArray]:
    """The event times of a row group's usable rows, in order."""
    doubtful = _doubtful_columns(parquet.schema_arrow, schema)
    names = [name for name in schema.names if name in doubtful or name == definition.column]
    try:
        table = parquet.read_row_group(index, names, use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: row group {index} can't be read: {error}") from error
    for batch in table.to_batches():
        typed, _, _ = typed_rows(batch, pa.schema([schema.field(name) for name in names]))
        times, usable = usable_event_times(typed.column(definition.column), definition.unit)
        yield times if usable is None else times[usable]


def lowest_by_time(group: RowGroup, clock: FileClock) -> int:
    """The lowest epoch that a row of the group can have when its file has reached so much."""
    earliest = clock.epoch.lowest_open(group.earliest)
    dead_from = clock.epoch.lowest_open(max(group.dead_from, clock.latest))
    return min(max(earliest, clock.open_epoch), dead_from)


class ParquetRuns:
    """The rows of some row groups, in order. With the groups of one file it is a FileStream.

    `columns` (None: all of the schema) are those of the runs.
    """

    def __init__(
        self,
        groups: Sequence[RowGroup],
        schema: pa.Schema,
        columns: Sequence[str] | None,
        definition: EpochDefinition,
        lateness_microseconds: int = 0,
        merge_by: str | None = None,
        total_rows: int | None = None,
    ) -> None:
        self._groups = list(groups)
        self._schema = schema
        self._columns = list(schema.names if columns is None else columns)
        self._definition = definition
        self._lateness_microseconds = lateness_microseconds
        self._merge_by = merge_by
        self._total_rows = total_rows
        self._lowest_from = self._lowest_epochs()
        self._at = -1
        self._in_group = 0
        self._path: str | None = None
        self._file: pq.ParquetFile | None = None
        self._batches: Iterator[pa.RecordBatch | DeferredBatch] = iter(())
        self._demand = Demand()
        self._stored = schema
        self._usable: UsableRows | None = None
        self.clock: FileClock | None = None
        self.file = groups[0].file if groups else 0
        self.rows_read = 0

    @property
    def total_rows(self) -> int | None:
        return self._total_rows

    def _clock_before(self, group: RowGroup) -> FileClock:
        return FileClock(self._definition, self._lateness_microseconds, group.latest_before)

    def _lowest_epochs(self) -> list[int]:
        """For each group, the lowest epoch that rows of it and the later ones can have."""
        lowest = [INFINITY]
        for group in reversed(self._groups):
            lowest.append(min(lowest[-1], self._lowest_epoch(group)))
        return lowest[::-1]

    def _lowest_epoch(self, group: RowGroup) -> int:
        if self._definition.kind == "count":
            return self._definition.lowest_open(group.number)
        return lowest_by_time(group, self._clock_before(group))

    def position(self) -> Position:
        """The start of the row groups that are read together."""
        over = 0 <= self._at < len(self._groups) and self._in_group == self._groups[self._at].rows
        return {"group": self._at + 1 if over or self._at < 0 else self._at}

    def seek(self, position: Position) -> None:
        before = self._groups[: position["group"]]
        self._at = len(before) - 1
        self._in_group = before[-1].rows if before else 0
        self.rows_read = sum(group.rows for group in before)

    def next_run(self) -> RowRun | None:
        while True:
            batch = self._next_batch()
            if batch is not None:
                return self._run(batch)
            if self._at + 1 >= len(self._groups):
                self.close()
                return None
            self._open(self._at + 1)

    def _open(self, at: int) -> None:
        group = self._groups[at]
        self._at = at
        self._in_group = 0
        # a mapping of the whole file would in time hold all of it in memory, so each run has its own
        known = self._file.metadata if self._file is not None and self._path == group.path else None
        self.close()
        self._path = group.path
        self._file = open_parquet(group.path, known)
        self.clock = self._clock_before(group) if self._definition.kind == "time" else None
        self._usable = UsableRows(group.path, self.clock, self._merge_by, lambda: group.first_time)
        # Whether a row can be used must not depend on the columns that are asked for.
        names = {*self._columns, *_doubtful_columns(self._file.schema_arrow, self._schema)}
        self._stored = pa.schema([field for field in self._schema if field.name in names])
        if not are_plain(self._file, group.path, self._stored):
            self._batches = self._file.iter_batches(
                DECODED_ROWS, group.indices, self._stored.names, use_threads=False
            )
        elif self._definition.kind == "time":
            self._batches = self._by_demand(group)
        else:
            self._batches = plain_batches(
                group.path, group.row, group.rows, self._stored, DECODED_ROWS
            )

    def _by_demand(self, group: RowGroup) -> Iterator[DeferredBatch]:
        """Where most rows before were not wanted, the columns that tell no epoch are left for later."""
        deferred, demand, stored = self._demand.low, self._demand, self._stored
        demand.begin_anew()
        if not deferred:
            batches = plain_batches(group.path, group.row, group.rows, stored, DECODED_ROWS)
            return (decoded(batch, demand) for batch in batches)
        column, parts = self._definition.column, _not_tiny(group.parts)
        assert column is not None
        return deferred_batches(group.path, group.row, parts, stored, column, demand, DECODED_ROWS)

    def _next_batch(self) -> pa.RecordBatch | DeferredBatch | None:
        try:
            return next(self._batches, None)
        except (OSError, pa.ArrowException) as error:
            raise InputError(
                f"{self._path}: can't be read on after {self.rows_read:,} rows: {error}"
            ) from error

    def _run(self, batch: pa.RecordBatch | DeferredBatch) -> RowRun:
        group = self._groups[self._at]
        first = self._in_group
        self._in_group += batch.num_rows
        self.rows_read += batch.num_rows
        row = group.row + first
        assert self._usable is not None
        dead: DeadRows | None = None
        rows: IntArray | None = None
        typed = batch
        if not isinstance(batch, DeferredBatch):
            # else its columns are stored in their types
            typed, keep, reasons = typed_rows(batch, self._stored)
            dead = _dead(batch, row, group.path, reasons) if reasons else None
            rows = None if keep is None else row + keep
        batch = typed if self._stored.names == self._columns else typed.select(self._columns)
        found = self._usable.sort_out(batch, row, rows, dead)
        offset = group.number - group.row
        dead_epochs = found.dead_epochs
        if found.dead is not None and dead_epochs is None:
            dead_epochs = self._definition.of_rows(offset + dead_numbers(found.dead))
        return RowRun(
            found.batch,
            self._open_epoch(group),
            found.dead,
            group.file,
            row,
            row + offset,
            rows=found.rows,
            numbers=None if found.rows is None else found.rows + offset,
            times=found.times,
            ascending=found.ascending,
            dead_epochs=dead_epochs,
        )

    def _open_epoch(self, group: RowGroup) -> int:
        later = self._lowest_from[self._at + 1]
        if self._in_group == group.rows:
            return later
        if self.clock is None:
            return self._definition.lowest_open(group.number + self._in_group)
        return min(later, lowest_by_time(group, self.clock))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
            self._path = None


def _not_tiny(parts: Sequence[int]) -> list[int]:
    """Neighbours together, such that each is worth a look at the footer, but for the last."""
    joined = [0]
    for rows in parts:
        if joined[-1] >= DECODED_ROWS:
            joined.append(0)
        joined[-1] += rows
    return joined


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type without the ways in which it may be encoded."""
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    return kind


def _doubtful_columns(stored: pa.Schema, wanted: pa.Schema) -> frozenset[str]:
    """Columns whose values may not fit their type in the schema."""
    return frozenset(
        field.name for field in wanted if plain_type(stored.field(field.name).type) != field.type
    )


def typed_rows(
    batch: pa.RecordBatch, wanted: pa.Schema
) -> tuple[pa.RecordBatch, IntArray | None, dict[int, str]]:
    """(rows in the types of `wanted`, their indices or None for all, why the others have no such
    types).

    The batch has the columns of `wanted`, in any order.
    """
    arrays = [batch.column(name) for name in wanted.names]
    try:
        return pa.RecordBatch.from_arrays(_cast(arrays, wanted), schema=wanted), None, {}
    except pa.ArrowInvalid:
        reasons: dict[int, str] = {}
    for array, field in zip(arrays, wanted, strict=True):
        refused = failing(array, partial(pc.cast, target_type=field.type))
        for index in np.flatnonzero(refused).tolist():
            what = f'column "{field.name}": "{array[index]}"'
            reasons.setdefault(index, f"{what} is not a value of type {field.type}")
    keep = np.setdiff1d(np.arange(batch.num_rows), np.array(sorted(reasons)))
    good = [array.take(pa.array(keep)) for array in arrays]
    return pa.RecordBatch.from_arrays(_cast(good, wanted), schema=wanted), keep, reasons


def _cast(arrays: list[pa.Array], wanted: pa.Schema) -> list[pa.Array]:
    return [
        array if array.type == field.type else pc.cast(array, field.type)
        for array, field in zip(arrays, wanted, strict=True)
    ]


def _dead(batch: pa.RecordBatch, row: int, path: str, reasons: dict[int, str]) -> DeadRows:
    indices = sorted(reasons)
    texts = readable_rows(batch.take(pa.array(indices, pa.int64())))
    return DeadRows(
        reasons=tuple(reasons[index] for index in indices),
        rows=tuple(json.dumps(text, default=str, ensure_ascii=False) for text in texts),
        files=(path,) * len(indices),
        numbers=tuple(row + index for index in indices),
    )
