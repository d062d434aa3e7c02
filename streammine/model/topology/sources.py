"""Sources: files, a seeded generator, a prepared epoch log, or live clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

import pyarrow as pa
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    PlainSerializer,
    Tag,
    WithJsonSchema,
    model_validator,
)

from streammine.model.durations import Duration
from streammine.model.locations import without_options
from streammine.model.suggestions import hint, listed, nearest
from streammine.model.topology.live_sources import (
    LIVE_KINDS,
    HttpSource,
    LiveSource,
    TcpSource,
    ZeroMqSource,
)
from streammine.model.topology.parts import (
    LONGEST_TEXT,
    MOST_ENTRIES,
    NO_BOOLEAN,
    NOT_READING,
    Column,
    Columns,
    ColumnType,
    DurationField,
    Part,
    PlainSettings,
    RateField,
    Replicas,
    SchemeField,
    Slices,
    SpeedField,
    StrictBoolean,
    Text,
    Texts,
    code_path,
)
from streammine.model.topology.problems import TAG_MARK, shown, wrong_value
from streammine.model.topology.replay_source import ReplaySource
from streammine.model.types import arrow_schema

FileFormat = Literal["text", "csv", "json", "parquet"]

TEXT_SCHEMA = pa.schema([pa.field("line", pa.string())])
"""Schema of every text source: one row per line."""

BUILT_IN_GENERATORS = ("words", "readings", "keys")

_FORMAT_OF_SUFFIX: dict[str, FileFormat] = {
    ".txt": "text",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
}
_COMPRESSION_SUFFIXES = (".gz", ".zst", ".bz2")


def format_of_path(path: str) -> FileFormat | None:
    """The format that a path or glob's suffix tells, without that of a compression; else None."""
    suffix = _suffix(path)
    return _FORMAT_OF_SUFFIX.get(suffix)


def _suffix(path: str) -> str:
    name = without_options(path)[0].lower().rsplit("/", 1)[-1]
    for compression in _COMPRESSION_SUFFIXES:
        name = name.removesuffix(compression)
    return "." + name.rsplit(".", 1)[1] if "." in name else ""


class CsvSettings(Part):
    """How a CSV file is written."""

    label: ClassVar[str] = "csv"

    delimiter: str | None = Field(
        default=None,
        min_length=1,
        max_length=1,
        description="The character between two fields. Default: a comma; a tab for .tsv files.",
        examples=[";"],
    )
    header: StrictBoolean = Field(
        default=True, description="Whether each file's first line names its columns."
    )
    columns: Columns | None = Field(
        default=None,
        description="Names of the columns, for files with header: false. "
        "Default: the names in schema, in their order.",
        examples=[["ts", "plug", "value"]],
    )
    quote: str = Field(
        default='"',
        min_length=1,
        max_length=1,
        description="The character around fields that hold a delimiter or a line break.",
    )
    null_values: tuple[Annotated[str, Field(max_length=LONGEST_TEXT)], ...] = Field(
        default=("",),
        max_length=MOST_ENTRIES,
        description="Fields that mean: no value.",
        examples=[["", "NA"]],
    )


class Preparation(Part):
    """The PySpark job that turns raw files into an epoch log before the job runs."""

    label: ClassVar[str] = "prepare"

    partitions: Annotated[int, Field(ge=1, le=100_000), NO_BOOLEAN] | None = Field(
        default=None,
        description="Partitions of the epoch log. Default: the source's slices.",
        examples=[8],
    )
    master: Text | None = Field(
        default=None,
        description="Spark master to run on. Default: local, on all cores.",
        examples=["local[2]", "spark://host:7077"],
    )
    sort: StrictBoolean = Field(
        default=True,
        description="Sort rows by event time first, so that late rows find their epoch.",
    )


def _preparation(value: object) -> object:
    if value == "spark":
        return {}
    if value == "none":
        return None
    if isinstance(value, Preparation | Mapping):
        return value
    suggestion = hint(value, ["spark", "none"]) if isinstance(value, str) else "."
    raise wrong_value(
        f"{shown(value)} can't be used here{suggestion} "
        "Allowed: spark, none, or a mapping like {partitions: 8}"
    )


def _preparation_text(value: Preparation | None) -> Any:
    return "none" if value is None else value.model_dump(mode="json")


PreparationField = Annotated[
    Preparation | None,
    BeforeValidator(_preparation),
    PlainSerializer(_preparation_text),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["spark", "none"]},
                {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "partitions": {"type": "integer", "minimum": 1},
                        "master": {"type": "string"},
                        "sort": {"type": "boolean"},
                    },
                },
            ]
        }
    ),
]


