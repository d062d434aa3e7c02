"""Opening one slice's share of a source."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streammine.model.contracts import Position
from streammine.model.epochs import EpochDefinition
from streammine.model.job import ResolvedSource
from streammine.model.source_contracts import SourceReader
from streammine.model.topology.live_sources import LiveSource
from streammine.model.topology.replay_source import ReplaySource
from streammine.model.topology.sources import (
    FilesSource,
    GeneratorSource,
    LogSource,
    SourceBase,
)
from streammine.runtime.sources.delimited import ParsedFile
from streammine.runtime.sources.due_epochs import AlignedEpochs, DueEpochs
from streammine.runtime.sources.epoch_reader import EpochReader
from streammine.runtime.sources.generated import GeneratedRuns
from streammine.runtime.sources.live import open_live_reader, open_replay_reader
from streammine.runtime.sources.log import LogRuns
from streammine.runtime.sources.merged import MergedFiles
from streammine.runtime.sources.pace import Pace
from streammine.runtime.sources.parquet import ParquetRuns, RowGroup, row_groups, share
from streammine.runtime.sources.parquet_epochs import ParquetEpochs
from streammine.runtime.sources.resolving import (
    AnySource,
    make_generator,
    raw_format,
    schema_of,
)
from streammine.runtime.sources.runs import EmptyRuns, RunReader
from streammine.runtime.sources.several_files import ConcatenatedFiles, FileStream, ParallelFiles
from streammine.runtime.sources.static import ONE_EPOCH, StaticReader, reading_epochs

StoredSource = FilesSource | GeneratorSource | LogSource

FIRST_ROWS = 1024
"""Looked at for a source's first event time."""


def open_reader(
    resolved: ResolvedSource,
    settings: AnySource,
    epoch: EpochDefinition,
    slice_index: int,
    slices: int,
    columns: Sequence[str] | None,
    position: Position | None = None,
    pace_begins: int = 0,
) -> SourceReader:
    """The reader of slice `slice_index` of `slices`, from `position` on (None: from the start).

    `columns` names the visible columns that are handed out, in that order (None: all). A batch must
    have a column to have rows, so of an empty selection the narrowest column is handed out. Where
    the source can't be split, slice 0 reads it and the others are exhausted at once. `pace_begins`: the
    first mark of its pace (see RecoverySettings). Raises InputError.
    """
    assert 0 <= slice_index < slices
    if reading_epochs(settings, epoch) is not epoch:
        share_of_all = (slice_index, slices, columns, position)
        return StaticReader(
            _open_reader(resolved, settings, ONE_EPOCH, *share_of_all, pace_begins), epoch
        )
    return _open_reader(
        resolved, settings, epoch, slice_index, slices, columns, position, pace_begins
    )


