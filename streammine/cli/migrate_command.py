"""`streammine migrate`: one slice of a running job to another node."""

from __future__ import annotations

from pathlib import Path

import click

from streammine.cli.clusters import cluster_options, connected, running_job, timeout_option
from streammine.model.errors import ClusterError
from streammine.model.job import JobGraph
from streammine.model.suggestions import hint, listed


@click.command()
@click.argument("partition", metavar="OPERATOR/PARTITION")
@click.option("--to", "node", required=True, metavar="NODE", help="The node that is to run it.")
@click.option(
    "--job", type=click.IntRange(min=0), help="The job's number; default: the one that runs."
)
@click.option(
    "--mode",
    type=click.Choice(["live", "state-transfer"]),
    default="live",
    show_default=True,
    help="live: the old place works until the new one has caught up; state-transfer: it stops, its "
    "state is copied, and the new place goes on.",
)
@cluster_options
@timeout_option
def migrate(
    partition: str,
    node: str,
    job: int | None,
    mode: str,
    name: str | None,
    folder: Path | None,
    timeout_seconds: float,
) -> None:
    """Move a partition, as counts/1, to another node while its job runs.

    `streammine status` shows jobs, operators and nodes. The output stays the same, byte for byte.
    """
    with connected(name, folder) as client:
        running = running_job(job, client.jobs())
        _require_partition(running.spec.graph, partition)
        nodes = [member.name for member in client.members]
        if node not in nodes:
            raise ClusterError(
                f"there is no node {node!r}{hint(node, nodes)} Nodes: {listed(nodes)}"
            )
        client.move(running.number, partition, node, mode, timeout_seconds)
    click.echo(f"{partition} of job {running.number} runs on {node}")


def _require_partition(graph: JobGraph, partition: str) -> None:
    """Raises ClusterError unless the job has it."""
    if partition in {str(slice_id) for slice_id in graph.slices}:
        return
    operator, _, index = partition.rpartition("/")
    vertices = {vertex.name: vertex for vertex in graph.vertices}
    if operator in vertices and index.isdecimal():
        count = vertices[operator].slices
        raise ClusterError(f"{operator} has partitions {operator}/0 to {operator}/{count - 1}")
    wanted = operator or partition
    if wanted in vertices:
        raise ClusterError(f"say which partition of {wanted}: OPERATOR/PARTITION, as {wanted}/0")
    raise ClusterError(
        f"nothing called {wanted!r} has partitions{hint(wanted, vertices)} "
        f"There are {listed(vertices)}; stateless operators move with what they follow"
    )
