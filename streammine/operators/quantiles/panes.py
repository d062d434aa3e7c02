"""Which keys had values in which epoch, as long as the longest window may need to know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streammine.model.contracts import IntArray

_NARROW = 1 << 16


@dataclass(frozen=True)
class Pane:
    """The rows of one epoch: the key of each, once for each row, and their number.

    `keys` is None where there is one key only, 0.
    """

    epoch: int
    rows: int
    keys: npt.NDArray[np.uint16] | npt.NDArray[np.int32] | None

    @classmethod
    def of(cls, epoch: int, keys: IntArray, keyed: bool) -> Pane:
        """A pane that takes as little space as its keys allow."""
        if not keyed:
            return cls(epoch, len(keys), None)
        narrow = len(keys) == 0 or int(keys.max()) < _NARROW
        stored = keys.astype(np.uint16) if narrow else keys.astype(np.int32)
        return cls(epoch, len(keys), stored)

    @property
    def numbers(self) -> IntArray:
        """The key of each row (int64[rows])."""
        if self.keys is None:
            return np.zeros(self.rows, np.int64)
        return self.keys.astype(np.int64)

    @property
    def nbytes(self) -> int:
        return 0 if self.keys is None else self.keys.nbytes

    def renumbered(self, numbers: IntArray) -> Pane:
        """The same rows where key k is numbers[k]."""
        return Pane.of(self.epoch, numbers[self.numbers], self.keys is not None)


class Panes:
    """The panes of several windows that end at the same time, the shortest first."""

    def __init__(self, lengths: Iterable[int]) -> None:
        """`lengths` are in epochs, ascending."""
        self._lengths = tuple(lengths)
        self._panes: dict[int, Pane] = {}
        self._first = [0] * len(self._lengths)
        """By window, the number of its oldest pane; panes are numbered as they come."""
        self._next = 0
        self.nbytes = 0

    def __iter__(self) -> Iterator[Pane]:
        """The panes of the longest window, the oldest first."""
        return iter(self._panes.values())

    def add(self, pane: Pane) -> None:
        """The newest pane."""
        self._panes[self._next] = pane
        self._next += 1
        self.nbytes += pane.nbytes

    def expired(self, epoch: int) -> Iterator[tuple[int, Pane]]:
        """The panes that leave each window when it ends with this epoch, and the window's number."""
        for window, length in enumerate(self._lengths):
            while self._first[window] < self._next:
                pane = self._panes[self._first[window]]
                if pane.epoch > epoch - length:
                    break
                yield window, pane
                if window == len(self._lengths) - 1:
                    del self._panes[self._first[window]]
                    self.nbytes -= pane.nbytes
                self._first[window] += 1

    @property
    def next_expiry(self) -> int | None:
        """The first epoch with whose end a window loses a pane."""
        ends = [
            self._panes[first].epoch + length
            for first, length in zip(self._first, self._lengths, strict=True)
            if first < self._next
        ]
        return min(ends, default=None)

    def renumber(self, numbers: IntArray) -> None:
        """Key k is numbers[k] from now on."""
        for place, pane in self._panes.items():
            renumbered = pane.renumbered(numbers)
            self.nbytes += renumbered.nbytes - pane.nbytes
            self._panes[place] = renumbered
