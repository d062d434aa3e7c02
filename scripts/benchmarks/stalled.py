"""Whether memory stays within its budgets while a slice stands still and sources run at full speed.

One of an operator's slices does nothing for a while. What the others send it, what they keep for it and what
has arrived must not take more memory than the engine's budgets, however long it lasts; what is beyond them
goes to disk, and credit stops the sources.
"""

from __future__ import annotations

import re
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from benchmarks import options
from benchmarks.gaps import SliceBudgets, memory_bound
from benchmarks.live_cluster import LiveCluster, LiveJob
from benchmarks.memory import peak_bytes
from benchmarks.pictures import tell_results
from benchmarks.report import print_table
from streammine import Topology
from streammine.assembly.environment import SLICE_BUDGET_BYTES, Environment
from streammine.engine.slice_settings import RETAINED_BYTES_IN_MEMORY, WAITING_BYTES_IN_MEMORY

BUDGETS = SliceBudgets(
    WAITING_BYTES_IN_MEMORY,
    RETAINED_BYTES_IN_MEMORY,
    Environment.bag_memory_bytes,
    SLICE_BUDGET_BYTES,
)
KEYS = 10_000
EPOCH_EVENTS = 50_000
EVENTS = 2_000_000_000
"""More than could be read meanwhile; the job is stopped at the end."""

STALL_FROM_EPOCH = 4
THREADS = 3
"""Workers of a node: one stands still with the slice, the others go on."""

LOOK_SECONDS = 0.25
MARGIN_SECONDS = 60.0


@dataclass
class Seen:
    """Memory and disk of the nodes over time; `samples` by node are (seconds, bytes in use)."""

    samples: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    rows_in: list[tuple[float, int]] = field(default_factory=list)
    spilled: int = 0


@click.command(help="Memory of all nodes while one slice of an operator stands still.")
@options.nodes
@options.slices
@options.folder
@options.as_json
@click.option("--seconds", type=click.IntRange(2), default=60, show_default=True)
def stalled(nodes: int, slices: int, folder: Path, as_json: bool, seconds: int) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="streammine-bench-") as scratch,
        LiveCluster(nodes, threads=THREADS) as cluster,
    ):
        processes = cluster.local.processes
        baseline = {name: memory_bytes(process.pid) for name, process in processes.items()}
        job = cluster.submit(_topology(Path(scratch), slices, seconds))
        cluster.began(job)
        seen = _watch(cluster, job, seconds)
        kinds = _kinds(cluster, job)
        peaks = {name: peak_bytes(process.pid) for name, process in processes.items()}
        cluster.client.stop(job.number, "all was seen", MARGIN_SECONDS + seconds)
    bounds = {name: memory_bound(baseline[name], kinds[name], BUDGETS) for name in peaks}
    figures = {
        "name": "stalled",
        "nodes": nodes,
        "seconds": seconds,
        "events": seen.rows_in[-1][1],
        "events_while_stalled": seen.rows_in[-1][1] - seen.rows_in[0][1],
        "spilled_bytes": seen.spilled,
        "memory": {
            name: {
                "baseline_bytes": baseline[name],
                "peak_bytes": peaks[name],
                "bound_bytes": bounds[name],
                "second_half_growth_bytes": _growth(seen.samples[name]),
            }
            for name in peaks
        },
        "within": all(peaks[name] <= bounds[name] for name in peaks),
    }
    tell_results(folder, figures, as_json, lambda figure: _draw(figure, seen, bounds), _print)
    if not figures["within"]:
        raise click.ClickException("a node took more memory than its budgets")


def _topology(output: Path, slices: int, seconds: int) -> Topology:
    return (
        Topology(name="stalled", epoch={"time": "1s", "column": "ts"}, snapshot={"every": "1s"})
        .source(
            "events",
            generator="keys",
            rows=EVENTS,
            seed=1,
            with_={"keys": KEYS, "per_second": EPOCH_EVENTS},
            slices=slices,
        )
        .operator("passed", input="events", filter="value >= 0")
        .operator(
            "stalling",
            input="passed",
            key="key",
            operator="benchmarks.state_operators:Stalls",
            # it stands still for longer than it is watched
            with_={"from_second": STALL_FROM_EPOCH, "seconds": seconds + MARGIN_SECONDS},
            slices=slices,
        )
        .sink("result", input="stalling", format="parquet", path=str(output / "result"))
    )


def memory_bytes(pid: int) -> int:
    """Memory that a living process has in use, as Linux counts it."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None, "Linux tells the memory of a living process"
    return int(found[1]) * 1024


def _watch(cluster: LiveCluster, job: LiveJob, seconds: int) -> Seen:
    """Look at the nodes for that long."""
    seen = Seen({name: [] for name in cluster.local.processes})
    begin = time.monotonic()
    while (passed := time.monotonic() - begin) < seconds:
        cluster.local.check()
        for name, process in cluster.local.processes.items():
            seen.samples[name].append((passed, memory_bytes(process.pid)))
        counters = {name: each["counters"] for name, each in cluster.slices(job).items()}
        read = sum(
            int(each.get("rows_in", 0))
            for name, each in counters.items()
            if name.startswith("events/")
        )
        seen.rows_in.append((passed, read))
        spilled = sum(int(each.get("spilled_bytes", 0)) for each in counters.values())
        seen.spilled = max(seen.spilled, spilled)
        time.sleep(LOOK_SECONDS)
    return seen


def _kinds(cluster: LiveCluster, job: LiveJob) -> dict[str, list[str]]:
    """The kinds of the slices on each node."""
    vertices = {vertex.name: vertex.kind for vertex in job.submission.spec.graph.vertices}
    kinds: dict[str, list[str]] = {name: [] for name in cluster.local.processes}
    for slice_name, places in cluster.client.nodes_of(job.number).items():
        for node in places:
            kinds[node].append(vertices[slice_name.rpartition("/")[0]])
    return kinds


def _growth(samples: list[tuple[float, int]]) -> int:
    """By how much the most memory of the second half is above that of the first."""
    half = len(samples) // 2
    return max(used for _, used in samples[half:]) - max(used for _, used in samples[: half or 1])


def _print(figures: dict[str, Any]) -> None:
    print(
        f"one slice stands still for {figures['seconds']} s; meanwhile "
        f"{figures['events_while_stalled']:,} events were read"
    )
    rows = [
        (
            name,
            *(
                f"{each[key] / 2**20:.0f} MiB"
                for key in (
                    "baseline_bytes",
                    "peak_bytes",
                    "bound_bytes",
                    "second_half_growth_bytes",
                )
            ),
        )
        for name, each in figures["memory"].items()
    ]
    print_table(("node", "idle", "peak", "bound", "growth in 2nd half"), rows)
    print(
        "bound: idle, and for each slice the budgets for what arrived "
        f"({BUDGETS.waiting >> 20} MiB), bags ({BUDGETS.bag >> 20}), channels "
        f"({BUDGETS.channels >> 20}) and retained output ({BUDGETS.retained >> 20})"
    )


def _draw(figure: Any, seen: Seen, bounds: dict[str, int]) -> None:
    axes = figure.subplots()
    for name, samples in seen.samples.items():
        (line,) = axes.plot(
            [at for at, _ in samples], [used / 2**20 for _, used in samples], label=name
        )
        axes.axhline(
            bounds[name] / 2**20, color=line.get_color(), linestyle=":", label=f"{name}: bound"
        )
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds")
    axes.set_ylabel("memory in use, MiB")
    axes.set_title("nodes while one slice stands still")
    axes.legend()
