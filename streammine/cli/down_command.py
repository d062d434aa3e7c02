"""`streammine down`: the end of a cluster that is up."""

from __future__ import annotations

from pathlib import Path

import click

from streammine.cli.clusters import cluster_options
from streammine.runtime.standing import cluster_folder, read_state
from streammine.runtime.supervisor import end_supervisor


@click.command()
@cluster_options
def down(name: str | None, folder: Path | None) -> None:
    """End a cluster: its jobs stop, its processes end, its files are removed."""
    place = cluster_folder(name, folder)
    end_supervisor(place, read_state(place))
    click.echo("the cluster is down, and nothing of it is left")
