"""`streammine run`: a cluster, one job, its result, and nothing left behind."""

from __future__ import annotations

import time
from pathlib import Path

import click

from streammine.cli.display import display_for
from streammine.cli.interruption import interruptible
from streammine.cli.topologies import read_topology, topology_argument
from streammine.cli.watching import run_and_show
from streammine.runtime.jobs import JobRun


@click.command()
@topology_argument
@click.option(
    "--nodes", type=click.IntRange(1, 1000), help="Node processes; default: the topology's."
)
@click.option("--zookeeper", metavar="HOST:PORT,…", help="Use this ensemble instead of an own one.")
@click.option(
    "--spark-master", metavar="URL", help="Spark master for raw sources; default local[*]."
)
@click.option(
    "--overwrite", is_flag=True, help="Replace output of another job in the sinks' folders."
)
@click.option(
    "--json", "as_json", is_flag=True, help="End with one line of JSON on standard output."
)
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
    Ctrl-C, every process and temporary file is gone. Exit codes: 0 when the job finished, 1 when it
    could not run or failed, 2 for a wrong command line, 130 after Ctrl-C, 143 after SIGTERM.
    """
    begin = time.monotonic()
    definition = read_topology(topology, overrides)
    display = display_for(definition, quiet)
    with (
        interruptible(),
        display,
        JobRun(
            definition,
            topology.absolute().parent,
            nodes=nodes,
            zookeeper=zookeeper,
            master=spark_master,
            overwrite=overwrite,
            watcher=display,
        ) as job,
    ):
        run_and_show(job, definition, display, begin, as_json)
