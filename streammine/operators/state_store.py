"""The states of all keys of a slice: which keys have changed, and what is frozen of them.

User code gets at the state of a key only through the store, for one event or one epoch end. So the
store knows the changed keys without watching single assignments: a state is dirty when it was handed
out since the last freeze, and what is frozen of it is captured on another thread, while processing goes
on, or right before it is handed out again (copy on write, see `frozen`). Freezes have numbers, and each
state says

- in `_opened`, after which freeze it was handed out last: it is dirty if that is the last one;
- in `_captured`, in which freeze it was captured last.

To ask the state itself touches nothing that is not needed anyway; with a hundred thousand keys, to look
them up in sets of dirty and of frozen keys costs more than capturing what they hold.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter, length_hint
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
from streammine.operators.plain_data import NotPlainError
from streammine.operators.python_columns import Captured, captured, column_of, values_of
from streammine.operators.sliding_window import SlidingWindow
from streammine.operators.state import (
    Cell,
    Key,
    KeyState,
    Value,
    Window,
    canonical_key,
    same_content,
    state_class,
)

_ENTRY_BYTES = 200
_SWEPT_KEYS = 64
_FORGOTTEN_PER_PIECE = 65_536
_NEVER = sys.maxsize
"""Captured so late: a state that is forgotten is in no freeze from then on."""

Contents = dict[str, Any]
"""The contents of a key's cells as plain data, by the cells' names."""

Migration = Callable[[Contents], Contents]
"""From the contents that a snapshot holds to contents of the cells as they are declared now."""


_Entries = list[Captured]
"""What was captured of some keys: the columns of the keys, then the cells."""


class StateStore:
    """State of all keys of one slice."""

    def __init__(self, cells: Mapping[str, Cell], operator: str = "") -> None:
        """`operator` is named in errors. Raises TopologyError when a cell can't be used."""
        self._operator = operator
        self._class = state_class(cells)
        self._cells = tuple(cells.items())
        self._states: dict[Key, KeyState] = {}
        self._freezes = 0
        # states handed out, and keys forgotten, since the last freeze; the first is of everything
        self._dirty: list[KeyState] = []
        self._forgotten: dict[Key, None] = {}
        self._frozen: _FrozenStates | None = None
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

    def open(self, keys: Sequence[Key]) -> list[KeyState]:
        """The states of different keys, to be changed; made on first use."""
        found = list(map(self._states.get, keys))
        self._changes([state for state in found if state is not None])
        opened = []
        for key, state in zip(keys, found, strict=True):
            if state is None:
                state = self._created(key)
            elif self._first_times:
                self._drop_old(state)
            opened.append(state)
        return opened

    def forget_fresh(self, keys: Iterable[Key]) -> None:
        """Forget those of the keys whose state is as it was at first."""
        states = self._states
        self._forget([key for key in keys if key in states and states[key].is_fresh()])

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
        states = self._states
        self._forget([key for key in keys if key in states and self._is_expired(states[key])])

    def freeze(self, full: bool) -> Handover:
        """The states that changed since the last freeze, or all, between two epochs."""
        if self._frozen is not None:
            self._frozen.give_up()
        full = full or self._freezes == 0
        self._freezes += 1
        states = list(self._states.values()) if full else self._dirty
        forgotten = [] if full else list(self._forgotten)
        self._frozen = _FrozenStates(self._freezes, full, states, self._cells)
        self._dirty, self._forgotten = [], {}
        names = [name for name, _ in self._cells]
        return Handover(full, _pieces(names, forgotten, self._frozen))

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
                self._restore_rows(header, batch, migrate)

    def _restore_rows(
        self, header: Header, rows: pa.RecordBatch, migrate: Migration | None
    ) -> None:
        width = header["keys"]
        names, own = rows.schema.names[width:], [name for name, _ in self._cells]
        columns = [values_of(column) for column in rows.columns]
        # without key columns there is one key, and no column to count it by
        keys = list(map(canonical_key, zip(*columns[:width], strict=True))) if width else [()]
        if header["forgotten"]:
            for key in keys:
                self._states.pop(key, None)
            return
        if migrate is None and names != own:
            raise StateVersionError(
                f"operator '{self._operator}': the snapshot holds the cells {', '.join(names)}, and "
                f"the operator declares {', '.join(own)}; raise its state_version and write migrate"
            )
        for key, values in zip(keys, zip(*columns[width:], strict=True), strict=True):
            contents: Contents = dict(zip(names, values, strict=True))
            if migrate is not None:
                contents = migrate(contents)
            state = self._created(key)
            for name, cell in self._cells:
                setattr(state, name, cell.restored(contents[name]))

    def _created(self, key: Key) -> KeyState:
        state = self._states[key] = self._class()
        state._key, state._opened, state._captured = key, self._freezes, 0
        state.clear()
        if self._freezes:
            self._dirty.append(state)
            self._forgotten.pop(key, None)
        return state

    def _forget(self, keys: list[Key]) -> None:
        forgotten = [self._states[key] for key in keys]
        self._changes(forgotten)
        for state in forgotten:
            del self._states[state._key]
            state._captured = _NEVER
        if self._freezes:
            self._forgotten.update(dict.fromkeys(keys))

    def _changes(self, states: list[KeyState]) -> None:
        """They are about to change."""
        freezes = self._freezes
        clean = [state for state in states if state._opened != freezes]
        if self._frozen:
            self._frozen.settle(clean)
        else:
            self._frozen = None
        for state in clean:
            state._opened = freezes
        self._dirty += clean

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


