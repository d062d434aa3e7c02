"""`streammine scheme`: another fault-tolerance scheme for slices of a running job."""

from __future__ import annotations

from pathlib import Path

import click

from streammine.cli.clusters import cluster_options, connected, running_job, timeout_option
from streammine.model.errors import ClusterError
from streammine.model.ids import SliceId
from streammine.model.job import JobGraph
from streammine.model.schemes import AUTOMATIC, Scheme
from streammine.model.suggestions import hint, listed


@click.command()
@click.argument("named", metavar="OPERATOR[/PARTITION]")
@click.argument("scheme", metavar="NAME")
@click.option(
    "--job", type=click.IntRange(min=0), help="The job's number; default: the one that runs."
)
@cluster_options
@timeout_option
def scheme(
    named: str,
    scheme: str,
    job: int | None,
    name: str | None,
    folder: Path | None,
    timeout_seconds: float,
) -> None:
    """Change how ready a second replica stands, while the job runs.

    NAME is one of passive-replication (there is none), deployed, passive-standby-cold,
    passive-standby-hot, active-standby and active-replication, from the cheapest to the one that
    recovers fastest. The output stays the same, byte for byte. Where a node has no time for replicas
    that work, they wait for it at passive-standby-hot.

    Where the topology has `recovery`, nobody chooses for these slices from then on, until NAME is
    automatic.
    """
    wanted = _scheme(scheme)
    with connected(name, folder) as client:
        running = running_job(job, client.jobs())
        slices = _slices(running.spec.graph, named)
        crowded = client.change_scheme(
            running.number, slices, named, wanted, timeout_seconds, crowded_too=True
        )
    click.echo(f"{named} of job {running.number}: {scheme}")
    if crowded:
        click.echo(
            f"replicas on {listed(crowded)} wait for room there: they stand lower, and climb once their node "
            "has time for them"
        )


def _scheme(text: str) -> Scheme | None:
    """None for one that is to be chosen."""
    if text == AUTOMATIC:
        return None
    known = (*Scheme, AUTOMATIC)
    if text not in known:
        raise ClusterError(
            f"there is no scheme {text!r}{hint(text, known)} Allowed: {listed(known)}"
        )
    return Scheme(text)


def _slices(graph: JobGraph, named: str) -> tuple[SliceId, ...]:
    """The slices that are meant. Raises ClusterError where none is."""
    found = graph.slices_named(named)
    if not found:
        raise ClusterError(graph.misnamed(named))
    return found
