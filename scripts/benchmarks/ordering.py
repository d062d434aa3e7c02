"""What order costs: discipline epoch against none in alternating pairs, and strict beside them.

A difference of a few per cent drowns in the noise of single runs. So runs come in pairs, first one and
then the other discipline in turn, and the median of the pairs' ratios is given with its interval.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import click

from benchmarks import options
from benchmarks.cluster import BenchmarkCluster
from benchmarks.intervals import median_interval
from benchmarks.report import print_json, print_table
from benchmarks.workloads import WORKLOADS, Settings, Workload

PAIRS_PER_STRICT_RUN = 5
"""Odd, so that neither discipline comes first behind a strict run more often than the other."""


@click.command(help="Discipline epoch against none in alternating pairs, strict beside them.")
@options.nodes
@options.slices
@options.events
@options.folder
@options.as_json
@click.option("--pairs", type=click.IntRange(1), default=20, show_default=True)
@click.option(
    "--workload",
    "workloads",
    type=click.Choice(list(WORKLOADS)),
    multiple=True,
    help="Default: all.",
)
def ordering(
    nodes: int,
    slices: int,
    events: int | None,
    folder: Path,
    as_json: bool,
    pairs: int,
    workloads: tuple[str, ...],
) -> None:
    results = []
    for name in workloads or tuple(WORKLOADS):
        workload = WORKLOADS[name]
        files = workload.files(folder, events or workload.events)
        results.append(_measured(workload, files, nodes, slices, pairs, folder))
    if as_json:
        print_json({"name": "ordering", "nodes": nodes, "pairs": pairs, "workloads": results})
        return
    head = (
        "workload",
        "none s",
        "epoch s",
        "strict s",
        "epoch/none",
        "95 % interval",
        "strict/none",
    )
    rows = [
        (
            each["name"],
            f"{each['none_seconds']:.3f}",
            f"{each['epoch_seconds']:.3f}",
            f"{each['strict_seconds']:.3f}",
            f"{each['epoch_ratio']['median']:.3f}",
            f"{each['epoch_ratio']['low']:.3f} - {each['epoch_ratio']['high']:.3f}",
            f"{each['strict_ratio']:.3f}",
        )
        for each in results
    ]
    print(f"events/s as a share of discipline none, {pairs} pairs, {nodes} nodes")
    print_table(head, rows)


def _measured(
    workload: Workload, files: dict[str, Path], nodes: int, slices: int, pairs: int, folder: Path
) -> dict[str, Any]:
    """Medians in seconds and ratios of speed. The first run of each discipline is a warm-up."""
    seconds: dict[str, list[float]] = {"none": [], "epoch": [], "strict": []}
    with (
        tempfile.TemporaryDirectory(prefix="streammine-bench-") as scratch,
        BenchmarkCluster(nodes) as cluster,
    ):

        def run(discipline: str) -> float:
            settings = Settings(Path(scratch) / discipline, slices, discipline)
            # what the run before has written goes to the disk now, not while this one is measured
            os.sync()
            return cluster.run(workload.topology(files, settings), folder).seconds

        for discipline in seconds:
            run(discipline)
        for pair in range(pairs):
            turn = ("none", "epoch") if pair % 2 == 0 else ("epoch", "none")
            for discipline in turn:
                seconds[discipline].append(run(discipline))
            if pair % PAIRS_PER_STRICT_RUN == 0:
                seconds["strict"].append(run("strict"))
    ratios = [none / epoch for none, epoch in zip(seconds["none"], seconds["epoch"], strict=True)]
    medians = {name: median(each) for name, each in seconds.items()}
    return {
        "name": workload.name,
        **{f"{name}_seconds": round(value, 4) for name, value in medians.items()},
        "epoch_ratio": {
            key: round(value, 4) for key, value in asdict(median_interval(ratios)).items()
        },
        "strict_ratio": round(medians["none"] / medians["strict"], 4),
        "runs": {name: [round(each, 4) for each in every] for name, every in seconds.items()},
    }
