"""Work in forked processes: what has been imported is there already, and what is broken stays there."""

from __future__ import annotations

import json
import os
import resource
import selectors
import signal
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

MEMORY_BYTES = 3 << 30
"""More than the parent's own that a process may have: a mutant that fills memory fails."""

_BUFFER = 1 << 16


def each_in_a_fork(
    tasks: Iterable[T], work: Callable[[T, Callable[[Any], None]], None], jobs: int
) -> Iterator[tuple[T, Any]]:
    """Every task with what its process told of it; None where that died without a word.

    `work` is given the task and where to tell, which ends the process. `jobs` run at a time.
    """
    waiting = iter(tasks)
    with selectors.DefaultSelector() as selector:
        running = 0
        more = True
        while more or running:
            while more and running < jobs:
                try:
                    task = next(waiting)
                except StopIteration:
                    more = False
                    break
                pid, end = _fork(task, work)
                selector.register(end, selectors.EVENT_READ, (task, pid, []))
                running += 1
            for key, _ in selector.select() if running else ():
                task, pid, parts = key.data
                part = os.read(key.fd, _BUFFER)
                if part:
                    parts.append(part)
                    continue
                selector.unregister(key.fd)
                os.close(key.fd)
                os.waitpid(pid, 0)
                running -= 1
                told = b"".join(parts)
                yield task, json.loads(told) if told else None


def _fork(task: T, work: Callable[[T, Callable[[Any], None]], None]) -> tuple[int, int]:
    end, told = os.pipe()
    pid = os.fork()
    if pid:
        os.close(told)
        return pid, end
    try:
        os.close(end)
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(silent, stream)
        limit = _memory_bytes() + MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

        def tell(answer: Any) -> None:
            rest = json.dumps(answer).encode()
            while rest:
                rest = rest[os.write(told, rest) :]
            os._exit(0)

        work(task, tell)
    finally:
        os._exit(1)


def _memory_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


class Limit:
    """Calls `expired` when what is done takes more than its seconds: of the processor, which is what a
    program that hangs uses on a loaded machine as well, or many times as many by the clock."""

    CLOCK_FACTOR = 100.0

    def __init__(self, expired: Callable[[], None]) -> None:
        for number in (signal.SIGPROF, signal.SIGALRM):
            signal.signal(number, lambda *_: expired())

    def begin(self, seconds: float) -> None:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.setitimer(signal.ITIMER_REAL, self.CLOCK_FACTOR * seconds)

    def end(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
