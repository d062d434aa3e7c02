"""The states of all keys of a slice: which keys have changed, and what is frozen of them.

User code gets at the state of a key only through the store, for one event or one epoch end. So the
store knows the changed keys without watching single assignments: a state is dirty when it was handed
out since the last freeze, and what is frozen of it is captured on another thread, while processing goes
on, or right before it is handed out again (copy on write, see `frozen`). Freezes have numbers, and each
state says

- in `_opened`, after which freeze it was handed out last: it is dirty if that is the last one;
- in `_captured`, in which freeze it was captured last;
- in `_made`, after which freeze it was made: no snapshot knows of its key if that is the last one;
- in `_elements`, how much its lists, windows and the like held when that was last counted.

To ask the state itself touches nothing that is not needed anyway. With a hundred thousand keys, to look
them up in sets of dirty and of frozen keys costs much of what capturing them does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress, islice
from operator import attrgetter, length_hint
from typing import Any, NamedTuple

import pyarrow as pa

from streammine.model.epochs import EpochDefinition
from streammine.model.errors import StateVersionError, TopologyError
from streammine.operators.frozen import (
    PIECE_BYTES,
    FrozenLots,
    Handover,
    Header,
    decode_piece,
    encode_piece,
    in_lots,
)
from streammine.operators.history import Entries, History, Stretch
from streammine.operators.plain_data import NotPlainError
from streammine.operators.python_columns import column_of, joined_columns, values_of
from streammine.operators.sliding_window import SlidingWindow
from streammine.operators.state import (
    Cell,
    Key,
    KeyState,
    Value,
    Window,
    same_content,
    state_class,
)
from streammine.operators.user_groups import key_columns, python_keys

_ENTRY_BYTES = 200
_ELEMENT_BYTES = 200
"""About what a small tuple, with its place in a list or window, takes."""

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


class _Lot(NamedTuple):
    """States, and their keys as columns, where these were at hand."""

    states: list[KeyState]
    keys: list[pa.Array] | None


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
        self._dirty: list[_Lot] = []
        self._dirty_states = self._dirty_forgotten = 0
        self._forgotten: dict[Key, None] = {}
        self._frozen: _FrozenStates | None = None
        self._containers = [name for name, cell in cells.items() if not isinstance(cell, Value)]
        self._elements = 0
        self._windows = [(name, cell) for name, cell in cells.items() if isinstance(cell, Window)]
        self._first_times: list[tuple[str, int]] = []
        self._sweep: Iterator[Key] = iter(())

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
        """An estimate: what lists, windows and the like hold is counted at epoch ends, not walked through."""
        of_keys = len(self._states) * (_ENTRY_BYTES + 50 * len(self._cells))
        return of_keys + _ELEMENT_BYTES * self._elements

    def open(self, keys: Sequence[Key], columns: list[pa.Array] | None = None) -> list[KeyState]:
        """The states of different keys, to be changed; made on first use.

        `columns`: the same keys as columns, if they are at hand.
        """
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
        self._count(states)
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
            lots = _cut(_Lot(self.states(), None))
        forgotten = [] if full else list(self._forgotten)
        self._frozen = _FrozenStates(self._freezes, full, lots, self._fields, self._cells)
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
            self._elements = 0
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
                if (state := self._states.pop(key, None)) is not None:
                    self._elements -= state._elements
            return
        if migrate is None and names != own:
            raise StateVersionError(
                f"operator '{self._operator}': the snapshot holds the cells {', '.join(names)}, and "
                f"the operator declares {', '.join(own)}; raise its state_version and write migrate"
            )
        for key, values in zip(
            keys, zip(*map(values_of, rows.columns[width:]), strict=True), strict=True
        ):
            contents: Contents = dict(zip(names, values, strict=True))
            if migrate is not None:
                contents = migrate(contents)
            before = self._states.get(key)
            state = self._created(key)
            if before is not None:
                state._elements = before._elements
            for name, cell in self._cells:
                if isinstance(cell, History):
                    known = None if before is None else getattr(before, name)
                    setattr(state, name, cell.restored(contents[name], known))
                else:
                    setattr(state, name, cell.restored(contents[name]))
            self._count([state])

    def _created(self, key: Key) -> KeyState:
        state = self._states[key] = self._class()
        # nothing to be captured in the freeze that is going on
        state._key, state._opened, state._captured = key, _NOT_YET, self._freezes
        state._made = self._freezes
        state._elements = 0
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
            self._elements -= state._elements
            state._captured = _NEVER
            if state._made < freezes:
                self._forgotten[state._key] = None
        if freezes:
            self._dirty_forgotten += len(states)
            if self._dirty_forgotten > max(_LITTLE, self._dirty_states // 2):
                self._compact()

    def _count(self, states: Iterable[KeyState]) -> None:
        """What cells hold that can hold much."""
        if not self._containers:
            return
        for state in states:
            elements = sum(_elements(getattr(state, name)) for name in self._containers)
            self._elements += elements - state._elements
            state._elements = elements

    def _compact(self) -> None:
        """Keys that come and go leave states in the dirty lots, and the next freeze may be far."""
        chosen = [
            _chosen(lot, [state._captured != _NEVER for state in lot.states]) for lot in self._dirty
        ]
        self._dirty = [lot for lot in chosen if lot is not None]
        self._dirty_states = sum(len(lot.states) for lot in self._dirty)
        self._dirty_forgotten = 0

    def _changes(self, states: list[KeyState], columns: list[pa.Array] | None) -> None:
        """They are about to change. Before a first freeze it is all the same: it is of everything."""
        freezes = self._freezes
        if not freezes:
            return
        lot = _chosen(_Lot(states, columns), [state._opened != freezes for state in states])
        if lot is None:
            return
        if self._frozen:
            self._frozen.settle_changing(lot)
        else:
            self._frozen = None
        for state in lot.states:
            state._opened = freezes
        self._dirty += _cut(lot)
        self._dirty_states += len(lot.states)

    def _pieces(self, forgotten: list[Key], frozen: _FrozenStates) -> Iterator[pa.Buffer]:
        for start in range(0, len(forgotten), _FORGOTTEN_PER_PIECE):
            some = forgotten[start : start + _FORGOTTEN_PER_PIECE]
            yield _piece([_rows(key_columns(some, self._fields), {})], forgotten=True)
        gathered: list[pa.RecordBatch] = []
        nbytes = 0
        for rows in chain.from_iterable(each.rows() for each in frozen.captured()):
            gathered.append(rows)
            nbytes += rows.nbytes
            if nbytes >= PIECE_BYTES:
                yield _piece(gathered, forgotten=False)
                gathered, nbytes = [], 0
        if gathered:
            yield _piece(gathered, forgotten=False)

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


class _Captured(NamedTuple):
    """What a lot's states held: a column for each cell, or for a History, its stretch for each state."""

    keys: list[pa.Array]
    cells: dict[str, pa.Array | list[Stretch]]

    def rows(self) -> Iterator[pa.RecordBatch]:
        """One row per state, and further ones of those whose histories are long."""
        stretches = {
            name: [each.parts() for each in cell]
            for name, cell in self.cells.items()
            if isinstance(cell, list)
        }
        if not stretches:
            yield _rows(self.keys, self.cells)
            return
        longest = [max(map(len, parts)) for parts in zip(*stretches.values(), strict=True)]
        for turn in range(max(longest)):
            places = [place for place, parts in enumerate(longest) if parts > turn]
            chosen = pa.array(places)
            cells = {
                name: _plain_column([list(_part(stretches[name][place], turn)) for place in places])
                if isinstance(cell, list)
                else cell.take(chosen)
                for name, cell in self.cells.items()
            }
            yield _rows([key.take(chosen) for key in self.keys], cells)


