"""One text, CSV or JSON file as a stream of runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from streammine.model.epochs import EpochDefinition
from streammine.model.formats import ByteStream, ParsedBlock, RawFormat, parse
from streammine.runtime.sources.files import OpenFile
from streammine.runtime.sources.runs import RowRun
from streammine.runtime.sources.usable import FileClock, UsableRows

BLOCK_BYTES = 4 * 2**20
_FIRST_BLOCK_BYTES = 2**16


class _GentleStart:
    """Gives little on the first read: with many files open, most are only looked at for long."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._limit_bytes = _FIRST_BLOCK_BYTES

    def read(self, size: int, /) -> bytes:
        data = self._stream.read(min(size, self._limit_bytes))
        self._limit_bytes = BLOCK_BYTES
        return data


class ParsedFile:
    """File number `file` of a source, read in order. The row numbers of its runs are those in the
    file.

    `columns` (None: all) are the runs' columns. It is opened at the first read.
    """

    def __init__(
        self,
        path: str,
        file: int,
        raw_format: RawFormat,
        schema: pa.Schema,
        columns: Sequence[str] | None,
        definition: EpochDefinition,
        lateness_microseconds: int = 0,
        merge_by: str | None = None,
    ) -> None:
        self._path = path
        self.file = file
        self._raw_format = raw_format
        self._schema = schema
        self._columns = columns
        self._definition = definition
        self.clock = (
            FileClock(definition, lateness_microseconds) if definition.kind == "time" else None
        )
        self._usable = UsableRows(path, self.clock, merge_by)
        self._file: OpenFile | None = None
        self._blocks: Iterator[ParsedBlock] | None = None
        self.rows_read = 0

    def next_run(self) -> RowRun | None:
        """The next block's rows; None, and the file is closed, when all was read."""
        if self._blocks is None:
            self._file = OpenFile(self._path)
            self._blocks = parse(
                _GentleStart(self._file),
                self._raw_format,
                self._schema,
                self._columns,
                self._path,
                BLOCK_BYTES,
            )
        block = next(self._blocks, None)
        if block is None:
            self.close()
            return None
        first = self.rows_read
        self.rows_read += block.raw_rows
        batch, rows, times, dead = self._usable.sort_out(
            block.batch, first, None if block.dead is None else block.rows, block.dead
        )
        bound = self._definition.lowest_open(self.rows_read)
        return RowRun(
            batch,
            bound if self.clock is None else self.clock.open_epoch,
            dead,
            self.file,
            first,
            first,
            rows=rows,
            numbers=rows,
            times=times,
        )

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
