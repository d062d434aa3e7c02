"""A stream of bytes, cut into blocks of whole records.

A line is what ends in a line feed; the last one of a file may lack it. Lines longer than
RECORD_LIMIT_BYTES are cut just behind that limit, and the parsers reject them, so memory stays
bounded by a block and a record.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

import pyarrow as pa

from streammine.model.errors import InputError

RECORD_LIMIT_BYTES = 16 * 2**20
"""A longer record is dead: it is a file that is no text, or a quotation mark left open."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class ByteStream(Protocol):
    """Anything to read bytes from: `read(n)` gives at most n bytes, and b"" only at the end."""

    def read(self, size: int, /) -> bytes: ...


READ_ERRORS = (OSError, EOFError, zlib.error, pa.ArrowException)


def chunks(
    stream: ByteStream, block_bytes: int, file: str, rows_read: Callable[[], int]
) -> Iterator[bytes]:
    """The stream's bytes without a byte-order mark.

    Raises InputError naming the file and the rows read so far when it can't be read on.
    """
    assert block_bytes > 0
    head = b""
    at_start = True
    while True:
        try:
            chunk = bytes(stream.read(block_bytes))
        except READ_ERRORS as error:
            raise InputError(
                f"{file}: can't be read on after {rows_read():,} whole rows: {error}"
            ) from error
        if at_start:
            head += chunk
            if chunk and BYTE_ORDER_MARK.startswith(head):
                continue
            chunk = head.removeprefix(BYTE_ORDER_MARK)
            at_start = False
            if not chunk and head:
                continue
        if not chunk:
            return
        yield chunk


def line_blocks(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Blocks of whole lines, each ending in a line feed, which the last line is given if need
    be."""
    pending: list[bytes] = []
    pending_bytes = 0
    for piece in pieces:
        cut = piece.rfind(b"\n") + 1
        if cut == 0:
            # Two bytes beyond the limit are kept: by them a line is known to be too long, even if
            # the last of them is the carriage return of its end.
            pending.append(piece[: max(0, RECORD_LIMIT_BYTES + 2 - pending_bytes)])
            pending_bytes += len(pending[-1])
            continue
        line_rest = piece.index(b"\n") if pending_bytes == RECORD_LIMIT_BYTES + 2 else 0
        yield b"".join([*pending, piece[line_rest:cut]])
        pending = [piece[cut:][: RECORD_LIMIT_BYTES + 2]]
        pending_bytes = len(pending[0])
    if pending_bytes:
        yield b"".join([*pending, b"\n"])
