"""What order costs: disciplines epoch and merge against none in alternating pairs, others beside them.
And what it costs on top that replicas agree, where what they are sent differs.

After Figures 1 to 4 of the thesis (Martin 2015): total events/s and those of one node, over numbers of nodes.
Results of the two are kept apart, each with a picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from benchmarks import options
from benchmarks.intervals import Interval
from benchmarks.ordering_picture import Measured, draw
from benchmarks.ordering_receivers import REPLICAS, agreed, print_agreed
from benchmarks.ordering_runs import BESIDE, COMPARED, YARDSTICK, Ordering, measured
from benchmarks.pictures import partial_name, tell_results
from benchmarks.report import print_table
from benchmarks.workloads import WORKLOADS

ALL_NODES = (1, 2, 3, 4)

RECEIVED = ("wordcount", "readings", "join")
"""Workloads that can be had from two receivers of one feed."""


@dataclass(frozen=True)
class _Counts(click.ParamType[tuple[int, ...]]):
    name = "number"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if value == "all":
            return ALL_NODES
        if not str(value).isdigit() or not 1 <= int(str(value)) <= 64:
            self.fail(f"{value!r} is neither a number from 1 to 64 nor all", param, ctx)
        return (int(str(value)),)


@click.command(
    help="Disciplines epoch and merge against none in alternating pairs, others beside. Results of some "
    "workloads, numbers of nodes or events only are kept under a name of their own."
)
@click.option(
    "--nodes",
    type=_Counts(),
    multiple=True,
    default=("all",),
    show_default=True,
    help="Node processes; may be given several times, `all` stands for 1 to 4.",
)
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
    help="Default: all, where no --receivers are given.",
)
@click.option(
    "--receivers",
    type=click.Choice(RECEIVED),
    multiple=True,
    help="Consensus against merge over two receivers that got different rows; from 2 nodes on.",
)
def ordering(
    nodes: Sequence[tuple[int, ...]],
    slices: int,
    events: int | None,
    folder: Path,
    as_json: bool,
    pairs: int,
    workloads: tuple[str, ...],
    receivers: tuple[str, ...],
) -> None:
    counts = sorted({count for each in nodes for count in each})
    many = [count for count in counts if count >= REPLICAS]
    if receivers and not many:
        raise click.UsageError(f"--receivers take {REPLICAS} nodes at least, for as many replicas")
    results = []
    for name in workloads or (() if receivers else tuple(WORKLOADS)):
        workload = WORKLOADS[name]
        size = events or workload.events
        files = workload.files(folder, size)
        results += [
            measured(workload, files, size, count, slices, pairs, folder) for count in counts
        ]
    if results:
        tell_results(
            folder,
            {
                "name": _name("ordering", results, WORKLOADS, ALL_NODES, events),
                "nodes": counts,
                "pairs": pairs,
                "workloads": [each.figures() for each in results],
            },
            as_json,
            lambda figure: draw(figure, results, "What order costs"),
            lambda _: _print(results, pairs),
        )
    agreements = [
        agreed(name, WORKLOADS[name].files(folder, size), size, count, slices, pairs, folder)
        for name in receivers
        for size in (events or WORKLOADS[name].events,)
        for count in many
    ]
    if agreements:
        tell_results(
            folder,
            {
                "name": _name("ordering-receivers", agreements, RECEIVED, ALL_NODES[1:], events),
                "nodes": many,
                "rounds": pairs,
                "receivers": [each.figures() for each in agreements],
            },
            as_json,
            lambda figure: draw(figure, agreements, "What agreement on receivers costs"),
            lambda _: print_agreed(agreements, pairs),
        )


def _name(
    name: str,
    results: Sequence[Measured],
    workloads: Iterable[str],
    counts: Sequence[int],
    events: int | None,
) -> str:
    """Of results: those of all `workloads` on all `counts` of nodes, at full size, have another than some."""
    found = {each.workload for each in results}
    nodes = {each.nodes for each in results}
    some = [] if found >= set(workloads) else sorted(found)
    numbers = [] if nodes >= set(counts) else [f"{count}nodes" for count in sorted(nodes)]
    return partial_name(name, [*some, *numbers, *([f"{events}events"] if events else [])])


def _print(results: Sequence[Ordering], pairs: int) -> None:
    head = ["workload", "nodes", *(f"{name} s" for name in results[0].medians)]
    for name in COMPARED:
        head += [f"{name}/{YARDSTICK}", "95 % interval"]
    head += [f"{name}/{YARDSTICK}" for name in BESIDE]
    rows = []
    for each in results:
        row = [each.workload, str(each.nodes)]
        row += [f"{seconds:.3f}" for seconds in each.medians.values()]
        for name in COMPARED:
            row += _shown(each.ratio(name))
        rows.append([*row, *(f"{each.ratio_beside(name):.3f}" for name in BESIDE)])
    print(f"events/s as a share of discipline {YARDSTICK}, {pairs} pairs each")
    print_table(head, rows)


def _shown(ratio: Interval) -> list[str]:
    return [f"{ratio.median:.3f}", f"{ratio.low:.3f} - {ratio.high:.3f}"]
