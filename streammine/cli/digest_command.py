"""`streammine digest`: what the committed output comes to."""

from __future__ import annotations

from pathlib import Path

import click

from streammine.cli.options import topology_argument
from streammine.cli.summary import lost_line
from streammine.cli.topologies import read_topology
from streammine.runtime.output import CommittedOutput, output_digest
from streammine.runtime.stores import open_store
from streammine.runtime.submission import sink_location


@click.command()
@topology_argument
def digest(topology: Path, overrides: tuple[str, ...]) -> None:
    """Print the digest of the output that a topology's last run committed.

    Equal digests mean equal output: the same rows in the same epochs, whatever the files. Epochs that may
    lack rows, because gap recovery has lost some, are named on standard error.
    """
    definition = read_topology(topology, overrides)
    stores = {
        name: open_store(sink_location(topology.parent, sink.path))
        for name, sink in definition.sinks.items()
        if sink.path is not None
    }
    click.echo(output_digest(stores))
    for name, store in stores.items():
        if lost := CommittedOutput(store).lost:
            click.echo(lost_line(name, lost), err=True)
