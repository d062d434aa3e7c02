"""Looking at a source before anything starts: its files, columns, size, and what is wrong with
it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from streammine.model.epoch_log import Manifest
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import InputError, TopologyError
from streammine.model.formats import RawFormat, csv_header
from streammine.model.formats.blocks import chunks
from streammine.model.ids import HIDDEN_PREFIX
from streammine.model.job import ResolvedSource
from streammine.model.modules import load_object
from streammine.model.preparation import FormatSettings
from streammine.model.replay import epoch_text
from streammine.model.source_order import is_event_time, is_merge_key
from streammine.model.suggestions import did_you_mean
from streammine.model.topology.live_sources import AnyLiveSource, LiveSource
from streammine.model.topology.replay_source import ReplaySource
from streammine.model.topology.sources import (
    BUILT_IN_GENERATORS,
    FileFormat,
    FilesSource,
    GeneratorSource,
    LogSource,
)
from streammine.operators.generators import BUILT_IN, Generator
from streammine.runtime.sources.compression import (
    LONGEST_START_BYTES,
    compression_of,
    has_compression_suffix,
)
from streammine.runtime.sources.files import OpenFile, absolute, expand
from streammine.runtime.sources.live import refuse_impossible
from streammine.runtime.sources.log import read_manifest
from streammine.runtime.sources.parquet import open_parquet, plain_type
from streammine.runtime.sources.static import reading_epochs

AnySource = FilesSource | GeneratorSource | LogSource | AnyLiveSource | ReplaySource


def schema_text(schema: pa.Schema) -> str:
    """A schema as ResolvedSource carries it: its IPC message in hex."""
    text: str = schema.serialize().to_pybytes().hex()
    return text


def schema_of(resolved: ResolvedSource) -> pa.Schema:
    """The visible columns of a resolved source."""
    return pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(resolved.schema)))


def resolve_source(
    name: str, settings: AnySource, epoch: EpochDefinition, base: str
) -> ResolvedSource:
    """What the source is, found from the folder `base`; opens its files, reads none of their rows.

    A source of files that is to be prepared stays of kind "files" until `prepared_source` is given
    its log. Raises TopologyError when columns or types do not fit the topology, InputError when
    files can't be found or opened, UserCodeError when a generator can't be loaded.
    """
    if isinstance(settings, LogSource):
        return _resolve_log(name, absolute(settings.log, base).rstrip("/"), epoch)
    if isinstance(settings, GeneratorSource):
        return _resolve_generator(name, settings, epoch, base)
    if isinstance(settings, LiveSource | ReplaySource):
        if isinstance(settings, LiveSource):
            refuse_impossible(name, settings, epoch)
        schema = settings.arrow_schema
        _check_columns(name, schema, epoch, None)
        return ResolvedSource(name, "live", schema_text(schema), details={"base": base})
    return _resolve_files(name, settings, reading_epochs(settings, epoch), base)


def prepared_source(
    resolved: ResolvedSource, folder: str, epoch: EpochDefinition
) -> ResolvedSource:
    """The same source, read from the epoch log that was prepared of it in `folder`."""
    return _resolve_log(resolved.name, folder, epoch, resolved.files)


def raw_format(settings: FilesSource) -> RawFormat:
    """How the source's text, CSV or JSON files are written."""
    kind = settings.resolved_format
    assert kind is not None
    assert kind != "parquet"
    csv = settings.csv_settings
    return RawFormat(
        kind, csv.delimiter or ",", csv.header, tuple(csv.columns or ()), csv.quote, csv.null_values
    )


def format_settings(settings: FilesSource) -> FormatSettings:
    """The same for a preparation request, Parquet included."""
    kind = settings.resolved_format
    assert kind is not None
    csv = settings.csv_settings
    return FormatSettings(
        kind=kind,
        delimiter=csv.delimiter or ",",
        header=csv.header,
        columns=tuple(csv.columns or ()),
        quote=csv.quote,
        null_values=csv.null_values,
    )


def make_generator(settings: GeneratorSource, base: str) -> Generator:
    """The source's generator. Raises TopologyError for settings (`with`) that it does not take."""
    kind: Any = BUILT_IN.get(settings.generator)
    if kind is None:
        kind = load_object(settings.generator, base)
    try:
        generator: Any = kind(**settings.with_)
    except (TypeError, ValueError) as error:
        raise TopologyError(f"generator '{settings.generator}': {error}") from error
    if not isinstance(generator, Generator) or not isinstance(generator.schema, pa.Schema):
        raise TopologyError(
            f"generator '{settings.generator}' must have `schema` (a pyarrow Schema) and "
            "`rows(first, count, seed)`"
        )
    made: Generator = generator
    return made


def _resolve_log(
    name: str, folder: str, epoch: EpochDefinition, files: tuple[str, ...] = ()
) -> ResolvedSource:
    manifest = read_manifest(folder)
    if manifest.epoch.definition != epoch:
        raise TopologyError(
            f"source '{name}': the epoch log {folder} was prepared for epochs of "
            f"{epoch_text(manifest.epoch.definition)}, the topology has {epoch_text(epoch)}; "
            "prepare it anew or change the topology's epoch"
        )
    _check_columns(name, manifest.schema, epoch, None)
    return ResolvedSource(
        name,
        "log",
        schema_text(manifest.schema),
        files or _log_files(manifest),
        manifest.rows_read,
        len(manifest.partitions) > 1,
        folder,
    )


