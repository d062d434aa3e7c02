"""What a source slice's work is: reading its share of the input, then the outgoing edges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.engine.blame import Blame
from streammine.engine.edges import OutgoingEdges
from streammine.engine.span import SPAN_BYTES, SPAN_ROWS, Span, spans
from streammine.engine.stimuli import Finish, Freeze, Output, Read, Work, WorkResult
from streammine.model.batch_size import batch_nbytes
from streammine.model.contracts import (
    Counters,
    FrozenSlice,
    IntArray,
    Position,
)
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.ids import FILE_COLUMN, ROW_COLUMN, TIME_COLUMN, SliceId
from streammine.model.source_contracts import Delivery, Piece, SourceReader

MOST_PLACES = 4096
"""Places in a source that are remembered for the next snapshot."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A reader's position, with the highest epoch of the rows before it and how many they are."""

    highest: int
    reader: Position
    rows_in: int

    def saved(self, rows_dead: int) -> Position:
        """What a snapshot holds. `rows_dead`: how many there are in the epochs that it covers."""
        return {"reader": self.reader, "rows_in": self.rows_in, "rows_dead": rows_dead}


class SourceProcessor:
    """Reads a source slice's share and pushes it through the outgoing edges."""

    def __init__(
        self,
        slice_id: SliceId,
        open_reader: Callable[[Position | None], SourceReader],
        edges: OutgoingEdges,
        carries_order: bool,
        carries_time: bool,
        position: Position | None = None,
        restored_after: int = BEGINNING,
        checkpointed: bool = False,
    ) -> None:
        """`position` and `restored_after` are of the snapshot that the replica goes on from: rows that the
        reader repeats of epochs up to that one are passed over."""
        self.slice_id = slice_id
        self.open_reader = open_reader
        self.reader: SourceReader | None = None
        self.edges = edges
        self.carries_order = carries_order
        self.carries_time = carries_time
        self.counters = Counters()
        self.waited_seconds: dict[int, float] = {}
        """By epoch that the last work read rows of, how long one of them had been due by then."""
        self._restored_after = restored_after
        self._start = position
        self._places: list[_Place] = []
        self._highest = BEGINNING
        self._checkpointed = checkpointed
        self._saved_dead = 0
        if checkpointed:
            self.edges.dead_by_epoch = Counter()
        if position is not None:
            self.counters.rows_in = position["rows_in"]
            self._saved_dead = edges.rows_dead = position["rows_dead"]

    def prepare(self) -> None:
        self.edges.prepare()

    def perform(self, work: Sequence[Work], elapsed_seconds: float) -> WorkResult:
        (item,) = work
        if isinstance(item, Finish):
            self.close()
            return WorkResult(finished=True)
        if isinstance(item, Freeze):
            return WorkResult(frozen=self._freeze(item))
        assert isinstance(item, Read)
        if self.reader is None:
            # no byte of the input is touched before the job runs
            start = self._start
            self.reader = self.open_reader(None if start is None else start["reader"])
        outputs: list[Output] = []
        last_epoch = BEGINNING
        self.waited_seconds.clear()
        for _ in range(item.times):
            if self._checkpointed:
                self._note_place(self.reader.position())
            delivery = self.reader.read(item.rows, elapsed_seconds, item.given_below)
            last_epoch = max(last_epoch, self._deliver(delivery, item.unwanted, outputs))
            if delivery.exhausted or delivery.wake_after_seconds is not None:
                break
        self._count(outputs)
        return WorkResult(
            outputs=tuple(outputs),
            open_epoch=max(delivery.open_epoch, _after(self._restored_after)),
            exhausted=delivery.exhausted,
            wake_after_seconds=delivery.wake_after_seconds,
            last_epoch=last_epoch,
        )

    def _deliver(self, delivery: Delivery, unwanted: tuple[int, int], outputs: list[Output]) -> int:
        """Push what was read through the edges; returns the highest epoch that is known to be."""
        known = self._restored_after
        first, below = unwanted
        highest = BEGINNING
        for epoch, dead in delivery.dead:
            highest = max(highest, epoch)
            if epoch > known:
                self.edges.dead(epoch, self.slice_id.vertex, dead, outputs)
        wanted: list[Piece] = []
        for piece in delivery.pieces:
            highest = max(highest, piece.epoch)
            waited = max(piece.waited_seconds, self.waited_seconds.get(piece.epoch, 0.0))
            self.waited_seconds[piece.epoch] = waited
            if piece.epoch > known and not first <= piece.epoch < below:
                wanted.append(piece)
        gain = self.carries_order or self.edges.gain_by_spans
        for pieces in _together(wanted, SPAN_ROWS if gain else 0):
            for span in self._spans(pieces):
                self.edges.push(span, outputs)
        self.edges.end(delivery.open_epoch, outputs)
        self.counters.rows_in += delivery.rows_read
        self._highest = max(self._highest, highest)
        if delivery.open_epoch not in (BEGINNING, INFINITY):
            # a source may promise more than its rows say
            highest = max(highest, delivery.open_epoch - 1)
        return highest

    def _note_place(self, position: Position) -> None:
        """A place to go on from, with the highest epoch of which rows lie before it."""
        if len(self._places) >= MOST_PLACES:
            # an earlier place than the best is as right, and costs only some reading
            del self._places[1::2]
        place = _Place(self._highest, position, self.counters.rows_in)
        if self._places and self._places[-1].highest == self._highest:
            self._places[-1] = place
        else:
            self._places.append(place)

    def _freeze(self, item: Freeze) -> FrozenSlice:
        """The last place before which no row of an epoch above the snapshot's lies."""
        before = [place for place in self._places if place.highest <= item.epoch]
        position = before[-1].saved(self._dead_until(item.epoch)) if before else self._start
        self._places = self._places[max(0, len(before) - 1) :]
        return FrozenSlice(item.epoch, item.last_epoch, item.due, position)

    def _dead_until(self, epoch: int) -> int:
        """Dead rows of the epochs up to this one, whatever was read of later ones."""
        dead = self.edges.dead_by_epoch
        assert dead is not None
        for each in [each for each in dead if each <= epoch]:
            self._saved_dead += dead.pop(each)
        return self._saved_dead

    def _spans(self, pieces: Sequence[Piece]) -> Iterator[Span]:
        """The rows of some pieces, with the columns that order them."""
        parts = [(piece.epoch, self._read(piece)) for piece in pieces]
        together = len(pieces) == 1 or sum(batch_nbytes(batch) for _, batch in parts) <= SPAN_BYTES
        found = spans(parts) if together else [Span.one(*part) for part in parts]
        if len(found) == 1:
            yield self._in_order(found[0], pieces)
            return
        for span, piece in zip(found, pieces, strict=True):
            yield self._in_order(span, [piece])

    def _read(self, piece: Piece) -> pa.RecordBatch:
        """The rows, which may still have to be decoded."""
        with Blame(self.slice_id, piece.epoch):
            return piece.batch

    def _in_order(self, span: Span, pieces: Sequence[Piece]) -> Span:
        """The rows of these pieces with the columns that order them."""
        if not self.carries_order:
            return span
        batch = span.batch
        if self.carries_time:
            times = _joined([_times(piece) for piece in pieces])
            batch = batch.append_column(TIME_COLUMN, pa.array(times, pa.int64()))
        files = _joined([_files(piece) for piece in pieces])
        rows = _joined([_rows(piece) for piece in pieces])
        batch = batch.append_column(FILE_COLUMN, pa.array(files, pa.int32()))
        return span.showing(batch.append_column(ROW_COLUMN, pa.array(rows, pa.int64())))

    def _count(self, outputs: list[Output]) -> None:
        self.counters.batches_in += 1
        self.counters.rows_out += sum(output.rows for output in outputs)
        self.counters.rows_dead = self.edges.rows_dead
        self.counters.state_bytes = self.edges.nbytes

    def close(self) -> None:
        if self.reader is not None:
            self.reader.close()
            self.reader = None


def _after(epoch: int) -> int:
    return epoch if epoch == BEGINNING else epoch + 1


def _together(pieces: Sequence[Piece], most_rows: int) -> Iterator[Sequence[Piece]]:
    """The pieces in their order, small ones of ascending epochs together: of so many rows at most."""
    group: list[Piece] = []
    rows = 0
    for piece in pieces:
        if group and (rows + piece.num_rows > most_rows or piece.epoch <= group[-1].epoch):
            yield group
            group, rows = [], 0
        group.append(piece)
        rows += piece.num_rows
    if group:
        yield group


def _joined(parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _times(piece: Piece) -> IntArray:
    assert piece.times is not None, "a reader of time epochs gives each row's time"
    return piece.times


def _files(piece: Piece) -> npt.NDArray[np.int32]:
    return np.full(piece.num_rows, piece.file, np.int32) if piece.files is None else piece.files


def _rows(piece: Piece) -> IntArray:
    if piece.rows is not None:
        return piece.rows
    return np.arange(piece.row, piece.row + piece.num_rows, dtype=np.int64)
