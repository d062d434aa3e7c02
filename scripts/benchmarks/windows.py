"""What an event costs in a window that slides, against one that tumbles: 10 minutes by 1 second.

Both are given the same events, and keep count and mean of each key. The sliding window says every second
what all keys come to over the last ten minutes, the tumbling one every ten minutes: so the fewer events
there are per key and second, the more of the cost is that of the results that were asked for. The default
is 10 events per key and second, a sensor's rate; `--rate` gives others.

By default the operators are measured by themselves, in one process, as the engine calls them: combined,
sent as partials, closed epoch by epoch, in processor time, which others on the machine don't add to. What is
counted begins when the first window is full. With `--engine` whole jobs run, sources and sinks and all.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa

from benchmarks import options
from benchmarks.cluster import BenchmarkCluster
from benchmarks.report import print_json, print_table
from benchmarks.workloads import SINK
from streammine import Topology
from streammine.model.contracts import EpochClose
from streammine.model.epochs import EpochDefinition
from streammine.model.topology import AggregateOperator
from streammine.operators.aggregate_windows import built_aggregate
from streammine.operators.generators import Keys
from streammine.operators.site import Site

WINDOW_SECONDS = 600
CALLS = {"count": "count()", "mean": "mean(value)"}
WINDOWS: dict[str, Any] = {"tumbling": "10m", "sliding": {"length": "10m", "slide": "1s"}}
EPOCH = EpochDefinition("time", 1_000_000, "ts")
BATCH_ROWS = 65_536
SECONDS_OF_INPUT = 8
"""So many seconds of events are made beforehand and come again and again."""


@dataclass
class Cost:
    """Of one kind of window: nanoseconds per event, and milliseconds of its slowest epoch."""

    nanoseconds: float
    slowest_milliseconds: float
    rows: int
    state_bytes: int


@click.command(
    help="Cost per event of a window of 10 min that slides by 1 s, against a tumbling one."
)
@options.nodes
@options.slices
@options.as_json
@click.option(
    "--rate", type=click.IntRange(1), default=1_000_000, show_default=True, help="Events/s."
)
@click.option("--keys", type=click.IntRange(1), default=100_000, show_default=True)
@click.option(
    "--call", "calls", multiple=True, help="An aggregate like max(value); default: count and mean."
)
@click.option("--engine", is_flag=True, help="Run whole jobs instead of the operators alone.")
def windows(
    nodes: int,
    slices: int,
    as_json: bool,
    rate: int,
    keys: int,
    calls: tuple[str, ...],
    engine: bool,
) -> None:
    wanted = {f"result_{number}": call for number, call in enumerate(calls)} or CALLS
    if engine:
        costs = {name: _job_cost(name, nodes, slices, rate, keys, wanted) for name in WINDOWS}
    else:
        costs = {name: _operator_cost(name, rate, keys, wanted) for name in WINDOWS}
    ratio = costs["sliding"].nanoseconds / costs["tumbling"].nanoseconds
    if as_json:
        print_json(
            {
                "name": "windows",
                "engine": engine,
                "keys": keys,
                "events_per_second_of_event_time": rate,
                "ratio": round(ratio, 3),
                **{name: vars(cost) for name, cost in costs.items()},
            }
        )
        return
    print(f"{keys:,} keys, {rate:,} events per second of event time, {', '.join(wanted.values())}")
    print_table(
        ("window of 10 min", "ns per event", "slowest epoch", "rows out", "state"),
        [
            (
                name,
                f"{cost.nanoseconds:.1f}",
                f"{cost.slowest_milliseconds:.0f} ms",
                f"{cost.rows:,}",
                f"{cost.state_bytes / 2**20:.0f} MiB",
            )
            for name, cost in costs.items()
        ],
    )
    print(f"sliding by 1 s costs {ratio:.2f} times as much per event")


def _operator_cost(kind: str, rate: int, keys: int, calls: dict[str, str]) -> Cost:
    """Of the operators alone, over one window's length once the first is full."""
    seconds = [list(_second(each, rate, keys)) for each in range(SECONDS_OF_INPUT)]
    settings = AggregateOperator.model_validate(
        {"input": "events", "key": "key", "window": WINDOWS[kind], "aggregate": calls}
    )
    schema = seconds[0][0].schema
    sender, receiver = (
        built_aggregate(settings, Site("figures", [schema], EPOCH, combined=combined))
        for combined in (False, True)
    )
    sender.prepare()
    run = _epoch_runner(sender, receiver)
    spent = []
    rows = 0
    for epoch in range(2 * WINDOW_SECONDS):
        begin = time.process_time_ns()
        left = run(epoch, seconds[epoch % SECONDS_OF_INPUT])
        spent.append(time.process_time_ns() - begin)
        rows += left if epoch >= WINDOW_SECONDS else 0
    counted = np.asarray(spent[WINDOW_SECONDS:])
    return Cost(
        round(float(counted.sum()) / (WINDOW_SECONDS * rate), 2),
        round(float(counted.max()) / 1e6, 1),
        rows,
        receiver.state_nbytes,
    )


def _epoch_runner(sender: Any, receiver: Any) -> Callable[[int, list[pa.RecordBatch]], int]:
    def run(epoch: int, batches: list[pa.RecordBatch]) -> int:
        combiner = sender.combiner()
        for batch in batches:
            combiner.add(batch)
        accumulator = receiver.accumulator(0)
        accumulator.add(combiner.partials())
        close = EpochClose(epoch, EPOCH.watermark(epoch), EPOCH)
        return sum(batch.num_rows for batch in receiver.close(close, [accumulator]))

    return run


def _second(number: int, rate: int, keys: int) -> Iterator[pa.RecordBatch]:
    generator = Keys(keys=keys, per_second=rate)
    for first in range(0, rate, BATCH_ROWS):
        yield generator.rows(number * rate + first, min(BATCH_ROWS, rate - first), seed=1)


def _job_cost(
    kind: str, nodes: int, slices: int, rate: int, keys: int, calls: dict[str, str]
) -> Cost:
    """Of a whole job over two windows' lengths of events, in seconds on the clock."""
    events = 2 * WINDOW_SECONDS * rate
    with (
        tempfile.TemporaryDirectory(prefix="streammine-bench-") as scratch,
        BenchmarkCluster(nodes) as cluster,
    ):
        topology = (
            Topology(name="windows", epoch={"time": "1s", "column": "ts"})
            .source(
                "events",
                generator="keys",
                rows=events,
                seed=1,
                with_={"keys": keys, "per_second": rate},
                slices=slices,
            )
            .operator(
                "figures",
                input="events",
                key="key",
                window=WINDOWS[kind],
                aggregate=calls,
                slices=slices,
            )
            .sink(
                SINK,
                input="figures",
                format="parquet",
                path=str(Path(scratch) / "output"),
                commit={"every": 20},
            )
        )
        run = cluster.run(topology)
    counters = run.outcome.counters
    figures = [each for name, each in counters.items() if name.startswith("figures")]
    rows = sum(int(each.get("rows_out", 0)) for each in figures)
    return Cost(round(run.seconds * 1e9 / events, 2), 0.0, rows, 0)
