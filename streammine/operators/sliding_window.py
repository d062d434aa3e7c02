"""The content of a `Window` cell: what happened lately, by event time or epoch.

Entries are dropped at epoch ends alone, and by the epoch's number alone: when epoch e is over, after its
last event and before `Operator.end_epoch`, entries with a time before ``watermark - length`` go, where the
watermark is the end of epoch e. So `end_epoch` sees the last `length` exactly, and `process` that and what
was appended in the epoch so far. That is so for every key, whether it had events in e or not, and whether
e had any events at all: keys that nobody looks at are brought up to date when they are looked at next.

Entries lie in stretches, in the order in which they were appended, and each stretch knows the times between
which its entries lie. Inside an epoch they come in any order, but what one epoch appends lies behind what
another one did. So mostly the oldest stretches go as they are, and one is looked through.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import chain, pairwise
from operator import eq
from typing import Any

Entry = tuple[int, Any]

SHORTEST_STRETCH = 32
"""Entries that are taken together at least, or a window with few of them would be mostly stretches."""

LONGEST_STRETCH = 1024


class _Stretch:
    """Entries that were appended one after the other, the last at time `latest` at most."""

    __slots__ = ("earliest", "entries", "latest")

    def __init__(self, time: int) -> None:
        self.entries: list[Entry] = []
        self.earliest = self.latest = time

    def drop_before(self, time: int) -> int:
        """How many it drops."""
        before = len(self.entries)
        self.entries = [entry for entry in self.entries if entry[0] >= time]
        self.earliest = min((entry[0] for entry in self.entries), default=self.latest)
        return before - len(self.entries)


class SlidingWindow:
    """Pairs (time, value) in the order in which they were appended."""

    __slots__ = ("_count", "_in_order", "_last", "_stretches")

    def __init__(self) -> None:
        self._stretches: deque[_Stretch] = deque()
        self._last: _Stretch | None = None
        self._in_order = True
        self._count = 0

    def append(self, time: int, value: Any) -> None:
        """Add a value (plain data) with its time.

        `time` is event time in microseconds, or an epoch's number where the window's length is in
        epochs. It may lie before that of earlier entries. Raises TypeError if it is no integer.
        """
        if type(time) is not int:
            raise TypeError(
                f"a window takes whole microseconds or epoch numbers, not {type(time).__name__}"
            )
        last = self._last
        if last is None or len(last.entries) >= LONGEST_STRETCH:
            last = self._begin(time)
        elif time < last.earliest:
            last.earliest = time
            self._in_order = self._in_order and self._behind_others(time)
        elif time > last.latest:
            last.latest = time
        last.entries.append((time, value))
        self._count += 1

    def _begin(self, time: int) -> _Stretch:
        stretches = self._stretches
        self._in_order = self._in_order and (not stretches or stretches[-1].latest <= time)
        self._last = _Stretch(time)
        stretches.append(self._last)
        return self._last

    def _behind_others(self, time: int) -> bool:
        return len(self._stretches) < 2 or self._stretches[-2].latest <= time

    def values(self) -> list[Any]:
        """The values without their times."""
        return [value for stretch in self._stretches for _, value in stretch.entries]

    def clear(self) -> None:
        """Drop everything."""
        self._stretches.clear()
        self._last = None
        self._in_order = True
        self._count = 0

    def drop_before(self, time: int) -> None:
        """Drop the entries with a smaller time. Called by the engine."""
        stretches = self._stretches
        if self._last is not None and len(self._last.entries) >= SHORTEST_STRETCH:
            self._last = None
        if self._in_order:
            while stretches and stretches[0].latest < time:
                self._count -= len(stretches.popleft().entries)
            if stretches and stretches[0].earliest < time:
                self._count -= stretches[0].drop_before(time)
        else:
            self._look_through(time)
        if not self._stretches:
            self.clear()

    def _look_through(self, time: int) -> None:
        for stretch in self._stretches:
            if stretch.earliest < time:
                self._count -= stretch.drop_before(time)
        self._stretches = deque(each for each in self._stretches if each.entries)
        if self._last is not None and not self._last.entries:
            self._last = None
        pairs = pairwise(self._stretches)
        self._in_order = all(one.latest <= other.earliest for one, other in pairs)

    def __iter__(self) -> Iterator[Entry]:
        return chain.from_iterable(stretch.entries for stretch in self._stretches)

    def __len__(self) -> int:
        return self._count

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SlidingWindow) or len(self) != len(other):
            return False
        return all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"SlidingWindow({list(self)!r})"
