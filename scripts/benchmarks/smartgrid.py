"""The smart grid's load forecasts (`apps/smartgrid`, query 1 of the DEBS 2014 Grand Challenge), full shape.

Readings of 2,125 plugs in 40 houses, once a second, of both properties, with what is missing, doubled and
malformed, from an epoch log that was prepared once; all ten output streams are written. What is malformed is
among the dead letters of the log.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import click

from benchmarks import options
from benchmarks.cluster import BenchmarkCluster
from benchmarks.report import one_digest, print_json, print_table
from streammine import Topology, read_topology
from streammine.model.modules import load_object
from streammine.model.topology import FilesSource, LogSource
from streammine.runtime.results import summarize
from streammine.runtime.submission import compile_topology, prepare_source

ROOT = Path(__file__).resolve().parents[2]
APP = ROOT / "apps" / "smartgrid"
SOURCE = "readings"
READINGS = 24_000_000
COMMIT_EPOCHS = 20
"""Ten minutes of event time in a commit of a stream: at 3 M readings/s, about one a second."""


def readings_log(folder: Path, readings: int, partitions: int) -> str:
    """An epoch log of about so many readings of the full shape, made once: its folder."""
    grid = load_object("apps.smartgrid.make_readings:Grid", str(ROOT))()
    write = load_object("apps.smartgrid.make_readings:write_parquet", str(ROOT))
    path = folder / f"smartgrid-{readings}.parquet"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".unfinished")
        write(unfinished, grid, max(1, readings // (2 * grid.plugs)))
        unfinished.replace(path)
    raw = (
        Topology(name="smartgrid-log", epoch=read_topology(APP / "topology.yaml").epoch)
        .source(SOURCE, files=str(path), prepare={"partitions": partitions})
        .sink("result", input=SOURCE, format="console")
    )
    compiled, (source,) = compile_topology(raw, folder)
    settings = raw.sources[SOURCE]
    assert isinstance(settings, FilesSource)
    log = prepare_source(source, settings, compiled.epoch, folder).log
    assert log is not None, "it was prepared"
    return str(log)


def app_topology(output: Path, log: str, slices: int, commit_epochs: int) -> Topology:
    """That of the app, reading a log."""
    topology = read_topology(APP / "topology.yaml", {"output": str(output)})
    source = LogSource(log=log, slices=slices)
    operators = {
        name: each.model_copy(update={"slices": slices}) if hasattr(each, "slices") else each
        for name, each in topology.operators.items()
    }
    sinks = {
        name: sink.model_copy(
            update={"commit": sink.commit.model_copy(update={"every": commit_epochs})}
        )
        for name, sink in topology.sinks.items()
    }
    changed = {"sources": {SOURCE: source}, "operators": operators, "sinks": sinks}
    return topology.model_copy(update=changed)


@click.command(help="Load forecasts of the smart grid, full shape, ten streams written.")
@options.nodes
@options.slices
@options.events
@options.folder
@options.as_json
@click.option("--runs", type=click.IntRange(1), default=5, show_default=True)
@click.option(
    "--commit-every",
    type=click.IntRange(1),
    default=COMMIT_EPOCHS,
    show_default=True,
    help="Epochs (half minutes) that a stream commits together.",
)
def smartgrid(
    nodes: int,
    slices: int,
    events: int | None,
    folder: Path,
    as_json: bool,
    runs: int,
    commit_every: int,
) -> None:
    log = readings_log(folder, events or READINGS, slices)
    seconds: list[float] = []
    digests: list[str] = []
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="streammine-bench-"))
        topology = app_topology(Path(scratch) / "out", log, slices, commit_every)
        cluster = stack.enter_context(BenchmarkCluster(nodes))
        for number in range(runs + 1):
            run = cluster.run(topology, APP)
            summary = summarize(run.submission, run.outcome, 0.0)
            digests.append(summary.output_digest)
            # the first one warms everything up
            if number:
                seconds.append(run.seconds)
    rate = summary.events_in / median(seconds)
    figures: dict[str, Any] = {
        "name": "smartgrid",
        "nodes": nodes,
        "events": summary.events_in,
        "seconds": round(median(seconds), 4),
        "events_per_second": round(rate),
        "rows_out": summary.events_out,
        "epochs": summary.epochs,
        "digest": one_digest(digests),
        "runs": [round(each, 4) for each in seconds],
    }
    if as_json:
        print_json(figures)
        return
    print_table(
        ("", "readings/s", "seconds", "epochs", "rows out"),
        [
            (
                f"{nodes} nodes",
                f"{rate:,.0f}",
                f"{median(seconds):.2f}",
                f"{summary.epochs:,}",
                f"{summary.events_out:,}",
            )
        ],
    )
    print(f"digest {figures['digest']}")
