"""Options that several benchmarks share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

FOLDER = Path(__file__).resolve().parents[2] / "data" / "benchmarks"
DISCIPLINES = click.Choice(["none", "epoch", "merge", "strict"])

nodes = click.option(
    "--nodes", type=click.IntRange(1, 64), default=2, show_default=True, help="Node processes."
)
events = click.option(
    "--events", type=click.IntRange(1), help="Events per stream; default: the full size."
)
folder = click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=FOLDER,
    help="Where inputs are kept; default: data/benchmarks.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")


def slices_option(default: int) -> Callable[[Command], Command]:
    """How many slices operators have that may have several."""
    return click.option(
        "--slices",
        type=click.IntRange(1, 1000),
        default=default,
        show_default=True,
        help="Of every operator that may have several.",
    )


slices = slices_option(2)
discipline = click.option("--discipline", type=DISCIPLINES, help="Default: the planner's choice.")
