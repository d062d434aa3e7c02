"""The content of a `Window` cell: what happened lately, by event time or epoch.

Entries are dropped at epoch ends alone, and by the epoch's number alone: when epoch e is over, after its
last event and before `Operator.end_epoch`, entries with a time before ``watermark - length`` go, where the
watermark is the end of epoch e. So `end_epoch` sees the last `length` exactly, and `process` that and what
was appended in the epoch so far. That is so for every key, whether it had events in e or not, and whether
e had any events at all: keys that nobody looks at are brought up to date when they are looked at next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

Entry = tuple[int, Any]


class SlidingWindow:
    """Pairs (time, value) in the order in which they were appended."""

    __slots__ = ("_ascending", "_entries")

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()
        self._ascending = True

    def append(self, time: int, value: Any) -> None:
        """Add a value (plain data) with its time.

        `time` is event time in microseconds, or an epoch's number where the window's length is in
        epochs. It may lie before that of earlier entries. Raises TypeError if it is no integer.
        """
        if type(time) is not int:
            raise TypeError(
                f"a window takes whole microseconds or epoch numbers, not {type(time).__name__}"
            )
        if self._entries and time < self._entries[-1][0]:
            self._ascending = False
        self._entries.append((time, value))

    def values(self) -> list[Any]:
        """The values without their times."""
        return [value for _, value in self._entries]

    def clear(self) -> None:
        """Drop everything."""
        self._entries.clear()
        self._ascending = True

    def drop_before(self, time: int) -> None:
        """Drop the entries with a smaller time. Called by the engine."""
        entries = self._entries
        if self._ascending:
            while entries and entries[0][0] < time:
                entries.popleft()
            return
        self._entries = deque()
        self._ascending = True
        for entry in entries:
            if entry[0] >= time:
                self.append(*entry)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SlidingWindow) and self._entries == other._entries

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"SlidingWindow({list(self._entries)!r})"
