"""Keyed state: what an Operator keeps for each key, and which keys have changed.

A key's state is an object with one attribute per declared cell:

=========  =================================  ==========================================
cell       attribute                          holds
=========  =================================  ==========================================
Value(x)   assigned to                        plain data, x at first
List()     a list                             plain data
Queue(n)   a `collections.deque`              plain data; at most n where n is given
Map()      a dict                             plain data by plain data
=========  =================================  ==========================================

User code gets at the state of a key only through the store, for one event or one epoch end. So the
store knows the changed keys without watching single assignments: a key is dirty when its state was
handed out since the last freeze. What is frozen is encoded later, in short pieces, while processing
goes on: before a frozen key is handed out again, its frozen bytes are made (copy on write). Carbone
et al. (2015), section 4, want snapshots that don't halt the computation; Wu & Tan (2015), section
4, such small pieces.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from streammine.model.errors import TopologyError
from streammine.operators.plain_data import NotPlainError, decode, encode

Key = tuple[Any, ...]
"""Values of the key columns;

floats canonical (0.0, one NaN object), so that equal keys are equal.
"""

_ENTRY_BYTES = 200


@dataclass(frozen=True)
class Value:
    """A cell that is assigned to.

    `initial` must be immutable plain data: None, a number, text, a tuple.
    """

    initial: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.initial, (type(None), bool, int, float, str, bytes, tuple)):
            raise TypeError(
                f"Value({self.initial!r}): all keys would share it; use List(), Queue() or Map()"
            )

    def fresh(self) -> Any:
        return self.initial

    def plain(self, content: Any) -> Any:
        return content

    def restored(self, plain: Any) -> Any:
        return plain


@dataclass(frozen=True)
class List:
    """A cell that holds a list."""

    def fresh(self) -> list[Any]:
        return []

    def plain(self, content: Any) -> Any:
        return list(content)

    def restored(self, plain: Any) -> list[Any]:
        return list(plain)


@dataclass(frozen=True)
class Queue:
    """A cell that holds a deque;

    with `maximum`, appending to a full one drops from the other end.
    """

    maximum: int | None = None

    def fresh(self) -> deque[Any]:
        return deque(maxlen=self.maximum)

    def plain(self, content: Any) -> Any:
        return list(content)

    def restored(self, plain: Any) -> deque[Any]:
        return deque(plain, maxlen=self.maximum)


@dataclass(frozen=True)
class Map:
    """A cell that holds a dict, in order of insertion."""

    def fresh(self) -> dict[Any, Any]:
        return {}

    def plain(self, content: Any) -> Any:
        return dict(content)

    def restored(self, plain: Any) -> dict[Any, Any]:
        return dict(plain)


Cell = Value | List | Queue | Map


class KeyState:
    """State of one key: an attribute per declared cell.

    Not to be kept beyond the call that got it.
    """

    __slots__ = ()
    _cells: tuple[tuple[str, Cell], ...]

    def clear(self) -> None:
        """Everything as it was at first. A key that is so at an epoch's end is forgotten."""
        for name, cell in self._cells:
            setattr(self, name, cell.fresh())

    def is_fresh(self) -> bool:
        """Whether all cells are as they were at first."""
        return all(_same(getattr(self, name), cell.fresh()) for name, cell in self._cells)

    def __getattr__(self, name: str) -> Any:
        declared = ", ".join(name for name, _ in self._cells) or "none"
        raise AttributeError(f"no state '{name}' is declared for a key; declared: {declared}")


def _same(content: Any, fresh: Any) -> bool:
    return content is fresh or (type(content) is type(fresh) and bool(content == fresh))


def state_class(cells: Mapping[str, Cell]) -> type[KeyState]:
    """The class of an operator's key states. Raises TopologyError when a cell can't be used."""
    for name, cell in cells.items():
        if not isinstance(cell, (Value, List, Queue, Map)):
            raise TopologyError(
                f"state '{name}' is declared as {cell!r}; "
                "use Value(initial), List(), Queue() or Map()"
            )
        if not name.isidentifier() or name.startswith("_") or hasattr(KeyState, name):
            raise TopologyError(f"state can't be called '{name}'; use another name")
    fields = {"__slots__": tuple(cells), "_cells": tuple(cells.items())}
    return type("State", (KeyState,), fields)


