"""What agreement costs: consensus against merge, both over what two receivers of each feed got.

Everybody downstream has two replicas. The receivers lost some rows each, others: their bags differ. Under
merge each replica takes the bag that it has first, so replicas may go on from different ones; under
consensus they agree, and can therefore tell the receivers which epochs nobody wants any more: these are read,
but neither combined nor sent. Both belong to what agreement costs. Beside them one receiver of each feed
alone, of which there are two replicas that send the same bags: there half as much is read, and nothing can
differ.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks.cluster import BenchmarkCluster
from benchmarks.inputs import ROWS_PER_GROUP
from benchmarks.intervals import Interval, median_interval, rounded
from benchmarks.report import print_table
from benchmarks.workloads import PLUG, SINK
from streammine import Topology

RECEIVERS = ("east", "west")
REPLICAS = 2
LOST = 0.01
"""Of the feed's rows, by each receiver."""

SIDES = ("merge", "consensus", "one receiver")
AGREED = "consensus"


@dataclass
class Agreed:
    """Seconds of each side in each round of runs, of a workload on a number of nodes."""

    workload: str
    nodes: int
    events: int
    rounds: list[dict[str, float]] = field(default_factory=list)

    def ratio(self, side: str) -> Interval:
        """Of speeds: consensus over another side."""
        return median_interval([each[side] / each[AGREED] for each in self.rounds])

    @property
    def ratios(self) -> dict[str, Interval]:
        return {side: self.ratio(side) for side in SIDES if side != AGREED}

    @property
    def medians(self) -> dict[str, float]:
        return {side: median(each[side] for each in self.rounds) for side in SIDES}

    def figures(self) -> dict[str, Any]:
        return {
            "name": self.workload,
            "nodes": self.nodes,
            "events": self.events,
            "seconds": {side: round(value, 4) for side, value in self.medians.items()},
            "consensus_ratio": {side: rounded(ratio) for side, ratio in self.ratios.items()},
            "runs": [{side: round(each[side], 4) for side in SIDES} for each in self.rounds],
        }


def received(path: Path, number: int) -> Path:
    """What one receiver got of a file's rows: all but some, which are others for each."""
    made = path.with_name(f"{path.stem}-{RECEIVERS[number]}.parquet")
    if made.exists():
        return made
    random = np.random.default_rng(number)
    partial = made.with_suffix(".part")
    with pq.ParquetFile(path) as file, pq.ParquetWriter(partial, file.schema_arrow) as writer:
        for batch in file.iter_batches(ROWS_PER_GROUP):
            kept = random.random(batch.num_rows) >= LOST
            writer.write_batch(batch.filter(kept), row_group_size=ROWS_PER_GROUP)
    partial.rename(made)
    return made


def topology(
    workload: str, files: dict[str, Path], output: Path, slices: int, side: str
) -> Topology:
    """A workload whose feeds come from two receivers, or from two replicas of one of them. Where replicas
    don't agree on what they take nothing is promised."""
    topology = Topology(
        name=f"{workload}-{side.replace(' ', '-')}",
        epoch={"time": "60s", "column": "ts"},
        replicas=REPLICAS,
    )
    for name, path in files.items():
        if side == "one receiver":
            topology = topology.source(
                name, files=str(received(path, 0)), prepare="none", slices=slices
            )
            continue
        for number, receiver in enumerate(RECEIVERS):
            topology = topology.source(
                f"{name}_{receiver}",
                files=str(received(path, number)),
                prepare="none",
                slices=slices,
                replicas=1,
            )
        topology = topology.operator(name, either=[f"{name}_{each}" for each in RECEIVERS])
    fields = {"slices": slices, "discipline": "consensus" if side == AGREED else "merge"}
    if workload == "join":
        left, right = files
        topology = topology.operator(
            "result_rows", join={"left": left, "right": right, "on": "id"}, **fields
        )
    else:
        (source,) = files
        topology = topology.operator(
            "result_rows",
            input=source,
            key=PLUG,
            aggregate={"count": "count()", "mean": "mean(value)", "max": "max(value)"},
            **fields,
        )
    return topology.sink(
        SINK,
        input="result_rows",
        format="parquet",
        path=str(output),
        exactly_once=side != "merge",
    )


def agreed(
    workload: str,
    files: dict[str, Path],
    events: int,
    nodes: int,
    slices: int,
    rounds: int,
    folder: Path,
) -> Agreed:
    """`events` are those of one feed. The first run of each side is a warm-up."""
    found = Agreed(workload, nodes, events * len(files))
    with (
        tempfile.TemporaryDirectory(prefix="streammine-bench-") as scratch,
        BenchmarkCluster(nodes) as cluster,
    ):

        def run(side: str) -> float:
            wanted = topology(workload, files, Path(scratch) / side, slices, side)
            os.sync()
            return cluster.run(wanted, folder).seconds

        for side in SIDES:
            run(side)
        for number in range(rounds):
            order = SIDES if number % 2 == 0 else SIDES[::-1]
            found.rounds.append({side: run(side) for side in order})
    return found


def print_agreed(results: list[Agreed], rounds: int) -> None:
    print(
        f"consensus over two receivers that lost {LOST:.0%} each, as a share of merge over the same two, and "
        f"of merge over one of them, {rounds} rounds each; {REPLICAS} replicas"
    )
    head = ["workload", "nodes", *(f"{side} s" for side in SIDES)]
    for side in results[0].ratios:
        head += [f"{AGREED}/{side}", "95 % interval"]
    rows = []
    for each in results:
        row = [each.workload, str(each.nodes)]
        row += [f"{seconds:.3f}" for seconds in each.medians.values()]
        for ratio in each.ratios.values():
            row += [f"{ratio.median:.3f}", f"{ratio.low:.3f} - {ratio.high:.3f}"]
        rows.append(row)
    print_table(head, rows)
