"""Runs of the engine on a cluster that stays up, so that processes start once and stay warm."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from streammine import JobFailedError, Topology
from streammine.model.job import JobOutcome
from streammine.runtime.client import Client
from streammine.runtime.cluster import LocalCluster
from streammine.runtime.results import Summary, summarize
from streammine.runtime.submission import Submission, prepare_submission

BASE = Path(__file__).resolve().parent.parent
"""The folder that the operators' modules (`benchmarks.row_operators`) are found from."""


@dataclass(frozen=True)
class Run:
    """A finished run."""

    summary: Summary
    submission: Submission
    outcome: JobOutcome


class BenchmarkCluster:
    """`nodes` node processes and a ZooKeeper, for any number of jobs, one after the other."""

    def __init__(self, nodes: int) -> None:
        self.scratch = Path(tempfile.mkdtemp(prefix="streammine-bench-"))
        self.local = LocalCluster(nodes, folder=self.scratch / "cluster")
        self._client: Client | None = None

    def start(self) -> None:
        self.local.start()
        self._client = Client(self.local.address)
        self._client.wait_for_members(self.local.nodes, self.local.check)

    def run(
        self,
        topology: Topology,
        *,
        look: Callable[[], None] | None = None,
        pause_seconds: float = 0.25,
    ) -> Run:
        """Run a job to its end. `look` is called about every `pause_seconds` meanwhile.

        Raises JobFailedError with the reason when it fails.
        """
        assert self._client is not None, "start comes before run"
        begin = time.monotonic()
        submission = prepare_submission(
            topology,
            BASE,
            self.scratch / "work",
            sign=self.local.sign,
            nodes=self.local.nodes,
            overwrite=True,
        )

        def check() -> None:
            self.local.check()
            if look is not None:
                look()

        job = self._client.submit(submission.spec)
        outcome = self._client.wait(job, check, pause_seconds)
        if outcome.status != "finished":
            self.local.check()
            raise JobFailedError(outcome.reason or f"the job was {outcome.status}")
        return Run(summarize(submission, outcome, time.monotonic() - begin), submission, outcome)

    def close(self) -> None:
        try:
            if self._client is not None:
                self._client.close()
            self.local.close()
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)

    def __enter__(self) -> BenchmarkCluster:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
