"""The smart grid's outliers (`apps/smartgrid`, query 2 of the DEBS 2014 Grand Challenge), full shape.

Loads of 2,125 plugs in 40 houses, once a second, with what is missing and doubled. First the longest window
fills, which is not measured. Then as many readings leave the windows as come. How many come per second is the
figure: between the first look at the last operator that saw the window full, and the last one before
the input was over. The job is stopped there, and does not empty its windows.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import psutil
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks import options
from benchmarks.live_cluster import LiveCluster, LiveJob
from benchmarks.memory import peak_bytes
from benchmarks.report import print_json, print_table
from streammine import Topology, read_topology
from streammine.model.modules import load_object
from streammine.model.topology import FilesSource

ROOT = Path(__file__).resolve().parents[2]
APP = ROOT / "apps" / "smartgrid"
SOURCE = "readings"
SHORT_SECONDS, LONG_SECONDS = 3_600, 86_400
MEASURED_SECONDS = 3_600
"""Of event time, with full windows."""

COMMIT_EPOCHS = 60
LOOK_SECONDS = 0.2
LONGEST_SECONDS = 7_200.0


def loads_file(folder: Path, seconds: int) -> Path:
    """A file of the full shape's loads over so many seconds, made once."""
    grid = load_object("apps.smartgrid.make_readings:Grid", str(ROOT))()
    path = folder / f"smartgrid-loads-{seconds}.parquet"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".unfinished")
        with pq.ParquetWriter(unfinished, grid.readings(0, 1).batch.schema) as writer:
            for rows in grid.chunks(seconds):
                batch = rows.batch
                writer.write_batch(batch.filter(pc.equal(batch.column("property"), 1)))
        unfinished.replace(path)
    return path


def app_topology(
    path: Path, output: Path, slices: int, windows_seconds: tuple[int, int]
) -> Topology:
    """That of the app, reading a Parquet file."""
    short, long = windows_seconds
    variables = {"output": str(output), "short": f"{short}s", "long": f"{long}s"}
    topology = read_topology(APP / "outliers.yaml", variables)
    wanted = {"files": str(path), "prepare": "none", "slices": slices}
    source = FilesSource.model_validate(wanted)
    plugs = topology.operators["plugs"].model_copy(update={"slices": slices})
    (sink,) = topology.sinks.values()
    commit = sink.commit.model_copy(update={"every": COMMIT_EPOCHS})
    changed: dict[str, Any] = {
        "sources": {SOURCE: source},
        "operators": {**topology.operators, "plugs": plugs},
        "sinks": {"result": sink.model_copy(update={"commit": commit})},
    }
    return topology.model_copy(update=changed)


@dataclass(frozen=True)
class Look:
    """How far the last operator had come: its lowest open epoch, at a time in seconds, and what CPU time the
    nodes had taken by then."""

    epoch: int
    time: float
    cpu_seconds: float


def watched(cluster: LiveCluster, job: LiveJob, end: int) -> list[Look]:
    """Looks at a job until the last operator has closed all epochs before `end`."""
    processes = [psutil.Process(each.pid) for each in cluster.local.processes.values()]
    looks: list[Look] = []
    deadline = time.monotonic() + LONGEST_SECONDS
    while time.monotonic() < deadline:
        cluster.local.check()
        epoch = cluster.slices(job)["outliers/0"]["frontier"]
        used = sum(sum(each.cpu_times()[:2]) for each in processes)
        looks.append(Look(epoch, time.monotonic(), used))
        if epoch >= end:
            return looks
        time.sleep(LOOK_SECONDS)
    raise click.ClickException(f"not done after {LONGEST_SECONDS:g} s; the last look: {looks[-1]}")


@click.command(help="Outliers of the smart grid, full shape, with full windows.")
@options.nodes
@options.slices
@options.folder
@options.as_json
@click.option(
    "--windows",
    type=click.IntRange(2),
    nargs=2,
    default=(SHORT_SECONDS, LONG_SECONDS),
    show_default=True,
    help="Lengths of the windows in seconds.",
)
@click.option(
    "--seconds",
    type=click.IntRange(2 * COMMIT_EPOCHS),
    default=MEASURED_SECONDS,
    show_default=True,
    help="Of event time that are measured.",
)
def outliers(
    nodes: int, slices: int, folder: Path, as_json: bool, windows: tuple[int, int], seconds: int
) -> None:
    path = loads_file(folder, windows[1] + seconds)
    per_second = pq.ParquetFile(path).metadata.num_rows / (windows[1] + seconds)
    first = int(pq.ParquetFile(path).read_row_group(0, ["ts"]).column("ts")[0].as_py())
    with (
        tempfile.TemporaryDirectory(prefix="streammine-bench-") as scratch,
        LiveCluster(nodes) as cluster,
    ):
        job = cluster.submit(app_topology(path, Path(scratch) / "out", slices, windows), APP)
        cluster.began(job)
        looks = watched(cluster, job, first + windows[1] + seconds)
        peaks = sum(peak_bytes(process.pid) for process in cluster.local.processes.values())
        state = {name: cluster.state_bytes(job, name) for name in ("plugs", "overall", "outliers")}
        cluster.client.stop(job.number, "all was measured", 60.0)
    full = next(look for look in looks if look.epoch >= first + windows[1])
    over = [look for look in looks if look.epoch <= first + windows[1] + seconds][-1]
    measured = per_second * (over.epoch - full.epoch)
    passed = over.time - full.time
    figures: dict[str, Any] = {
        "name": "outliers",
        "nodes": nodes,
        "windows_seconds": windows,
        "events": round(measured),
        "seconds": round(passed, 3),
        "events_per_second": round(measured / passed),
        "fill_events_per_second": round(per_second * windows[1] / (full.time - looks[0].time)),
        "cpu_seconds": round(over.cpu_seconds - full.cpu_seconds, 2),
        "values_in_windows": round(per_second * sum(windows)),
        "state_bytes": state,
        "peak_bytes": peaks,
    }
    if as_json:
        print_json(figures)
        return
    print_table(
        ("windows", "readings/s", "while filling", "seconds", "CPU seconds", "peak memory"),
        [
            (
                " and ".join(f"{length:,} s" for length in windows),
                f"{figures['events_per_second']:,}",
                f"{figures['fill_events_per_second']:,}",
                f"{passed:.2f}",
                f"{figures['cpu_seconds']:.2f}",
                f"{peaks / 2**20:,.0f} MiB",
            )
        ],
    )
