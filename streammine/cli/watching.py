"""Running a job under a person's eyes: what `run` and `submit` share."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click

from streammine.cli.display import Display, display_for
from streammine.cli.interruption import interruptible, require_uninterrupted
from streammine.cli.options import JobOptions
from streammine.cli.summary import print_summary
from streammine.cli.topologies import read_topology
from streammine.model.errors import JobFailedError
from streammine.model.topology import Topology
from streammine.runtime.cluster import LocalCluster
from streammine.runtime.jobs import JobRun
from streammine.runtime.output import Tail
from streammine.runtime.results import summarize
from streammine.runtime.stores import open_store
from streammine.runtime.submission import Submission

SAVEPOINTED = "savepoint"
"""Status of a job that was stopped by `streammine savepoint`."""


@dataclass(frozen=True)
class WatchedJob:
    """A job that a person looks at."""

    job: JobRun
    topology: Topology
    display: Display
    options: JobOptions
    began_at: float

    def run_and_show(self) -> None:
        """Run the job to its end and print the summary. Raises JobFailedError when it failed."""
        submission = self.job.prepare()
        for warning in self.topology.warnings():
            self.display.note(f"note: {warning}")
        self._tell_of_run()
        outcome = self.job.run(_consoles(self.topology, submission))
        name = self.topology.name
        if outcome.status == SAVEPOINTED:
            self._print_savepoint()
            return
        if outcome.status != "finished":
            reason = f": {outcome.reason}" if outcome.reason else ""
            raise JobFailedError(f"{name} {outcome.status}{reason}")
        summary = summarize(submission, outcome, time.monotonic() - self.began_at)
        self.display.close()
        print_summary(summary, submission, self.options.as_json)

    def _tell_of_run(self) -> None:
        kept, cluster = self.job.kept, self.job.cluster
        if kept is not None:
            command = self.options.resuming(kept.name)
            self.display.note(f"run {kept.name}; if it is interrupted: {command}")
        if isinstance(cluster, LocalCluster):
            self.display.note(f"to look at it or savepoint it: --folder {cluster.folder}")

    def _print_savepoint(self) -> None:
        assert self.job.kept is not None, "only a run that is kept can be savepointed"
        run = self.job.kept.name
        self.display.close()
        if self.options.as_json:
            click.echo(json.dumps({"savepoint": run}))
        else:
            click.echo(f"run {run} is saved; go on with it: {self.options.resuming(run)}")


@contextmanager
def watched_job(options: JobOptions, **settings: Any) -> Iterator[WatchedJob]:
    """The job of a command, with its display; `settings` are more of JobRun's.

    When it is left, however that is, nothing of the job is left but its output. Raises TopologyError.
    """
    begin = time.monotonic()
    topology = read_topology(options.topology, options.overrides)
    display = display_for(topology, options.quiet)
    with (
        interruptible(),
        display,
        JobRun(
            topology,
            options.topology.absolute().parent,
            nodes=options.nodes,
            master=options.spark_master,
            overwrite=options.overwrite,
            resume=options.resume,
            watcher=display,
            check=require_uninterrupted,
            **settings,
        ) as job,
    ):
        yield WatchedJob(job, topology, display, options, begin)


def _consoles(topology: Topology, submission: Submission) -> list[tuple[str, Tail]]:
    """Console sinks, to be printed as they are committed."""
    return [
        (name, Tail(open_store(submission.spec.targets[name].location)))
        for name, sink in topology.sinks.items()
        if sink.format == "console"
    ]
