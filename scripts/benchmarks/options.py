"""Options that several benchmarks share."""

from __future__ import annotations

from pathlib import Path

import click

FOLDER = Path(__file__).resolve().parents[2] / "data" / "benchmarks"
DISCIPLINES = click.Choice(["none", "epoch", "merge", "strict"])

nodes = click.option(
    "--nodes", type=click.IntRange(1, 64), default=2, show_default=True, help="Node processes."
)
slices = click.option(
    "--slices",
    type=click.IntRange(1, 1000),
    default=2,
    show_default=True,
    help="Of every operator.",
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
discipline = click.option("--discipline", type=DISCIPLINES, help="Default: the planner's choice.")
