"""`streammine stop`: the end of one job of a cluster that is up."""

from __future__ import annotations

from pathlib import Path

import click

from streammine.cli.clusters import cluster_options, connected
from streammine.model.errors import ClusterError


@click.command()
@click.argument("job", type=click.IntRange(min=0))
@cluster_options
def stop(job: int, name: str | None, folder: Path | None) -> None:
    """Stop JOB, a number that `streammine status` shows. What it has committed stays."""
    with connected(name, folder) as client:
        outcome = client.stop(job, "stopped by its user")
    if outcome.status != "stopped":
        raise ClusterError(f"job {job} ended by itself: it {outcome.status}")
    click.echo(f"job {job} is stopped")
