"""One job from topology to outcome, on a cluster made for it or on one that is up."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from streammine.model.credentials import refuse_credentials
from streammine.model.errors import ClusterError, TopologyError
from streammine.model.job import JobOutcome
from streammine.model.lacking import lacks_at_first
from streammine.model.spark_job import SparkProgress
from streammine.model.topology import Topology
from streammine.runtime.client import Client
from streammine.runtime.cluster import LocalCluster
from streammine.runtime.detached import leave_run
from streammine.runtime.output import Tail
from streammine.runtime.resuming import keep_run, resumed_submission
from streammine.runtime.run_folders import Run, known_run, new_run
from streammine.runtime.scratch import ScratchFolder
from streammine.runtime.standing import (
    ClusterState,
    StandingCluster,
    held,
    is_up,
    write_state,
)
from streammine.runtime.submission import Submission, prepare_submission

STOP_SECONDS = 10.0
LOOK_ANSWER_SECONDS = 1.0
"""A manager that answers later is passed over: its successor may be there at the next look."""

NO_MANAGER_PHASE = "waiting for a node that answers"
DEPLOYING_PHASE = "loading operators (the first time, kernels are compiled for some seconds)"


def _is_deploying(status: dict[str, Any]) -> bool:
    """Whether the one job of a status answer has not started yet."""
    return all(job["phase"] in ("submitted", "deploying") for job in status["jobs"].values())


class Watcher(Protocol):
    """Is told how a run goes. Called from the thread that runs the job."""

    def note(self, text: str) -> None: ...

    def phase(self, text: str) -> None: ...

    def preparing(self, source: str, progress: SparkProgress) -> None: ...

    def status(self, submission: Submission, status: dict[str, Any]) -> None: ...

    def table(self, sink: str, epoch: int, table: Any) -> None: ...


class Unwatched:
    """A watcher that says nothing."""

    def note(self, text: str) -> None:
        """Nothing is shown."""

    def phase(self, text: str) -> None:
        """Nothing is shown."""

    def preparing(self, source: str, progress: SparkProgress) -> None:
        """Nothing is shown."""

    def status(self, submission: Submission, status: dict[str, Any]) -> None:
        """Nothing is shown."""

    def table(self, sink: str, epoch: int, table: Any) -> None:
        """Nothing is shown."""


class JobRun:
    """One job. As a context manager it leaves nothing behind.

    `base` is the folder of relative paths and user modules. Without `cluster` one is made for the job,
    with `nodes` processes and the ensemble `zookeeper`, or an own one; a given one stays as it is.
    `resume` is the name, folder or URL of an earlier run, which then goes on. `check` is called again
    and again while the cluster is waited for and the job runs; what it raises ends the job.

    What it takes to resume the job lies in `kept`, a folder that goes when the job has finished; it is
    None where the topology wants no snapshots.
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
        check: Callable[[], None] = lambda: None,
        cluster: StandingCluster | None = None,
        resume: str | None = None,
    ) -> None:
        self.topology = topology
        self.base = base
        self.master = master
        self.overwrite = overwrite
        self.nodes = nodes or topology.nodes
        self.watcher = watcher or Unwatched()
        self._check = check
        self.resume = resume
        self.submission: Submission | None = None
        self.kept: Run | None = None
        self._job: int | None = None
        self._worth_keeping = resume is not None
        self._reachable = ExitStack()
        self._scratch = ScratchFolder() if cluster is None else cluster.new_scratch()
        self.cluster = cluster or LocalCluster(
            self.nodes, zookeeper, folder=self._scratch.path / "cluster"
        )

    def prepare(self) -> Submission:
        """Check everything and prepare logs. Raises what `prepare_submission` raises.

        Spark and the cluster would fight over the cores, so nodes start after preparation.
        """
        self.watcher.phase("checking the topology and its sources")
        refuse_credentials(self.topology)
        self.cluster.require_parts()
        self.submission = self._fresh() if self.resume is None else self._resumed(self.resume)
        return self.submission

    def _fresh(self) -> Submission:
        snapshot = self.topology.snapshot
        if snapshot.mode != "none":
            self.kept = new_run(self.topology.name, self.base, snapshot.store)
        return prepare_submission(
            self.topology,
            self.base,
            str(self._scratch.path) if self.kept is None else self.kept.sinks,
            sign=self.cluster.sign,
            nodes=self.nodes,
            overwrite=self.overwrite,
            progress=self.watcher.preparing,
            master=self.master,
            store="" if self.kept is None else self.kept.location,
        )

    def _resumed(self, name: str) -> Submission:
        snapshot = self.topology.snapshot
        if snapshot.mode == "none":
            raise TopologyError(
                f"{self.topology.name} makes no snapshots (snapshot: none), so no run of it can be "
                "resumed; run it again without --resume"
            )
        self.kept = known_run(name, self.base, snapshot.store)
        if isinstance(self.cluster, StandingCluster):
            self._require_ended(self.kept)
        return resumed_submission(
            self.topology,
            self.kept,
            sign=self.cluster.sign,
            nodes=self.nodes,
            overwrite=self.overwrite,
            warn=self.watcher.note,
        )

    def _require_ended(self, run: Run) -> None:
        with Client(self.cluster.address) as client:
            jobs = [job for job in client.jobs() if job.spec.recovery.store == run.location]
        if not jobs:
            return
        # an earlier one may have been of another run, which had this one's name and is removed
        last = jobs[-1]
        if last.state == "finished":
            raise ClusterError(f"run {run.name} has finished, as job {last.number}")
        if last.outcome is None:
            raise ClusterError(
                f"run {run.name} is going on as job {last.number}; end it with "
                f"`streammine savepoint {last.number}` or `streammine stop {last.number}` first"
            )

    def run(self, consoles: Sequence[tuple[str, Tail]] = ()) -> JobOutcome:
        """Run the job to its end, starting the cluster first unless it is up.

        Processes that die are replaced; raises ClusterError when too many do. However this call ends,
        the job has ended, too.
        """
        submission = self.submission or self.prepare()
        self.watcher.phase(self.cluster.greeting)
        self.cluster.start()
        with Client(self.cluster.address) as client:
            client.wait_for_members(self.cluster.nodes, self._check_start)
            self._let_commands_in()
            job = self._submit(client, submission)
            self.watcher.phase("running")
            try:
                outcome = self._watch(client, job, submission, consoles)
            except BaseException:
                self._abandon(client, job)
                raise
            # a node that died says why in its log, which is more than its peers know
            self._tend()
        self._show(consoles)
        if outcome.status == "finished":
            self._worth_keeping = False
        return outcome

    def hand_over(self) -> int:
        """Submit the job and leave it to the cluster; gives its number."""
        submission = self.submission or self.prepare()
        with Client(self.cluster.address) as client:
            client.wait_for_members(1, self._check_start)
            job = self._submit(client, submission)
        self._leave_run()
        return job

    def _leave_run(self) -> None:
        """The cluster, if it goes on without us, removes the run when the job has finished."""
        cluster = self.cluster
        if (
            self.kept is not None
            and self._job is not None
            and isinstance(cluster, StandingCluster)
            and is_up(cluster.folder)
        ):
            leave_run(cluster.folder, self._job, self.kept)

    def _submit(self, client: Client, submission: Submission) -> int:
        if self.kept is not None and self.resume is None:
            keep_run(self.kept, submission.spec)
        self._worth_keeping = True
        for each in lacks_at_first(submission.spec.graph, len(client.members)):
            self.watcher.note(f"note: {each}")
        self._job = client.submit(submission.spec)
        return self._job

    def _let_commands_in(self) -> None:
        """From now on `streammine status --folder …` and others find a cluster of our own, too."""
        cluster = self.cluster
        if isinstance(cluster, LocalCluster):
            self._reachable.enter_context(held(cluster.folder))
            address = cluster.address
            state = ClusterState(address.name, address.zookeeper, cluster.nodes, os.getpid())
            write_state(cluster.folder, state)

    def _check_start(self) -> None:
        self._check()
        self.cluster.check()

    def _tend(self) -> None:
        for line in self.cluster.tend():
            self.watcher.note(line)

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
            self._check()
            self._tend()
            try:
                status = client.status(job, LOOK_ANSWER_SECONDS)
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
        self._reachable.close()
        self.cluster.close()
        self._scratch.close()
        if self.kept is None:
            return
        if self._worth_keeping:
            self.kept.close()
        else:
            self.kept.remove()
            if "://" in self.kept.location:
                # a node that goes on may still be writing the last snapshot
                self._leave_run()

    def __enter__(self) -> JobRun:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
