"""One digest per workload, whatever the nodes, the slices, the batch sizes and the discipline."""

from __future__ import annotations

import tempfile
from collections import Counter
from itertools import product
from pathlib import Path

import click

from benchmarks import options
from benchmarks.cluster import BenchmarkCluster
from benchmarks.report import print_json, print_table
from benchmarks.workloads import WORKLOADS, Settings

EVENTS = {"wordcount": 250_000, "readings": 400_000, "join": 150_000, "pattern": 400_000}
"""Some epochs of each workload, the last one not full."""

DIGITS = 12


@click.command(help="The output's digest over nodes, slices, batch sizes and disciplines.")
@options.folder
@options.as_json
@click.option(
    "--nodes", "node_counts", type=int, multiple=True, default=(1, 2, 3, 5), show_default=True
)
@click.option(
    "--slices", "slice_counts", type=int, multiple=True, default=range(1, 9), show_default=True
)
@click.option(
    "--batch-rows",
    "batch_sizes",
    type=int,
    multiple=True,
    default=(1 << 10, 1 << 13, 1 << 16),
    show_default=True,
    help="The most that a source reads at once.",
)
@click.option(
    "--discipline",
    "disciplines",
    type=click.Choice(["epoch", "merge", "strict"]),
    multiple=True,
    default=("epoch", "merge", "strict"),
    show_default=True,
)
@click.option(
    "--workload",
    "workloads",
    type=click.Choice(list(WORKLOADS)),
    multiple=True,
    help="Default: all.",
)
def digests(
    folder: Path,
    as_json: bool,
    node_counts: tuple[int, ...],
    slice_counts: tuple[int, ...],
    batch_sizes: tuple[int, ...],
    disciplines: tuple[str, ...],
    workloads: tuple[str, ...],
) -> None:
    names = workloads or tuple(WORKLOADS)
    found: dict[str, Counter[str]] = {name: Counter() for name in names}
    deviants: list[str] = []
    files = {name: WORKLOADS[name].files(folder, EVENTS[name]) for name in names}
    for nodes in node_counts:
        with (
            tempfile.TemporaryDirectory(prefix="streammine-bench-") as scratch,
            BenchmarkCluster(nodes) as cluster,
        ):
            for name, slices, batch_rows, discipline in product(
                names, slice_counts, batch_sizes, disciplines
            ):
                settings = Settings(Path(scratch) / name, slices, discipline)
                topology = WORKLOADS[name].topology(files[name], settings)
                digest = cluster.run(topology, folder, batch_rows).digest()
                found[name][digest] += 1
                if len(found[name]) > 1:
                    where = f"{nodes} nodes, {slices} slices, {batch_rows} rows, {discipline}"
                    deviants.append(f"{name}: {digest[:DIGITS]} with {where}")
    if as_json:
        print_json(
            {
                "name": "digests",
                "nodes": list(node_counts),
                "slices": list(slice_counts),
                "batch_rows": list(batch_sizes),
                "disciplines": list(disciplines),
                "digests": {name: dict(each) for name, each in found.items()},
            }
        )
    else:
        rows = [
            (name, digest[:DIGITS], f"{count}")
            for name, each in found.items()
            for digest, count in each.items()
        ]
        print_table(("workload", "digest", "runs"), rows)
    if deviants:
        raise click.ClickException("digests differ:\n" + "\n".join(deviants))
