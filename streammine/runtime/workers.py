"""Worker threads of a node: they run slices' work while the node's loop goes on.

Work nearer to the sinks goes first, because it frees what upstream waits for.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

logger = logging.getLogger(__name__)


@dataclass(order=True)
class _Task:
    rank: int
    number: int
    run: Callable[[], None] | None = field(compare=False)


class Workers:
    """A fixed number of threads and one queue. Errors that a task lets out are logged only.

    The queue holds at most one task per slice and deployment, so it is bounded by what is hosted.
    """

    def __init__(self, threads: int, name: str) -> None:
        assert threads > 0
        self._queue: queue.PriorityQueue[_Task] = queue.PriorityQueue()
        self._numbers = count()
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-worker-{index}", daemon=True)
            for index in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, rank: int, run: Callable[[], None]) -> None:
        """Run soon on some thread; lower ranks first, then in the order of submission."""
        self._queue.put(_Task(rank, next(self._numbers), run))

    def __len__(self) -> int:
        return self._queue.qsize()

    def close(self, timeout_seconds: float = 10.0) -> None:
        """Let the running tasks end and forget the waiting ones."""
        while True:
            try:
                self._queue.get_nowait()
            except queue.Empty:
                break
        for _ in self._threads:
            self._queue.put(_Task(-1, next(self._numbers), None))
        for thread in self._threads:
            thread.join(timeout_seconds)

    def _work(self) -> None:
        while True:
            task = self._queue.get()
            if task.run is None:
                return
            try:
                task.run()
            except Exception:
                # a thread that ends here would leave the node without one, and its jobs hanging
                logger.exception("a task on %s", threading.current_thread().name)
