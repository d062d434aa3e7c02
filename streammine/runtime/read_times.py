"""When the rows of each epoch were read, for sinks that tell how long a row took.

A row of a source that keeps a pace, and could not be read when it was due, counts from when it was due.

Outside of everything that is the same in every run: machines and operators know nothing of it. A node notes
when a source slice of its own read the oldest row of an epoch; what it knows travels in the header of the
epoch's frames, and who receives one takes the earlier time. So the node of a sink knows it for every epoch
whose rows reach it, and what is told is never too short: the oldest row of the epoch counts for all.
"""

from __future__ import annotations

import time
from threading import Lock

from streammine.model.frames import FrameHeader

MOST_EPOCHS = 4_096
"""Of a job, those that were heard of last."""


class ReadTimes:
    """Of one job on one node. Times are in microseconds of the system clock, 0 where none is known.

    May be used from any thread.
    """

    def __init__(self) -> None:
        self._oldest: dict[int, int] = {}
        self._lock = Lock()

    def note(self, epoch: int, at: int) -> None:
        """A row of the epoch was read then."""
        if not at or 0 < self._oldest.get(epoch, 0) <= at:
            return
        with self._lock:
            self._oldest[epoch] = min(at, self._oldest.get(epoch, at))
            while len(self._oldest) > MOST_EPOCHS:
                del self._oldest[next(iter(self._oldest))]

    def noted(self, header: FrameHeader) -> FrameHeader:
        """The header of a frame that has come; what it tells is noted."""
        self.note(header.epoch, header.read_at)
        return header

    def of(self, epoch: int) -> int:
        return self._oldest.get(epoch, 0)

    def delay_milliseconds(self, epoch: int) -> float | None:
        """From then until now; None where nothing is known of the epoch."""
        at = self.of(epoch)
        return max(0.0, time.time() - at / 1e6) * 1e3 if at else None
