"""`streammine supervise`: the background process of `streammine up`."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import click

from streammine.model.errors import StreammineError
from streammine.runtime.cluster import NODE_MODULES, shared_threads
from streammine.runtime.fork_server import fork_server_here, pools_sized
from streammine.runtime.standing import ClusterSettings


@click.command(hidden=True)
@click.option("--folder", required=True, type=click.Path(path_type=Path))
@click.option("--settings", required=True, help="ClusterSettings as JSON.")
@click.option(
    "--ready", required=True, type=int, help="Descriptor to say on that it is up, or why not."
)
def supervise(folder: Path, settings: str, ready: int) -> None:
    """Own a cluster's processes until told to end."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    wanted = ClusterSettings(**json.loads(settings))
    # libraries size their thread pools when they are loaded
    with pools_sized(wanted.threads or shared_threads(wanted.nodes)):
        from streammine.runtime.supervisor import READY, Supervisor

        if wanted.nodes:
            fork_server_here(NODE_MODULES)
    with open(ready, "w", encoding="utf-8") as answer:

        def say_ready() -> None:
            answer.write(READY)
            answer.close()

        try:
            Supervisor(folder, wanted).run(say_ready)
        except StreammineError as error:
            if answer.closed:
                raise
            answer.write(str(error))
            answer.flush()
            raise
