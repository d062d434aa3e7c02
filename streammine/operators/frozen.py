"""Committed state on its way into a snapshot: pieces, and who may touch what while they are made.

A snapshot of an operator is a sequence of *pieces*. Each is an Arrow IPC stream whose schema carries
a header of plain data, so that whoever reads it needs nothing but the piece. The first piece of a
freeze says what the state consists of, the others hold rows.

An operator goes on while another thread makes the pieces. Two ways keep what was frozen as it was:

- `Handover`: the operator gives objects away and works on new ones. Needs it them back before they
  are encoded, it encodes what is left itself (`finish`).
- `FrozenLots`: the operator keeps its objects, and captures what they hold right before it changes them
  (copy on write).

Carbone et al. (2015), section 4, want snapshots that don't halt the computation; Wu & Tan (2015),
section 4, such small pieces. The locks are held for one piece or some entries at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from threading import Lock
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from streammine.model.errors import SnapshotDamagedError, StateVersionError
from streammine.model.snapshots import ALIGNMENT_BYTES, PART_BYTES
from streammine.operators.collected_rows import in_one
from streammine.operators.plain_data import decode, encode

PIECE_BYTES = PART_BYTES
"""About how long a piece may get; a longer one is a part of its own, as it was made."""

_HEADER = b"streammine.piece"
_LOT = 1024

Header = dict[str, Any]
L = TypeVar("L")
E = TypeVar("E")
T = TypeVar("T")


def encode_piece(header: Header, rows: pa.RecordBatch | None = None) -> pa.Buffer:
    """A piece of a header, which is plain data, and rows."""
    schema = pa.schema([]) if rows is None else rows.schema
    metadata = {**(schema.metadata or {}), _HEADER: encode(header)}
    schema = schema.with_metadata(metadata)
    length = pa.MockOutputStream()
    _write_stream(length, schema, rows)
    piece = pa.allocate_buffer(-(-length.size() // ALIGNMENT_BYTES) * ALIGNMENT_BYTES)
    _write_stream(pa.FixedSizeBufferWriter(piece), schema, rows)
    np.frombuffer(piece, np.uint8)[length.size() :] = 0
    return piece


def _write_stream(out: pa.NativeFile, schema: pa.Schema, rows: pa.RecordBatch | None) -> None:
    with pa.ipc.new_stream(out, schema) as writer:
        if rows is not None:
            writer.write_batch(rows.replace_schema_metadata(schema.metadata))


def decode_piece(piece: pa.Buffer) -> tuple[Header, list[pa.RecordBatch]]:
    """What `encode_piece` was given. Raises SnapshotDamagedError if it is no piece."""
    try:
        with pa.ipc.open_stream(piece) as reader:
            metadata = dict(reader.schema.metadata or {})
            header = decode(metadata.pop(_HEADER))
            batches = [batch.replace_schema_metadata(metadata or None) for batch in reader]
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise SnapshotDamagedError(f"a piece of a snapshot can't be read: {error!r}") from error
    return header, batches


def row_pieces(header: Header, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Buffer]:
    """The rows of batches of one schema, in their order, in pieces that all have the header."""
    gathered: list[pa.RecordBatch] = []
    nbytes = 0
    for batch in batches:
        gathered.append(batch)
        nbytes += int(batch.nbytes)
        if nbytes >= PIECE_BYTES:
            yield from _cut(header, gathered)
            gathered, nbytes = [], 0
    if gathered:
        yield from _cut(header, gathered)


def _cut(header: Header, batches: list[pa.RecordBatch]) -> Iterator[pa.Buffer]:
    rows = in_one(batches)
    step = max(1, rows.num_rows * PIECE_BYTES // max(1, int(rows.nbytes)))
    for start in range(0, rows.num_rows, step):
        yield encode_piece(header, rows.slice(start, step))


def bytes_pieces(header: Header, data: bytes) -> Iterator[pa.Buffer]:
    """Bytes of any length in pieces, at least one; each has its part as `bytes` in its header."""
    for start in range(0, max(1, len(data)), PIECE_BYTES):
        yield encode_piece({**header, "bytes": data[start : start + PIECE_BYTES]})


def check_version(operator: str, found: int, own: int) -> None:
    """Raise StateVersionError unless the state is of the operator's own version."""
    if found != own:
        raise StateVersionError(
            f"operator {operator!r}: the snapshot holds state of version {found}, this release "
            f"reads version {own}; resume with the release that wrote it, or start anew"
        )


