"""What agreement costs: consensus over what two receivers of each feed got, against merge over one feed.

Both sides have two replicas of everything that the replicas downstream read, and of these: under merge two
replicas of each source send the same bags, under consensus two receivers send bags that differ, by the rows
that each of them lost. So each side reads, sends and drops as much; what is left is naming, deciding, and
bringing decisions to the store.
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

SIDES = ("merge", "consensus")


@dataclass
class Agreed:
    """Seconds of each pair of runs, (merge, consensus), of a workload on a number of nodes."""

    workload: str
    nodes: int
    events: int
    pairs: list[tuple[float, float]] = field(default_factory=list)

    @property
    def ratio(self) -> Interval:
        """Of speeds: consensus over merge."""
        return median_interval([merge / consensus for merge, consensus in self.pairs])

    def median(self, side: str) -> float:
        return median(pair[SIDES.index(side)] for pair in self.pairs)

    def figures(self) -> dict[str, Any]:
        return {
            "name": self.workload,
            "nodes": self.nodes,
            "events": self.events,
            **{f"{side}_seconds": round(self.median(side), 4) for side in SIDES},
            "consensus_ratio": rounded(self.ratio),
            "runs": [[round(each, 4) for each in pair] for pair in self.pairs],
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
    """A workload whose feeds come from two receivers, or from two replicas of one of them."""
    topology = Topology(
        name=f"{workload}-{side}", epoch={"time": "60s", "column": "ts"}, replicas=REPLICAS
    )
    for name, path in files.items():
        if side == "merge":
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
    fields = {"slices": slices, "discipline": side}
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
    return topology.sink(SINK, input="result_rows", format="parquet", path=str(output))


def agreed(
    workload: str,
    files: dict[str, Path],
    events: int,
    nodes: int,
    slices: int,
    pairs: int,
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
        for number in range(pairs):
            order = SIDES if number % 2 == 0 else SIDES[::-1]
            seconds = {side: run(side) for side in order}
            found.pairs.append((seconds["merge"], seconds["consensus"]))
    return found


def print_agreed(results: list[Agreed], pairs: int) -> None:
    print(
        f"consensus over two receivers that lost {LOST:.0%} each, as a share of merge, {pairs} pairs "
        f"each; {REPLICAS} replicas"
    )
    rows = []
    for each in results:
        ratio = each.ratio
        row = [each.workload, str(each.nodes)]
        row += [f"{each.median(side):.3f}" for side in SIDES]
        rows.append([*row, f"{ratio.median:.3f}", f"{ratio.low:.3f} - {ratio.high:.3f}"])
    head = ["workload", "nodes", *(f"{side} s" for side in SIDES), "ratio", "95 % interval"]
    print_table(head, rows)
