"""What a node measures of itself and of its slices, for its heartbeats."""

from __future__ import annotations

import time
from collections.abc import Mapping

import psutil

from streammine.model.ids import SliceId
from streammine.runtime.hosting import HostedJob


class MeasuredProcess:
    """This process, as the operating system sees it."""

    def __init__(self) -> None:
        self._process = psutil.Process()

    def load(self, queued_tasks: int) -> dict[str, float]:
        """Seconds of CPU so far, bytes of memory, tasks that wait for a worker, and the system's clock."""
        memory = self._process.memory_info()
        times = self._process.cpu_times()
        return {
            "cpu_seconds": times.user + times.system,
            "memory_bytes": float(memory.rss),
            "queued_tasks": float(queued_tasks),
            "clock": time.time(),
        }


def counters_of(jobs: Mapping[int, HostedJob]) -> dict[tuple[int, SliceId], dict[str, float]]:
    """Of every slice, those of its newest replica here."""
    return {
        (number, slice_id): hosted.counters()
        for number, job in jobs.items()
        for (slice_id, _), hosted in sorted(job.slices.copy().items(), key=lambda each: each[0])
    }