class Frozen:
    """The changes that one freeze handed over: keys with their state, or None where forgotten.

    `pieces` encodes them, a few at a time, while the store may already be at work on later epochs.
    """

    def __init__(
        self, changed: dict[Key, KeyState | None], encode_state: Callable[[KeyState], bytes]
    ):
        self._waiting = changed
        self._encode = encode_state
        self._encoded: list[tuple[bytes, bytes | None]] = []

    def __len__(self) -> int:
        return len(self._waiting) + len(self._encoded)

    def settle(self, key: Key) -> None:
        """Encode one key now, because its state is about to change."""
        if key in self._waiting:
            state = self._waiting.pop(key)
            self._encoded.append((encode(key), None if state is None else self._encode(state)))

    def pieces(self, keys: int = 1000) -> Iterator[list[tuple[bytes, bytes | None]]]:
        """Lists of about `keys` pairs (encoded key, encoded state or None), in no set order."""
        while self._waiting or self._encoded:
            while self._waiting and len(self._encoded) < keys:
                self.settle(next(iter(self._waiting)))
            piece, self._encoded = self._encoded, []
            yield piece


class StateStore:
    """State of all keys of one slice."""

    def __init__(self, cells: Mapping[str, Cell]) -> None:
        self._class = state_class(cells)
        self._cells = tuple(cells.items())
        self._states: dict[Key, KeyState] = {}
        self._dirty: dict[Key, None] = {}
        self._frozen: Frozen | None = None

    def __len__(self) -> int:
        return len(self._states)

    def keys(self) -> list[Key]:
        """All keys with state, in no particular order."""
        return list(self._states)

    @property
    def dirty_keys(self) -> int:
        """Number of keys handed out or forgotten since the last freeze."""
        return len(self._dirty)

    @property
    def nbytes(self) -> int:
        """An estimate: contents of cells beyond a typical small one are not walked through."""
        return len(self._states) * (_ENTRY_BYTES + 50 * len(self._cells))

    def open(self, key: Key) -> KeyState:
        """The key's state, to be changed; made on first use."""
        if self._frozen is not None:
            self._frozen.settle(key)
        self._dirty[key] = None
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = self._class()
            state.clear()
        return state

    def forget_fresh(self, keys: Iterable[Key]) -> None:
        """Forget those of the keys whose state is as it was at first."""
        for key in keys:
            state = self._states.get(key)
            if state is not None and state.is_fresh():
                del self._states[key]

    def freeze(self) -> Frozen:
        """Hand over what changed since the last freeze, at an epoch boundary.

        The one before must have been encoded by then (its `pieces` all taken).
        """
        assert self._frozen is None or len(self._frozen) == 0, "a freeze is still being encoded"
        self._frozen = Frozen({key: self._states.get(key) for key in self._dirty}, self._encode)
        self._dirty = {}
        return self._frozen

    def restore(self, pairs: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Apply pairs that a freeze gave, oldest freeze first. What is restored is not dirty."""
        for key_data, data in pairs:
            key = canonical_key(decode(key_data))
            if data is None:
                self._states.pop(key, None)
                continue
            state = self._class()
            for (name, cell), plain in zip(self._cells, decode(data), strict=True):
                setattr(state, name, cell.restored(plain))
            self._states[key] = state

    def _encode(self, state: KeyState) -> bytes:
        cells = [(name, cell.plain(getattr(state, name))) for name, cell in self._cells]
        try:
            return encode([plain for _, plain in cells])
        except NotPlainError as error:
            raise NotPlainError(f"state can't be saved: {error}") from None


NAN = float("nan")
"""The one NaN object in keys: Python finds a NaN in a dict only by identity."""


def canonical_value(value: Any) -> Any:
    """A key value such that equal keys are equal in Python: no -0.0, one NaN."""
    if type(value) is float:
        return value + 0.0 if value == value else NAN
    return value


def canonical_key(key: Iterable[Any]) -> Key:
    """A key with canonical values."""
    return tuple(map(canonical_value, key))