class SourceBase(Part):
    """What all sources have. Neither `rate` nor `speed` has a part in what is read."""

    rate: RateField | None = Field(
        default=None,
        description="Pace of the whole source. Default: as fast as it goes.",
        examples=["50000/s", "600/min"],
    )
    speed: SpeedField | None = Field(
        default=None,
        description="Pace by event time, instead of rate: how many times as fast as the clock it runs, "
        "from the job's first event on, for all sources together. Needs time epochs. Default: as fast as "
        "it goes.",
        examples=[1, 60, 0.5],
    )
    slices: Slices = Field(
        default=2,
        description="Number of slices that read the source; it never changes the result.",
    )
    replicas: Replicas | None = Field(
        default=None,
        description="Identical copies of each slice, on different nodes, which all read the same "
        "rows. Default: that of the topology.",
        examples=[2],
    )
    scheme: SchemeField | None = Field(
        default=None,
        description="How ready a second replica of each slice stands, from passive-replication (not at "
        "all) to active-replication. Default: that of the topology.",
        examples=["active-standby"],
    )

    @property
    def is_paced(self) -> bool:
        """Its rows come in a time of their own."""
        return self.rate is not None or self.speed is not None

    @property
    def unpaced(self) -> Self:
        """The same rows as fast as they can be read."""
        return self.model_copy(update={"rate": None, "speed": None})


