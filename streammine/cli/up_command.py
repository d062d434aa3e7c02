"""`streammine up`: a cluster that stays for several jobs."""

from __future__ import annotations

import time
from pathlib import Path

import click

from streammine.cli.clusters import cluster_command
from streammine.cli.interruption import interruptible
from streammine.runtime.cluster import KEY_FILE, require_listening
from streammine.runtime.endpoints import is_loopback
from streammine.runtime.standing import (
    ClusterSettings,
    ClusterState,
    claim_folder,
    cluster_folder,
    read_state,
)
from streammine.runtime.supervisor import start_supervisor


@click.command()
@click.option(
    "--nodes",
    type=click.IntRange(0, 1000),
    default=2,
    show_default=True,
    help="Node processes on this machine; with 0 all are started on others, by `node run`.",
)
@click.option("--zookeeper", metavar="HOST:PORT,…", help="Use this ensemble instead of an own one.")
@click.option(
    "--threads",
    type=click.IntRange(1, 1024),
    help="Worker threads of each node; default: the cores, shared out.",
)
@click.option("--listen", metavar="HOST", help="Nodes talk over TCP on this address, encrypted.")
@click.option("--name", metavar="NAME", help="The cluster's name; default: default.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep the cluster's files in this folder.",
)
def up(
    nodes: int,
    zookeeper: str | None,
    threads: int | None,
    listen: str | None,
    name: str | None,
    folder: Path | None,
) -> None:
    """Start a cluster that stays until `streammine down`, with nodes on this machine.

    It returns when these have joined; they go on in the background. With --zookeeper and --listen, or
    --nodes 0, nodes of other machines can join; it says how.
    """
    begin = time.monotonic()
    require_listening(listen, zookeeper, nodes)
    place = cluster_folder(name, folder)
    claim_folder(place)
    with interruptible():
        start_supervisor(place, ClusterSettings(nodes, zookeeper, threads, listen))
    state = read_state(place)
    submit, status, down = (
        cluster_command(each, name, folder) for each in ("submit", "status", "down")
    )
    elsewhere = zookeeper is not None and (nodes == 0 or (listen and not is_loopback(listen)))
    click.echo(
        f"the cluster is up with {nodes} {'node' if nodes == 1 else 'nodes'} after "
        f"{time.monotonic() - begin:.1f} s; ZooKeeper at {state.zookeeper}\n"
        f"files in {place}\n\n"
        f"run a job on it    {submit} TOPOLOGY.yaml\n"
        f"look at it         {status}\n"
        f"end it             {down}" + (f"\n\n{_joining(state, place)}" if elsewhere else "")
    )


def _joining(state: ClusterState, place: Path) -> str:
    """What to do on another machine so that it takes part."""
    return (
        f"for more nodes, copy {place / KEY_FILE} to other machines (mode 0600) and start there, each "
        "with a name of its own,\n"
        f"  streammine node run --name NAME --zookeeper {state.zookeeper} --cluster {state.cluster} "
        f"--keys {KEY_FILE} --listen ADDRESS --folder SCRATCH"
    )
