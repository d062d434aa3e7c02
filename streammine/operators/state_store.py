"""The states of all keys of a slice: which keys have changed, and what is frozen of them.

User code gets at the state of a key only through the store, for one event or one epoch end. So the
store knows the changed keys without watching single assignments: a key is dirty when its state was
handed out or forgotten since the last freeze. A freeze hands over the set of dirty keys; their states
are encoded later, on another thread, while processing goes on: before a frozen key is handed out
again, its frozen bytes are made (copy on write, see `frozen`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from operator import length_hint
from typing import Any

import pyarrow as pa

from streammine.model.epochs import EpochDefinition
from streammine.model.errors import StateVersionError
from streammine.operators.frozen import (
    PIECE_BYTES,
    FrozenEntries,
    Handover,
    Header,
    decode_piece,
    encode_piece,
)
from streammine.operators.plain_data import NotPlainError, decode, encode
from streammine.operators.sliding_window import SlidingWindow
from streammine.operators.state import (
    Cell,
    Key,
    KeyState,
    Window,
    canonical_key,
    same_content,
    state_class,
)

_ENTRY_BYTES = 200
_SWEPT_KEYS = 64

Contents = dict[str, Any]
"""The contents of a key's cells as plain data, by the cells' names."""

Migration = Callable[[Contents], Contents]
"""From the contents that a snapshot holds to contents of the cells as they are declared now."""

_STATES = pa.schema([pa.field("key", pa.binary(), nullable=False), pa.field("state", pa.binary())])


class StateStore:
    """State of all keys of one slice."""

    def __init__(self, cells: Mapping[str, Cell], operator: str = "") -> None:
        """`operator` is named in errors. Raises TopologyError when a cell can't be used."""
        self._operator = operator
        self._class = state_class(cells)
        self._cells = tuple(cells.items())
        self._states: dict[Key, KeyState] = {}
        # None: nothing was frozen yet, so that a first freeze is of everything
        self._dirty: dict[Key, None] | None = None
        self._frozen: FrozenEntries[Key, tuple[bytes, bytes | None]] | None = None
        self._windows = [(name, cell) for name, cell in cells.items() if isinstance(cell, Window)]
        self._first_times: list[tuple[str, int]] = []
        self._sweep: Iterator[Key] = iter(())

    def __len__(self) -> int:
        return len(self._states)

    def keys(self) -> list[Key]:
        """All keys with state, in no particular order."""
        return list(self._states)

    @property
    def windows(self) -> list[tuple[str, Window]]:
        """The window cells by name."""
        return self._windows

    @property
    def nbytes(self) -> int:
        """An estimate: contents of cells beyond a typical small one are not walked through."""
        return len(self._states) * (_ENTRY_BYTES + 50 * len(self._cells))

    def open(self, key: Key) -> KeyState:
        """The key's state, to be changed; made on first use."""
        if self._dirty is not None:
            self._changes(key)
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = self._class()
            state.clear()
        elif self._first_times:
            self._drop_old(state)
        return state

    def forget_fresh(self, keys: Iterable[Key]) -> None:
        """Forget those of the keys whose state is as it was at first."""
        for key in keys:
            state = self._states.get(key)
            if state is not None and state.is_fresh():
                if self._dirty is not None:
                    self._changes(key)
                del self._states[key]

    def begin_epoch(self, epoch: int, definition: EpochDefinition) -> None:
        """Windows hand out from now on what is left when the epoch before `epoch` is over."""
        self._first_times = [
            (name, cell.first_time_kept(epoch - 1, definition)) for name, cell in self._windows
        ]

    def end_epoch(self, epoch: int, definition: EpochDefinition, keys: Iterable[Key]) -> None:
        """All events of the epoch are processed: these keys, which had some, drop what is old.

        Others do when they are opened; some of them are also looked at now, so that keys that
        never come again don't stay for ever.
        """
        if not self._windows:
            return
        self.begin_epoch(epoch + 1, definition)
        for key in keys:
            self._drop_old(self._states[key])
        self.drop_expired(islice(self._sweep, _SWEPT_KEYS))
        if not length_hint(self._sweep):
            self._sweep = iter(list(self._states))

    def drop_expired(self, keys: Iterable[Key]) -> None:
        """Forget those of the keys of which nothing is left without what is old by now."""
        if not self._first_times:
            return
        for key in keys:
            state = self._states.get(key)
            if state is not None and self._is_expired(state):
                if self._dirty is not None:
                    self._changes(key)
                del self._states[key]

    def freeze(self, full: bool) -> Handover:
        """The states that changed since the last freeze, or all, between two epochs."""
        if self._frozen is not None:
            self._frozen.give_up()
        full = full or self._dirty is None
        chosen: Iterable[Key] = self._states if full or self._dirty is None else self._dirty
        self._frozen = FrozenEntries(chosen, self._encoded_entry)
        self._dirty = {}
        return Handover(full, _pieces({"cells": [name for name, _ in self._cells]}, self._frozen))

    def restore(
        self, full: bool, pieces: Iterable[pa.Buffer], migrate: Migration | None = None
    ) -> None:
        """Take in the pieces of a freeze, oldest freeze first.

        Raises StateVersionError if the names of the cells don't fit and nothing migrates them.
        """
        if full:
            self._states = {}
        for piece in pieces:
            header, batches = decode_piece(piece)
            for batch in batches:
                self._restore_rows(header["cells"], batch, migrate)

    def _restore_rows(
        self, names: list[str], rows: pa.RecordBatch, migrate: Migration | None
    ) -> None:
        own = [name for name, _ in self._cells]
        if migrate is None and names != own:
            raise StateVersionError(
                f"operator '{self._operator}': the snapshot holds the cells {', '.join(names)}, and "
                f"the operator declares {', '.join(own)}; raise its state_version and write migrate"
            )
        for key_data, data in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            key = canonical_key(decode(key_data))
            if data is None:
                self._states.pop(key, None)
                continue
            contents: Contents = dict(zip(names, decode(data), strict=True))
            if migrate is not None:
                contents = migrate(contents)
            state = self._class()
            for name, cell in self._cells:
                setattr(state, name, cell.restored(contents[name]))
            self._states[key] = state

    def _changes(self, key: Key) -> None:
        """The key's state is about to change, and a snapshot was taken before."""
        assert self._dirty is not None
        if self._frozen is not None:
            if self._frozen:
                self._frozen.settle(key)
            else:
                self._frozen = None
        self._dirty[key] = None

    def _drop_old(self, state: KeyState) -> None:
        for name, time in self._first_times:
            content = getattr(state, name)
            if isinstance(content, SlidingWindow):
                content.drop_before(time)

    def _is_expired(self, state: KeyState) -> bool:
        """Whether the state would be fresh without what is old. The state may be frozen: look only."""
        times = dict(self._first_times)
        return all(
            all(time < times[name] for time, _ in getattr(state, name))
            if name in times
            else same_content(getattr(state, name), cell.fresh())
            for name, cell in self._cells
        )

    def _encoded_entry(self, key: Key) -> tuple[bytes, bytes | None]:
        state = self._states.get(key)
        return encode(key), None if state is None else self._encoded(state)

    def _encoded(self, state: KeyState) -> bytes:
        try:
            return encode([cell.plain(getattr(state, name)) for name, cell in self._cells])
        except NotPlainError as error:
            raise NotPlainError(f"state can't be saved: {error}") from None


def _pieces(
    header: Header, frozen: FrozenEntries[Key, tuple[bytes, bytes | None]]
) -> Iterator[pa.Buffer]:
    gathered: list[tuple[bytes, bytes | None]] = []
    nbytes = 0
    for entries in frozen.batches():
        gathered += entries
        nbytes += sum(len(key) + len(state or b"") for key, state in entries)
        if nbytes >= PIECE_BYTES:
            yield _piece(header, gathered)
            gathered, nbytes = [], 0
    if gathered:
        yield _piece(header, gathered)


def _piece(header: Header, entries: list[tuple[bytes, bytes | None]]) -> pa.Buffer:
    keys, states = zip(*entries, strict=True)
    columns = [pa.array(keys, pa.binary()), pa.array(states, pa.binary())]
    return encode_piece(header, pa.record_batch(columns, schema=_STATES))
