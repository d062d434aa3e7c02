"""Runs of the engine on a cluster that stays up, so that processes start once and stay warm."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from types import TracebackType

from streammine import JobFailedError, Topology
from streammine.model.job import JobOutcome
from streammine.runtime.client import Client
from streammine.runtime.cluster import LocalCluster
from streammine.runtime.results import run_seconds, summarize
from streammine.runtime.submission import Submission, prepare_submission

BASE = Path(__file__).resolve().parent.parent
"""The folder that the operators' modules (`benchmarks.row_operators`) are found from."""


@dataclass(frozen=True)
class Run:
    """A finished run. Its digest is made from the output when it is asked for."""

    submission: Submission
    outcome: JobOutcome

    @property
    def seconds(self) -> float:
        """From before the first input byte was opened to the last commit."""
        return run_seconds(self.outcome)

    def digest(self) -> str:
        """The digest of the output as it lies in the sink's folder now."""
        return summarize(self.submission, self.outcome, 0.0).output_digest


class BenchmarkCluster:
    """`nodes` node processes and a ZooKeeper, for any number of jobs, one after the other."""

    def __init__(self, nodes: int) -> None:
        self.scratch = Path(tempfile.mkdtemp(prefix="streammine-bench-"))
        self.local = LocalCluster(nodes, folder=self.scratch / "cluster")
        self._client: Client | None = None
        self._runs = count()

    def start(self) -> None:
        self.local.start()
        self._client = Client(self.local.address)
        self._client.wait_for_members(self.local.nodes, self.local.check)

    def run(
        self,
        topology: Topology,
        base: Path = BASE,
        batch_rows: int | None = None,
    ) -> Run:
        """Run a job to its end; JobFailedError tells why it failed.

        `base` is the folder of user modules and prepared logs, `batch_rows` the most that a source
        reads at once.
        """
        assert self._client is not None, "start comes before run"
        submission = prepare_submission(
            topology,
            base,
            str(self.scratch / "work"),
            sign=self.local.sign,
            store=str(self.scratch / "runs" / str(next(self._runs))),
            nodes=self.local.nodes,
            overwrite=True,
        )
        job = self._client.submit(replace(submission.spec, batch_rows=batch_rows))
        outcome = self._client.wait(job, self.local.check)
        if outcome.status != "finished":
            self.local.check()
            raise JobFailedError(outcome.reason or f"the job was {outcome.status}")
        return Run(submission, outcome)

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
