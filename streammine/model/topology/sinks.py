"""Sinks: where results go, and in which portions they are committed."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import pyarrow as pa
from pydantic import Field, model_validator

from streammine.model.errors import TopologyError
from streammine.model.topology.parts import (
    NO_BOOLEAN,
    Column,
    Columns,
    Part,
    Replicas,
    SchemeField,
    Slices,
    StreamName,
    StrictBoolean,
    Text,
)
from streammine.model.topology.problems import wrong_value


class Commit(Part):
    """How often output becomes final."""

    label: ClassVar[str] = "commit"

    every: Annotated[int, Field(ge=1, le=1_000_000), NO_BOOLEAN] = Field(
        default=1, description="Epochs that are committed together.", examples=[10]
    )


class Sink(Part):
    """One result: a folder of files that are committed by epochs, or a table on the console."""

    label: ClassVar[str] = "a sink"
    elsewhere: ClassVar[dict[str, str]] = {
        "inputs": "it has one input; write input: NAME, or several sinks",
        "key": "keys belong to operators",
        **dict.fromkeys(
            ("to", "file", "files", "folder", "output"),
            "where its rows are written is its path; write path: FOLDER",
        ),
    }

    input: StreamName = Field(
        description="Name of the source or operator whose rows are written.", examples=["counts"]
    )
    format: Literal["parquet", "csv", "json", "console"] = Field(
        description="parquet, csv, json (one object per line), or console: a table of the last "
        "rows for people."
    )
    path: Text | None = Field(
        default=None,
        description="Folder, relative to the topology's folder, or URL. Needed but for console.",
        examples=["out/wordcount", "s3://bucket/counts"],
    )
    commit: Commit = Field(
        default_factory=Commit,
        description="How many epochs are committed together.",
        examples=[{"every": 10}],
    )
    ordered: StrictBoolean = Field(
        default=False,
        description="Whether the order of the rows inside an epoch is part of the result.",
    )
    volatile: Columns = Field(
        default=(),
        description="Columns that differ from run to run (a measured delay) and stay out of the "
        "output's digest.",
        examples=[["delay_ms"]],
    )
    delay: Column | None = Field(
        default=None,
        description="Name of a float64 column that is added behind the others: milliseconds from when the "
        "oldest row of the epoch was read by a source (of one with a pace: was due) until the sink got the "
        "row. It is volatile.",
        examples=["delay"],
    )
    slices: Slices | None = Field(
        default=None, description="Number of slices that write. Default: those of its input."
    )
    replicas: Replicas | None = Field(
        default=None,
        description="Identical copies of each slice and of the committer, on different nodes. Each "
        "copy writes files of its own, and those of one of them count. Default: that of the "
        "topology.",
        examples=[2],
    )
    scheme: SchemeField | None = Field(
        default=None,
        description="How ready a second replica of each slice stands, from passive-replication (not at "
        "all) to active-replication. Default: that of the topology.",
        examples=["active-standby"],
    )
    exactly_once: StrictBoolean = Field(
        default=True,
        description="Whether the output has every result exactly once whatever crashes. false is "
        "needed downstream of discipline: none, and of merge behind an either.",
    )

    @property
    def all_volatile(self) -> tuple[str, ...]:
        """The columns that stay out of the output's digest."""
        return self.volatile if self.delay is None else (*self.volatile, self.delay)

    def columns(self, name: str, schema: pa.Schema) -> pa.Schema:
        """What it writes of rows with this schema. Raises TopologyError."""
        if self.delay is None:
            return schema
        if self.delay in schema.names:
            raise TopologyError(
                f"sink {name!r}: delay: its input has a column {self.delay!r} already; use another name"
            )
        return schema.append(pa.field(self.delay, pa.float64()))

    @model_validator(mode="after")
    def _has_a_place(self) -> Sink:
        if self.format == "console" and self.path is not None:
            raise wrong_value("a console sink has no path; take it out, or write a format of files")
        if self.format != "console" and self.path is None:
            raise wrong_value(f"a {self.format} sink needs a path, like path: out/result")
        return self
