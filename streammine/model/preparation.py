"""What `prepare` is asked for and what it answers: the words between the launcher and the Spark
job.

The job runs in a process of its own (`python -m streammine.pipeline.prepare REQUEST.json`), because
only `pipeline` may load PySpark; request and report travel as JSON.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from streammine.model.epoch_log import LAYOUT_VERSION, EpochSettings
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import TopologyError
from streammine.model.locations import without_options

PREPARE_VERSION = 1
"""Grows when the same input and settings would give another log; logs of before are not reused."""

MOST_PARTITIONS = 512
"""A task of `prepare` holds a file open for each partition."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RawFile(_Part):
    """A file to read: path or URL, bytes, and when it was changed (nanoseconds of the Unix
    epoch)."""

    path: str
    size_bytes: int = Field(ge=0)
    modified_nanoseconds: int


class FormatSettings(_Part):
    """How the files are written. All but `kind` matter for csv only."""

    kind: Literal["text", "csv", "json", "parquet"]
    delimiter: str = ","
    header: bool = True
    columns: tuple[str, ...] = ()
    quote: str | None = '"'
    null_values: tuple[str, ...] = ("",)


class PrepareRequest(_Part):
    """All that `prepare` needs to make an epoch log.

    `columns` are the source's visible ones, an Arrow IPC schema message in hex. `merge_by`
    interleaves the files by that column, ties by position, instead of concatenating them; it
    matters for count epochs, whose rows it numbers. `sort` orders the rows of a time epoch by time,
    then position (false: by position alone). `output` is a folder or URL that the driver and all
    tasks can write to.
    """

    files: tuple[RawFile, ...]
    format: FormatSettings
    columns: str
    epoch: EpochSettings
    merge_by: str | None = None
    partitions: int = Field(default=8, ge=1, le=MOST_PARTITIONS)
    sort: bool = True
    output: str = ""
    master: str = "local[*]"

    @property
    def schema(self) -> pa.Schema:
        """Visible columns of the source."""
        return pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(self.columns)))

    @property
    def fingerprint(self) -> str:
        """sha256 (hex) over the input's names, sizes and times and over all settings that shape the
        log.

        The order in which the files were listed, the master and the output folder do not.
        """
        content = self.model_dump(mode="json", exclude={"files", "output", "master"})
        content["files"] = [file.model_dump(mode="json") for file in self.ordered_files]
        content["versions"] = [LAYOUT_VERSION, PREPARE_VERSION]
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def ordered_files(self) -> tuple[RawFile, ...]:
        """The files in path order."""
        return tuple(sorted(self.files, key=lambda file: without_options(file.path)))


class PrepareReport(_Part):
    """What `prepare` did; the last line of its standard output."""

    log: str
    rows_read: int
    rows_used: int
    rows_dead: int
    epochs: int
    partitions: int
    bytes: int
    seconds: float
    digest: str


def request_for(
    files: Iterable[RawFile],
    format: FormatSettings,
    schema: pa.Schema,
    epoch: EpochDefinition,
    *,
    merge_by: str | None = None,
    partitions: int = 8,
    sort: bool = True,
    master: str = "local[*]",
) -> PrepareRequest:
    """The request for a source's log; the launcher fills in the output folder.

    Raises TopologyError for too many partitions.
    """
    if partitions > MOST_PARTITIONS:
        raise TopologyError(
            f"an epoch log can't have {partitions:,} partitions; it has at most {MOST_PARTITIONS}"
        )
    return PrepareRequest(
        files=tuple(files),
        format=format,
        columns=schema.serialize().to_pybytes().hex(),
        epoch=EpochSettings.of(epoch),
        merge_by=merge_by,
        partitions=partitions,
        sort=sort,
        master=master,
    )
