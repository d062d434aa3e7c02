"""`streammine run`: a cluster, one job, its result, and nothing left behind.

Most of what it loads the nodes need, too, so they are forked from it. Libraries size their thread pools when
they are loaded; by then it has to be known how many nodes share the cores.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from streammine.cli.options import LARGEST_FILE_BYTES, JobOptions, job_options
from streammine.runtime.cluster import NODE_MODULES, shared_threads
from streammine.runtime.fork_server import fork_server_here, pools_sized

DEFAULT_NODES = 2
"""A topology's that names no number."""

_NODES_LINE = re.compile(r"^nodes:(.*)", re.MULTILINE)
_NODES_SETTING = re.compile(r"\s*nodes\s*=(.*)")
_COUNT = re.compile(r"\s*(\d{1,4})\s*(?:\s#.*)?")


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
    job = JobOptions("streammine run", **options)
    nodes = job.nodes or nodes_at_a_glance(job.topology, job.overrides)
    with pools_sized(shared_threads(nodes)):
        from streammine.cli.watching import watched_job

        fork_server_here(NODE_MODULES)
    with watched_job(job, zookeeper=zookeeper) as watched:
        watched.run_and_show()


def nodes_at_a_glance(topology: Path, overrides: Sequence[str]) -> int:
    """How many nodes a topology asks for, as far as that shows without understanding it.

    Where it is wrong the cluster finds no server with pools of its size, and starts another.
    """
    set_counts = [found[1] for each in overrides if (found := _NODES_SETTING.fullmatch(each))]
    # anything but a file, a pipe for instance, can be read once only
    text = _beginning(topology) if topology.is_file() else ""
    counts = [*_NODES_LINE.findall(text)[:1], *set_counts]
    count = _COUNT.fullmatch(counts[-1]) if counts else None
    return int(count[1]) if count else DEFAULT_NODES


def _beginning(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(LARGEST_FILE_BYTES).decode(errors="replace")
    except OSError:
        # it is read again, and what is wrong is told then
        return ""
