"""The command line of the benchmarks: one command each, with the options they share."""

from __future__ import annotations

from pathlib import Path

import click

from benchmarks import options
from benchmarks.comparison import Plan, measure
from benchmarks.controller import controller
from benchmarks.digests import digests
from benchmarks.failover import failover
from benchmarks.latency import latency
from benchmarks.memory import memory
from benchmarks.migration import migration
from benchmarks.ordering import ordering
from benchmarks.outliers import outliers
from benchmarks.programs import PROGRAMS
from benchmarks.recovery import recovery
from benchmarks.report import print_comparison
from benchmarks.schemes import schemes
from benchmarks.smartgrid import smartgrid
from benchmarks.snapshots import snapshots
from benchmarks.spikes import spikes
from benchmarks.stalled import stalled
from benchmarks.taxi import taxi
from benchmarks.windows import windows
from benchmarks.workloads import WORKLOADS, InputKind

COMMIT_EVERY = {"readings": 20}
"""Epochs in a group of output, where it is not one."""


@click.group()
def benchmarks() -> None:
    """Measure the engine."""


def _comparison(name: str) -> None:
    @benchmarks.command(name, help=f"The engine against Polars and DuckDB on {name}.")
    @options.nodes
    @options.slices
    @options.events
    @options.folder
    @options.as_json
    @options.discipline
    @click.option("--runs", type=click.IntRange(1), default=5, show_default=True)
    @click.option(
        "--input",
        "source",
        type=click.Choice(["parquet", "log"]),
        default="parquet",
        help="What the engine reads: the Parquet files, or an epoch log prepared from them.",
    )
    @click.option(
        "--commit-every",
        type=click.IntRange(1),
        help="Epochs that the sink commits together; default: 20 for readings, whose epochs are "
        "short, else 1.",
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
        commit_every: int | None,
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
            commit_every=commit_every or COMMIT_EVERY.get(name, 1),
            rows=rows,
            references=references or PROGRAMS,
        )
        print_comparison(measure(WORKLOADS[name], plan), as_json)


for _name in WORKLOADS:
    _comparison(_name)
for _command in (
    ordering,
    latency,
    memory,
    digests,
    snapshots,
    recovery,
    failover,
    migration,
    schemes,
    spikes,
    stalled,
    windows,
    controller,
    outliers,
    smartgrid,
    taxi,
):
    benchmarks.add_command(_command)
