"""`streammine submit`: a job for a cluster that is up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from streammine.cli.clusters import cluster_command, cluster_options
from streammine.cli.options import JobOptions, job_options
from streammine.cli.watching import watched_job
from streammine.model.errors import TopologyError
from streammine.model.topology import Topology
from streammine.runtime.standing import StandingCluster, cluster_folder


@click.command()
@job_options
@cluster_options
@click.option(
    "--detach", is_flag=True, help="Don't wait for its end; `streammine status` shows it."
)
def submit(name: str | None, folder: Path | None, detach: bool, **options: Any) -> None:
    """Run TOPOLOGY, a YAML file, on a cluster that `streammine up` started.

    Ctrl-C stops the job; with --detach the command ends at once, and the job goes on. Exit codes are
    those of `run`.
    """
    cluster = StandingCluster(cluster_folder(name, folder))
    job = JobOptions(cluster_command("submit", name, folder), **options)
    with watched_job(job, cluster=cluster) as watched:
        if not detach:
            watched.run_and_show()
            return
        _require_paths(watched.topology)
        number = watched.job.hand_over()
        watched.display.close()
        kept = watched.job.kept
        run = None if kept is None else kept.name
        if job.as_json:
            click.echo(json.dumps({"job": number, "run": run}))
        else:
            click.echo(f"job {number} is submitted")
            if run is not None:
                click.echo(f"run {run}; if it is interrupted: {job.resuming(run)}")


def _require_paths(topology: Topology) -> None:
    for name, sink in topology.sinks.items():
        if sink.path is None:
            raise TopologyError(
                f"sink {name!r} writes to the console, where nobody reads after --detach; "
                "give it a format with a `path`, or leave --detach out"
            )
