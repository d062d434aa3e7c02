"""The command line of the benchmarks: one command each, with the options they share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from benchmarks.comparison import Plan, measure
from benchmarks.programs import PROGRAMS
from benchmarks.report import print_comparison
from benchmarks.workloads import WORKLOADS, InputKind

FOLDER = Path(__file__).resolve().parents[2] / "data" / "benchmarks"
DISCIPLINES = click.Choice(["none", "epoch", "strict"])

nodes_option = click.option(
    "--nodes", type=click.IntRange(1, 64), default=2, show_default=True, help="Node processes."
)
slices_option = click.option(
    "--slices", type=click.IntRange(1, 1000), default=2, show_default=True, help="Of every operator."
)
events_option = click.option(
    "--events", type=click.IntRange(1), help="Events per stream; default: the full size."
)
folder_option = click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=FOLDER,
    help="Where inputs are kept; default: data/benchmarks.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")


@click.group()
def benchmarks() -> None:
    """Measure the engine."""


def _comparison(name: str) -> None:
    @benchmarks.command(name, help=f"The engine against Polars and DuckDB on {name}.")
    @nodes_option
    @slices_option
    @events_option
    @folder_option
    @json_option
    @click.option("--runs", type=click.IntRange(1), default=5, show_default=True)
    @click.option("--discipline", type=DISCIPLINES, help="Default: the planner's choice.")
    @click.option(
        "--input",
        "source",
        type=click.Choice(["parquet", "log"]),
        default="parquet",
        help="What the engine reads: the Parquet files, or an epoch log prepared from them.",
    )
    @click.option(
        "--threads",
        type=click.IntRange(1),
        default=2,
        show_default=True,
        help="Threads of each reference.",
    )
    @click.option(
        "--rows", is_flag=True, help="Row-at-a-time Python operators in the engine, no reference."
    )
    @click.option(
        "--reference",
        "references",
        type=click.Choice(PROGRAMS),
        multiple=True,
        help="Only these references; default: all.",
    )
    def command(
        nodes: int,
        slices: int,
        events: int | None,
        folder: Path,
        as_json: bool,
        runs: int,
        discipline: str | None,
        source: InputKind,
        threads: int,
        rows: bool,
        references: tuple[str, ...],
    ) -> None:
        if rows and name == "join":
            raise click.UsageError("--rows is for wordcount and readings; a join has no user code")
        plan = Plan(
            nodes=nodes,
            runs=runs,
            threads=threads,
            folder=folder,
            events=events,
            slices=slices,
            discipline=discipline,
            source=source,
            rows=rows,
            references=references or PROGRAMS,
        )
        print_comparison(measure(WORKLOADS[name], plan), as_json)


for _name in WORKLOADS:
    _comparison(_name)