class Handover:
    """Frozen state that the operator does not touch until it is `done` (a FrozenState)."""

    def __init__(self, full: bool, source: Iterator[pa.Buffer]) -> None:
        """`source` makes the pieces, each when it is asked for."""
        self.full = full
        self.done = False
        self._source = source
        self._ready: deque[pa.Buffer] = deque()
        self._error: BaseException | None = None
        self._lock = Lock()

    def pieces(self) -> Iterator[pa.Buffer]:
        """See contracts.FrozenState."""
        while (piece := self._next()) is not None:
            yield piece

    def finish(self) -> None:
        """Make the pieces that are left now, because what they show is about to change."""
        if self.done:
            return
        with self._lock:
            while not self.done:
                piece = self._made()
                if piece is not None:
                    self._ready.append(piece)

    def give_up(self) -> None:
        """No more pieces are wanted."""
        with self._lock:
            if not self.done:
                self._error = AssertionError("this freeze was given up for a later one")
                self.done = True

    def _next(self) -> pa.Buffer | None:
        with self._lock:
            if self._ready:
                return self._ready.popleft()
            piece = None if self.done else self._made()
            if piece is None and self._error is not None:
                raise self._error
            return piece

    def _made(self) -> pa.Buffer | None:
        try:
            piece = next(self._source, None)
        except Exception as error:
            # raised to who takes the pieces, whichever thread has met it
            self._error = error
            piece = None
        self.done = piece is None
        return piece


class FrozenLots(ABC, Generic[L, E]):
    """Entries that stay with the operator, in lots, to be captured before any of a lot changes."""

    def __init__(self, lots: list[L]) -> None:
        """The list is used up."""
        self._lots = lots
        self._found: list[E] = []
        self._error: Exception | None = None
        self._lock = Lock()

    def __bool__(self) -> bool:
        """Whether entries may still wait."""
        return bool(self._lots)

    def settle(self, lot: L) -> None:
        """Capture what waits of these entries, because they are about to change."""
        # an entry that does not wait was captured to the end: only then is it marked
        if self._waiting(lot) is not None:
            with self._lock:
                self._take(lot)

    def settle_all(self) -> None:
        """Capture all that wait."""
        with self._lock:
            while self._lots:
                self._take_next()

    def give_up(self) -> None:
        """Nothing more is wanted."""
        with self._lock:
            self._lots.clear()
            self._error = AssertionError("this freeze was given up for a later one")

    def captured(self) -> Iterator[E]:
        """What was captured of all entries, in no set order."""
        while True:
            with self._lock:
                while self._lots and not self._found and self._error is None:
                    self._take_next()
                if self._error is not None:
                    raise self._error
                found, self._found = self._found, []
            if not found:
                return
            yield from found

    @abstractmethod
    def _waiting(self, lot: L) -> L | None:
        """Those of the lot that are frozen and not marked yet."""

    @abstractmethod
    def _mark(self, lot: L) -> None:
        """All of them are captured and may change."""

    @abstractmethod
    def _capture(self, lot: L) -> E:
        """What the operator holds for them now."""

    def _take_next(self) -> None:
        self._take(self._lots[-1])
        # afterwards, as entries may wait as long as lots are left
        self._lots.pop()

    def _take(self, lot: L) -> None:
        waiting = self._waiting(lot)
        if waiting is None:
            return
        try:
            self._found.append(self._capture(waiting))
        except Exception as error:
            # raised to who asks for what was captured, whichever thread has met it
            self._error = error
        self._mark(waiting)


def in_lots(entries: list[T]) -> Iterator[tuple[int, list[T]]]:
    """The entries in lots of such a length that nobody waits long for one of them, and where each begins."""
    for start in range(0, len(entries), _LOT):
        yield start, entries[start : start + _LOT]
