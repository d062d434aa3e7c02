"""How long after the last event of an epoch its result is committed, on a live stream.

A paced source gives event k of the stream k / rate seconds after the start, and event time runs with
it, so the last event of an epoch is due a known time after the start that the nodes tell. The result
is there when its manifest has its name: the change time of that file. File times come from a clock
that ticks every few milliseconds; one tick is added, so that no delay is told too short.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks import options
from benchmarks.cluster import BenchmarkCluster, Run
from benchmarks.report import print_json
from benchmarks.workloads import SINK
from streammine import Topology
from streammine.runtime.output import CommittedOutput
from streammine.runtime.stores import open_store

COARSE_CLOCK = 5
"""CLOCK_REALTIME_COARSE of Linux, by which files get their times."""

WARM_UP_EPOCHS = 5


@click.command(help="From the last event of an epoch to its result in the sink, live.")
@options.nodes
@options.slices
@options.as_json
@click.option("--rate", type=click.IntRange(1), default=50_000, show_default=True, help="Events/s.")
@click.option("--seconds", type=click.IntRange(WARM_UP_EPOCHS + 1), default=60, show_default=True)
@click.option("--keys", type=click.IntRange(1), default=2_000, show_default=True)
def latency(nodes: int, slices: int, as_json: bool, rate: int, seconds: int, keys: int) -> None:
    with tempfile.TemporaryDirectory(prefix="streammine-bench-") as scratch:
        output = Path(scratch) / "output"
        with BenchmarkCluster(nodes) as cluster:
            run = cluster.run(_topology(output, slices, rate, seconds, keys))
        began = [
            each["pace_began_at"]
            for each in run.outcome.counters.values()
            if "pace_began_at" in each
        ]
        delays = _delays(output, min(began), rate, seconds)
        figures = _figures(run, delays, nodes, rate, seconds)
    if as_json:
        print_json(figures)
        return
    print(f"{rate:,} events/s for {seconds} s in epochs of 1 s, {nodes} nodes")
    print(f"last event of an epoch to its result in the sink, {len(delays)} epochs:")
    for name in ("p50", "p90", "p99", "most"):
        print(f"  {name:5} {figures[f'{name}_milliseconds']:7.1f} ms")


def _topology(output: Path, slices: int, rate: int, seconds: int, keys: int) -> Topology:
    return (
        Topology(name="latency", epoch={"time": "1s", "column": "ts"})
        .source(
            "events",
            generator="keys",
            rows=rate * seconds,
            seed=1,
            with_={"keys": keys, "per_second": rate},
            rate=f"{rate}/s",
            slices=slices,
        )
        .operator(
            "figures",
            input="events",
            key="key",
            aggregate={"count": "count()", "mean": "mean(value)"},
            slices=slices,
        )
        .sink(SINK, input="figures", format="parquet", path=str(output))
    )


def _delays(output: Path, began: float, rate: int, seconds: int) -> list[float]:
    """Delay of each epoch in seconds, the first ones left out."""
    tick = time.clock_getres(COARSE_CLOCK)
    committed = dict(_commit_times(output))
    assert len(committed) == seconds, "every epoch has one manifest"
    delays = []
    for epoch, at in sorted(committed.items())[WARM_UP_EPOCHS:]:
        last_event = (epoch + 1) * rate - 1
        delays.append(at + tick - (began + last_event / rate))
    return delays


def _commit_times(output: Path) -> Iterator[tuple[int, float]]:
    """(epoch, time of its commit in seconds of the system clock)."""
    for manifest in CommittedOutput(open_store(str(output))).manifests:
        at = (output / manifest.name).stat().st_ctime_ns / 1e9
        for epoch in {epoch for file in manifest.files for epoch in file.epochs}:
            yield epoch, at


def _figures(run: Run, delays: list[float], nodes: int, rate: int, seconds: int) -> dict[str, Any]:
    milliseconds = np.asarray(delays) * 1000
    p50, p90, p99 = np.percentile(milliseconds, [50, 90, 99])
    return {
        "name": "latency",
        "nodes": nodes,
        "events": rate * seconds,
        "seconds": round(run.seconds, 3),
        "events_per_second": round(rate * seconds / run.seconds),
        "p50_milliseconds": round(float(p50), 2),
        "p90_milliseconds": round(float(p90), 2),
        "p99_milliseconds": round(float(p99), 2),
        "most_milliseconds": round(float(milliseconds.max()), 2),
        "digest": run.digest(),
    }
