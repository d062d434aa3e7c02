"""The states of all keys of a slice: which keys have changed, and what is frozen of them.

User code gets at the state of a key only through the store, for one event or one epoch end. So the
store knows the changed keys without watching single assignments: a state is dirty when it was handed
out since the last freeze, and what is frozen of it is captured on another thread, while processing goes
on, or right before it is handed out again (copy on write, see `frozen`). Freezes have numbers, and each
state says

- in `_opened`, after which freeze it was handed out last: it is dirty if that is the last one;
- in `_captured`, in which freeze it was captured last;
- in `_made`, after which freeze it was made: no snapshot knows of its key if that is the last one;
- in `_contained`, how much its lists, windows and the like held when that was last counted.

To ask the state itself touches nothing that is not needed anyway. With a hundred thousand keys, to look
them up in sets of dirty and of frozen keys costs much of what capturing them does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from operator import attrgetter, length_hint
from typing import Any

import pyarrow as pa

from streammine.model.epochs import EpochDefinition
from streammine.model.errors import StateVersionError, TopologyError
from streammine.operators.frozen import PIECE_BYTES, Handover, Header, decode_piece
from streammine.operators.frozen_states import (
    FrozenStates,
    StatesLot,
    chosen_of,
    piece_of,
    rows_of,
    short_lots,
)
from streammine.operators.history import History
from streammine.operators.plain_data import decode, encode
from streammine.operators.python_columns import values_of
from streammine.operators.sliding_window import SlidingWindow
from streammine.operators.state import (
    Cell,
    Key,
    KeyState,
    Window,
    same_content,
    state_class,
)
from streammine.operators.state_size import StateSize
from streammine.operators.user.groups import key_columns, python_keys
from streammine.operators.window_change import WindowChange

_SWEPT_KEYS = 64
_LITTLE = 4096
_FORGOTTEN_PER_PIECE = 65_536
_NEVER = sys.maxsize
"""Captured so late: a state that is forgotten is in no freeze from then on."""
_NOT_YET = -1

Contents = dict[str, Any]
"""The contents of a key's cells as plain data, by the cells' names."""

Migration = Callable[[Contents], Contents]
"""From the contents that a snapshot holds to contents of the cells as they are declared now."""


class StateStore:
    """State of all keys of one slice."""

    def __init__(
        self, cells: Mapping[str, Cell], fields: Sequence[pa.Field], operator: str = ""
    ) -> None:
        """`fields`: the keys' columns. `operator` is named in errors.

        Raises TopologyError when a cell can't be used.
        """
        self._fields = list(fields)
        self._operator = operator
        self._class = state_class(cells)
        self._cells = tuple(cells.items())
        self._states: dict[Key, KeyState] = {}
        self._freezes = 0
        # states handed out, and keys forgotten, since the last freeze; the first is of everything
        self._dirty: list[StatesLot] = []
        self._dirty_states = self._dirty_forgotten = 0
        self._forgotten: dict[Key, None] = {}
        self._frozen: FrozenStates | None = None
        self._size = StateSize(cells)
        self._contained = 0
        self._windows = [(name, cell) for name, cell in cells.items() if isinstance(cell, Window)]
        self._first_times: list[tuple[str, int]] = []
        self._sweep: Iterator[Key] = iter(())
        # while snapshots of another version are restored: windows as these hold them
        self._unmigrated: dict[Key, dict[str, SlidingWindow]] = {}

    def __len__(self) -> int:
        return len(self._states)

    def keys(self) -> list[Key]:
        """All keys with state, in no particular order."""
        return list(self._states)

    def states(self) -> list[KeyState]:
        """Their states, in the same order."""
        return list(self._states.values())

    def get(self, key: Key) -> KeyState | None:
        """The state of a key, only to be looked at."""
        return self._states.get(key)

    @property
    def windows(self) -> list[tuple[str, Window]]:
        """The window cells by name."""
        return self._windows

    @property
    def nbytes(self) -> int:
        """An estimate, made at epoch ends: see `state_size`."""
        return round(len(self._states) * self._size.of_state) + self._contained

    def open(self, keys: Sequence[Key], columns: list[pa.Array] | None = None) -> list[KeyState]:
        """The states of different keys, to be changed; made on first use.

        `columns`: the same keys as columns, if they are at hand.
        """
        self._unmigrated = {}
        found = list(map(self._states.get, keys))
        opened = [
            self._created(key) if state is None else state
            for key, state in zip(keys, found, strict=True)
        ]
        self._changes(opened, columns)
        if self._first_times:
            for state in opened:
                self._drop_old(state)
        return opened

    def forget_fresh(self, states: list[KeyState]) -> None:
        """Of states that were handed out, forget those that are as they were at first, and some keys of which
        nothing is left by now.

        Of all keys some are looked at each time, so that those that never come again don't stay for ever.
        """
        self._size.sample(states)
        self._contained += self._size.count(states)
        for name, cell in self._cells:
            fresh = cell.fresh()
            contents = map(attrgetter(name), states)
            states = [
                state
                for state, content in zip(states, contents, strict=True)
                if same_content(content, fresh)
            ]
        self._forget(states)
        if self._windows:
            self.drop_expired(islice(self._sweep, _SWEPT_KEYS))
            if not length_hint(self._sweep):
                self._sweep = iter(list(self._states))

    def check_windows(self, definition: EpochDefinition) -> None:
        """Raises TopologyError where a window is as long as epochs of this kind can't tell."""
        for name, cell in self._windows:
            if cell.microseconds is not None and definition.kind != "time":
                raise TopologyError(
                    f"operator '{self._operator}': state '{name}' is {cell!r}, but the epochs count rows; "
                    "use Window(epochs=...), or epochs by time"
                )

    def begin_epoch(self, epoch: int, definition: EpochDefinition) -> None:
        """Windows hand out from now on what is left when the epoch before `epoch` is over."""
        self._first_times = [
            (name, cell.first_time_kept(epoch - 1, definition)) for name, cell in self._windows
        ]

    def end_epoch(
        self, epoch: int, definition: EpochDefinition, states: Iterable[KeyState]
    ) -> None:
        """All events of the epoch are processed: these states, of keys that had some, drop what is old.

        Others do when they are opened.
        """
        if self._windows:
            self.begin_epoch(epoch + 1, definition)
            for state in states:
                self._drop_old(state)

    def drop_expired(self, keys: Iterable[Key]) -> None:
        """Forget those of the keys of which nothing is left without what is old by now."""
        if not self._first_times:
            return
        states = self._states
        known = [states[key] for key in keys if key in states]
        self._forget([state for state in known if self._is_expired(state)])

    def freeze(self, full: bool) -> Handover:
        """The states that changed since the last freeze, or all, between two epochs."""
        if self._frozen is not None:
            self._frozen.give_up()
        full = full or self._freezes == 0
        self._freezes += 1
        lots = self._dirty
        if full:
            lots = short_lots(StatesLot(self.states(), None))
        forgotten = [] if full else list(self._forgotten)
        self._frozen = FrozenStates(self._freezes, full, lots, self._fields, self._cells)
        self._dirty, self._forgotten = [], {}
        self._dirty_states = self._dirty_forgotten = 0
        return Handover(full, self._pieces(forgotten, self._frozen))

    def restore(
        self, full: bool, pieces: Iterable[pa.Buffer], migrate: Migration | None = None
    ) -> None:
        """Take in the pieces of a freeze, oldest freeze first.

        Raises StateVersionError if the names of the cells don't fit and nothing migrates them.
        """
        if full:
            self._states = {}
            self._contained = 0
            self._unmigrated = {}
        for piece in pieces:
            header, batches = decode_piece(piece)
            for batch in batches:
                self._restore_rows(header, batch, migrate)

    def _restore_rows(
        self, header: Header, rows: pa.RecordBatch, migrate: Migration | None
    ) -> None:
        width = len(self._fields)
        names, own = rows.schema.names[width:], [name for name, _ in self._cells]
        # without key columns there is one key, and no column to count it by
        keys = python_keys(rows.columns[:width], rows.num_rows or 1)
        if header["forgotten"]:
            for key in keys:
                self._unmigrated.pop(key, None)
                if (state := self._states.pop(key, None)) is not None:
                    self._contained -= state._contained
            return
        windows = header.get("windows", [])
        if migrate is None and (names != own or windows != [name for name, _ in self._windows]):
            raise StateVersionError(
                f"operator '{self._operator}': the snapshot holds {_declared(names, windows)}, and "
                f"the operator declares {_declared(own, [name for name, _ in self._windows])}; raise "
                "its state_version and write migrate"
            )
        restored: dict[Key, KeyState] = {}
        for key, values in zip(
            keys, zip(*map(values_of, rows.columns[width:]), strict=True), strict=True
        ):
            contents: Contents = dict(zip(names, values, strict=True))
            for name in windows:
                # None: the row is a further one of a long history
                change = contents[name]
                contents[name] = None if change is None else WindowChange.of_plain(change)
            if migrate is not None:
                contents = migrate(contents | self._whole_windows(key, contents, windows))
            before = self._states.get(key)
            state = self._created(key)
            if before is not None:
                state._contained = before._contained
            for name, cell in self._cells:
                known = None if before is None else getattr(before, name)
                content = contents[name]
                if isinstance(cell, History):
                    setattr(state, name, cell.restored(content, known))
                elif migrate is None and isinstance(cell, Window):
                    setattr(state, name, _window_after(known, content))
                else:
                    setattr(state, name, cell.restored(content))
            # further rows of a long history make a new one
            restored[key] = state
        self._size.sample(list(restored.values()))
        self._contained += self._size.count(restored.values())

    def _whole_windows(self, key: Key, contents: Contents, windows: Sequence[str]) -> Contents:
        """What user code that migrates gets to see of them: all entries, as [time, value]."""
        known = self._unmigrated.setdefault(key, {}) if windows else {}
        for name in windows:
            known[name] = _window_after(known.get(name), contents[name])
        # copies, for what user code makes of them is none of the next snapshot's business
        return decode(encode({name: list(map(list, known[name])) for name in windows}))  # type: ignore[no-any-return]

    def _created(self, key: Key) -> KeyState:
        state = self._states[key] = self._class()
        # nothing to be captured in the freeze that is going on
        state._key, state._opened, state._captured = key, _NOT_YET, self._freezes
        state._made = self._freezes
        state._contained = 0
        if key in self._forgotten:
            del self._forgotten[key]
            state._made = _NOT_YET
        state.clear()
        return state

    def _forget(self, states: list[KeyState]) -> None:
        self._changes(states, None)
        freezes = self._freezes
        for state in states:
            del self._states[state._key]
            self._contained -= state._contained
            state._captured = _NEVER
            if state._made < freezes:
                self._forgotten[state._key] = None
        if freezes:
            self._dirty_forgotten += len(states)
            if self._dirty_forgotten > max(_LITTLE, self._dirty_states // 2):
                self._compact()

    def _compact(self) -> None:
        """Keys that come and go leave states in the dirty lots, and the next freeze may be far."""
        chosen = [
            chosen_of(lot, [state._captured != _NEVER for state in lot.states])
            for lot in self._dirty
        ]
        self._dirty = [lot for lot in chosen if lot is not None]
        self._dirty_states = sum(len(lot.states) for lot in self._dirty)
        self._dirty_forgotten = 0

    def _changes(self, states: list[KeyState], columns: list[pa.Array] | None) -> None:
        """They are about to change. Before a first freeze it is all the same: it is of everything."""
        freezes = self._freezes
        if not freezes:
            return
        lot = chosen_of(StatesLot(states, columns), [state._opened != freezes for state in states])
        if lot is None:
            return
        if self._frozen:
            self._frozen.settle_changing(lot)
        else:
            self._frozen = None
        for state in lot.states:
            state._opened = freezes
        self._dirty += short_lots(lot)
        self._dirty_states += len(lot.states)

    def _pieces(self, forgotten: list[Key], frozen: FrozenStates) -> Iterator[pa.Buffer]:
        for start in range(0, len(forgotten), _FORGOTTEN_PER_PIECE):
            some = forgotten[start : start + _FORGOTTEN_PER_PIECE]
            yield piece_of([rows_of(key_columns(some, self._fields), {})], True, ())
        windows = [name for name, _ in self._windows]
        gathered: list[pa.RecordBatch] = []
        nbytes = 0
        for rows in chain.from_iterable(each.rows() for each in frozen.captured()):
            gathered.append(rows)
            nbytes += rows.nbytes
            if nbytes >= PIECE_BYTES:
                yield piece_of(gathered, False, windows)
                gathered, nbytes = [], 0
        if gathered:
            yield piece_of(gathered, False, windows)

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


def _window_after(before: SlidingWindow | None, change: WindowChange | None) -> SlidingWindow:
    window = SlidingWindow() if before is None else before
    if change is not None:
        window.take_in(change)
    return window


def _declared(names: Sequence[str], windows: Sequence[str]) -> str:
    """The cells, as a person is told of them."""
    told = [f"{name} (a Window)" if name in windows else name for name in names]
    return f"the cells {', '.join(told)}" if told else "no cells"
