"""Bags that outgrow memory wait in a file of their slice's own (see `model.contracts.BatchSpill`)."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyarrow as pa

from streammine.model.errors import OutputError


@dataclass(frozen=True)
class _Place:
    offset: int
    size: int
    schema: pa.Schema


class FileSpill:
    """Batches in one unnamed file in `folder`; made with the first batch, gone with `close`.

    The file starts anew whenever every batch was taken, so it grows no larger than what waits at once.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._end = 0
        self._next_ticket = 0
        self._places: dict[int, _Place] = {}

    def put(self, batch: pa.RecordBatch) -> int:
        data = batch.serialize()
        try:
            if self._file is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                # unnamed, so that nothing is left whatever happens to this process
                self._file = tempfile.TemporaryFile(  # noqa: SIM115 - closed by `close`
                    dir=self._folder, prefix="spill-"
                )
            if not self._places:
                self._end = 0
            self._file.seek(self._end)
            self._file.write(data)
            # a full disk must show here, not when something else is read back
            self._file.flush()
        except OSError as error:
            raise OutputError(
                f"cannot keep waiting events in {self._folder}: {error.strerror}; free some space "
                "there, or give the job smaller epochs"
            ) from None
        ticket = self._next_ticket
        self._next_ticket += 1
        self._places[ticket] = _Place(self._end, data.size, batch.schema)
        self._end += data.size
        return ticket

    def take(self, ticket: int) -> pa.RecordBatch:
        place = self._places.pop(ticket)
        assert self._file is not None
        try:
            self._file.seek(place.offset)
            data = self._file.read(place.size)
        except OSError as error:
            raise OutputError(
                f"cannot read waiting events back from {self._folder}: {error.strerror}"
            ) from None
        return pa.ipc.read_record_batch(pa.py_buffer(data), place.schema)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        self._places.clear()