class FilesSource(SourceBase):
    """Rows of files, one after the other in path order, or interleaved by a column."""

    label: ClassVar[str] = "a source of files"
    elsewhere: ClassVar[dict[str, str]] = {
        **NOT_READING,
        "rows": "only a generator takes a number of rows",
        "seed": "only a generator takes a seed",
        "with": "only a generator takes settings of its own",
    }

    files: Texts = Field(
        description="One glob, path or URL, or a list of them; relative to the topology's folder. "
        "Files are read in sorted path order.",
        examples=["data/*.txt", ["2023.parquet", "2024.parquet"], "s3://bucket/readings/*.parquet"],
    )
    format: FileFormat | None = Field(
        default=None,
        description="text (one column: line), csv, json (one object per line) or parquet. "
        "Default: by suffix (.txt .csv .tsv .json .jsonl .ndjson .parquet, "
        "also with .gz, .zst or .bz2 behind).",
    )
    csv: CsvSettings | None = Field(
        default=None,
        description="How the CSV files are written.",
        examples=[{"delimiter": ";", "header": False, "columns": ["ts", "value"]}],
    )
    schema_: dict[Column, ColumnType] | None = Field(
        default=None,
        alias="schema",
        min_length=1,
        max_length=MOST_ENTRIES,
        description="Columns and their types. Required for csv and json; for parquet it selects "
        "and casts; text has always {line: string}.",
        examples=[{"ts": "timestamp[us]", "plug": "int64", "value": "float64"}],
    )
    merge_by: Column | None = Field(
        default=None,
        description="Interleave the files by this ascending column instead of reading one after "
        "the other; ties go by file and row.",
        examples=["ts"],
    )
    prepare: PreparationField = Field(
        default_factory=Preparation,
        description="spark: clean, sort and partition raw files into an epoch log first, which is "
        "reused while nothing changes. none: read clean, ordered files directly. Default: spark.",
        examples=["none", {"partitions": 8, "master": "local[2]"}],
    )
    lateness: DurationField = Field(
        default_factory=lambda: Duration(0),
        description="For time epochs and prepare: none: how far a row's time may lie behind the "
        "latest one before it in its file. Later rows become dead letters. Default: 0s.",
        examples=["5s"],
    )

    static: StrictBoolean = Field(
        default=False,
        description="A table that is there as a whole before the first row of any other source: its rows "
        "have one epoch to themselves, before all others, and need no event time. The files are read "
        "directly.",
        examples=[True],
    )

    kind: ClassVar[Literal["files"]] = "files"

    @model_validator(mode="before")
    @classmethod
    def _static_is_read_directly(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and data.get("static") is True and "prepare" not in data:
            return {**data, "prepare": "none"}
        return data

    @model_validator(mode="after")
    def _static_comes_at_once(self) -> Self:
        if not self.static:
            return self
        if self.prepare is not None:
            raise wrong_value(
                "a static source is read directly, as its rows have no epochs to be prepared for; take "
                "prepare out, or write prepare: none"
            )
        if self.is_paced:
            raise wrong_value(
                "everything waits for a static source, so it has no pace; take rate or speed out"
            )
        if self.lateness.microseconds:
            raise wrong_value("nothing is late in a static source; take lateness out")
        return self

    @property
    def resolved_format(self) -> FileFormat | None:
        """The given format or the one that all paths' suffixes agree on; None if they don't."""
        if self.format is not None:
            return self.format
        formats = {format_of_path(path) for path in self.files}
        return formats.pop() if len(formats) == 1 else None

    @property
    def arrow_schema(self) -> pa.Schema | None:
        """The declared columns; None where only the file (parquet) knows them."""
        if self.resolved_format == "text":
            return TEXT_SCHEMA
        return None if self.schema_ is None else arrow_schema(self.schema_)

    @property
    def csv_settings(self) -> CsvSettings:
        """`csv` with its defaults filled in: delimiter, and columns where there is no header."""
        settings = self.csv or CsvSettings()
        delimiter = settings.delimiter
        if delimiter is None:
            delimiter = "\t" if all(_suffix(path) == ".tsv" for path in self.files) else ","
        columns = settings.columns
        if columns is None and not settings.header and self.schema_ is not None:
            columns = tuple(self.schema_)
        return settings.model_copy(update={"delimiter": delimiter, "columns": columns})


def _generator(text: str) -> str:
    if text in BUILT_IN_GENERATORS:
        return text
    if ":" in text or "." in text:
        return code_path(text)
    suggestion = hint(text, BUILT_IN_GENERATORS)
    raise wrong_value(
        f"there is no generator '{text}'{suggestion} "
        f"Built in: {listed(BUILT_IN_GENERATORS)}; your own: module:Class"
    )


class GeneratorSource(SourceBase):
    """Rows that a seeded generator makes: the same ones in every run."""

    label: ClassVar[str] = "a generator source"
    elsewhere: ClassVar[dict[str, str]] = {
        **NOT_READING,
        **dict.fromkeys(
            ("format", "csv", "schema", "merge_by", "prepare", "lateness", "static"),
            "it belongs to a source of files",
        ),
    }

    generator: Annotated[str, AfterValidator(_generator), Field(max_length=LONGEST_TEXT)] = Field(
        description="words, readings or keys, or a class of your own as module:Class.",
        examples=["readings", "my_generators:Orders"],
    )
    rows: Annotated[int, Field(ge=1, le=10**15), NO_BOOLEAN] = Field(
        description="Number of rows to make.", examples=[1_000_000]
    )
    seed: Annotated[int, Field(ge=0, lt=2**63), NO_BOOLEAN] = Field(
        default=0, description="Another seed makes other rows."
    )
    with_: PlainSettings = Field(
        default_factory=dict,
        alias="with",
        max_length=MOST_ENTRIES,
        description="The generator's own settings.",
        examples=[{"plugs": 2000}],
    )

    kind: ClassVar[Literal["generator"]] = "generator"


class LogSource(SourceBase):
    """An epoch log that `streammine prepare` wrote."""

    label: ClassVar[str] = "a log source"
    elsewhere: ClassVar[dict[str, str]] = {
        **NOT_READING,
        **dict.fromkeys(
            ("format", "csv", "schema", "merge_by", "prepare", "lateness"),
            "an epoch log was prepared with that already",
        ),
    }

    log: Text = Field(
        description="Folder or URL of the epoch log, relative to the topology's folder.",
        examples=["logs/readings"],
    )

    kind: ClassVar[Literal["log"]] = "log"


SOURCE_KINDS = ("files", "generator", "log")

_FILES_ELSEWHERE = ("path", "paths", "folder", "directory")
"""What other systems call our files."""


def _source_tag(value: Any) -> str | None:
    if isinstance(value, Mapping):
        if "type" in value:
            return TAG_MARK + str(value["type"])
        found = [kind for kind in SOURCE_KINDS if kind in value]
        return TAG_MARK + found[0] if found else None
    return TAG_MARK + getattr(value, "kind", "")


def _one_kind_of_source(value: object) -> object:
    if isinstance(value, SourceBase | LiveSource | ReplaySource):
        return value
    if not isinstance(value, Mapping):
        raise wrong_value(f"a source is a mapping like {{files: 'data/*.txt'}}, not {shown(value)}")
    if "type" in value:
        live = str(value["type"])
        types = (*LIVE_KINDS, ReplaySource.kind)
        if live in get_args(FileFormat):
            raise wrong_value(
                f"type is that of a live source; files are read with files: PATHS, format: {live}"
            )
        if live not in types:
            raise wrong_value(
                f"there is no type '{live}' of live source{hint(live, types)} "
                f"Types: {listed(types)}"
            )
        return value
    found = [kind for kind in SOURCE_KINDS if kind in value]
    if len(found) == 1:
        return value
    if found:
        raise wrong_value(f"a source has only one of {listed(found)}; make it several sources")
    for name in value:
        right = "files" if name in _FILES_ELSEWHERE else nearest(str(name), SOURCE_KINDS)
        if right is not None:
            raise wrong_value(
                f"unknown field '{name}'; did you mean '{right}'? A source has {_choice()}"
            )
    raise wrong_value(f"this source says not where its rows come from: give it {_choice()}")


def _choice() -> str:
    return (
        "one of files (paths), generator (a name), log (a prepared epoch log's folder) "
        "or type (tcp, zeromq, http or replay: a live source)"
    )


Source = Annotated[
    Annotated[FilesSource, Tag(TAG_MARK + "files")]
    | Annotated[GeneratorSource, Tag(TAG_MARK + "generator")]
    | Annotated[LogSource, Tag(TAG_MARK + "log")]
    | Annotated[TcpSource, Tag(TAG_MARK + "tcp")]
    | Annotated[ZeroMqSource, Tag(TAG_MARK + "zeromq")]
    | Annotated[HttpSource, Tag(TAG_MARK + "http")]
    | Annotated[ReplaySource, Tag(TAG_MARK + "replay")],
    Discriminator(_source_tag),
    BeforeValidator(_one_kind_of_source),
]
