"""A Reducer's open windows: which groups have changed, and what is frozen of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from streammine.operators.frozen import (
    PIECE_BYTES,
    FrozenLots,
    Handover,
    Header,
    decode_piece,
    encode_piece,
    in_lots,
)
from streammine.operators.python_columns import joined_columns
from streammine.operators.rows import IntArray
from streammine.operators.user.errors import DeadLetters
from streammine.operators.user.folding import Folding, FoldPlan

_Entries = tuple[list[int], pa.Array]
"""Groups, and their accumulators."""


class WindowFolding:
    """The accumulators of one open window.

    An accumulator is the user's object and may be changed in place. So it stays here when it is frozen,
    and is captured by who needs it first: the thread that writes the snapshot, or this one before it
    changes it.
    """

    def __init__(self, folding: Folding) -> None:
        self.folding = folding
        # None: nothing was frozen yet, so that a first freeze is of everything
        self._dirty: set[int] | None = None
        self._frozen: _FrozenGroups | None = None
        folding.watch = self._changes

    def freeze(self, window: int, full: bool) -> Callable[[], Iterator[pa.Buffer]]:
        """Makes the pieces, between two epochs; `full`: of all groups."""
        self.give_up()
        used = self.folding.used_groups()
        if not full and self._dirty is not None:
            used = [group for group in used if group in self._dirty]
        self._dirty = set()
        self._frozen = frozen = _FrozenGroups(used, self.folding)
        keys = self.folding.keys_as_of_now()
        names = self.folding.partial_schema.names
        return lambda: _group_pieces({"window": window}, frozen, keys(), names)

    def give_up(self) -> None:
        """What was frozen before is not wanted any more."""
        if self._frozen is not None:
            self._frozen.give_up()

    def closing(self) -> Folding:
        """The window is over: its accumulators, which the user's `finish` may change."""
        if self._frozen is not None:
            self._frozen.settle_all()
        return self.folding

    def _changes(self, groups: IntArray) -> None:
        if self._dirty is None:
            return
        changing = np.unique(groups).tolist()
        if self._frozen:
            self._frozen.settle(changing)
        self._dirty.update(changing)


class _FrozenGroups(FrozenLots[list[int], _Entries]):
    """Groups of a window, by their ids."""

    def __init__(self, groups: list[int], folding: Folding) -> None:
        super().__init__([lot for _, lot in in_lots(groups)])
        self._unmarked = set(groups)
        self._folding = folding

    def _waiting(self, lot: list[int]) -> list[int] | None:
        unmarked = self._unmarked
        return [group for group in lot if group in unmarked] or None

    def _mark(self, lot: list[int]) -> None:
        self._unmarked.difference_update(lot)

    def _capture(self, lot: list[int]) -> _Entries:
        return lot, self._folding.captured(lot)


class ReducerWindows:
    """All open windows of a Reducer's slice, by their last epochs."""

    def __init__(self, plan: FoldPlan) -> None:
        self._plan = plan
        self._windows: dict[int, WindowFolding] = {}
        self._was_frozen = False

    @property
    def nbytes(self) -> int:
        return sum(window.folding.nbytes for window in self._windows.values())

    @property
    def first(self) -> int | None:
        """The end of the first open window."""
        return min(self._windows, default=None)

    def add(self, last: int, folding: Folding) -> None:
        """Fold an epoch's accumulators into the window that ends with epoch `last`."""
        kept = self._windows.get(last)
        if kept is not None:
            kept.folding.merge(folding)
        elif not folding.is_empty:
            self._windows[last] = WindowFolding(folding)

    def add_batches(self, last: int, batches: Sequence[pa.RecordBatch]) -> None:
        """Fold events into the window, in their order."""
        for batch in batches:
            if last not in self._windows:
                self._windows[last] = WindowFolding(Folding(self._plan))
            self._windows[last].folding.add(batch)

    def take_dead(self, last: int) -> DeadLetters:
        """The events that failed since the last call, of the window that ends with epoch `last`."""
        window = self._windows.get(last)
        return DeadLetters() if window is None else window.folding.hand_over_dead()

    def take_closed(self, epoch: int) -> list[tuple[int, Folding]]:
        """The windows that are over when `epoch` is, oldest first."""
        over = sorted(last for last in self._windows if last <= epoch)
        return [(last, self._windows.pop(last).closing()) for last in over]

    def freeze(self, full: bool) -> Handover:
        """See contracts.KeepsState."""
        full = full or not self._was_frozen
        self._was_frozen = True
        sources = [window.freeze(last, full) for last, window in sorted(self._windows.items())]
        return Handover(full, _window_pieces(sorted(self._windows), sources))

    def restore(
        self, full: bool, pieces: Iterator[pa.Buffer], migrate: Callable[[Any], Any] | None
    ) -> None:
        """See contracts.KeepsState. Raises UserCodeError."""
        first, _ = decode_piece(next(pieces))
        kept = {} if full else self._windows
        self._windows = {
            last: kept.get(last) or WindowFolding(Folding(self._plan)) for last in first["windows"]
        }
        for piece in pieces:
            header, batches = decode_piece(piece)
            folding = self._windows[header["window"]].folding
            for batch in batches:
                folding.restore(batch, migrate)


def _window_pieces(
    windows: list[int], sources: Sequence[Callable[[], Iterator[pa.Buffer]]]
) -> Iterator[pa.Buffer]:
    yield encode_piece({"windows": windows})
    for source in sources:
        yield from source()


def _group_pieces(
    header: Header,
    frozen: _FrozenGroups,
    keys: list[pa.Array],
    names: list[str],
) -> Iterator[pa.Buffer]:
    gathered: list[_Entries] = []
    nbytes = 0
    for entries in frozen.captured():
        gathered.append(entries)
        nbytes += entries[1].nbytes
        if nbytes >= PIECE_BYTES:
            yield _group_piece(header, gathered, keys, names)
            gathered, nbytes = [], 0
    if gathered:
        yield _group_piece(header, gathered, keys, names)


def _group_piece(
    header: Header, entries: list[_Entries], keys: list[pa.Array], names: list[str]
) -> pa.Buffer:
    groups = pa.array([group for some, _ in entries for group in some], pa.int64())
    accumulators = joined_columns([captured for _, captured in entries])
    columns = [*(key.take(groups) for key in keys), accumulators]
    return encode_piece(header, pa.record_batch(columns, names=names))
