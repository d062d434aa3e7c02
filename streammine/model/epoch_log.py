"""The layout of an epoch log: raw input, typed, split into epochs and partitions, ready to be read.

A log is a folder::

    manifest.json                           what the log holds; written last
    epochs.arrow                            rows per epoch and partition
    dead-letters.jsonl                      the rows that could not be used, by epoch and position
    partition-00000/segment-000000.arrow    Arrow IPC files, uncompressed, to be memory-mapped
    partition-00000/segment-000001.arrow
    partition-00001/segment-000000.arrow

The rows of a source have one total order (`Manifest.order` says which), in which epochs ascend.
Each epoch is cut into as many runs of equal length as there are partitions, and run p belongs to
partition p. So the segments of a partition, read one after the other in the manifest's order, give
its rows in order, and reading all partitions side by side keeps them in step. Record batches end
where a run ends; the epoch of a batch stands in the custom metadata of its message, so that nothing
is decoded to find it. Columns are the source's, then `__file` (int32) and `__row` (int64), which
together are the row's position. Where files are interleaved by a column (order "merge"), a row's position
is its number in that order, in file 0; dead letters tell the raw file and row always.

A dead letter's epoch follows from its place: where epochs count rows, from its number in the order; where
they go by time, it is the epoch that its file had reached (the latest usable time up to it, or the first
one of the file where none was reached yet; 0 in a file without any).

This module opens no files: readers hand it buffers (memory-mapped ones cost no reading).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, ValidationError

from streammine.model.epochs import EpochDefinition
from streammine.model.errors import InputError
from streammine.model.ids import FILE_COLUMN, ROW_COLUMN
from streammine.model.locations import below

LAYOUT_VERSION = 2
MANIFEST_NAME = "manifest.json"
EPOCHS_NAME = "epochs.arrow"
DEAD_LETTERS_NAME = "dead-letters.jsonl"
STAGING_PREFIX = ".staging-"
"""Folders of a log whose names start so belong to a `prepare` that runs or died; readers ignore
them."""

BATCH_ROWS = 65_536
"""Most rows of a record batch of a segment."""

_EPOCH_KEY = b"epoch"

IntArray = npt.NDArray[np.int64]


def segment_name(partition: int, number: int) -> str:
    """Path of a partition's `number`-th segment inside the log."""
    return f"partition-{partition:05d}/segment-{number:06d}.arrow"


def log_schema(columns: pa.Schema) -> pa.Schema:
    """Schema of a segment's batches: the source's columns, then the position."""
    position = [pa.field(FILE_COLUMN, pa.int32(), nullable=False)]
    position.append(pa.field(ROW_COLUMN, pa.int64(), nullable=False))
    return pa.schema([*columns, *position])


def epochs_schema(partitions: int) -> pa.Schema:
    """Schema of `epochs.arrow`: one row per epoch, ascending, with its usable rows per
    partition."""
    counts = pa.list_(pa.field("rows", pa.int64(), nullable=False), partitions)
    epoch = pa.field("epoch", pa.int64(), nullable=False)
    return pa.schema([epoch, pa.field("rows", counts, nullable=False)])


def epoch_metadata(epoch: int) -> dict[bytes, bytes]:
    """Custom metadata of a batch of that epoch."""
    return {_EPOCH_KEY: str(epoch).encode()}


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class EpochSettings(_Part):
    """An EpochDefinition as it is written."""

    kind: Literal["count", "time"]
    length: int
    column: str | None = None
    unit: str = "s"

    @classmethod
    def of(cls, definition: EpochDefinition) -> EpochSettings:
        return cls(
            kind=definition.kind,
            length=definition.length,
            column=definition.column,
            unit=definition.unit,
        )

    @property
    def definition(self) -> EpochDefinition:
        return EpochDefinition(self.kind, self.length, self.column, self.unit)


class Segment(_Part):
    """One file of a partition. `first_epoch` and `last_epoch` are those of its first and last
    batch.

    `digest` is the xxh3 (128 bits, hex) of the file's bytes.
    """

    name: str
    rows: int
    bytes: int
    batches: int
    first_epoch: int
    last_epoch: int
    digest: str


class Partition(_Part):
    """A share of the log; `segments` stand in the order in which they are to be read."""

    rows: int
    segments: tuple[Segment, ...]


class InputFile(_Part):
    """A raw file; its place in the manifest's list is the `__file` of its rows."""

    path: str
    rows: int


