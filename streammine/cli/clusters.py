"""What commands that deal with a cluster that is up have in common."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from streammine.model.errors import ClusterError
from streammine.runtime.client import Client, KnownJob
from streammine.runtime.standing import StandingCluster, cluster_folder


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--cluster NAME and --folder DIR."""
    command = click.option(
        "--folder",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="The cluster's folder, where `up` was given one; `run` says that of its own.",
    )(command)
    return click.option(
        "--cluster", "name", metavar="NAME", help="The cluster's name; default: default."
    )(command)


def timeout_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """--timeout SECONDS, as `timeout_seconds`."""
    return click.option(
        "--timeout",
        "timeout_seconds",
        type=click.FloatRange(min=0, min_open=True),
        default=60.0,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait for it to be done.",
    )(command)


def cluster_command(command: str, name: str | None, folder: Path | None) -> str:
    """A command line for the same cluster."""
    if folder is not None:
        return f"streammine {command} --folder {shlex.quote(str(folder))}"
    return f"streammine {command}" if name is None else f"streammine {command} --cluster {name}"


@contextmanager
def connected(name: str | None, folder: Path | None) -> Iterator[Client]:
    """A client of the cluster, once a node of it is there. Raises ClusterError."""
    cluster = StandingCluster(cluster_folder(name, folder))
    with Client(cluster.address) as client:
        client.wait_for_members(1, cluster.check)
        yield client


def running_job(number: int | None, jobs: list[KnownJob]) -> KnownJob:
    """The job of that number, or with None the only one that runs. Raises ClusterError."""
    if number is not None:
        for job in jobs:
            if job.number == number:
                return job
        known = ", ".join(str(job.number) for job in jobs) or "none"
        raise ClusterError(f"the cluster knows no job {number}; it knows: {known}")
    running = [job for job in jobs if job.outcome is None]
    if len(running) != 1:
        which = ", ".join(f"{job.number} ({job.name})" for job in running) or "none"
        raise ClusterError(f"say which job: those that run are {which}")
    return running[0]