def _part(parts: list[Stretch], turn: int) -> Stretch:
    """One of a history's parts; behind the last one, nothing more."""
    if turn < len(parts):
        return parts[turn]
    last = parts[-1]
    return Stretch(last.first, last.number + len(last.entries), [])


class _FrozenStates(FrozenLots[_Lot, _Captured]):
    """States that are in a freeze, by its number."""

    def __init__(
        self,
        number: int,
        full: bool,
        lots: list[_Lot],
        fields: Sequence[pa.Field],
        cells: Sequence[tuple[str, Cell]],
    ) -> None:
        super().__init__(lots)
        self._number = number
        self._full = full
        self._fields = fields
        self._cells = cells

    def settle_changing(self, lot: _Lot) -> None:
        """Like `settle`, of states of which some may be in no freeze."""
        before = self._number - 1
        frozen = [self._full or state._opened == before for state in lot.states]
        if (found := _chosen(lot, frozen)) is not None:
            self.settle(found)

    def _waiting(self, lot: _Lot) -> _Lot | None:
        number = self._number
        return _chosen(lot, [state._captured < number for state in lot.states])

    def _mark(self, lot: _Lot) -> None:
        number = self._number
        for state in lot.states:
            state._captured = number

    def _capture(self, lot: _Lot) -> _Captured:
        keys = lot.keys
        if keys is None:
            keys = key_columns([state._key for state in lot.states], self._fields)
        cells: dict[str, pa.Array | list[Stretch]] = {}
        for name, cell in self._cells:
            values: Iterable[Any] = map(attrgetter(name), lot.states)
            if isinstance(cell, History):
                # its entries don't change, so they need not be encoded while others wait
                cells[name] = [_entries(name, content).frozen(self._full) for content in values]
                continue
            if not isinstance(cell, Value):
                values = map(cell.plain, values)
            cells[name] = _plain_column(list(values))
        return _Captured(keys, cells)


