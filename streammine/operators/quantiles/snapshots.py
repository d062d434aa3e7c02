"""Windows' values in snapshots: as they came, epoch by epoch, or all as they lie, key by key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.model.contracts import IntArray
from streammine.operators.aggregates.keys import KeyTable
from streammine.operators.frozen import PIECE_BYTES, decode_piece, encode_piece, row_pieces
from streammine.operators.quantiles.panes import Pane, Panes
from streammine.operators.quantiles.sliding_order import FrozenQueues, SlidingOrder

_PIECE_VALUES = PIECE_BYTES // 8
_LEAST_ROWS = 16

Item = TypeVar("Item")


@dataclass(frozen=True)
class Fresh:
    """A pane with the images of its rows' values, in 32 bits where they fit."""

    pane: Pane
    stored: npt.NDArray[np.int32] | IntArray

    @classmethod
    def of(cls, pane: Pane, images: IntArray, broad: bool) -> Fresh:
        return cls(pane, images if broad else images.astype(np.int32))

    @property
    def images(self) -> IntArray:
        return self.stored.astype(np.int64, copy=False)

    @property
    def nbytes(self) -> int:
        return self.pane.nbytes + self.stored.nbytes


class FreshRows:
    """Those of some epochs, the oldest first, and how many bytes they take."""

    def __init__(self) -> None:
        self.epochs: list[Fresh] = []
        self.nbytes = 0

    def append(self, fresh: Fresh) -> None:
        self.epochs.append(fresh)
        self.nbytes += fresh.nbytes


@dataclass(frozen=True)
class Held:
    """All values that windows have, how many each window of each key has, and in which epochs they came."""

    queues: FrozenQueues
    counts: IntArray
    panes: Sequence[Pane]

    @classmethod
    def of(cls, order: SlidingOrder, panes: Panes, keys: int) -> Held:
        order.grow(keys)
        return cls(order.keep(), order.counts()[:keys].copy(), list(panes))


@dataclass(frozen=True)
class Frozen:
    """What a snapshot says. `closed`: the epoch of the last slide. `numbers`: the keys that are new, of those
    that `keys` makes. `fresh`: rows by epoch. `held`: in a full one, what the windows have besides."""

    closed: int | None
    fields: Sequence[pa.Field]
    keys: Callable[[], list[pa.Array]]
    numbers: range
    fresh: Sequence[Fresh]
    held: Held | None

    def pieces(self) -> Iterator[pa.Buffer]:
        """The snapshot, the first piece being its header."""
        yield encode_piece({"closed": self.closed})
        if self.fields and self.numbers:
            columns = [column.slice(self.numbers.start) for column in self.keys()]
            keys = pa.record_batch(columns, schema=pa.schema(self.fields))
            yield from row_pieces({"holds": "keys"}, [keys])
        if self.held is not None:
            yield from _held_pieces(self.held)
        for some in _in_groups(self.fresh, lambda fresh: fresh.pane):
            images = pa.array(np.concatenate([fresh.stored for fresh in some]))
            yield _panes_piece("fresh", [fresh.pane for fresh in some], images)


