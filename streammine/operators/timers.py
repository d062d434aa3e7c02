"""Event-time timers of an Operator: when a key wants to be called again.

A timer is a moment of event time, in microseconds. It fires at the end of the first epoch whose watermark
has reached it, after all of the epoch's events: whatever is decided then follows from complete epochs and
not from the order in which events came. A key's timers fire in the order of their times.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any

from streammine.model.epochs import FIRST_TIME


class TimerSet:
    """The timers of one key: different times, ascending."""

    __slots__ = ("_fired_until", "_times", "indexed")

    def __init__(self, times: Iterable[int] = ()) -> None:
        self._times = sorted(times)
        self._fired_until: int | None = None
        self.indexed: int | None = None
        """The time at which the index knows of the set: the index's own business."""

    def set(self, time: int) -> None:
        """Fire at `time`, once, however often it is set.

        One that lies in the past fires at the end of this epoch. Raises TypeError if `time` is no
        integer; ValueError if it lies further from 1970 than event times do, and in `on_timer` for one that
        is not later than the one that fires: a key would be called for ever.
        """
        if type(time) is not int:
            raise TypeError(f"a timer takes whole microseconds, not {type(time).__name__}")
        if not FIRST_TIME <= time <= -FIRST_TIME:
            raise ValueError(
                f"a timer is set for {time}; times are microseconds since 1970, 2^56 of them at most"
            )
        if self._fired_until is not None and time <= self._fired_until:
            raise ValueError(
                f"on_timer, called for {self._fired_until}, sets a timer for {time}; it must be later"
            )
        place = bisect_left(self._times, time)
        if place == len(self._times) or self._times[place] != time:
            insort(self._times, time)

    def cancel(self, time: int) -> None:
        """Do not fire at `time`. A time that is not set is passed over."""
        place = bisect_left(self._times, time)
        if place < len(self._times) and self._times[place] == time:
            del self._times[place]

    def clear(self) -> None:
        """Cancel all."""
        self._times.clear()

    @property
    def first(self) -> int | None:
        """The earliest."""
        return self._times[0] if self._times else None

    def take(self, watermark: int) -> Iterator[int]:
        """The times up to the watermark, each taken away before it is given; those that are set meanwhile,
        too. Called by the engine."""
        while self._times and self._times[0] <= watermark:
            self._fired_until = self._times.pop(0)
            yield self._fired_until
        self._fired_until = None

    def __iter__(self) -> Iterator[int]:
        return iter(self._times)

    def __len__(self) -> int:
        return len(self._times)

    def __contains__(self, time: object) -> bool:
        return time in self._times

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TimerSet) and self._times == other._times

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"TimerSet({self._times!r})"


@dataclass(frozen=True)
class Timers:
    """A cell that holds a key's timers: a `TimerSet`. An Operator may declare one, and writes `on_timer`.

    ``state.timers.set(microseconds)`` asks for a call of ``on_timer(key, time, state)`` at the end of the
    epoch in which event time gets there; needs epochs by time.
    """

    def fresh(self) -> TimerSet:
        return TimerSet()

    def plain(self, content: Any) -> Any:
        return list(content)

    def restored(self, plain: Any) -> TimerSet:
        return TimerSet(plain)


class TimerIndex:
    """Which keys have a timer next, over all keys of a slice.

    A heap of each set's first time. An entry whose set has another first time by now, or is no longer a
    key's, is passed over when it comes up.
    """

    def __init__(self, current: Callable[[Any], TimerSet | None]) -> None:
        """`current`: the timers of a key, None where it has no state."""
        self._current = current
        self._heap: list[tuple[int, int, Any, TimerSet]] = []
        self._entries = 0

    def note(self, entries: Iterable[tuple[Any, TimerSet]]) -> None:
        """These keys' timers may have changed."""
        for key, timers in entries:
            first = timers.first
            if first is not None and first != timers.indexed:
                heappush(self._heap, self._entry(first, key, timers))

    def renew(self, entries: Iterable[tuple[Any, TimerSet]]) -> None:
        """These are all keys there are."""
        self._heap = [
            self._entry(timers.first, key, timers)
            for key, timers in entries
            if timers.first is not None
        ]
        heapify(self._heap)

    def take(self, watermark: int) -> list[Any]:
        """The keys that have a timer up to the watermark; they are noted again by who serves them."""
        found: dict[Any, None] = {}
        while (first := self.first) is not None and first <= watermark:
            _, _, key, timers = heappop(self._heap)
            timers.indexed = None
            found[key] = None
        return list(found)

    @property
    def first(self) -> int | None:
        """The earliest time of all keys."""
        heap = self._heap
        while heap:
            time, _, key, timers = heap[0]
            if timers.indexed == time == timers.first and self._current(key) is timers:
                return time
            heappop(heap)
            if timers.indexed == time:
                timers.indexed = None
                if timers.first is not None and self._current(key) is timers:
                    heappush(heap, self._entry(timers.first, key, timers))
        return None

    def _entry(self, first: int, key: Any, timers: TimerSet) -> tuple[int, int, Any, TimerSet]:
        # keys may have no order among each other, so the number decides
        self._entries += 1
        timers.indexed = first
        return first, self._entries, key, timers
