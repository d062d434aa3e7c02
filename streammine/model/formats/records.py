"""Where the records of a CSV file end.

Outside quotation marks a record ends in a line feed, with or without a carriage return before it. A
quotation mark opens a quoted value only at the value's start; two of them inside stand for one;
after the closing one the value goes on unquoted. A carriage return elsewhere outside quotes makes
the record bad. A record that is longer than the limit or whose quotation mark is never closed is
given up: its first line is dead, and records are looked for again from the line after it. So one
stray mark costs a line, not the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from streammine.model.formats import blocks

BAD_CARRIAGE_RETURN = -1
"""Field count of a record with a carriage return where none may be."""


@dataclass(frozen=True)
class RecordBlock:
    """Whole records. `refused` says why the one line in it is dead; else None."""

    data: bytes
    refused: str | None = None


@dataclass(frozen=True)
class RecordIndex:
    """Records of a block: [starts, ends) with their line ends (int64), and values in each (int64).

    Blank records are left out. `rest` is where the record starts that the block does not complete
    or that is longer than the limit (then `too_long`), or the block's length.
    """

    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    fields: npt.NDArray[np.int64]
    rest: int
    too_long: bool


def index_records(data: bytes, delimiter: str, quote: str | None) -> RecordIndex:
    """The records of `data`, which starts where a record starts."""
    capacity = data.count(b"\n") + 1
    starts, ends, fields = (np.empty(capacity, np.int64) for _ in range(3))
    count, rest, too_long = _scanner()(
        np.frombuffer(data, np.uint8),
        ord(delimiter),
        ord(quote) if quote else -1,
        blocks.RECORD_LIMIT_BYTES,
        starts,
        ends,
        fields,
    )
    return RecordIndex(starts[:count], ends[:count], fields[:count], int(rest), bool(too_long))


def record_blocks(
    pieces: Iterator[bytes], delimiter: str, quote: str | None
) -> Iterator[RecordBlock]:
    """Blocks of whole records. Raises what `pieces` raises."""
    rest = b""
    in_refused_line = False
    for piece in pieces:
        rest += piece
        if in_refused_line:
            _, line_feed, rest = rest.partition(b"\n")
            in_refused_line = not line_feed
        while rest:
            block, behind = _next_block(rest, delimiter, quote)
            if block is None:
                break
            in_refused_line = block.refused is not None and b"\n" not in rest
            rest = behind
            yield block
    while rest:
        rest = rest if rest.endswith(b"\n") else rest + b"\n"
        block, behind = _next_block(rest, delimiter, quote)
        if block is None:
            block, behind = _refuse_line(rest, "a quotation mark is never closed")
        rest = behind
        yield block


def _next_block(data: bytes, delimiter: str, quote: str | None) -> tuple[RecordBlock | None, bytes]:
    """(the next block or None when more bytes are needed, the bytes behind it)."""
    limit = blocks.RECORD_LIMIT_BYTES
    if len(data) <= limit and (quote is None or quote.encode() not in data):
        cut = data.rfind(b"\n") + 1
        return (RecordBlock(data[:cut]) if cut else None), data[cut:]
    index = index_records(data, delimiter, quote)
    if index.rest:
        return RecordBlock(data[: index.rest]), data[index.rest :]
    if not index.too_long:
        return None, data
    return _refuse_line(
        data, f"record is longer than {limit:,} bytes; a quotation mark may have been left open"
    )


def _refuse_line(data: bytes, reason: str) -> tuple[RecordBlock, bytes]:
    line, _, behind = data.partition(b"\n")
    # Of a line that is too long itself, all that is sure to have been read is this much.
    return RecordBlock(line[: blocks.RECORD_LIMIT_BYTES] + b"\n", reason), behind


@cache
def _scanner() -> Any:
    """The compiled scan: numba is loaded only for files that need it."""
    import numba

    int64 = numba.types.int64
    readable = numba.types.Array(numba.types.uint8, 1, "C", readonly=True)
    writable = numba.types.Array(int64, 1, "C")
    signature = (readable, int64, int64, int64, writable, writable, writable)
    return numba.njit([signature], nogil=True, cache=True)(_scan)


def _scan(
    data: npt.NDArray[np.uint8],
    delimiter: int,
    quote: int,
    limit: int,
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    fields: npt.NDArray[np.int64],
) -> tuple[int, int, bool]:
    """Fills the index; (records, start of the record not finished, whether it is over the
    limit)."""
    count, start, values = 0, 0, 1
    at_value_start, quoted, bad = True, False, False
    position, size = 0, len(data)
    while position < size:
        byte = data[position]
        if position - start > limit:
            return count, start, True
        if quoted:
            if byte == quote:
                if position + 1 < size and data[position + 1] == quote:
                    position += 1
                else:
                    quoted = False
        elif byte == 10:
            content = position - 1 if position > start and data[position - 1] == 13 else position
            if content > start:
                starts[count], ends[count] = start, position + 1
                fields[count] = -1 if bad else values
                count += 1
            start, values = position + 1, 1
            at_value_start, bad = True, False
            position += 1
            continue
        elif byte == delimiter:
            values += 1
            at_value_start = True
            position += 1
            continue
        elif byte == quote and at_value_start:
            quoted = True
        elif byte == 13 and position + 1 < size and data[position + 1] != 10:
            bad = True
        at_value_start = False
        position += 1
    return count, start, size - start > limit
