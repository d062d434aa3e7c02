"""`streammine prepare`: epoch logs ahead of time."""

from __future__ import annotations

from pathlib import Path

import click

from streammine.cli.display import display_for
from streammine.cli.options import topology_argument
from streammine.cli.topologies import read_topology
from streammine.model.topology import FilesSource
from streammine.runtime.submission import compile_topology, prepare_source


@click.command()
@topology_argument
@click.option("--spark-master", metavar="URL", help="Spark master; default local[*].")
def prepare(topology: Path, overrides: tuple[str, ...], spark_master: str | None) -> None:
    """Turn the raw sources of TOPOLOGY into epoch logs with PySpark.

    `run` does so by itself; a log is reused while its input and settings are unchanged.
    """
    definition = read_topology(topology, overrides)
    base = topology.absolute().parent
    compiled, sources = compile_topology(definition, base)
    with display_for(definition, quiet=False) as display:
        for source in sources:
            settings = definition.sources[source.name]
            if not isinstance(settings, FilesSource) or settings.prepare is None:
                continue
            prepared = prepare_source(
                source, settings, compiled.epoch, base, spark_master, display.preparing
            )
            click.echo(f"{source.name}: {prepared.log}")
