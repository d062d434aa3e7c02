"""How much memory the states of keys take, estimated: to walk through all that they hold takes too long.

Lengths are known of every state, and what an element takes is seen in a few of them now and then. So where
states hold texts of a kilobyte each, they are not taken for small numbers.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from operator import length_hint
from typing import Any

from streammine.operators.history import Entries
from streammine.operators.state import Cell, KeyState, Value

_STATE_BYTES = 200
"""Of a state and its place in a table of keys, without what its cells hold."""

_PLACE_BYTES = 8
"""Of an element in a list or window."""

_SAMPLED_STATES = 4
_SAMPLED_ELEMENTS = 16
_FORGOTTEN = 1 / 16
"""Of what earlier samples say, with each one."""


class StateSize:
    """What an element of the cells that can hold much takes, and the other cells of a state together."""

    def __init__(self, cells: Mapping[str, Cell]) -> None:
        self._values = [name for name, cell in cells.items() if isinstance(cell, Value)]
        self._containers = [name for name in cells if name not in self._values]
        self._element = _Mean()
        self._value = _Mean()

    def sample(self, states: Sequence[KeyState]) -> None:
        """Look into some of the states, evenly spread."""
        some = states[:: -(-len(states) // _SAMPLED_STATES) or 1]
        if self._values:
            self._value.add([_held(state, self._values) for state in some])
        contents = (getattr(state, name) for state in some for name in self._containers)
        self._element.add(
            [
                _PLACE_BYTES + size_of(element)
                for content in contents
                if not isinstance(content, Entries)
                for element in islice(content, _SAMPLED_ELEMENTS)
            ]
        )

    @property
    def of_state(self) -> float:
        """Bytes of a state, but for what is counted."""
        return _STATE_BYTES + self._value.bytes

    def count(self, states: Iterable[KeyState]) -> int:
        """How many bytes more their lists, windows and the like hold than when they were counted last."""
        if not self._containers:
            return 0
        element_bytes, more = self._element.bytes, 0
        for state in states:
            held = 0
            for name in self._containers:
                content = getattr(state, name)
                if isinstance(content, Entries):
                    held += content.nbytes
                else:
                    held += int(length_hint(content) * element_bytes)
            more += held - state._contained
            state._contained = held
        return more


class _Mean:
    """Of samples, the newer the more they count."""

    def __init__(self) -> None:
        self._sum = self._count = 0.0

    def add(self, sizes: Sequence[int]) -> None:
        if sizes:
            self._sum = self._sum * (1 - _FORGOTTEN) + sum(sizes)
            self._count = self._count * (1 - _FORGOTTEN) + len(sizes)

    @property
    def bytes(self) -> float:
        return self._sum / self._count if self._count else 0.0


def size_of(value: Any) -> int:
    """About how many bytes plain data take. Of a long list, some elements stand for all."""
    own = sys.getsizeof(value)
    elements: Iterable[Any]
    if isinstance(value, dict):
        elements = value.items()
    elif isinstance(value, list | tuple | set | frozenset | deque):
        elements = value
    else:
        return own
    sizes = [size_of(each) for each in islice(elements, _SAMPLED_ELEMENTS)]
    return own + (sum(sizes) * len(value) // len(sizes) if sizes else 0)


def _held(state: KeyState, names: Iterable[str]) -> int:
    return sum(size_of(getattr(state, name)) for name in names)
