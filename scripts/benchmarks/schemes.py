"""What each of the six schemes costs, and how long output stands still when a node is killed under it.

A paced job holds state on two nodes and commits a row for every epoch. Once the state is there, what all
nodes need of CPU and memory is measured for some seconds; then the node that is not the manager is killed
(SIGKILL). The time to recovery is the longest time between two commits from then on, less the longest one
before. The output must be the same under all schemes.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click

from benchmarks import options
from benchmarks.gaps import longest_gap
from benchmarks.held_state import HELD, PULSE, HeldState
from benchmarks.live_cluster import LiveCluster, LiveJob, commit_times, wait_until
from benchmarks.pictures import keep_results, say_results
from benchmarks.report import print_json, print_table
from streammine.model.schemes import Scheme

PLUGS_PER_MEGABYTE = 12_000
EPOCH_SECONDS = 0.1
SETTLING_SECONDS = 3.0
"""From when all plugs are known until what it costs is measured: a checkpoint holds them all, and who stands
by has taken its state in."""

MEASURED_SECONDS = 3.0
AFTER_SECONDS = 8.0
LONGEST_RUN_SECONDS = 240.0


@dataclass(frozen=True)
class Cost:
    """Of all nodes together: cores in use, and bytes in memory."""

    cores: float
    memory_bytes: float


@click.command(help="Recovery time and cost of each fault-tolerance scheme.")
@options.slices
@options.folder
@options.as_json
@click.option("--runs", type=click.IntRange(1), default=3, show_default=True)
@click.option(
    "--megabytes",
    "sizes",
    type=click.IntRange(1),
    multiple=True,
    default=(10, 100, 500),
    show_default=True,
    help="Of state; may be given several times.",
)
@click.option(
    "--rate", type=click.IntRange(1), default=100_000, show_default=True, help="Events/s."
)
@click.option(
    "--scheme",
    "chosen",
    type=click.Choice([each.value for each in Scheme]),
    multiple=True,
    help="Default: all.",
)
def schemes(
    slices: int,
    folder: Path,
    as_json: bool,
    runs: int,
    sizes: tuple[int, ...],
    rate: int,
    chosen: tuple[str, ...],
) -> None:
    rows = [
        _measured(Scheme(name), megabytes, rate, slices, runs)
        for megabytes in sizes
        for name in (chosen or tuple(Scheme))
    ]
    for megabytes in sizes:
        found = {each["digest"] for each in rows if each["megabytes"] == megabytes}
        if len(found) != 1:
            raise click.ClickException(
                f"{megabytes} MB: digests differ: {', '.join(sorted(found))}"
            )
    figures = {
        "name": "schemes",
        "nodes": 2,
        "paced_events_per_second": rate,
        "runs": runs,
        "schemes": rows,
    }
    paths = keep_results(folder, figures, lambda figure: _draw(figure, rows))
    if as_json:
        print_json(figures)
        return
    _print(figures)
    say_results(paths)


def _measured(scheme: Scheme, megabytes: int, rate: int, slices: int, runs: int) -> dict[str, Any]:
    plugs = megabytes * PLUGS_PER_MEGABYTE
    seconds = plugs / rate + SETTLING_SECONDS + MEASURED_SECONDS + AFTER_SECONDS
    held = HeldState(
        plugs,
        round(rate * seconds),
        round(rate * EPOCH_SECONDS),
        rate=rate,
        slices=slices,
        scheme=scheme,
    )
    outages: list[float] = []
    costs: list[Cost] = []
    state_bytes = 0
    digest = ""
    for _ in range(runs):
        with tempfile.TemporaryDirectory(prefix="streammine-bench-") as scratch:
            output = Path(scratch)
            with LiveCluster(2) as cluster:
                job = cluster.submit(held.topology(output))
                filled = cluster.began(job) + plugs / rate
                wait_until(filled + SETTLING_SECONDS)
                costs.append(_cost(cluster, job))
                state_bytes = max(state_bytes, cluster.state_bytes(job, HELD))
                killed = _kill_other(cluster, job)
                digest = cluster.finish(job, LONGEST_RUN_SECONDS).digest()
            outages.append(_outage(output, killed))
    return {
        "scheme": scheme.value,
        "megabytes": megabytes,
        "state_bytes": state_bytes,
        "recovery_seconds": round(median(outages), 3),
        "most_recovery_seconds": round(max(outages), 3),
        "cores": round(median(each.cores for each in costs), 3),
        "memory_bytes": round(median(each.memory_bytes for each in costs)),
        "digest": digest,
    }


def _cost(cluster: LiveCluster, job: LiveJob) -> Cost:
    """What all nodes use from now on for some seconds."""
    before = _loads(cluster, job)
    time.sleep(MEASURED_SECONDS)
    after = _loads(cluster, job)
    used = sum(after[name]["cpu_seconds"] - before[name]["cpu_seconds"] for name in before)
    passed = max(after[name]["clock"] - before[name]["clock"] for name in before)
    return Cost(used / passed, sum(load["memory_bytes"] for load in after.values()))


def _loads(cluster: LiveCluster, job: LiveJob) -> dict[str, dict[str, float]]:
    return {name: node["load"] for name, node in cluster.client.status(job.number)["nodes"].items()}


def _kill_other(cluster: LiveCluster, job: LiveJob) -> float:
    """Kill the node that is not the manager; when, in seconds of the system's clock."""
    manager = cluster.client.status(job.number)["manager"]
    name = next(name for name in cluster.local.processes if name != manager)
    killed = time.time()
    os.kill(cluster.local.processes[name].pid, signal.SIGKILL)
    return killed


def _outage(output: Path, killed: float) -> float:
    times = [at for _, at in commit_times(output / PULSE)]
    usual = longest_gap(times, killed - MEASURED_SECONDS, killed - EPOCH_SECONDS)
    return max(0.0, longest_gap(times, killed, max(times)) - usual)


def _print(figures: dict[str, Any]) -> None:
    print(
        f"kill -9 of one of two nodes, {figures['paced_events_per_second']:,} events/s, medians of "
        f"{figures['runs']}"
    )
    head = ("state", "scheme", "recovery", "most", "cores", "memory")
    rows = [
        (
            f"{each['state_bytes'] / 1e6:.0f} MB",
            each["scheme"],
            f"{each['recovery_seconds']:.2f} s",
            f"{each['most_recovery_seconds']:.2f} s",
            f"{each['cores']:.2f}",
            f"{each['memory_bytes'] / 1e6:,.0f} MB",
        )
        for each in figures["schemes"]
    ]
    print_table(head, rows)


def _draw(figure: Any, rows: list[dict[str, Any]]) -> None:
    axes = figure.subplots()
    for megabytes in dict.fromkeys(each["megabytes"] for each in rows):
        chosen = [each for each in rows if each["megabytes"] == megabytes]
        axes.plot(
            [each["scheme"] for each in chosen],
            [each["recovery_seconds"] for each in chosen],
            marker="o",
            label=f"{megabytes} MB",
        )
    axes.set_ylabel("seconds without output after a kill")
    axes.set_title("recovery time of the six schemes")
    axes.tick_params(axis="x", rotation=20)
    axes.legend()
