"""`streammine submit`: a job for a cluster that is up."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from streammine.cli.clusters import cluster_options
from streammine.cli.display import display_for
from streammine.cli.interruption import interruptible
from streammine.cli.topologies import read_topology, topology_argument
from streammine.cli.watching import run_and_show
from streammine.model.errors import TopologyError
from streammine.model.topology import Topology
from streammine.runtime.jobs import JobRun
from streammine.runtime.standing import StandingCluster, cluster_folder


@click.command()
@topology_argument
@cluster_options
@click.option(
    "--nodes", type=click.IntRange(1, 1000), help="Nodes to spread over; default: the topology's."
)
@click.option(
    "--spark-master", metavar="URL", help="Spark master for raw sources; default local[*]."
)
@click.option(
    "--overwrite", is_flag=True, help="Replace output of another job in the sinks' folders."
)
@click.option(
    "--detach", is_flag=True, help="Don't wait for its end; `streammine status` shows it."
)
@click.option(
    "--json", "as_json", is_flag=True, help="End with one line of JSON on standard output."
)
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
def submit(
    topology: Path,
    overrides: tuple[str, ...],
    name: str | None,
    folder: Path | None,
    nodes: int | None,
    spark_master: str | None,
    overwrite: bool,
    detach: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run TOPOLOGY, a YAML file, on a cluster that `streammine up` started.

    Ctrl-C stops the job; with --detach the command ends at once, and the job goes on. Exit codes are
    those of `run`.
    """
    begin = time.monotonic()
    cluster = StandingCluster(cluster_folder(name, folder))
    definition = read_topology(topology, overrides)
    if detach:
        _require_paths(definition)
    display = display_for(definition, quiet)
    with (
        interruptible(),
        display,
        JobRun(
            definition,
            topology.absolute().parent,
            nodes=nodes,
            master=spark_master,
            overwrite=overwrite,
            watcher=display,
            cluster=cluster,
        ) as job,
    ):
        if not detach:
            run_and_show(job, definition, display, begin, as_json)
            return
        number = job.hand_over()
        display.close()
        click.echo(json.dumps({"job": number}) if as_json else f"job {number} is submitted")


def _require_paths(topology: Topology) -> None:
    for name, sink in topology.sinks.items():
        if sink.path is None:
            raise TopologyError(
                f"sink {name!r} writes to the console, where nobody reads after --detach; "
                "give it a format with a `path`, or leave --detach out"
            )
