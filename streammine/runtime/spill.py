"""Batches that outgrow memory wait in unnamed files (see `model.contracts.BatchSpill`)."""

from __future__ import annotations

import os
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyarrow as pa

from streammine.model.errors import OutputError

SEGMENT_BYTES = 64 << 20
"""A file is given back to the disk when all of its batches are forgotten, so files are kept short."""


class _Segment:
    """A file that is written once, from its beginning; `live` batches of it are still wanted."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.end = 0
        self.live = 0


@dataclass(frozen=True)
class _Place:
    segment: _Segment
    offset: int
    size: int
    schema: pa.Schema


class FileSpill:
    """Batches in unnamed files in `folder`; each file is gone when nobody wants a batch of it any more."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # a batch can be forgotten by the collector in the middle of any call
        self._guard = threading.RLock()
        self._segment: _Segment | None = None
        self._next_ticket = 0
        self._places: dict[int, _Place] = {}

    def put(self, batch: pa.RecordBatch) -> int:
        data = batch.serialize()
        with self._guard:
            try:
                segment = self._open_segment()
                # a full disk must show here, not when something else is read back
                self._write(segment, data)
            except OSError as error:
                raise OutputError(
                    f"cannot keep waiting events in {self._folder}: {error.strerror}; free some "
                    "space there, or give the job smaller epochs"
                ) from None
            ticket = self._next_ticket
            self._next_ticket += 1
            self._places[ticket] = _Place(segment, segment.end, data.size, batch.schema)
            segment.end += data.size
            segment.live += 1
            return ticket

    def _open_segment(self) -> _Segment:
        segment = self._segment
        if segment is not None and segment.live == 0:
            segment.end = 0
        if segment is None or segment.end >= SEGMENT_BYTES:
            self._folder.mkdir(parents=True, exist_ok=True)
            # unnamed, so that nothing is left whatever happens to this process
            file = tempfile.TemporaryFile(  # noqa: SIM115 - closed with its last batch
                dir=self._folder, prefix="spill-", buffering=0
            )
            segment = self._segment = _Segment(file)
        return segment

    def _write(self, segment: _Segment, data: pa.Buffer) -> None:
        rest = memoryview(data).cast("B")
        at = segment.end
        while rest:
            written = os.pwrite(segment.file.fileno(), rest, at)
            at += written
            rest = rest[written:]

    def read(self, ticket: int) -> pa.RecordBatch:
        with self._guard:
            place = self._places[ticket]
            try:
                data = os.pread(place.segment.file.fileno(), place.size, place.offset)
            except OSError as error:
                raise OutputError(
                    f"cannot read waiting events back from {self._folder}: {error.strerror}"
                ) from None
        return pa.ipc.read_record_batch(pa.py_buffer(data), place.schema)

    def free(self, ticket: int) -> None:
        with self._guard:
            segment = self._places.pop(ticket).segment
            segment.live -= 1
            if segment.live == 0 and segment is not self._segment:
                segment.file.close()

    def close(self) -> None:
        with self._guard:
            segment, self._segment = self._segment, None
            if segment is not None and segment.live == 0:
                segment.file.close()
