"""States of keys that are in a freeze: captured before they change, and made rows of.

A row holds a key and its cells. What a snapshot need not hold as a whole takes a form of its own: of a
History a row holds a stretch, and there are further rows where that is long; of a Window it holds what has
changed (see `window_change`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from streammine.operators.frozen import FrozenLots, encode_piece, in_lots
from streammine.operators.history import Entries, History, Stretch
from streammine.operators.plain_data import NotPlainError
from streammine.operators.python_columns import column_of, joined_columns
from streammine.operators.sliding_window import SlidingWindow
from streammine.operators.state import Cell, KeyState, Value, Window
from streammine.operators.user.groups import key_columns

_SPOKEN_OF: dict[type, tuple[str, str]] = {
    Entries: ("History", "entry"),
    SlidingWindow: ("Window", "time, value"),
}

C = TypeVar("C", Entries, SlidingWindow)


class StatesLot(NamedTuple):
    """States, and their keys as columns, where these were at hand."""

    states: list[KeyState]
    keys: list[pa.Array] | None


class _Captured(NamedTuple):
    """What a lot's states held: a column for each cell, or for a History, its stretch for each state.
    `windows`: the names of cells of which there is what has changed."""

    keys: list[pa.Array]
    cells: dict[str, pa.Array | list[Stretch]]
    windows: tuple[str, ...]

    def rows(self) -> Iterator[pa.RecordBatch]:
        """One row per state, and further ones of those whose histories are long."""
        stretches = {
            name: [each.parts() for each in cell]
            for name, cell in self.cells.items()
            if isinstance(cell, list)
        }
        if not stretches:
            yield rows_of(self.keys, self.cells)
            return
        longest = [max(map(len, parts)) for parts in zip(*stretches.values(), strict=True)]
        for turn in range(max(longest)):
            places = [place for place, parts in enumerate(longest) if parts > turn]
            chosen = pa.array(places)
            cells = {}
            for name, cell in self.cells.items():
                if isinstance(cell, list):
                    parts = [list(_part(stretches[name][place], turn)) for place in places]
                    cells[name] = _plain_column(parts)
                elif turn and name in self.windows:
                    # the first row of the key has told what changed
                    cells[name] = pa.nulls(len(places), cell.type)
                else:
                    cells[name] = cell.take(chosen)
            yield rows_of([key.take(chosen) for key in self.keys], cells)


def _part(parts: list[Stretch], turn: int) -> Stretch:
    """One of a history's parts; behind the last one, nothing more."""
    if turn < len(parts):
        return parts[turn]
    last = parts[-1]
    return Stretch(last.first, last.number + len(last.entries), [])


class FrozenStates(FrozenLots[StatesLot, _Captured]):
    """States that are in a freeze, by its number."""

    def __init__(
        self,
        number: int,
        full: bool,
        lots: list[StatesLot],
        fields: Sequence[pa.Field],
        cells: Sequence[tuple[str, Cell]],
    ) -> None:
        super().__init__(lots)
        self._number = number
        self._full = full
        self._fields = fields
        self._cells = cells
        self._windows = tuple(name for name, cell in cells if isinstance(cell, Window))

    def settle_changing(self, lot: StatesLot) -> None:
        """Like `settle`, of states of which some may be in no freeze."""
        before = self._number - 1
        frozen = [self._full or state._opened == before for state in lot.states]
        if (found := chosen_of(lot, frozen)) is not None:
            self.settle(found)

    def _waiting(self, lot: StatesLot) -> StatesLot | None:
        number = self._number
        return chosen_of(lot, [state._captured < number for state in lot.states])

    def _mark(self, lot: StatesLot) -> None:
        number = self._number
        for state in lot.states:
            state._captured = number

    def _capture(self, lot: StatesLot) -> _Captured:
        keys = lot.keys
        if keys is None:
            keys = key_columns([state._key for state in lot.states], self._fields)
        cells: dict[str, pa.Array | list[Stretch]] = {}
        for name, cell in self._cells:
            values = list(map(attrgetter(name), lot.states))
            if isinstance(cell, History):
                # its entries don't change, so they need not be encoded while others wait
                entries = [_of_kind(Entries, name, content) for content in values]
                cells[name] = [each.frozen(self._full) for each in entries]
                continue
            if isinstance(cell, Window):
                windows = [_of_kind(SlidingWindow, name, content) for content in values]
                values = [
                    window.frozen(
                        self._full, self._number, state._captured, (state._key, name)
                    ).plain()
                    for state, window in zip(lot.states, windows, strict=True)
                ]
            elif not isinstance(cell, Value):
                values = list(map(cell.plain, values))
            cells[name] = _plain_column(values)
        return _Captured(keys, cells, self._windows)


def _of_kind(kind: type[C], name: str, content: Any) -> C:
    """Raises NotPlainError where the user's code has put something else in its place."""
    if isinstance(content, kind):
        return content
    cell, call = _SPOKEN_OF[kind]
    raise NotPlainError(
        f"state can't be saved: '{name}' is a {cell}, and a {type(content).__name__} was assigned; "
        f"write state.{name}.append({call})"
    )


def _plain_column(values: list[Any]) -> pa.Array:
    try:
        return column_of(values)
    except NotPlainError as error:
        raise NotPlainError(f"state can't be saved: {error}") from None


def rows_of(keys: list[pa.Array], cells: Mapping[str, pa.Array]) -> pa.RecordBatch:
    names = [f"key {place}" for place in range(len(keys))]
    return pa.record_batch([*keys, *cells.values()], names=[*names, *cells])


def piece_of(rows: Sequence[pa.RecordBatch], forgotten: bool, windows: Sequence[str]) -> pa.Buffer:
    """`windows`: the names of columns that hold what has changed of windows."""
    columns = zip(*(each.columns for each in rows), strict=True)
    whole = pa.record_batch(list(map(joined_columns, columns)), names=rows[0].schema.names)
    return encode_piece({"forgotten": forgotten, "windows": list(windows)}, whole)


def short_lots(lot: StatesLot) -> list[StatesLot]:
    """A lot as several that are short enough for whoever waits until one is captured."""
    return [
        StatesLot(states, lot.keys and [column.slice(place, len(states)) for column in lot.keys])
        for place, states in in_lots(lot.states)
    ]


def chosen_of(lot: StatesLot, wanted: list[bool]) -> StatesLot | None:
    """The wanted states of a lot; None: none is."""
    if all(wanted):
        return lot if wanted else None
    states = list(compress(lot.states, wanted))
    if not states:
        return None
    return StatesLot(states, lot.keys and [column.filter(pa.array(wanted)) for column in lot.keys])
