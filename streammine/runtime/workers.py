"""Worker threads of a node: they run slices' work while the node's loop goes on.

Work nearer to the sinks goes first, because it frees what upstream waits for. Nobody waits for a replica
that does again what another one has done already, while it catches up; its work is *patient* and lets other
work pass. For what passes it gets half as much time in the end, so a node which is always busy catches up as
well.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

logger = logging.getLogger(__name__)

PATIENCE = 2.0
"""How much longer than patient work other work may take while that waits."""


@dataclass(order=True)
class _Task:
    rank: int
    number: int
    run: Callable[[], None] = field(compare=False)


class Workers:
    """A fixed number of threads and what they are to do. Errors that a task lets out are logged only.

    At most one task per slice and deployment waits, so that is bounded by what is hosted.
    """

    def __init__(self, threads: int, name: str) -> None:
        assert threads > 0
        self._urgent: list[_Task] = []
        self._patient: list[_Task] = []
        self._patience_seconds = 0.0
        self._closed = False
        self._changed = threading.Condition()
        self._numbers = count()
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-worker-{index}", daemon=True)
            for index in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, rank: int, run: Callable[[], None], *, patient: bool = False) -> None:
        """Run soon on some thread; lower ranks first, then in the order of submission."""
        task = _Task(rank, next(self._numbers), run)
        with self._changed:
            heappush(self._patient if patient else self._urgent, task)
            self._changed.notify()

    def __len__(self) -> int:
        return len(self._urgent) + len(self._patient)

    def close(self, timeout_seconds: float = 10.0) -> None:
        """Let the running tasks end and forget the waiting ones."""
        with self._changed:
            self._closed = True
            self._urgent.clear()
            self._patient.clear()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout_seconds)

    def _next(self) -> tuple[_Task, bool] | None:
        """Wait for what is to be run next, and whether it is patient; None once the workers are closed."""
        with self._changed:
            while not self._closed and not self._urgent and not self._patient:
                self._changed.wait()
            if self._closed:
                return None
            patient = bool(self._patient) and (not self._urgent or self._patience_seconds < 0)
            return heappop(self._patient if patient else self._urgent), patient

    def _done(self, seconds: float, patient: bool) -> None:
        """Note how long other work may pass patient work from now on."""
        with self._changed:
            if patient:
                self._patience_seconds = PATIENCE * seconds
            elif self._patient:
                self._patience_seconds -= seconds

    def _work(self) -> None:
        while (found := self._next()) is not None:
            task, patient = found
            begin = time.perf_counter()
            try:
                task.run()
            except Exception:
                # a thread that ends here would leave the node without one, and its jobs hanging
                logger.exception("a task on %s", threading.current_thread().name)
            self._done(time.perf_counter() - begin, patient)
