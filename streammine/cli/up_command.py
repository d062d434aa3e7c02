"""`streammine up`: a cluster that stays for several jobs."""

from __future__ import annotations

import time
from pathlib import Path

import click

from streammine.cli.clusters import cluster_command
from streammine.cli.interruption import interruptible
from streammine.runtime.cluster import require_listening
from streammine.runtime.standing import claim_folder, cluster_folder, read_state
from streammine.runtime.supervisor import ClusterSettings, start_supervisor


@click.command()
@click.option(
    "--nodes", type=click.IntRange(1, 1000), default=2, show_default=True, help="Node processes."
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
    """Start a cluster on this machine that stays until `streammine down`.

    It returns when all nodes have joined; they go on in the background.
    """
    begin = time.monotonic()
    require_listening(listen, zookeeper)
    place = cluster_folder(name, folder)
    claim_folder(place)
    with interruptible():
        start_supervisor(place, ClusterSettings(nodes, zookeeper, threads, listen))
    state = read_state(place)
    submit, status, down = (
        cluster_command(each, name, folder) for each in ("submit", "status", "down")
    )
    click.echo(
        f"the cluster is up with {nodes} {'node' if nodes == 1 else 'nodes'} after "
        f"{time.monotonic() - begin:.1f} s; ZooKeeper at {state.zookeeper}\n"
        f"files in {place}\n\n"
        f"run a job on it    {submit} TOPOLOGY.yaml\n"
        f"look at it         {status}\n"
        f"end it             {down}"
    )
