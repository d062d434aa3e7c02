"""The virtual clock: time is what the next event says it is."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush


class VirtualClock:
    """Events in the order of their times; those of equal time in the order in which they were made."""

    def __init__(self) -> None:
        self.now_seconds = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._made = 0

    def after(self, delay_seconds: float, event: Callable[[], None]) -> float:
        """Let an event happen; returns when."""
        return self.at(self.now_seconds + delay_seconds, event)

    def at(self, seconds: float, event: Callable[[], None]) -> float:
        assert seconds >= self.now_seconds, "nothing happens in the past"
        heappush(self._events, (seconds, self._made, event))
        self._made += 1
        return seconds

    def step(self) -> bool:
        """Let the next event happen. False when there is none."""
        if not self._events:
            return False
        self.now_seconds, _, event = heappop(self._events)
        event()
        return True