class Manifest(_Part):
    """What an epoch log holds.

    `source_schema`: the visible columns, an Arrow IPC schema message in hex. `order`: how the rows
    were ordered before they were cut into epochs and partitions: "position", "merge" (files
    interleaved by a column, ties by position) or "time" (event time, ties by position). `rows_read`
    = `rows_used` + `rows_dead`, over all files. `digest`: sha256 over everything that the log
    holds, but not over `fingerprint`, which says what the log was made of and is how an unchanged
    input is known again.
    """

    version: int = LAYOUT_VERSION
    source_schema: str
    epoch: EpochSettings
    order: Literal["position", "merge", "time"]
    rows_read: int
    rows_used: int
    rows_dead: int
    epochs: int
    first_epoch: int | None
    last_epoch: int | None
    files: tuple[InputFile, ...]
    partitions: tuple[Partition, ...]
    epochs_digest: str
    dead_letters_digest: str
    fingerprint: str
    digest: str = ""

    @property
    def schema(self) -> pa.Schema:
        """Visible columns."""
        return pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(self.source_schema)))

    def sealed(self) -> Manifest:
        """The same manifest with its digest filled in."""
        return self.model_copy(update={"digest": self.content_digest()})

    def content_digest(self) -> str:
        """sha256 (hex) over the manifest without `fingerprint` and `digest`."""
        content = self.model_dump(mode="json", exclude={"fingerprint", "digest"})
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def encode(self) -> bytes:
        return (json.dumps(self.model_dump(mode="json"), indent=1) + "\n").encode()

    @classmethod
    def decode(cls, data: bytes, folder: str) -> Manifest:
        """Read `manifest.json` of the log at `folder`. Raises InputError when it is damaged or
        foreign."""
        where = below(folder, MANIFEST_NAME)
        try:
            content = json.loads(data)
            version = content["version"]
        except (ValueError, KeyError, TypeError):
            raise InputError(
                f"{where} is not the manifest of an epoch log; prepare it anew"
            ) from None
        if version != LAYOUT_VERSION:
            raise InputError(
                f"{where} has layout version {version}; this release reads {LAYOUT_VERSION}:"
                " prepare the log anew"
            )
        try:
            manifest = cls.model_validate_json(data)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            raise InputError(f"{where} is damaged: {field}: {first['msg']}") from None
        if manifest.content_digest() != manifest.digest:
            raise InputError(
                f"{where} is damaged: its digest does not fit it; prepare the log anew"
            )
        return manifest


class SegmentReader:
    """The batches of one segment, given its bytes (memory-mapped: nothing is read before it is
    used).

    `columns` names the visible columns that are wanted (None: all) and `positions` whether `__file`
    and `__row` are. Raises InputError, naming the segment, when the bytes are no Arrow file.
    """

    def __init__(
        self,
        data: pa.Buffer,
        name: str,
        columns: Sequence[str] | None = None,
        positions: bool = True,
    ) -> None:
        self._name = name
        try:
            # Arrow would copy what it reads if it were told which columns are wanted; all of them
            # are views on the bytes, and selecting from those costs nothing.
            self._reader = pa.ipc.open_file(pa.BufferReader(data))
        except (pa.ArrowInvalid, OSError) as error:
            raise InputError(f"segment {name} of an epoch log is damaged: {error}") from None
        self._columns = _wanted(self._reader.schema, columns, positions)

    @property
    def batches(self) -> int:
        """Number of record batches."""
        return int(self._reader.num_record_batches)

    def read(self, index: int) -> tuple[int, pa.RecordBatch]:
        """(epoch, batch) of batch `index`; the batch is a view on the segment's bytes."""
        try:
            found = self._reader.get_batch_with_custom_metadata(index)
            return int(found.custom_metadata[_EPOCH_KEY]), found.batch.select(self._columns)
        except (pa.ArrowInvalid, OSError, KeyError, ValueError, TypeError) as error:
            raise InputError(
                f"batch {index} of segment {self._name} of an epoch log is damaged: {error}"
            ) from None


def _wanted(schema: pa.Schema, columns: Sequence[str] | None, positions: bool) -> list[int]:
    """Indices of the wanted columns, in the segment's order."""
    hidden = (FILE_COLUMN, ROW_COLUMN)
    return [
        index
        for index, name in enumerate(schema.names)
        if (positions if name in hidden else columns is None or name in columns)
    ]
