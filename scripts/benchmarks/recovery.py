"""How long output stands still when a node is killed.

A paced job holds state on two nodes and commits a row for every epoch, as soon as every slice that holds
state is through with it. One node's process is killed (SIGKILL) in the middle. Detection is the time from
there to the plan that gives its slices new places; the rest (deploy, load the snapshot, replay, process) ends
with the first commit after that. The output must be that of the run without a kill.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import click

from benchmarks import options
from benchmarks.gaps import RecoveryTimes, caught_up_after, delay, recovery_times
from benchmarks.held_state import HELD, PULSE, Form, HeldState
from benchmarks.live_cluster import LiveCluster, LiveJob, commit_times, wait_until
from benchmarks.pictures import tell_results
from benchmarks.report import one_digest, print_table

BAR_SECONDS = 3.0
BAR_REST_SECONDS = 1.0
EPOCH_SECONDS = 0.1
STEADY_SECONDS = 3.0
"""From when all plugs are known to the kill: at least one checkpoint holds them all."""

AFTER_SECONDS = 6.0
PLAN_SECONDS = 30.0
LONGEST_RUN_SECONDS = 120.0


@click.command(help="From the kill of one of two nodes to the next output.")
@options.slices
@options.folder
@options.as_json
@click.option("--runs", type=click.IntRange(1), default=5, show_default=True)
@click.option("--keys", type=click.IntRange(1), default=1_000_000, show_default=True, help="Plugs.")
@click.option(
    "--rate", type=click.IntRange(1), default=200_000, show_default=True, help="Events/s."
)
@click.option(
    "--form", type=click.Choice(["columns", "objects"]), default="columns", show_default=True
)
@click.option(
    "--victim",
    type=click.Choice(["manager", "other"]),
    default="other",
    show_default=True,
    help="Whether the node is killed that manages the cluster.",
)
def recovery(
    slices: int,
    folder: Path,
    as_json: bool,
    runs: int,
    keys: int,
    rate: int,
    form: Form,
    victim: str,
) -> None:
    filled = keys / rate
    seconds = filled + STEADY_SECONDS + AFTER_SECONDS
    held = HeldState(
        keys, round(rate * seconds), round(rate * EPOCH_SECONDS), form, rate=rate, slices=slices
    )
    results: list[dict[str, Any]] = []
    timelines: list[list[tuple[float, int]]] = []
    digests = set()
    state_bytes = 0
    with tempfile.TemporaryDirectory(prefix="streammine-bench-") as scratch:
        output = Path(scratch)
        for number in range(runs + 1):
            # the first run is left alone: its output is what the others must come to
            with LiveCluster(2) as cluster:
                job = cluster.submit(held.topology(output))
                began = cluster.began(job)
                wait_until(began + filled + STEADY_SECONDS)
                state_bytes = max(state_bytes, cluster.state_bytes(job, HELD))
                if number == 0:
                    run = cluster.finish(job, LONGEST_RUN_SECONDS)
                    digests.add(run.digest())
                    continue
                killed, planned = _kill(cluster, job, victim)
                run = cluster.finish(job, LONGEST_RUN_SECONDS)
                digests.add(run.digest())
            commits = commit_times(output / PULSE)
            times = recovery_times(killed, planned, [at for _, at in commits])
            delays = [(at, delay(epoch, at, began, held.epoch_seconds)) for epoch, at in commits]
            results.append(_figures(times, delays, killed))
            timelines.append([(at - killed, epoch) for epoch, at in commits])
    digest = one_digest(digests)
    figures = {
        "name": "recovery",
        "nodes": 2,
        "events": held.events,
        "keys": keys,
        "form": form,
        "victim": victim,
        "state_bytes": state_bytes,
        "paced_events_per_second": rate,
        "runs": results,
        **_summary(results),
        "bar_seconds": BAR_SECONDS,
        "bar_rest_seconds": BAR_REST_SECONDS,
        "digest": digest,
    }
    tell_results(folder, figures, as_json, lambda figure: _draw(figure, timelines), _print)


def _kill(cluster: LiveCluster, job: LiveJob, victim: str) -> tuple[float, float]:
    """Kill a node that holds state; the system times of the kill and of the plan without it.

    Raises ClusterError when no plan comes.
    """
    manager = cluster.client.status(job.number)["manager"]
    name = next(
        name for name in cluster.local.processes if (name == manager) == (victim == "manager")
    )
    killed = time.time()
    os.kill(cluster.local.processes[name].pid, signal.SIGKILL)
    cluster.client.wait_for(
        lambda: all(name not in nodes for nodes in cluster.client.nodes_of(job.number).values()),
        lambda: f"{name} died and is still in the plan",
        PLAN_SECONDS,
    )
    return killed, time.time()


def _figures(
    times: RecoveryTimes, delays: list[tuple[float, float]], killed: float
) -> dict[str, Any]:
    usual = max(delay for at, delay in delays if killed - STEADY_SECONDS < at <= killed)
    caught_up = caught_up_after(killed, delays, usual)
    return {
        "detection_seconds": round(times.detection, 3),
        "rest_seconds": round(times.rest, 3),
        "seconds": round(times.total, 3),
        "caught_up_seconds": None if caught_up is None else round(caught_up, 3),
    }


def _summary(results: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ("seconds", "detection_seconds", "rest_seconds"):
        values = [each[name] for each in results]
        found[name] = round(median(values), 3)
        found[f"most_{name}"] = max(values)
    return found


def _print(figures: dict[str, Any]) -> None:
    print(
        f"recovery: {figures['state_bytes'] / 1e6:.0f} MB of state in {figures['form']} on 2 nodes, "
        f"kill -9 of one ({figures['victim']}), {figures['paced_events_per_second']:,} events/s"
    )
    head = ("run", "detected", "rest", "output goes on", "caught up")
    rows: list[tuple[str, ...]] = [
        (
            f"{number}",
            f"{run['detection_seconds']:.2f} s",
            f"{run['rest_seconds']:.2f} s",
            f"{run['seconds']:.2f} s",
            "-" if run["caught_up_seconds"] is None else f"{run['caught_up_seconds']:.2f} s",
        )
        for number, run in enumerate(figures["runs"], 1)
    ]
    for label, prefix in (("median", ""), ("most", "most_")):
        values = [
            figures[f"{prefix}{name}"] for name in ("detection_seconds", "rest_seconds", "seconds")
        ]
        rows.append((label, *(f"{value:.2f} s" for value in values), ""))
    print_table(head, rows)
    print(
        f"bar: output goes on within {BAR_SECONDS:g} s, at most {BAR_REST_SECONDS:g} s not detection"
    )


def _draw(figure: Any, timelines: list[list[tuple[float, int]]]) -> None:
    axes = figure.subplots()
    for number, timeline in enumerate(timelines, 1):
        axes.step([at for at, _ in timeline], [epoch for _, epoch in timeline], where="post")
        axes.annotate(f"run {number}", (timeline[-1][0], timeline[-1][1]))
    axes.axvline(0.0, color="black", linestyle=":", label="kill -9")
    axes.axvline(BAR_SECONDS, color="grey", linestyle=":", label=f"{BAR_SECONDS:g} s")
    axes.set_xlabel("seconds after the kill")
    axes.set_ylabel("last committed epoch")
    axes.set_title("output around the kill of one of two nodes")
    axes.legend()
