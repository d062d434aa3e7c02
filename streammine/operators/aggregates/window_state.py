"""The groups of open windows, each so layered that a snapshot costs the window next to nothing.

::

    fresh      what epochs have added since the last freeze; the only layer that epochs change
    frozen     what the last freeze handed over, while its pieces may still be in the making
    settled    what earlier freezes handed over

Partials are exact and add up in any order. So the layers are their sum, `fresh` by itself is all that an
incremental snapshot needs, and freezing is a change of names. Once its pieces are made, `frozen` is
added to `settled`, by the thread that made them: epochs touch neither, so they don't wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import pyarrow as pa

from streammine.operators.aggregates.state import GroupState
from streammine.operators.frozen import PIECE_BYTES, Handover, Header, decode_piece, encode_piece


class SealedGroups:
    """A layer that does not change until its pieces are made."""

    def __init__(self, window: int, state: GroupState) -> None:
        self.state = state
        self.keys = state.table.keys_as_of_now()
        self._header: Header = {"window": window}

    def pieces(self) -> Iterator[pa.Buffer]:
        for batch in self.state.unordered_partials(self.keys, PIECE_BYTES):
            yield encode_piece(self._header, batch)


class WindowState:
    """The groups of one open window."""

    def __init__(self) -> None:
        self._fresh: GroupState | None = None
        self._frozen: SealedGroups | None = None
        self._settled: GroupState | None = None

    @property
    def nbytes(self) -> int:
        frozen = self._frozen
        layers = (self._fresh, None if frozen is None else frozen.state, self._settled)
        return sum(layer.nbytes for layer in layers if layer is not None)

    def add(self, state: GroupState) -> None:
        """Add an epoch, whose state is not used again."""
        if self._fresh is None:
            self._fresh = state
        else:
            self._fresh.merge(state)

    def restore(self, partials: pa.RecordBatch, empty: Callable[[], GroupState]) -> None:
        """Take in rows of a snapshot, before the first epoch."""
        if self._fresh is None:
            self._fresh = empty()
        self._fresh.add_partials(partials)

    def seal(self, window: int, full: bool) -> list[SealedGroups]:
        """What a snapshot needs of the window; no earlier freeze is in the making."""
        self.settle()
        sealed: list[SealedGroups] = []
        if full and self._settled is not None:
            sealed.append(SealedGroups(window, self._settled))
        if self._fresh is not None:
            self._frozen, self._fresh = SealedGroups(window, self._fresh), None
            sealed.append(self._frozen)
        return sealed

    def whole(self) -> GroupState:
        """All groups as one state; no freeze is in the making, and the window is not used again."""
        self.settle()
        if self._settled is None:
            assert self._fresh is not None, "a window has groups"
            return self._fresh
        if self._fresh is not None:
            self._settled.merge(self._fresh)
        return self._settled

    def settle(self) -> None:
        """Add what was frozen to what was before. Only while nobody makes pieces of it."""
        frozen = self._frozen
        if frozen is None:
            return
        if self._settled is None:
            self._settled = frozen.state
        else:
            self._settled.merge(frozen.state, frozen.keys)
        self._frozen = None


class OpenWindows:
    """Open windows by their last epochs, and how they are frozen and restored."""

    def __init__(self) -> None:
        self._windows: dict[int, WindowState] = {}
        self._handover: Handover | None = None

    @property
    def nbytes(self) -> int:
        return sum(window.nbytes for window in self._windows.values())

    @property
    def first(self) -> int | None:
        """The end of the first open window."""
        return min(self._windows, default=None)

    def add(self, last_epoch: int, state: GroupState) -> None:
        """Add an epoch to the window that ends with `last_epoch`; its state is not used again."""
        self._windows.setdefault(last_epoch, WindowState()).add(state)

    def take_closed(self, epoch: int) -> Iterator[tuple[int, GroupState]]:
        """The windows that end with `epoch` or before, with their last epochs, and no longer open."""
        for last_epoch in sorted(last for last in self._windows if last <= epoch):
            if self._handover is not None:
                self._handover.finish()
            yield last_epoch, self._windows.pop(last_epoch).whole()

    def freeze(
        self, full: bool, header: Header | None = None, more: Iterable[pa.Buffer] = ()
    ) -> Handover:
        """The groups of open windows. `header`: what the first piece is to say besides, for who reads it;
        `more`: pieces that follow."""
        if self._handover is None:
            full = True
        else:
            self._handover.give_up()
        windows = dict(sorted(self._windows.items()))
        sealed: list[SealedGroups] = []
        for last_epoch, window in windows.items():
            sealed += window.seal(last_epoch, full)
        first = encode_piece({"windows": list(windows), **(header or {})})
        self._handover = Handover(full, chain([first], _pieces(windows, sealed), more))
        return self._handover

    def restore(
        self, full: bool, pieces: Iterator[pa.Buffer], empty: Callable[[], GroupState]
    ) -> tuple[Header, list[tuple[Header, pa.RecordBatch]]]:
        """Take in what a freeze gave; hands out the first piece's header, and the pieces that followed."""
        first, _ = decode_piece(next(pieces))
        self._windows = {
            last_epoch: WindowState() if full else self._windows.get(last_epoch, WindowState())
            for last_epoch in first["windows"]
        }
        followed = []
        for piece in pieces:
            header, batches = decode_piece(piece)
            for batch in batches:
                if "window" in header:
                    self._windows[header["window"]].restore(batch, empty)
                else:
                    followed.append((header, batch))
        return first, followed


def _pieces(
    windows: Mapping[int, WindowState], sealed: Sequence[SealedGroups]
) -> Iterator[pa.Buffer]:
    for layer in sealed:
        yield from layer.pieces()
    for window in windows.values():
        window.settle()
