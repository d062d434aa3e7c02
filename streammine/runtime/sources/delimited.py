"""One text, CSV or JSON file as a stream of runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from streammine.model.contracts import DeadRows, IntArray, Position
from streammine.model.epochs import EpochDefinition
from streammine.model.formats import ByteStream, ParsedBlock, RawFormat, parse
from streammine.model.formats.blocks import BYTE_ORDER_MARK
from streammine.model.source_order import NO_TIME
from streammine.runtime.sources.compression import COMPRESSION_SUFFIXES
from streammine.runtime.sources.files import OpenFile
from streammine.runtime.sources.runs import RowRun
from streammine.runtime.sources.usable import (
    FileClock,
    UsableRows,
    dead_between,
    dead_numbers,
    first_usable_time,
)

BLOCK_BYTES = 4 * 2**20
_FIRST_BLOCK_BYTES = 2**16


class _GentleStart:
    """Gives little on the first read: with many files open, most are only looked at for long.

    Reads end at the same places of the file, wherever they begin: files side by side take turns by what was
    read of each, so the sequence of their rows follows from where they are cut.
    It knows where the line behind the last parsed one starts (`line_start_bytes`), since a parser of
    lines takes all whole lines of a read before it asks for more.
    """

    def __init__(self, stream: ByteStream, offset_bytes: int) -> None:
        self._stream = stream
        self._at_bytes = offset_bytes
        self.line_start_bytes = offset_bytes
        # the parser takes one such mark away at the start of what it reads, which here is not the
        # start of the file
        self._ahead = BYTE_ORDER_MARK if offset_bytes else b""

    def read(self, size: int, /) -> bytes:
        data = self._read_to(min(self._at_bytes + size, self._next_cut()))
        line_feed = data.rfind(b"\n")
        if line_feed >= 0:
            self.line_start_bytes = self._at_bytes + line_feed + 1
        elif not data:
            self.line_start_bytes = self._at_bytes
        self._at_bytes += len(data)
        if self._ahead and data:
            data, self._ahead = self._ahead + data, b""
        return data

    def _next_cut(self) -> int:
        """Where the block ends in which the next byte lies."""
        behind_first = self._at_bytes - _FIRST_BLOCK_BYTES
        blocks = 0 if behind_first < 0 else behind_first // BLOCK_BYTES + 1
        return _FIRST_BLOCK_BYTES + blocks * BLOCK_BYTES

    def _read_to(self, end_bytes: int) -> bytes:
        """All up to there, however little the stream gives at once."""
        parts = []
        wanted = end_bytes - self._at_bytes
        while wanted and (part := bytes(self._stream.read(wanted))):
            parts.append(part)
            wanted -= len(part)
        return b"".join(parts)


class ParsedFile:
    """File number `file` of a source, read in order. The row numbers of its runs are those in the
    file.

    `columns` (None: all) are the runs' columns. It is opened at the first read. Its position is a byte
    where lines are records and the file is not compressed; else rows are parsed again and skipped.
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
        self._usable = UsableRows(path, self.clock, merge_by, self._first_time)
        self._file: OpenFile | None = None
        self._stream: _GentleStart | None = None
        self._blocks: Iterator[ParsedBlock] | None = None
        self._by_lines = raw_format.kind != "csv" and not path.lower().endswith(
            COMPRESSION_SUFFIXES
        )
        self._offset_bytes = 0
        self._parsed_rows = 0
        self._first_parsed = 0
        self.rows_read = 0

    def position(self) -> Position:
        offset_bytes = self._offset_bytes
        if self._by_lines and self._stream is not None:
            offset_bytes = self._stream.line_start_bytes
        return {
            "rows": self.rows_read,
            "bytes": offset_bytes,
            "latest": None if self.clock is None else self.clock.latest,
        }

    def seek(self, position: Position) -> None:
        self.rows_read = position["rows"]
        self._offset_bytes = position["bytes"]
        if self._offset_bytes:
            self._first_parsed = self.rows_read
            self._parsed_rows = self.rows_read
        if self.clock is not None:
            self.clock.latest = position["latest"]

    def next_run(self) -> RowRun | None:
        """The next block's rows; None, and the file is closed, when all was read."""
        if self._blocks is None:
            self._file = OpenFile(self._path, self._offset_bytes)
            self._stream = _GentleStart(self._file, self._offset_bytes)
            self._blocks = self._parse(self._stream, self._columns)
        block = self._next_block(self._blocks)
        if block is None:
            self.close()
            return None
        first = self.rows_read
        batch, rows, dead = self._unread(block)
        self.rows_read = self._parsed_rows
        found = self._usable.sort_out(batch, first, rows, dead)
        bound = self._definition.lowest_open(self.rows_read)
        return RowRun(
            found.batch,
            bound if self.clock is None else self.clock.open_epoch,
            found.dead,
            self.file,
            first,
            first,
            rows=found.rows,
            numbers=found.rows,
            times=found.times,
            ascending=found.ascending,
            dead_epochs=found.dead_epochs,
        )

    def _parse(self, stream: ByteStream, columns: Sequence[str] | None) -> Iterator[ParsedBlock]:
        return parse(stream, self._raw_format, self._schema, columns, self._path, BLOCK_BYTES)

    def _next_block(self, blocks: Iterator[ParsedBlock]) -> ParsedBlock | None:
        """The next one that holds unread rows."""
        while (block := next(blocks, None)) is not None:
            self._parsed_rows += block.raw_rows
            if self._parsed_rows > self.rows_read:
                return block
        return None

    def _unread(
        self, block: ParsedBlock
    ) -> tuple[pa.RecordBatch, IntArray | None, DeadRows | None]:
        """(good rows, their numbers or None where contiguous, dead ones) from `rows_read` on."""
        skipped = self.rows_read - (self._parsed_rows - block.raw_rows)
        assert skipped >= 0
        if block.dead is None:
            return block.batch.slice(skipped) if skipped else block.batch, None, None
        rows, batch, dead = block.rows + self._first_parsed, block.batch, block.dead
        numbers = dead_numbers(dead) + self._first_parsed
        if skipped:
            good = int(np.searchsorted(rows, self.rows_read))
            rows, batch = rows[good:], batch.slice(good)
            bad = int(np.searchsorted(numbers, self.rows_read))
            numbers, dead = numbers[bad:], dead_between(dead, bad, len(dead))
        if not len(dead):
            return batch, None, None
        return batch, rows, replace(dead, numbers=tuple(numbers.tolist()))

    def _first_time(self) -> int:
        """Found by reading the file up to it, apart from what is being read."""
        column = self._definition.column
        assert column is not None
        file = OpenFile(self._path)
        try:
            for block in self._parse(file, [column]):
                time = first_usable_time(block.batch.column(0), self._definition.unit)
                if time is not None:
                    return time
        finally:
            file.close()
        return NO_TIME

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
