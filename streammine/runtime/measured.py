"""What a node measures of itself and of its slices, for its heartbeats."""

from __future__ import annotations

import time
from collections.abc import Mapping

import psutil

from streammine.model.ids import SliceId
from streammine.runtime.hosting import HostedJob
from streammine.runtime.workers import Workers, usable_cores


class MeasuredProcess:
    """This process, as the operating system sees it."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._looked_at = time.perf_counter()
        self._idle_seconds = 0.0

    def load(self, workers: Workers) -> dict[str, float]:
        """Seconds of CPU so far, bytes of memory, tasks that wait for a worker, the system's clock; how long
        spare work waits; how many workers can work at the same time, and the share of the time of all since
        the last look in which they were idle."""
        memory = self._process.memory_info()
        times = self._process.cpu_times()
        pressure = workers.pressure()
        at_once = min(workers.threads, usable_cores())
        return {
            "cpu_seconds": times.user + times.system,
            "memory_bytes": float(memory.rss),
            "queued_tasks": float(len(workers)),
            "clock": time.time(),
            "spare_wait_seconds": pressure.spare_wait_seconds,
            "workers": float(at_once),
            "idle_share": self._idle_share(pressure.idle_seconds, workers.threads, at_once),
        }

    def _idle_share(self, idle_seconds: float, threads: int, at_once: int) -> float:
        """Of that many, where more threads than these may be busy, and wait for each other."""
        now = time.perf_counter()
        passed, self._looked_at = now - self._looked_at, now
        more, self._idle_seconds = idle_seconds - self._idle_seconds, idle_seconds
        if passed <= 0:
            return 0.0
        busy = threads * passed - more
        return max(0.0, 1.0 - busy / (at_once * passed))


def counters_of(jobs: Mapping[int, HostedJob]) -> dict[tuple[int, SliceId], dict[str, float]]:
    """Of every slice, those of its newest replica here."""
    return {
        (number, slice_id): hosted.counters()
        for number, job in jobs.items()
        for (slice_id, _), hosted in sorted(job.slices.copy().items(), key=lambda each: each[0])
    }