class Restoring:
    """Takes in the pieces of one snapshot."""

    def __init__(self, table: KeyTable, order: SlidingOrder, panes: Panes) -> None:
        self.closed: int | None = None
        self.fresh: list[Fresh] = []
        self._table = table
        self._order = order
        self._panes = panes
        self._counts: list[IntArray] = []
        self._ends: IntArray | None = None
        """By key, how many values the longest windows of all keys up to it have."""
        self._done = 0
        """So many of these have come."""

    def take(self, pieces: Iterator[pa.Buffer]) -> None:
        """All of them, in their order."""
        first, _ = decode_piece(next(pieces))
        self.closed = first["closed"]
        for piece in pieces:
            header, batches = decode_piece(piece)
            columns = [column for batch in batches for column in batch.columns]
            self._take(header["holds"], header.get("panes", ()), columns)
        if self._ends is not None:
            self._shorten(np.concatenate(self._counts))

    def _take(
        self, holds: str, panes: Sequence[tuple[int, int]], columns: Sequence[pa.Array]
    ) -> None:
        match holds:
            case "keys":
                known = self._table.size
                keys = pa.record_batch(columns, [str(place) for place in range(len(columns))])
                numbers = self._table.ids(keys, range(len(columns)))
                assert numbers[0] == known, "keys come in the order of their numbers"
            case "counts":
                counts = np.column_stack([column.to_numpy() for column in columns])
                self._counts.append(counts)
            case "values":
                self._take_values(columns[0].to_numpy().astype(np.int64))
            case "panes":
                for pane in _cut(panes, columns):
                    self._panes.add(pane)
            case "fresh":
                images, begin = columns[0].to_numpy(), 0
                for pane in _cut(panes, columns[1:]):
                    self.fresh.append(Fresh(pane, images[begin : begin + pane.rows]))
                    begin += pane.rows
            case _:
                raise AssertionError(f"a quantile's snapshot has no {holds!r}")

    def _take_values(self, values: IntArray) -> None:
        """The next values of the longest windows, key after key."""
        if self._ends is None:
            self._ends = np.cumsum(np.concatenate(self._counts)[:, -1])
            self._order.grow(len(self._ends))
        begin, end = self._done, self._done + len(values)
        first = int(np.searchsorted(self._ends, begin, side="right"))
        last = int(np.searchsorted(self._ends, end, side="left"))
        ends = np.minimum(self._ends[first : last + 1], end)
        counts = np.diff(ends, prepend=begin)
        self._order.take_in(np.repeat(np.arange(first, last + 1), counts), values)
        self._done = end

    def _shorten(self, counts: IntArray) -> None:
        """All windows have the values of the longest one: take away what the shorter ones have not."""
        keys = np.arange(len(counts))
        for window in range(counts.shape[1] - 1):
            self._order.skip(window, keys, counts[:, -1] - counts[:, window])
        assert self.closed is not None, "windows have values since they first slid"
        for _ in self._panes.expired(self.closed):
            """What has left the shorter windows, which have been told so."""


def _held_pieces(held: Held) -> Iterator[pa.Buffer]:
    counts = [pa.array(np.ascontiguousarray(column)) for column in held.counts.T]
    names = [str(window) for window in range(len(counts))]
    yield from row_pieces({"holds": "counts"}, [pa.record_batch(counts, names)])
    for values in held.queues.pieces(_PIECE_VALUES):
        yield encode_piece({"holds": "values"}, pa.record_batch([pa.array(values)], ["value"]))
    for panes in _in_groups(held.panes, lambda pane: pane):
        yield _panes_piece("panes", panes)


def _in_groups(items: Iterable[Item], pane_of: Callable[[Item], Pane]) -> Iterator[list[Item]]:
    """The items, so many together as a piece has rows."""
    group: list[Item] = []
    rows = 0
    for item in items:
        group.append(item)
        # a pane without keys has no rows to save
        rows += max(_LEAST_ROWS, pane_of(item).rows)
        if rows >= _PIECE_VALUES:
            yield group
            group, rows = [], 0
    if group:
        yield group


def _panes_piece(holds: str, panes: Sequence[Pane], *columns: pa.Array) -> pa.Buffer:
    """Panes one after the other, with other columns before that of their keys."""
    header = {"holds": holds, "panes": [(pane.epoch, pane.rows) for pane in panes]}
    keys = [pane.keys for pane in panes if pane.keys is not None]
    arrays = [*columns, *([pa.array(np.concatenate(keys))] if keys else [])]
    if not arrays:
        return encode_piece(header)
    return encode_piece(
        header, pa.record_batch(arrays, [str(place) for place in range(len(arrays))])
    )


def _cut(panes: Sequence[tuple[int, int]], columns: Sequence[pa.Array]) -> Iterator[Pane]:
    """The panes, whose keys are the only column, or there is none."""
    begin = 0
    for epoch, rows in panes:
        keys = np.zeros(rows, np.int64)
        if columns:
            keys = columns[0].slice(begin, rows).to_numpy().astype(np.int64)
        yield Pane.of(epoch, keys, bool(columns))
        begin += rows
