"""One job from topology to outcome on a cluster of its own: what `streammine run` and `Topology.run` do."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from streammine.model.errors import ClusterError
from streammine.model.job import JobOutcome
from streammine.model.preparation import PrepareProgress
from streammine.model.topology import Topology
from streammine.runtime.client import Client
from streammine.runtime.cluster import LocalCluster
from streammine.runtime.output import Tail
from streammine.runtime.submission import Submission, prepare_submission


class Watcher(Protocol):
    """Is told how a run goes. Called from the thread that runs the job."""

    def phase(self, text: str) -> None: ...

    def preparing(self, source: str, progress: PrepareProgress) -> None: ...

    def status(self, submission: Submission, status: dict[str, Any]) -> None: ...

    def table(self, sink: str, epoch: int, table: Any) -> None: ...


class Unwatched:
    """A watcher that says nothing."""

    def phase(self, text: str) -> None:
        """Nothing is shown."""

    def preparing(self, source: str, progress: PrepareProgress) -> None:
        """Nothing is shown."""

    def status(self, submission: Submission, status: dict[str, Any]) -> None:
        """Nothing is shown."""

    def table(self, sink: str, epoch: int, table: Any) -> None:
        """Nothing is shown."""


class JobRun:
    """A cluster made for one topology. As a context manager it leaves nothing behind.

    `base` is the folder of relative paths and user modules.
    """

    def __init__(
        self,
        topology: Topology,
        base: Path,
        *,
        nodes: int | None = None,
        zookeeper: str | None = None,
        master: str | None = None,
        overwrite: bool = False,
        watcher: Watcher | None = None,
    ) -> None:
        self.topology = topology
        self.base = base
        self.master = master
        self.overwrite = overwrite
        self.watcher = watcher or Unwatched()
        self.scratch = Path(tempfile.mkdtemp(prefix="streammine-"))
        self.cluster = LocalCluster(
            nodes or topology.nodes, zookeeper, folder=self.scratch / "cluster"
        )
        self.submission: Submission | None = None

    def prepare(self) -> Submission:
        """Check everything and prepare logs. Raises what `prepare_submission` raises.

        Spark and the cluster would fight over the cores, so nodes start after preparation.
        """
        self.watcher.phase("checking the topology and its sources")
        self.submission = prepare_submission(
            self.topology,
            self.base,
            self.scratch,
            sign=self.cluster.sign,
            nodes=self.cluster.nodes,
            overwrite=self.overwrite,
            progress=self.watcher.preparing,
            master=self.master,
        )
        return self.submission

    def run(self, consoles: Sequence[tuple[str, Tail]] = ()) -> JobOutcome:
        """Start the cluster, run the job to its end. Raises ClusterError when a process dies."""
        submission = self.submission or self.prepare()
        self.watcher.phase(f"starting ZooKeeper and {self.cluster.nodes} nodes")
        self.cluster.start()
        with Client(self.cluster.address) as client:
            client.wait_for_members(self.cluster.nodes, self.cluster.check)
            self.watcher.phase("running")
            job = client.submit(submission.spec)

            def look() -> None:
                self.cluster.check()
                try:
                    self.watcher.status(submission, client.status(job))
                except ClusterError:
                    # no manager at this moment; the next look will find one
                    self.watcher.phase("waiting for a manager")
                self._show(consoles)

            outcome = client.wait(job, look)
            if outcome.status == "failed":
                # a node that died says why in its log, which is more than its peers know
                self.cluster.check()
        self._show(consoles)
        return outcome

    def _show(self, consoles: Sequence[tuple[str, Tail]]) -> None:
        for name, tail in consoles:
            for epoch, table in tail.new():
                self.watcher.table(name, epoch, table)

    def close(self) -> None:
        self.cluster.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def __enter__(self) -> JobRun:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