def _log_files(manifest: Manifest) -> tuple[str, ...]:
    return tuple(file.path for file in manifest.files)


def _resolve_generator(
    name: str, settings: GeneratorSource, epoch: EpochDefinition, base: str
) -> ResolvedSource:
    generator = make_generator(settings, base)
    _check_columns(name, generator.schema, epoch, None)
    built_in = settings.generator in BUILT_IN_GENERATORS
    return ResolvedSource(
        name,
        "generator",
        schema_text(generator.schema),
        rows=settings.rows,
        # Whether a user's generator ever goes back in time is known only to one who sees all rows.
        parallel=built_in or epoch.kind == "count",
        details={"base": base},
    )


def _resolve_files(
    name: str, settings: FilesSource, epoch: EpochDefinition, base: str
) -> ResolvedSource:
    kind = settings.resolved_format
    if kind is None:
        raise TopologyError(
            f"source '{name}': the names of its files don't tell one format; "
            "write format: text, csv, json or parquet"
        )
    files = expand(settings.files, base)
    schema = settings.arrow_schema
    rows = None
    if kind == "parquet":
        schema, rows = _look_at_parquet(name, files, schema)
    elif schema is None:
        raise TopologyError(
            f"source '{name}': {kind} needs a schema, like schema: {{ts: int64, value: float64}}"
        )
    _check_columns(name, schema, epoch, settings.merge_by)
    if kind != "parquet":
        _look_at_text(settings, files, schema)
    return ResolvedSource(
        name, "files", schema_text(schema), files, rows, _is_parallel(kind, settings, epoch, files)
    )


def _is_parallel(
    kind: FileFormat, settings: FilesSource, epoch: EpochDefinition, files: Sequence[str]
) -> bool:
    if kind == "parquet":
        return epoch.kind == "time" or settings.merge_by is None
    return epoch.kind == "time" and len(files) > 1


def _look_at_text(settings: FilesSource, files: Sequence[str], schema: pa.Schema) -> None:
    written = raw_format(settings)
    empty = 0
    for path in files:
        if not has_compression_suffix(path):
            _refuse_compressed(path)
        if written.kind != "csv":
            continue
        file = OpenFile(path)
        try:
            header = csv_header(file, written, path)
        finally:
            file.close()
        empty += not header
        if header:
            _check_header(path, header, schema)
    if empty == len(files):
        raise InputError(f"{files[0]}: empty, expected a line with the names of its columns")


def _refuse_compressed(path: str) -> None:
    file = OpenFile(path)
    try:
        start = next(chunks(file, LONGEST_START_BYTES, path, lambda: 0), b"")
    finally:
        file.close()
    if (found := compression_of(start)) is not None:
        suffix, program = found
        raise InputError(
            f"{path}: is compressed by {program}, which its name must tell: let it end in {suffix}"
        )


def _check_header(path: str, header: tuple[str, ...], schema: pa.Schema) -> None:
    for column in schema.names:
        if column not in header:
            json = header and header[0].lstrip().startswith("{")
            hint = "; its first line looks like JSON: is `format: json` meant?" if json else ""
            raise TopologyError(
                f"{path}: has no column '{column}'{did_you_mean(column, header)}; "
                f"its columns are {', '.join(header)}{hint}"
            )


def _look_at_parquet(
    name: str, files: Sequence[str], declared: pa.Schema | None
) -> tuple[pa.Schema, int]:
    """(the source's columns, its rows); every file must have the columns, in types that fit."""
    schema = declared
    rows = 0
    for path in files:
        with open_parquet(path) as parquet:
            rows += parquet.metadata.num_rows
            found = parquet.schema_arrow
        if schema is None:
            schema = pa.schema([pa.field(field.name, plain_type(field.type)) for field in found])
        _check_header(path, tuple(found.names), schema)
        for field in schema:
            stored = found.field(field.name).type
            try:
                pc.cast(pa.array([], type=stored), field.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                raise TopologyError(
                    f"source '{name}': column '{field.name}' of {path} has type {stored}, "
                    f"which can't be read as {field.type}"
                ) from None
    assert schema is not None, "a glob without files is refused"
    return schema, rows


def _check_columns(
    name: str, schema: pa.Schema, epoch: EpochDefinition, merge_by: str | None
) -> None:
    names = schema.names
    for column in names:
        if column.startswith(HIDDEN_PREFIX):
            raise TopologyError(
                f"source '{name}': column '{column}' starts with {HIDDEN_PREFIX}, "
                "which is kept for the engine; rename it"
            )
        if names.count(column) > 1:
            raise TopologyError(f"source '{name}': more than one column is named '{column}'")
    uses = [(epoch.column, "the epoch's time", is_event_time), (merge_by, "merge_by", is_merge_key)]
    for used, role, fits in uses:
        if used is None:
            continue
        if used not in names:
            raise TopologyError(
                f"source '{name}': has no column '{used}', which is {role}"
                f"{did_you_mean(used, names)}; its columns are {', '.join(names)}"
            )
        kind = schema.field(used).type
        if not fits(kind):
            raise TopologyError(
                f"source '{name}': column '{used}', which is {role}, has type {kind}; "
                "it must be an integer, a timestamp or a date"
            )
