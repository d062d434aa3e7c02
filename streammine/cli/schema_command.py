"""`streammine schema`: JSON Schema of topologies."""

from __future__ import annotations

import json

import click

from streammine.model.topology import json_schema


@click.command()
def schema() -> None:
    """Print the JSON Schema of topology files.

    Editors check and complete YAML by it, for example with a first line
    `# yaml-language-server: $schema=FILE`.
    """
    click.echo(json.dumps(json_schema(), indent=2))
