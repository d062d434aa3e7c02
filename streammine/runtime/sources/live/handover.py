"""Logged entries on their way from the receiver's thread to the reader's."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from streammine.model.ingest_chain import Place
from streammine.model.ingest_log import Entry


class Handover:
    """A queue that says when it is full. `on_room` is called, on the reader's thread, when it is no
    longer."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._guard = threading.Lock()
        self._entries: deque[tuple[Entry, Place, int]] = deque()
        self._bytes = 0
        self.error: Exception | None = None
        """Why nothing comes any more; what was put before it can still be taken."""
        self.on_room: Callable[[], None] | None = None

    @property
    def full(self) -> bool:
        with self._guard:
            return self._bytes >= self._limit_bytes

    def put(self, entry: Entry, behind: Place, nbytes: int) -> None:
        """Hand on an entry that is durable; `behind` is the place of the next one."""
        with self._guard:
            self._entries.append((entry, behind, nbytes))
            self._bytes += nbytes

    def fail(self, error: Exception) -> None:
        """Nothing comes any more, and why."""
        self.error = error

    def take(self) -> tuple[Entry, Place] | None:
        """The next entry and the place behind it; None when there is none now."""
        with self._guard:
            if not self._entries:
                return None
            was_full = self._bytes >= self._limit_bytes
            entry, behind, nbytes = self._entries.popleft()
            self._bytes -= nbytes
            room = was_full and self._bytes < self._limit_bytes
        if room and self.on_room is not None:
            self.on_room()
        return entry, behind
