"""Worker threads of a node: they run slices' work while the node's loop goes on.

Work nearer to the sinks goes first, because it frees what upstream waits for. Nobody waits for a replica
that does again what another one has done already, while it catches up; its work is *patient*: it lets other
work pass, but never twice in a row, so that a node which is always busy catches up as well.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

logger = logging.getLogger(__name__)


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
        self._passed = False
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
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout_seconds)

    def _next(self) -> _Task | None:
        """Wait for what is to be run next; None once the workers are closed."""
        with self._changed:
            while not self._closed and not self._urgent and not self._patient:
                self._changed.wait()
            if self._closed:
                return None
            patient = bool(self._patient) and (self._passed or not self._urgent)
            self._passed = bool(self._patient) and not patient
            return heappop(self._patient if patient else self._urgent)

    def _work(self) -> None:
        while (task := self._next()) is not None:
            try:
                task.run()
            except Exception:
                # a thread that ends here would leave the node without one, and its jobs hanging
                logger.exception("a task on %s", threading.current_thread().name)
