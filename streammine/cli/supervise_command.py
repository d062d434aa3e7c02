"""`streammine supervise`: the background process of `streammine up`."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import click

from streammine.model.errors import StreammineError
from streammine.runtime.cluster import NODE_MODULES
from streammine.runtime.fork_server import fork_server_here
from streammine.runtime.supervisor import READY, ClusterSettings, Supervisor


@click.command(hidden=True)
@click.option("--folder", required=True, type=click.Path(path_type=Path))
@click.option("--settings", required=True, help="ClusterSettings as JSON.")
@click.option(
    "--ready", required=True, type=int, help="Descriptor to say on that it is up, or why not."
)
def supervise(folder: Path, settings: str, ready: int) -> None:
    """Own a cluster's processes until told to end."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    fork_server_here(NODE_MODULES)
    with open(ready, "w", encoding="utf-8") as answer:

        def say_ready() -> None:
            answer.write(READY)
            answer.close()

        try:
            Supervisor(folder, ClusterSettings(**json.loads(settings))).run(say_ready)
        except StreammineError as error:
            if answer.closed:
                raise
            answer.write(str(error))
            answer.flush()
            raise