def _open_reader(
    resolved: ResolvedSource,
    settings: AnySource,
    epoch: EpochDefinition,
    slice_index: int,
    slices: int,
    columns: Sequence[str] | None,
    position: Position | None,
    pace_begins: int,
) -> SourceReader:
    schema = schema_of(resolved)
    visible = _visible(schema, columns)
    if isinstance(settings, LiveSource):
        base = resolved.details["base"]
        return open_live_reader(
            resolved.name, settings, epoch, base, slice_index, visible, position
        )
    if isinstance(settings, ReplaySource):
        base = resolved.details["base"]
        return open_replay_reader(
            resolved.name, settings, epoch, base, slice_index, visible, position
        )
    pace = _pace(settings, pace_begins)
    timed = pace is not None and pace.by_time
    due_epochs: DueEpochs | None = AlignedEpochs(epoch) if timed else None
    if not resolved.parallel:
        if slice_index > 0:
            return EpochReader(EmptyRuns(resolved.rows), epoch, None, pace, position)
        slices = 1
    if resolved.kind == "log":
        assert resolved.log is not None
        numbered = pace is not None and not timed
        log = LogRuns(resolved.log, epoch, visible, slice_index, slices, numbered)
        return EpochReader(log, epoch, None, pace, position, due_epochs or log.due_epochs)
    wanted = set(visible)
    if epoch.column is not None:
        wanted.add(epoch.column)
    if isinstance(settings, FilesSource) and settings.merge_by is not None:
        wanted.add(settings.merge_by)
    needed = [name for name in schema.names if name in wanted]
    runs: RunReader
    if pace is not None and slices > 1 and epoch.kind == "count":
        due_epochs = AlignedEpochs(epoch)
    if isinstance(settings, GeneratorSource):
        generator = make_generator(settings, resolved.details["base"])
        name, seed, rows = settings.generator, settings.seed, settings.rows
        runs = GeneratedRuns(name, generator, seed, rows, epoch, needed, slice_index, slices, pace)
    else:
        assert isinstance(settings, FilesSource)
        assert settings.prepare is None, "a source to be prepared is read from its log"
        is_parquet = settings.resolved_format == "parquet"
        files = enumerate(resolved.files) if is_parquet else ()
        groups = row_groups(list(files), epoch, schema)
        runs = _file_runs(resolved, settings, epoch, slice_index, slices, schema, needed, groups)
        numbered = pace is not None and not timed
        if numbered and slices > 1 and epoch.kind == "time" and is_parquet:
            due_epochs = ParquetEpochs(groups, epoch, schema, settings.lateness.microseconds)
    return EpochReader(runs, epoch, visible, pace, position, due_epochs)


def _pace(settings: SourceBase, begins: int) -> Pace | None:
    if settings.speed is not None:
        return Pace.of_time(settings.speed, begins)
    return None if settings.rate is None else Pace.of_rows(settings.rate, begins)


def first_event_time(
    resolved: ResolvedSource, settings: StoredSource, epoch: EpochDefinition
) -> int | None:
    """The earliest event time, in microseconds, of the rows that a source of time epochs begins with; None
    where it has none. Raises InputError."""
    assert epoch.column is not None
    reader = open_reader(resolved, settings.unpaced, epoch, 0, 1, [epoch.column])
    try:
        while True:
            delivery = reader.read(FIRST_ROWS, 0.0)
            times = [int(each.times.min()) for each in delivery.pieces if each.times is not None]
            if times or delivery.exhausted:
                return min(times, default=None)
    finally:
        reader.close()


def _visible(schema: pa.Schema, columns: Sequence[str] | None) -> list[str]:
    if columns is None:
        return list(schema.names)
    if columns:
        return list(columns)
    return [min(schema, key=_width_bits).name]


def _width_bits(field: pa.Field) -> int:
    try:
        return int(field.type.bit_width)
    except ValueError:
        return 2**31


def _file_runs(
    resolved: ResolvedSource,
    settings: FilesSource,
    epoch: EpochDefinition,
    slice_index: int,
    slices: int,
    schema: pa.Schema,
    columns: list[str],
    groups: list[RowGroup],
) -> RunReader:
    """`groups` are those of Parquet files."""
    files = list(enumerate(resolved.files))
    lateness = settings.lateness.microseconds
    # Time epochs do not depend on the order of the files: side by side is as good as interleaved.
    merge_by = settings.merge_by if epoch.kind == "count" else None
    streams: list[FileStream]
    if settings.resolved_format == "parquet":
        if merge_by is None:
            mine = share(groups, slice_index, slices)
            return ParquetRuns(mine, schema, columns, epoch, lateness, total_rows=resolved.rows)
        by_file = ([group for group in groups if group.file == number] for number, _ in files)
        streams = [
            ParquetRuns(each, schema, columns, epoch, 0, merge_by) for each in by_file if each
        ]
    else:
        written = raw_format(settings)
        streams = [
            ParsedFile(path, number, written, schema, columns, epoch, lateness, merge_by)
            for number, path in files[slice_index::slices]
        ]
    if merge_by is not None:
        return MergedFiles(streams, epoch, merge_by, resolved.rows)
    if epoch.kind == "count":
        return ConcatenatedFiles(streams, epoch, resolved.rows)
    return ParallelFiles(streams, epoch, slice_index, slices, resolved.rows)
