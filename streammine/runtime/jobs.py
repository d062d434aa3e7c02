"""One job from topology to outcome, on a cluster made for it or on one that is up."""

from __future__ import annotations

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
from streammine.runtime.scratch import ScratchFolder
from streammine.runtime.standing import StandingCluster, is_up
from streammine.runtime.submission import Submission, prepare_submission

STOP_SECONDS = 10.0
NO_MANAGER_PHASE = "waiting for a node that answers"
DEPLOYING_PHASE = "loading operators (the first time, kernels are compiled for some seconds)"


def _is_deploying(status: dict[str, Any]) -> bool:
    """Whether the one job of a status answer has not started yet."""
    return all(job["phase"] in ("submitted", "deploying") for job in status["jobs"].values())


class Watcher(Protocol):
    """Is told how a run goes. Called from the thread that runs the job."""

    def note(self, text: str) -> None: ...

    def phase(self, text: str) -> None: ...

    def preparing(self, source: str, progress: PrepareProgress) -> None: ...

    def status(self, submission: Submission, status: dict[str, Any]) -> None: ...

    def table(self, sink: str, epoch: int, table: Any) -> None: ...


class Unwatched:
    """A watcher that says nothing."""

    def note(self, text: str) -> None:
        """Nothing is shown."""

    def phase(self, text: str) -> None:
        """Nothing is shown."""

    def preparing(self, source: str, progress: PrepareProgress) -> None:
        """Nothing is shown."""

    def status(self, submission: Submission, status: dict[str, Any]) -> None:
        """Nothing is shown."""

    def table(self, sink: str, epoch: int, table: Any) -> None:
        """Nothing is shown."""


class JobRun:
    """One job. As a context manager it leaves nothing behind.

    `base` is the folder of relative paths and user modules. Without `cluster` one is made for the job,
    with `nodes` processes and the ensemble `zookeeper`, or an own one; a given one stays as it is.
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
        cluster: StandingCluster | None = None,
    ) -> None:
        self.topology = topology
        self.base = base
        self.master = master
        self.overwrite = overwrite
        self.nodes = nodes or topology.nodes
        self.watcher = watcher or Unwatched()
        self.submission: Submission | None = None
        self._scratch = ScratchFolder() if cluster is None else cluster.new_scratch()
        self.cluster = cluster or LocalCluster(
            self.nodes, zookeeper, folder=self._scratch.path / "cluster"
        )

    def prepare(self) -> Submission:
        """Check everything and prepare logs. Raises what `prepare_submission` raises.

        Spark and the cluster would fight over the cores, so nodes start after preparation.
        """
        self.watcher.phase("checking the topology and its sources")
        self.cluster.require_parts()
        self.submission = prepare_submission(
            self.topology,
            self.base,
            self._scratch.path,
            sign=self.cluster.sign,
            nodes=self.nodes,
            overwrite=self.overwrite,
            progress=self.watcher.preparing,
            master=self.master,
        )
        return self.submission

    def run(self, consoles: Sequence[tuple[str, Tail]] = ()) -> JobOutcome:
        """Run the job to its end, starting the cluster first unless it is up.

        Raises ClusterError when a process dies. However this call ends, the job has ended, too.
        """
        submission = self.submission or self.prepare()
        self.watcher.phase(self.cluster.greeting)
        self.cluster.start()
        with Client(self.cluster.address) as client:
            client.wait_for_members(self.cluster.nodes, self.cluster.check)
            job = client.submit(submission.spec)
            self.watcher.phase("running")
            try:
                outcome = self._watch(client, job, submission, consoles)
            except BaseException:
                self._abandon(client, job)
                raise
            if outcome.status == "failed":
                # a node that died says why in its log, which is more than its peers know
                self.cluster.check()
        self._show(consoles)
        return outcome

    def hand_over(self) -> int:
        """Submit the job and leave it to the cluster; gives its number."""
        submission = self.submission or self.prepare()
        with Client(self.cluster.address) as client:
            return client.submit(submission.spec)

    def _watch(
        self,
        client: Client,
        job: int,
        submission: Submission,
        consoles: Sequence[tuple[str, Tail]],
    ) -> JobOutcome:
        said = False

        def look() -> None:
            nonlocal said
            self.cluster.check()
            try:
                status = client.status(job)
                if _is_deploying(status):
                    if not said:
                        self.watcher.phase(DEPLOYING_PHASE)
                    said = True
                else:
                    self.watcher.status(submission, status)
            except ClusterError:
                # the next look will find the node that manages then
                self.watcher.phase(NO_MANAGER_PHASE)
            self._show(consoles)

        return client.wait(job, look)

    def _abandon(self, client: Client, job: int) -> None:
        """Stop the job in a cluster that goes on without us."""
        if not isinstance(self.cluster, StandingCluster) or not is_up(self.cluster.folder):
            return
        try:
            outcome = client.stop(job, "its user interrupted it", STOP_SECONDS)
        except ClusterError as error:
            # Why we leave matters more, but the user has to know that it runs on.
            self.watcher.note(f"job {job} could not be stopped: {error}")
        else:
            self.watcher.note(f"job {job} is {outcome.status}")

    def _show(self, consoles: Sequence[tuple[str, Tail]]) -> None:
        for name, tail in consoles:
            for epoch, table in tail.new():
                self.watcher.table(name, epoch, table)

    def close(self) -> None:
        """End what was made for the job, and remove its temporary files."""
        self.cluster.close()
        self._scratch.close()

    def __enter__(self) -> JobRun:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
