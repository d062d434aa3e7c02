"""Worker threads of a node: they run slices' work while the node's loop goes on.

Work nearer to the sinks goes first, because it frees what upstream waits for. Nobody waits for a replica
that does again what another one has done already, while it catches up; its work is *patient* and lets other
work pass. For what passes it gets half as much time in the end, so a node which is always busy catches up as
well. *Spare* work, that of replicas which only stand behind others, begins when there is nothing else to do:
those who lead must not notice them. How long it waits, and how much time is left, tells whether there is room
for it at all.

Threads share the interpreter's lock. Work of some hundred rows is mostly Python: two threads at it take the
lock from each other, and each switch costs more than the work. So while all tasks are short, one thread does
them, and another one joins only when a task has waited for long. Long ones are mostly numpy's and Arrow's,
without the lock; where there are such, all threads join at once.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from heapq import heappop, heappush
from itertools import count

logger = logging.getLogger(__name__)

PATIENCE = 2.0
"""How much longer than patient work other work may take while that waits."""

SHORT_SECONDS = 0.002
"""Of CPU: where nothing takes longer, work is left to a thread that has some already."""

LONG_WAIT_SECONDS = 0.005
"""After which another thread does it nevertheless."""

FORGOTTEN_OF_LENGTH = 1 / 16
"""With each task, of how long the longest one has been."""


def usable_cores() -> int:
    """The processors that this process may run on, where the system says so; otherwise the machine's. A limit
    of time, such as a container's quota, is not among what it says."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Turn(Enum):
    """When a task gets its turn among those of its rank and of others."""

    SOON = "soon"
    PATIENT = "patient"
    SPARE = "spare"


@dataclass(frozen=True)
class Pressure:
    """`spare_wait_seconds`: how long the oldest spare task has waited by now. `idle_seconds`: what all
    threads together have been idle so far."""

    spare_wait_seconds: float
    idle_seconds: float


@dataclass(order=True)
class _Task:
    rank: int
    number: int
    since: float = field(compare=False)
    run: Callable[[], None] = field(compare=False)


class Workers:
    """A fixed number of threads and what they are to do. Errors that a task lets out are logged only.

    At most one task per slice and deployment waits, so that is bounded by what is hosted.
    """

    def __init__(self, threads: int, name: str) -> None:
        assert threads > 0
        self.threads = threads
        self._waiting: dict[Turn, list[_Task]] = {turn: [] for turn in Turn}
        self._patience_seconds = 0.0
        self._longest_seconds = SHORT_SECONDS
        self._watched = False
        self._idle = 0
        self._idle_seconds = 0.0
        self._idle_since = time.perf_counter()
        self._closed = False
        self._changed = threading.Condition()
        self._numbers = count()
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-worker-{index}", daemon=True)
            for index in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, rank: int, run: Callable[[], None], turn: Turn = Turn.SOON) -> None:
        """Run on some thread; of one turn lower ranks first, then in the order of submission."""
        task = _Task(rank, next(self._numbers), time.perf_counter(), run)
        with self._changed:
            heappush(self._waiting[turn], task)
            self._call()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    @property
    def resting(self) -> bool:
        """Every thread is idle."""
        return self._idle == self.threads

    def pressure(self) -> Pressure:
        """How things stand now."""
        with self._changed:
            self._note_idle(0)
            since = min((task.since for task in self._waiting[Turn.SPARE]), default=None)
            waited = 0.0 if since is None else time.perf_counter() - since
            return Pressure(waited, self._idle_seconds)

    def close(self, timeout_seconds: float = 10.0) -> None:
        """Let the running tasks end and forget the waiting ones."""
        with self._changed:
            self._closed = True
            for waiting in self._waiting.values():
                waiting.clear()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout_seconds)

    def _next(self) -> tuple[_Task, bool] | None:
        """Wait for what is to be run next, and whether it is patient; None once the workers are closed."""
        with self._changed:
            self._note_idle(1)
            while not self._closed and (seconds := self._seconds_to_wait()) != 0.0:
                self._wait(seconds)
            self._note_idle(-1)
            if self._closed:
                return None
            turn = self._turn()
            task = heappop(self._waiting[turn])
            if len(self):
                self._call()
            return task, turn is Turn.PATIENT

    def _call(self) -> None:
        """Have an idle thread look at what waits, unless one is about to."""
        if not self._watched:
            self._changed.notify()

    def _seconds_to_wait(self) -> float | None:
        """How long an idle thread leaves what waits to those at work; None: there is nothing."""
        since = min(
            (task.since for tasks in self._waiting.values() for task in tasks), default=None
        )
        if since is None:
            return None
        if self._idle == self.threads or self._longest_seconds >= SHORT_SECONDS:
            return 0.0
        return max(0.0, LONG_WAIT_SECONDS - (time.perf_counter() - since))

    def _wait(self, seconds: float | None) -> None:
        """Until there is something, or for so long; one thread that watches what waits is enough."""
        if seconds is None or self._watched:
            self._changed.wait()
            return
        self._watched = True
        self._changed.wait(seconds)
        self._watched = False

    def _turn(self) -> Turn:
        soon, patient = self._waiting[Turn.SOON], self._waiting[Turn.PATIENT]
        if patient and (not soon or self._patience_seconds < 0):
            return Turn.PATIENT
        return Turn.SOON if soon else Turn.SPARE

    def _note_idle(self, more: int) -> None:
        """So many threads more are idle from now on."""
        now = time.perf_counter()
        self._idle_seconds += self._idle * (now - self._idle_since)
        self._idle_since = now
        self._idle += more

    def _done(self, seconds: float, cpu_seconds: float, patient: bool) -> None:
        """Note how long tasks take, and other work may pass patient work from now on."""
        with self._changed:
            remembered = self._longest_seconds * (1 - FORGOTTEN_OF_LENGTH)
            self._longest_seconds = max(cpu_seconds, remembered)
            if patient:
                self._patience_seconds = PATIENCE * seconds
            elif self._waiting[Turn.PATIENT]:
                self._patience_seconds -= seconds

    def _work(self) -> None:
        while (found := self._next()) is not None:
            task, patient = found
            begin, begin_cpu = time.perf_counter(), time.thread_time()
            try:
                task.run()
            except Exception:
                # a thread that ends here would leave the node without one, and its jobs hanging
                logger.exception("a task on %s", threading.current_thread().name)
            cpu_seconds = time.thread_time() - begin_cpu
            self._done(time.perf_counter() - begin, cpu_seconds, patient)
