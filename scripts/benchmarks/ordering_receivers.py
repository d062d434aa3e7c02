"""What agreement costs: consensus against merge, both over what two receivers of each feed got.

Everybody downstream has two replicas. The receivers lost some rows each, others: their bags differ. Under
merge, none and strict each replica takes the bag that it has first, so replicas may go on from different
ones; under consensus they agree, and can therefore tell the receivers which epochs nobody wants any more:
these are read, but neither combined nor sent. Both belong to what agreement costs. Beside them one receiver
of each feed alone, of which there are two replicas that send the same bags: there half as much is read, and
nothing can differ.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.cluster import BenchmarkCluster
from benchmarks.inputs import ROWS_PER_GROUP
from benchmarks.intervals import Interval, median_interval, rounded
from benchmarks.report import print_table
from benchmarks.workloads import LINES_PER_EPOCH, PLUG, SINK
from streammine import Topology

RECEIVERS = ("east", "west")
REPLICAS = 2
LOST = 0.01
"""Of the feed's rows, by each receiver."""

ALONE = "one receiver"
AGREED = "consensus"
SIDES = ("none", "merge", AGREED, "strict", ALONE)
"""Disciplines over two receivers, and `merge` over one."""

COMPARED = (("merge", "none"), (AGREED, "merge"), (AGREED, ALONE), ("strict", "none"))
"""Of each two speeds, the first is given as a share of the second."""

EPOCH_SECONDS = 60


@dataclass
class Agreed:
    """Seconds of each side in each round of runs, of a workload on a number of nodes."""

    workload: str
    nodes: int
    events: int
    rounds: list[dict[str, float]] = field(default_factory=list)

    @property
    def ratios(self) -> dict[str, Interval]:
        """Of speeds in the same round."""
        return {
            f"{side}/{other}": median_interval([each[other] / each[side] for each in self.rounds])
            for side, other in COMPARED
        }

    @property
    def medians(self) -> dict[str, float]:
        return {side: median(each[side] for each in self.rounds) for side in SIDES}

    def figures(self) -> dict[str, Any]:
        return {
            "name": self.workload,
            "nodes": self.nodes,
            "events": self.events,
            "seconds": {side: round(value, 4) for side, value in self.medians.items()},
            "ratios": {name: rounded(ratio) for name, ratio in self.ratios.items()},
            "runs": [{side: round(each[side], 4) for side in SIDES} for each in self.rounds],
        }


def received(path: Path, number: int) -> Path:
    """What one receiver got of a file's rows: all but some, which are others for each. Rows without a time
    ts get one (int64, s), by which an epoch has as many lines as in the workload of words."""
    made = path.with_name(f"{path.stem}-{RECEIVERS[number]}.parquet")
    if made.exists():
        return made
    random = np.random.default_rng(number)
    partial = made.with_suffix(".part")
    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        timed = "ts" in schema.names
        if not timed:
            schema = schema.insert(0, pa.field("ts", pa.int64()))
        first = 0
        with pq.ParquetWriter(partial, schema) as writer:
            for batch in file.iter_batches(ROWS_PER_GROUP):
                rows = np.arange(first, first + batch.num_rows)
                first += batch.num_rows
                if not timed:
                    seconds = pa.array(rows * EPOCH_SECONDS // LINES_PER_EPOCH)
                    batch = pa.record_batch([seconds, *batch.columns], schema=schema)
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
        epoch={"time": f"{EPOCH_SECONDS}s", "column": "ts"},
        replicas=REPLICAS,
    )
    for name, path in files.items():
        if side == ALONE:
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
    fields = {"slices": slices, "discipline": "merge" if side == ALONE else side}
    if workload == "wordcount":
        (source,) = files
        topology = topology.operator(
            "words", input=source, flat_map={"split": "line", "into": "word"}
        ).operator(
            "result_rows", input="words", key="word", aggregate={"count": "count()"}, **fields
        )
    elif workload == "join":
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
        exactly_once=side in (AGREED, ALONE),
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
        f"events/s of disciplines over two receivers that lost {LOST:.0%} each, and of merge over one of "
        f"them, {rounds} rounds each; {REPLICAS} replicas"
    )
    head = ["workload", "nodes", *(f"{side} s" for side in SIDES)]
    for name in results[0].ratios:
        head += [name, "95 % interval"]
    rows = []
    for each in results:
        row = [each.workload, str(each.nodes)]
        row += [f"{seconds:.3f}" for seconds in each.medians.values()]
        for ratio in each.ratios.values():
            row += [f"{ratio.median:.3f}", f"{ratio.low:.3f} - {ratio.high:.3f}"]
        rows.append(row)
    print_table(head, rows)
