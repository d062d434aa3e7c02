"""A cluster whose running job is looked at, moved and killed; and when its output was committed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.cluster import BASE, BenchmarkCluster, Run
from replication.naming import checkpoint_of, snapshot_of
from streammine import JobFailedError, Topology
from streammine.model.errors import ClusterError
from streammine.runtime.client import Client
from streammine.runtime.cluster import LocalCluster
from streammine.runtime.output import CommittedOutput
from streammine.runtime.stores import LocalStore, open_store
from streammine.runtime.submission import Submission, prepare_submission

LOOK_SECONDS = 0.02
WATCH_SECONDS = 0.25
"""Between two looks at a store; each takes time from what is measured."""

START_SECONDS = 60.0


@dataclass(frozen=True)
class LiveJob:
    """A job that was submitted. Its snapshots lie in `store`."""

    number: int
    submission: Submission
    store: Path


class LiveCluster(BenchmarkCluster):
    """`nodes` node processes with `threads` workers each; None: cores are shared out."""

    def __init__(self, nodes: int, threads: int | None = None) -> None:
        super().__init__(nodes)
        self.local = LocalCluster(nodes, threads=threads, folder=self.scratch / "cluster")
        self._jobs = count()

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    @property
    def client(self) -> Client:
        assert self._client is not None, "start comes first"
        return self._client

    def submit(self, topology: Topology, base: Path = BASE) -> LiveJob:
        """Hand a job over; its output replaces what is in the sinks' folders. `base` is the folder of user
        modules."""
        store = self.scratch / "stores" / str(next(self._jobs))
        submission = prepare_submission(
            topology,
            base,
            str(self.scratch / "work"),
            sign=self.local.sign,
            store=str(store),
            nodes=self.local.nodes,
            overwrite=True,
        )
        return LiveJob(self.client.submit(submission.spec), submission, store)

    def began(self, job: LiveJob) -> float:
        """Wait until all sources run; the system time that their pace began at. Raises ClusterError."""
        sources = {each.name for each in job.submission.spec.sources}
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            running = {
                name: each["counters"].get("pace_began_at")
                for name, each in self.slices(job).items()
                if name.partition("/")[0] in sources
            }
            times = [each for each in running.values() if each is not None]
            if times and len(times) == len(running):
                return float(min(times))
            time.sleep(LOOK_SECONDS)
        raise ClusterError(f"job {job.number} has not begun after {START_SECONDS:g} s")

    def slices(self, job: LiveJob) -> dict[str, dict[str, Any]]:
        """What the manager knows of each slice; nothing before it knows of the job."""
        jobs = self.client.status(job.number)["jobs"]
        return dict(jobs[str(job.number)]["slices"]) if str(job.number) in jobs else {}

    def state_bytes(self, job: LiveJob, vertex: str) -> int:
        """State that a vertex's slices hold now."""
        return sum(
            int(each["counters"].get("state_bytes", 0))
            for name, each in self.slices(job).items()
            if name.partition("/")[0] == vertex
        )

    def finish(
        self, job: LiveJob, timeout_seconds: float, look: Callable[[], None] | None = None
    ) -> Run:
        """Wait for the job's end. Raises JobFailedError, and ClusterError when it takes too long."""
        deadline = time.monotonic() + timeout_seconds

        def check() -> None:
            if look is not None:
                look()
            if time.monotonic() > deadline:
                phases = {name: each["frontier"] for name, each in self.slices(job).items()}
                raise ClusterError(
                    f"job {job.number} runs on after {timeout_seconds:g} s; frontiers: {phases}"
                )

        outcome = self.client.wait(job.number, check)
        if outcome.status != "finished":
            raise JobFailedError(outcome.reason or f"the job was {outcome.status}")
        return Run(job.submission, outcome)


def wait_until(moment: float) -> None:
    """Return at that system time, at once if it is past."""
    time.sleep(max(0.0, moment - time.time()))


def commit_times(folder: Path) -> list[tuple[int, float]]:
    """(last epoch, system time of the commit) of each group of a sink's output, in order.

    The time is the manifest's change time, which ticks every few milliseconds. Of replicas of the committer
    the first to write a group counts. The last document, which says that the output is over, is left out.
    """
    found: dict[str, float] = {}
    for path in (folder / "manifests").glob("*.json"):
        sequence = path.stem.rpartition("-")[2]
        written = path.stat().st_ctime_ns / 1e9
        found[sequence] = min(written, found.get(sequence, written))
    return [
        (manifest.last_epoch, found[f"{manifest.sequence:010}"])
        for manifest in CommittedOutput(open_store(str(folder))).manifests
        if manifest.files
    ]


class SnapshotWatch:
    """Counts what a job writes into its store, while it runs; old snapshots are removed soon.

    They stay for two checkpoints at least, far longer than the time between two looks.
    """

    def __init__(self, store: Path) -> None:
        self.sizes: dict[str, int] = {}
        self._store = store
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="snapshot-watch")

    @property
    def nbytes(self) -> int:
        """Bytes of snapshots, checkpoints left out."""
        return sum(size for name, size in self.sizes.items() if snapshot_of(name) is not None)

    @property
    def checkpoints(self) -> int:
        return sum(checkpoint_of(name) is not None for name in self.sizes)

    def _watch(self) -> None:
        while not self._over.wait(WATCH_SECONDS):
            self._look()
        self._look()

    def _look(self) -> None:
        for name in LocalStore(self._store).list(""):
            if name not in self.sizes:
                try:
                    self.sizes[name] = (self._store / name).stat().st_size
                except FileNotFoundError:
                    # it was removed since it was listed, as is right
                    continue

    def __enter__(self) -> SnapshotWatch:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
