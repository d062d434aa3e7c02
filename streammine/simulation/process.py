"""A virtual process: whatever happens in it happens through `occur`, so that it can be stopped or die."""

from __future__ import annotations

from collections.abc import Callable


class VirtualProcess:
    """Alive, standing still, or dead.

    What happens to a process that stands still waits and happens when it goes on, in the same order. What
    happens to a dead one does not happen.
    """

    def __init__(self) -> None:
        self.alive = True
        self._stops = 0
        self._waiting: list[Callable[[], None]] = []

    @property
    def paused(self) -> bool:
        return self._stops > 0

    @property
    def waiting(self) -> int:
        """Events that wait for the process to go on."""
        return len(self._waiting)

    def occur(self, event: Callable[[], None]) -> None:
        if not self.alive:
            return
        if self._stops:
            self._waiting.append(event)
            return
        event()

    def stop(self) -> None:
        self._stops += 1

    def go_on(self) -> None:
        """Undo one `stop`; with the last, everything that has waited happens."""
        self._stops -= 1
        if self._stops:
            return
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            self.occur(event)

    def die(self) -> None:
        self.alive = False
        self._waiting.clear()
