"""What commands that deal with a cluster that is up have in common."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--cluster NAME and --folder DIR."""
    command = click.option(
        "--folder",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="The cluster's folder, where `up` was given one.",
    )(command)
    return click.option(
        "--cluster", "name", metavar="NAME", help="The cluster's name; default: default."
    )(command)
