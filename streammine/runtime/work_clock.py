"""The time that a thread's work takes, without the time in which others had the processor.

A node may share its machine with others. While these run, a thread of ours that could run waits for its turn,
and by the wall clock its work takes longer, though there is no more of it: once a node is lost, there is less
of such waiting. The time of the thread alone (CPU time) would leave out too much: who waits for a store, a
service or threads of its own can do nothing else meanwhile. So it is the wall clock's, without what the
kernel says that the thread has waited for a processor (Linux, ``/proc/thread-self/schedstat``, the second
number, in nanoseconds); all of the wall clock's where it does not say so.

The kernel does not say who had the processor. Where a node has more threads at work than cores, what they
wait for each other is left out, too.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from pathlib import Path

SCHEDSTAT = Path("/proc/thread-self/schedstat")
_LONGEST_BYTES = 128
"""Three numbers."""


class WorkClock:
    """Called for seconds from some moment on. May be called on any thread, and each has its own time: what is
    compared must be of one. `path`: what the kernel says of the thread that opens it."""

    def __init__(self, path: Path = SCHEDSTAT) -> None:
        self._path = path
        self._of_thread = threading.local()

    def __call__(self) -> float:
        return time.perf_counter() - self._waited_seconds()

    def since(self, begun: float) -> float:
        """Seconds of work; not less than none. A wait just between the two looks that a time is made of
        counts at the wrong side."""
        return max(0.0, self() - begun)

    def _waited_seconds(self) -> float:
        try:
            told: _Told = self._of_thread.told
        except AttributeError:
            told = self._of_thread.told = _Told(self._path)
        return told.waited_seconds()


class _Told:
    """What the kernel tells of one thread, which opens it; closed when that is over. Where it can't be read
    (any more), the thread waits no longer than was known: work goes on, measured or not."""

    def __init__(self, path: Path) -> None:
        self._descriptor: int | None = None
        self._waited_seconds = 0.0
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return
        # a forked process has no business with its parent's when it ends
        weakref.finalize(self, os.close, self._descriptor).atexit = False

    def waited_seconds(self) -> float:
        if self._descriptor is not None:
            try:
                told = os.pread(self._descriptor, _LONGEST_BYTES, 0)
                self._waited_seconds = int(told.split()[1]) * 1e-9
            except (OSError, ValueError, IndexError):
                self._descriptor = None
        return self._waited_seconds


work_clock = WorkClock()
"""Of this process."""
