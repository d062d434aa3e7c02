"""The content of a `Window` cell: what happened lately, by event time or epoch.

Entries are dropped at epoch ends alone, and by the epoch's number alone: when epoch e is over, after its
last event and before `Operator.end_epoch`, entries with a time before ``watermark - length`` go, where the
watermark is the end of epoch e. So `end_epoch` sees the last `length` exactly, and `process` that and what
was appended in the epoch so far. That is so for every key, whether it had events in e or not, and whether
e had any events at all: keys that nobody looks at are brought up to date when they are looked at next.

Entries lie in stretches, in the order in which they were appended, and each stretch knows the times between
which its entries lie. Inside an epoch they come in any order, but what one epoch appends lies behind what
another one did. So mostly the oldest stretches go as they are, and one is looked through.

What was appended once comes behind all before it, and what goes does by its time alone. So a snapshot needs
no more than what was appended since the one before and the time before which entries have gone since: a
`WindowChange`. Only where a value could have been changed meanwhile is a window saved as a whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import chain, pairwise
from operator import eq
from typing import Any

from streammine.model.errors import SnapshotDamagedError
from streammine.operators.window_change import Entry, WindowChange, are_fixed

SHORTEST_STRETCH = 32
"""Entries that are taken together at least, or a window with few of them would be mostly stretches."""

LONGEST_STRETCH = 1024


class _Stretch:
    """Entries that were appended one after the other, the last at time `latest` at most. A snapshot has the
    first `saved` of them."""

    __slots__ = ("earliest", "entries", "latest", "saved")

    def __init__(self, time: int) -> None:
        self.entries: list[Entry] = []
        self.earliest = self.latest = time
        self.saved = 0

    def drop_before(self, time: int) -> int:
        """How many it drops."""
        before = len(self.entries)
        if 0 < self.saved < before:
            self.saved = sum(entry[0] >= time for entry in self.entries[: self.saved])
        self.entries = [entry for entry in self.entries if entry[0] >= time]
        # where all were saved, all that are left are
        self.saved = min(self.saved, len(self.entries))
        self.earliest = min((entry[0] for entry in self.entries), default=self.latest)
        return before - len(self.entries)


class SlidingWindow:
    """Pairs (time, value) in the order in which they were appended."""

    __slots__ = ("_count", "_dropped", "_in_order", "_last", "_saved_at", "_stretches")

    def __init__(self) -> None:
        self._stretches: deque[_Stretch] = deque()
        self._last: _Stretch | None = None
        self._in_order = True
        self._count = 0
        # the freeze, and the place in it, that has what stretches call saved; None: it is to be saved whole
        self._saved_at: tuple[int, object] | None = None
        # entries of earlier times have gone since
        self._dropped: int | None = None

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
        self._saved_at = self._dropped = None

    def frozen(self, full: bool, number: int, before: int, place: object) -> WindowChange:
        """What freeze `number` must hold; not `full`: what freeze `before` lacks, if that has this window at
        the same `place`, which is compared. Called by the engine, which makes a full one where one failed."""
        whole = full or self._saved_at != (before, place)
        entries = list(self) if whole else self._unsaved()
        fixed = are_fixed([value for _, value in entries])
        if not fixed and not whole:
            whole, entries = True, list(self)
        kept = self._count - len(entries)
        change = WindowChange(whole, None if whole else self._dropped, kept, entries)
        # what could be changed in its place must be looked at again the next time
        self._saved_at, self._dropped = (number, place) if fixed else None, None
        for stretch in reversed(self._stretches):
            if stretch.saved == len(stretch.entries):
                break
            stretch.saved = len(stretch.entries)
        return change

    def _unsaved(self) -> list[Entry]:
        """The newest ones lie at the end."""
        found: list[list[Entry]] = []
        for stretch in reversed(self._stretches):
            if stretch.saved == len(stretch.entries):
                break
            found.append(stretch.entries[stretch.saved :])
        return list(chain.from_iterable(reversed(found)))

    def take_in(self, change: WindowChange) -> None:
        """What a snapshot holds that was made after the one that this window is of. Called by the engine.

        Raises SnapshotDamagedError where it was not: then the window is not to be used.
        """
        if change.whole:
            self.clear()
        elif change.dropped is not None:
            self.drop_before(change.dropped)
        if self._count != change.kept:
            raise SnapshotDamagedError(
                f"a snapshot adds to {change.kept} entries of a window, those before it hold {self._count}"
            )
        entries = change.entries
        for start in range(0, len(entries), LONGEST_STRETCH):
            self._extend(entries[start : start + LONGEST_STRETCH])

    def _extend(self, entries: list[Entry]) -> None:
        """By not more than make a stretch."""
        times = [time for time, _ in entries]
        earliest, last = min(times), self._last
        if last is None or len(last.entries) + len(entries) > LONGEST_STRETCH:
            last = self._begin(earliest)
        elif earliest < last.earliest:
            last.earliest = earliest
            self._in_order = self._in_order and self._behind_others(earliest)
        last.latest = max(last.latest, max(times))
        last.entries += entries
        self._count += len(entries)

    def drop_before(self, time: int) -> None:
        """Drop the entries with a smaller time. Called by the engine."""
        stretches = self._stretches
        if self._dropped is None or time > self._dropped:
            self._dropped = time
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
