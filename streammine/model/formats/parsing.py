"""The entry: which parser a format has, and the numbering of its rows."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.model.contracts import DeadRows
from streammine.model.errors import InputError
from streammine.model.formats import blocks
from streammine.model.formats.blanks import single_blanks
from streammine.model.formats.delimited import CsvReader
from streammine.model.formats.jsonlines import JsonReader
from streammine.model.formats.records import record_blocks
from streammine.model.formats.rejection import Rejections
from streammine.model.formats.text import TEXT_SCHEMA, parse_lines

FormatKind = Literal["text", "csv", "json"]
DEFAULT_BLOCK_BYTES = 4 * 2**20


@dataclass(frozen=True)
class RawFormat:
    """How a raw file is written. All but `kind` is about CSV.

    `columns` names the file's columns where it has no `header`; with a header the header names
    them. `delimiter` and `quote` are one ASCII character each; `quote` None means that no value is
    quoted. Unquoted values among `null_values` are null. With a blank as delimiter, a run of blanks
    is one, and those at a record\'s start and end are none.
    """

    kind: FormatKind
    delimiter: str = ","
    header: bool = True
    columns: tuple[str, ...] = ()
    quote: str | None = '"'
    null_values: tuple[str, ...] = ("",)

    def __post_init__(self) -> None:
        for mark in (self.delimiter, self.quote):
            assert mark is None or (len(mark) == 1 and mark.isascii() and mark not in "\r\n")
        assert self.delimiter != self.quote


@dataclass(frozen=True)
class ParsedBlock:
    """The rows of a block: the good ones in file order, and what became of the others.

    `rows` (int64) are the good rows' numbers in the file. `raw_rows` counts good and dead ones, so
    `raw_rows == batch.num_rows + len(dead)`, and a block's numbers follow on those of the one
    before.
    """

    batch: pa.RecordBatch
    rows: npt.NDArray[np.int64]
    raw_rows: int
    dead: DeadRows | None


def parse(
    stream: blocks.ByteStream,
    raw_format: RawFormat,
    schema: pa.Schema,
    columns: Sequence[str] | None,
    file: str,
    block_bytes: int = DEFAULT_BLOCK_BYTES,
) -> Iterator[ParsedBlock]:
    """The rows of one (decompressed) file, block by block.

    `schema` is the rows' columns and types; a null where a field is not nullable makes its row
    dead. All of them are checked; `columns` selects which are handed out (None: all, in the
    schema's order). `file` names the file in errors and dead rows. Memory is bounded by
    `block_bytes` and RECORD_LIMIT_BYTES. A file of nothing has no rows, also where a header is
    expected. Raises InputError when the stream can't be read on or a CSV header lacks a column of the
    schema.
    """
    rejections = Rejections(file)
    rows_read = 0
    pieces = blocks.chunks(stream, block_bytes, file, lambda: rows_read)
    if raw_format.kind == "csv":
        header, pieces = _header(pieces, raw_format, file)
        if not header:
            return
        reader = _csv_reader(header, raw_format, schema, file)
        parsed = _parse_csv(pieces, reader, rejections)
    elif raw_format.kind == "json":
        parsed = _parse_lines(pieces, JsonReader(schema).parse_lines, rejections)
    else:
        assert schema.names == TEXT_SCHEMA.names, "a text file has the one column `line`"
        parsed = _parse_lines(pieces, parse_lines, rejections)
    for batch, rows, raw_rows in parsed:
        rows_read += raw_rows
        if columns is not None:
            batch = batch.select(list(columns))
        yield ParsedBlock(batch, rows, raw_rows, rejections.dead())


def csv_header(stream: blocks.ByteStream, raw_format: RawFormat, file: str) -> tuple[str, ...]:
    """The column names of a CSV file; none of a file that is empty. Raises InputError for a header that
    can't be used."""
    pieces = blocks.chunks(stream, 2**16, file, lambda: 0)
    return _header(pieces, raw_format, file)[0]


_Parsed = tuple[pa.RecordBatch, npt.NDArray[np.int64], int]
_LineParser = Callable[[bytes, int, Rejections], _Parsed]


def _parse_lines(
    pieces: Iterator[bytes], parse_block: _LineParser, rejections: Rejections
) -> Iterator[_Parsed]:
    first_row = 0
    for block in blocks.line_blocks(pieces):
        batch, rows, raw_rows = parse_block(block, first_row, rejections)
        first_row += raw_rows
        yield batch, rows, raw_rows


def _parse_csv(
    pieces: Iterator[bytes], reader: CsvReader, rejections: Rejections
) -> Iterator[_Parsed]:
    first_row = 0
    for block in record_blocks(pieces, reader.delimiter, reader.quote):
        if block.refused is None:
            batch, rows, raw_rows = reader.parse_records(block.data, first_row, rejections)
        else:
            rejections.add(first_row, block.refused, block.data)
            batch = pa.RecordBatch.from_pylist([], schema=reader.schema)
            rows, raw_rows = np.empty(0, np.int64), 1
        first_row += raw_rows
        yield batch, rows, raw_rows


def _header(
    pieces: Iterator[bytes], raw_format: RawFormat, file: str
) -> tuple[tuple[str, ...], Iterator[bytes]]:
    """(column names, the bytes behind the header); no names: the file is empty."""
    if not raw_format.header:
        assert raw_format.columns, "columns of a CSV file without header must be named"
        return raw_format.columns, pieces
    data = b""
    for piece in pieces:
        data += piece
        line, line_feed, behind = data.lstrip(b"\r\n").partition(b"\n")
        if line_feed or len(line) > blocks.RECORD_LIMIT_BYTES:
            return _names(line, raw_format, file), chain([behind] if behind else [], pieces)
    line = data.strip(b"\r\n")
    return _names(line, raw_format, file) if line else (), iter(())


def _names(line: bytes, raw_format: RawFormat, file: str) -> tuple[str, ...]:
    if len(line) > blocks.RECORD_LIMIT_BYTES:
        raise InputError(f"{file}: first line is longer than {blocks.RECORD_LIMIT_BYTES:,} bytes")
    line = line.rstrip(b"\r")
    if raw_format.delimiter == " ":
        line = single_blanks(line, raw_format.quote)
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: the line with the names of the columns is not UTF-8") from error
    settings: dict[str, Any] = {"delimiter": raw_format.delimiter}
    if raw_format.quote is None:
        settings["quoting"] = csv.QUOTE_NONE
    else:
        settings["quotechar"] = raw_format.quote
    names = next(csv.reader([text], **settings))
    return tuple(name.strip() for name in names)


def _csv_reader(
    header: tuple[str, ...], raw_format: RawFormat, schema: pa.Schema, file: str
) -> CsvReader:
    missing = [name for name in schema.names if name not in header]
    if missing:
        raise InputError(
            f"{file}: no column {', '.join(missing)}; its columns are {', '.join(header)}"
        )
    doubled = [name for name in schema.names if header.count(name) > 1]
    if doubled:
        raise InputError(f"{file}: more than one column is named {', '.join(doubled)}")
    # Names that the schema does not use may be doubled or empty; Arrow is given distinct ones.
    distinct = tuple(
        name if name in schema.names else f"{name}#{place}" for place, name in enumerate(header)
    )
    return CsvReader(
        distinct, schema, raw_format.delimiter, raw_format.quote, raw_format.null_values
    )
