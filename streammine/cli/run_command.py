"""`streammine run`: a cluster, one job, its result, and nothing left behind."""

from __future__ import annotations

from typing import Any

import click

from streammine.cli.watching import JobOptions, job_options, watched_job
from streammine.runtime.cluster import NODE_MODULES
from streammine.runtime.fork_server import fork_server_here


@click.command()
@job_options
@click.option("--zookeeper", metavar="HOST:PORT,…", help="Use this ensemble instead of an own one.")
def run(zookeeper: str | None, **options: Any) -> None:
    """Run TOPOLOGY, a YAML file, on a cluster that is started for it.

    ZooKeeper and the nodes run on this machine, and are started again when they die. When the last epoch
    is committed, or after an error or Ctrl-C, every process and temporary file is gone; what it takes to
    --resume the run is kept until its job has finished. Exit codes: 0 when the job finished or was
    savepointed, 1 when it could not run or failed, 2 for a wrong command line, 130 after Ctrl-C, 143
    after SIGTERM.
    """
    fork_server_here(NODE_MODULES)
    with watched_job(JobOptions("streammine run", **options), zookeeper=zookeeper) as watched:
        watched.run_and_show()