class _FrozenStates(FrozenEntries[KeyState, _Entries]):
    """States that are in a freeze, by its number."""

    def __init__(
        self, number: int, full: bool, states: list[KeyState], cells: Sequence[tuple[str, Cell]]
    ) -> None:
        super().__init__(states)
        self._number = number
        self._full = full
        self._cells = cells

    def _waiting(self, entries: Iterable[KeyState]) -> list[KeyState]:
        number, before = self._number, self._number - 1
        if self._full:
            return [state for state in entries if state._captured < number]
        return [state for state in entries if state._captured < number and state._opened == before]

    def _mark(self, entries: list[KeyState]) -> None:
        number = self._number
        for state in entries:
            state._captured = number

    def _capture(self, entries: list[KeyState]) -> _Entries:
        columns = _key_columns([state._key for state in entries])
        for name, cell in self._cells:
            values: Iterable[Any] = map(attrgetter(name), entries)
            if not isinstance(cell, Value):
                values = map(cell.plain, values)
            try:
                columns.append(captured(list(values)))
            except NotPlainError as error:
                raise NotPlainError(f"state can't be saved: {error}") from None
        return columns


def _key_columns(keys: list[Key]) -> list[Captured]:
    return list(map(captured, zip(*keys, strict=True)))


def _pieces(names: list[str], forgotten: list[Key], frozen: _FrozenStates) -> Iterator[pa.Buffer]:
    for start in range(0, len(forgotten), _FORGOTTEN_PER_PIECE):
        keys = forgotten[start : start + _FORGOTTEN_PER_PIECE]
        yield _piece([], [_key_columns(keys)], forgotten=True)
    gathered: list[_Entries] = []
    nbytes = 0
    for entries in frozen.batches():
        gathered.append(entries)
        nbytes += sum(column.nbytes for column in entries)
        if nbytes >= PIECE_BYTES:
            yield _piece(names, gathered, forgotten=False)
            gathered, nbytes = [], 0
    if gathered:
        yield _piece(names, gathered, forgotten=False)


def _piece(cells: list[str], entries: list[_Entries], forgotten: bool) -> pa.Buffer:
    columns = [column_of(parts) for parts in zip(*entries, strict=True)]
    width = len(columns) - len(cells)
    names = [*(f"key {place}" for place in range(width)), *cells]
    return encode_piece(
        {"keys": width, "forgotten": forgotten}, pa.record_batch(columns, names=names)
    )
