"""The groups of one open window, so layered that a snapshot costs the window next to nothing.

::

    fresh      what epochs have added since the last freeze; the only layer that epochs change
    frozen     what the last freeze handed over, while its pieces may still be in the making
    settled    what earlier freezes handed over

Partials are exact and add up in any order. So the layers are their sum, `fresh` by itself is all that an
incremental snapshot needs, and freezing is a change of names. Once its pieces are made, `frozen` is
added to `settled`, by the thread that made them: epochs touch neither, so they don't wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from streammine.operators.aggregates.state import GroupState
from streammine.operators.frozen import PIECE_BYTES, Header, encode_piece


class SealedGroups:
    """A layer that does not change until its pieces are made."""

    def __init__(self, window: int, state: GroupState) -> None:
        self._header: Header = {"window": window}
        self._state = state
        self._keys = state.table.keys_as_of_now()

    def pieces(self) -> Iterator[pa.Buffer]:
        for batch in self._state.unordered_partials(self._keys, PIECE_BYTES):
            yield encode_piece(self._header, batch)


class WindowState:
    """The groups of one open window."""

    def __init__(self) -> None:
        self._fresh: GroupState | None = None
        self._frozen: GroupState | None = None
        self._frozen_keys: Callable[[], list[pa.Array]] | None = None
        self._settled: GroupState | None = None

    @property
    def nbytes(self) -> int:
        layers = (self._fresh, self._frozen, self._settled)
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
        self._frozen, self._fresh = self._fresh, None
        if self._frozen is not None:
            self._frozen_keys = self._frozen.table.keys_as_of_now()
        layers = (self._settled if full else None, self._frozen)
        return [SealedGroups(window, layer) for layer in layers if layer is not None]

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
        if self._frozen is None:
            return
        if self._settled is None:
            self._settled = self._frozen
        else:
            self._settled.merge(self._frozen, self._frozen_keys)
        self._frozen = None
