"""`streammine run`: a cluster, one job, its result, and nothing left behind."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import click

from streammine.cli.display import Display, display_for
from streammine.cli.summary import print_summary
from streammine.cli.topologies import read_topology, topology_argument
from streammine.model.errors import JobFailedError
from streammine.model.topology import Topology
from streammine.runtime.jobs import JobRun
from streammine.runtime.output import Tail
from streammine.runtime.results import summarize
from streammine.runtime.stores import open_store
from streammine.runtime.submission import Submission


@click.command()
@topology_argument
@click.option("--nodes", type=click.IntRange(1, 1000), help="Node processes; default: the topology's.")
@click.option("--zookeeper", metavar="HOST:PORT,…", help="Use this ensemble instead of an own one.")
@click.option("--spark-master", metavar="URL", help="Spark master for raw sources; default local[*].")
@click.option("--overwrite", is_flag=True, help="Replace output of another job in the sinks' folders.")
@click.option("--json", "as_json", is_flag=True, help="End with one line of JSON on standard output.")
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
def run(
    topology: Path,
    overrides: tuple[str, ...],
    nodes: int | None,
    zookeeper: str | None,
    spark_master: str | None,
    overwrite: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run TOPOLOGY, a YAML file, on a cluster that is started for it.

    ZooKeeper and the nodes run on this machine; when the last epoch is committed, or after an error or
    Ctrl-C, every process and temporary file is gone.
    """
    begin = time.monotonic()
    definition = read_topology(topology, overrides)
    display = display_for(definition, quiet)
    with _interruptible(), display, JobRun(
        definition,
        topology.absolute().parent,
        nodes=nodes,
        zookeeper=zookeeper,
        master=spark_master,
        overwrite=overwrite,
        watcher=display,
    ) as job:
        submission = job.prepare()
        for warning in definition.warnings():
            display.note(f"note: {warning}")
        outcome = job.run(_consoles(definition, submission, display))
        if outcome.status != "finished":
            raise JobFailedError(outcome.reason or f"the job was {outcome.status}")
        summary = summarize(submission, outcome, time.monotonic() - begin)
        display.close()
        print_summary(summary, submission, as_json)


def _consoles(
    topology: Topology, submission: Submission, display: Display
) -> list[tuple[str, Tail]]:
    """Console sinks, to be printed as they are committed."""
    return [
        (name, Tail(open_store(submission.spec.targets[name].location)))
        for name, sink in topology.sinks.items()
        if sink.format == "console"
    ]


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