def _entries(name: str, content: Any) -> Entries:
    """Raises NotPlainError where the user's code has put something else in a record's place."""
    if not isinstance(content, Entries):
        raise NotPlainError(
            f"state can't be saved: '{name}' is a History, and a {type(content).__name__} was assigned; "
            f"write state.{name}.append(entry)"
        )
    return content


def _plain_column(values: list[Any]) -> pa.Array:
    try:
        return column_of(values)
    except NotPlainError as error:
        raise NotPlainError(f"state can't be saved: {error}") from None


def _elements(content: Any) -> int:
    """How much a cell's content holds, in elements of usual size."""
    if isinstance(content, Entries):
        return content.nbytes // _ELEMENT_BYTES
    return length_hint(content)


def _rows(keys: list[pa.Array], cells: Mapping[str, pa.Array]) -> pa.RecordBatch:
    names = [f"key {place}" for place in range(len(keys))]
    return pa.record_batch([*keys, *cells.values()], names=[*names, *cells])


def _piece(rows: Sequence[pa.RecordBatch], forgotten: bool) -> pa.Buffer:
    columns = zip(*(each.columns for each in rows), strict=True)
    whole = pa.record_batch(list(map(joined_columns, columns)), names=rows[0].schema.names)
    return encode_piece({"forgotten": forgotten}, whole)


def _cut(lot: _Lot) -> list[_Lot]:
    """A lot as several that are short enough for whoever waits until one is captured."""
    return [
        _Lot(states, lot.keys and [column.slice(place, len(states)) for column in lot.keys])
        for place, states in in_lots(lot.states)
    ]


def _chosen(lot: _Lot, wanted: list[bool]) -> _Lot | None:
    """The wanted states of a lot; None: none is."""
    if all(wanted):
        return lot if wanted else None
    states = list(compress(lot.states, wanted))
    if not states:
        return None
    return _Lot(states, lot.keys and [column.filter(pa.array(wanted)) for column in lot.keys])
