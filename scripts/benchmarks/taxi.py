"""The queries of `apps/taxi`: trips in a second, and the delay from a trip to the row that it triggers.

Throughput: made trips, as many in a minute of event time as in the real data, from the prepared epoch log;
in epochs of an hour, which change nothing but how much is done at once. Delay: the same trips paced, in
epochs of two minutes, from when the oldest trip of an epoch was due to when the row was handed to the
sink, as the sinks' column `delay` tells. Two minutes have some 700 trips.

On two cores one slice of each operator is faster than two: the stages, one behind the other, keep both cores
busy already, and what several slices have made must be put back into the order of events.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
import pyarrow.parquet as pq
import yaml

import streammine
from benchmarks import options
from benchmarks.cluster import BenchmarkCluster, Run
from benchmarks.report import print_json, print_table
from streammine import Topology
from streammine.model.modules import load_object

APP = Path(__file__).resolve().parents[2] / "apps" / "taxi"
QUERIES = {"routes": "routes_out", "areas": "areas_out"}
EPOCH = "1h"
COMMIT_EVERY = 20
CHUNK_TRIPS = 200_000
PACED_EPOCH = "120s"
DELAYS = ("p50", "p90", "p99", "most")


@click.command(help="Both queries of the taxi rides: throughput, and delay at a rate.")
@options.nodes
@options.slices_option(1)
@options.events
@options.folder
@options.as_json
@click.option("--query", type=click.Choice([*QUERIES]), multiple=True, help="Default: both.")
@click.option("--runs", type=click.IntRange(1), default=5, show_default=True)
@click.option("--epoch", default=EPOCH, show_default=True, help="Length of an epoch.")
@click.option("--rate", type=click.IntRange(1), default=100_000, show_default=True, help="Trips/s.")
@click.option(
    "--seconds", type=click.IntRange(0), default=20, show_default=True, help="Of delay; 0: none."
)
def taxi(
    nodes: int,
    slices: int,
    events: int | None,
    folder: Path,
    as_json: bool,
    query: tuple[str, ...],
    runs: int,
    epoch: str,
    rate: int,
    seconds: int,
) -> None:
    trips = events or 5_000_000
    path = trips_file(folder, trips)
    found = []
    with (
        tempfile.TemporaryDirectory(prefix="streammine-bench-") as scratch,
        BenchmarkCluster(nodes) as cluster,
    ):
        for name in query or tuple(QUERIES):
            topology = topology_of(name, path, Path(scratch), epoch, slices)
            measured = [cluster.run(topology, APP) for _ in range(runs + 1)]
            figures = _figures(name, measured, trips)
            if seconds:
                some = trips_file(folder, rate * seconds)
                paced_topology = topology_of(
                    name, some, Path(scratch), PACED_EPOCH, slices, rate=f"{rate}/s"
                )
                cluster.run(paced_topology, APP)
                figures |= _delays(Path(scratch) / name)
            found.append(figures)
    if as_json:
        print_json(
            {"name": "taxi", "nodes": nodes, "slices": slices, "rate": rate, "queries": found}
        )
        return
    how = f"epochs of {epoch}, {nodes} nodes, slices: {slices}, {runs} runs"
    print(f"{trips:,} trips from the prepared log, {how}")
    rows = [
        (each["query"], f"{each['seconds']:.3f}", f"{each['events_per_second']:,}")
        for each in found
    ]
    print_table(("query", "median s", "trips/s"), rows)
    if seconds:
        print(f"delay at {rate:,} trips/s for {seconds} s, epochs of {PACED_EPOCH}, milliseconds:")
        columns = ("rows", *DELAYS)
        print_table(
            ("query", *columns),
            [(each["query"], *(f"{each[name]:,}" for name in columns)) for each in found],
        )


def trips_file(folder: Path, trips: int) -> Path:
    """Made trips in a Parquet file, which is written unless it is there."""
    path = folder / f"trips-{trips}.parquet"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    source = load_object("apps.taxi.make_trips:Trips", str(APP.parents[1]))()
    unfinished = path.with_suffix(f".{os.getpid()}.unfinished")
    with pq.ParquetWriter(unfinished, source.schema) as writer:
        for first in range(0, trips, CHUNK_TRIPS):
            writer.write_batch(source.rows(first, min(CHUNK_TRIPS, trips - first)))
    unfinished.replace(path)
    return path


def topology_of(
    query: str, trips: Path, output: Path, epoch: str, slices: int, **source: str
) -> Topology:
    """One query of the app's topology, over other trips."""
    text = (APP / "topology.yaml").read_text().replace("${output:out}", str(output))
    content = yaml.safe_load(text)
    sink = QUERIES[query]
    wanted = [content["sinks"][sink]["input"]]
    for name in wanted:
        settings = content["operators"].get(name, {})
        wanted += settings.get("inputs", [])
        wanted += [settings["input"]] if "input" in settings else []
    content["operators"] = {
        name: each for name, each in content["operators"].items() if name in wanted
    }
    content["sinks"] = {sink: {**content["sinks"][sink], "commit": {"every": COMMIT_EVERY}}}
    content["epoch"]["time"] = epoch
    for each in content["operators"].values():
        if "slices" in each:
            each["slices"] = slices
    prepared = {"files": str(trips), "prepare": {"partitions": slices}, "slices": slices}
    content["sources"] = {"trips": {**prepared, **source}}
    return Topology.model_validate(content)


def _figures(query: str, runs: list[Run], trips: int) -> dict[str, Any]:
    """The first run is a warm-up."""
    seconds = [run.seconds for run in runs[1:]]
    return {
        "query": query,
        "events": trips,
        "seconds": round(median(seconds), 4),
        "events_per_second": round(trips / median(seconds)),
        "runs": [round(each, 4) for each in seconds],
        "digest": runs[-1].digest(),
    }


def _delays(folder: Path) -> dict[str, Any]:
    """Of all rows but those of the first tenth of the epochs, in which everything starts."""
    epochs = [table.column("delay").to_numpy() for _, table in streammine.read_output(str(folder))]
    delays = np.concatenate(epochs[len(epochs) // 10 :])
    values = [*np.percentile(delays, [50, 90, 99]), delays.max()]
    return {
        "rows": len(delays),
        **{name: round(float(value), 2) for name, value in zip(DELAYS, values, strict=True)},
    }
