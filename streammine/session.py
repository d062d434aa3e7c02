"""Running a topology from a script or notebook: `streammine.run(topology)`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from streammine.model.errors import JobFailedError
from streammine.model.topology import Topology
from streammine.runtime.jobs import JobRun
from streammine.runtime.output import read_output
from streammine.runtime.results import Summary, summarize
from streammine.runtime.stores import open_store


@dataclass(frozen=True)
class Result:
    """A finished run: its figures, and where each sink's committed output lies."""

    summary: Summary
    locations: dict[str, str]

    @property
    def digest(self) -> str:
        return self.summary.output_digest

    def epochs(self, sink: str) -> Iterator[tuple[int, pa.Table]]:
        """(epoch, its rows) of a sink's committed output, epochs ascending."""
        return read_output(open_store(self.locations[sink]))

    def table(self, sink: str) -> pa.Table:
        """All rows of a sink's committed output, in memory."""
        tables = [table for _, table in self.epochs(sink)]
        if tables:
            return pa.concat_tables(tables)
        raise LookupError(f"sink {sink!r} has committed no rows")


def run(
    topology: Topology,
    *,
    base: str | Path = ".",
    nodes: int | None = None,
    zookeeper: str | None = None,
    spark_master: str | None = None,
    overwrite: bool = False,
) -> Result:
    """Run a topology on a cluster that is started for it, and wait for its end.

    `base` is the folder that relative paths and user modules are found from; `nodes` overrides the
    topology's. Every sink needs a path. Raises TopologyError, InputError, OutputError, UserCodeError,
    ClusterError before or JobFailedError while it runs; nothing is left behind in any case.
    """
    begin = time.monotonic()
    with JobRun(
        topology,
        Path(base).absolute(),
        nodes=nodes,
        zookeeper=zookeeper,
        master=spark_master,
        overwrite=overwrite,
    ) as job:
        submission = job.prepare()
        outcome = job.run()
        if outcome.status != "finished":
            raise JobFailedError(outcome.reason or f"the job was {outcome.status}")
        summary = summarize(submission, outcome, time.monotonic() - begin)
    locations = {
        name: submission.spec.targets[name].location
        for name, sink in topology.sinks.items()
        if sink.path is not None
    }
    return Result(summary, locations)
