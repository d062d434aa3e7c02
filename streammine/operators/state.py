"""Keyed state: what an Operator keeps for each key.

A key's state is an object with one attribute per declared cell:

==========================  =================================  ====================================
cell                        attribute                          holds
==========================  =================================  ====================================
Value(x)                    assigned to                        plain data, x at first
List()                      a list                             plain data
Queue(n)                    a `collections.deque`              plain data; at most n where n is given
Map()                       a dict                             plain data by plain data
Window(microseconds=n)      ``append(time, value)``, iterable  plain data of the last n microseconds
Window(epochs=n)            ``append(epoch, value)``           plain data of the last n epochs
Timers()                    ``set(time)``, ``cancel(time)``    when `on_timer` is to be called
History()                   ``append(entry)``, ``[number]``    plain data that is added to and never changed
==========================  =================================  ====================================

Snapshots hold the cells' contents as plain data (see plain_data), never pickled. Keys and their states
lie in a `state_store.StateStore`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streammine.model.epochs import EpochDefinition
from streammine.model.errors import TopologyError
from streammine.operators.history import History
from streammine.operators.sliding_window import SlidingWindow
from streammine.operators.timers import Timers

Key = tuple[Any, ...]
"""Values of the key columns;

floats canonical (0.0, one NaN object), so that equal keys are equal.
"""


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


@dataclass(frozen=True)
class Window:
    """A cell that holds what happened lately: a `sliding_window.SlidingWindow`.

    Give one length: `microseconds` of event time (only where epochs are by time), or `epochs`. User
    code calls ``append(time, value)``, with the event's time or ``self.context.epoch``, iterates over
    (time, value) pairs in the order of their appending, asks for ``values()``, ``len`` and ``clear``.

    Entries are dropped at epoch ends: when an epoch is over, after its last event and before its
    `end_epoch`, those older than the watermark less the length go: ``time < (end of epoch) -
    microseconds``, or ``time <= epoch - epochs``. So `end_epoch` sees exactly the last `epochs` epochs.
    A key whose cells are all empty then is forgotten, in the end also where it has no more events.

    A snapshot holds what was appended since the one before, as long as values can't be changed in their
    place: None, numbers, texts, bytes, and tuples of these. With a list or dict among them it holds the whole
    window each time.
    """

    microseconds: int | None = None
    epochs: int | None = None

    def __post_init__(self) -> None:
        given = [length for length in (self.microseconds, self.epochs) if length is not None]
        if len(given) != 1 or type(given[0]) is not int or given[0] <= 0:
            raise TypeError(
                f"{self!r}: give one length above 0, Window(microseconds=...) or Window(epochs=...)"
            )

    def first_time_kept(self, epoch: int, definition: EpochDefinition) -> int:
        """The least time that is kept when `epoch` is over."""
        if self.epochs is not None:
            return epoch + 1 - self.epochs
        assert self.microseconds is not None
        return definition.window(epoch)[1] - self.microseconds

    def fresh(self) -> SlidingWindow:
        return SlidingWindow()

    def restored(self, plain: Any) -> SlidingWindow:
        """Of entries [time, value], as a user's `migrate` gets and gives them."""
        window = SlidingWindow()
        for time, value in plain:
            window.append(time, value)
        return window


Cell = Value | List | Queue | Map | Window | Timers | History


class KeyState:
    """State of one key: an attribute per declared cell.

    Not to be kept beyond the call that got it.
    """

    __slots__ = ("_captured", "_contained", "_key", "_made", "_opened")
    _cells: tuple[tuple[str, Cell], ...]

    # these are the store's
    _key: Key
    _opened: int
    _captured: int
    _made: int
    _contained: int

    def clear(self) -> None:
        """Everything as it was at first. A key that is so at an epoch's end is forgotten."""
        for name, cell in self._cells:
            setattr(self, name, cell.fresh())

    def __getattr__(self, name: str) -> Any:
        declared = ", ".join(name for name, _ in self._cells) or "none"
        raise AttributeError(f"no state '{name}' is declared for a key; declared: {declared}")


def same_content(content: Any, fresh: Any) -> bool:
    """Whether a cell's content is as it is at first."""
    return content is fresh or (type(content) is type(fresh) and bool(content == fresh))


def state_class(cells: Mapping[str, Cell]) -> type[KeyState]:
    """The class of an operator's key states. Raises TopologyError when a cell can't be used."""
    for name, cell in cells.items():
        if not isinstance(cell, Cell):
            raise TopologyError(
                f"state '{name}' is declared as {cell!r}; "
                "use Value(initial), List(), Queue(), Map(), Window(...), Timers() or History()"
            )
        if not name.isidentifier() or name.startswith("_") or hasattr(KeyState, name):
            raise TopologyError(f"state can't be called '{name}'; use another name")
    fields = {"__slots__": tuple(cells), "_cells": tuple(cells.items())}
    return type("State", (KeyState,), fields)


NAN = float("nan")
"""The one NaN object in keys: Python finds a NaN in a dict only by identity."""


def canonical_value(value: Any) -> Any:
    """A key value such that equal keys are equal in Python: no -0.0, one NaN."""
    if type(value) is float:
        return value + 0.0 if value == value else NAN
    return value
