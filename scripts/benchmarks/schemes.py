"""What each of the six schemes costs, how long a recovery takes under it, and how well that was estimated.

A paced job holds state on three nodes and commits a row for every epoch. A person has set its scheme, so the
controller chooses nothing, but it measures and estimates. Once the state is there, a first node is killed
(SIGKILL): a running cluster would have seen losses before, and the controller learns from this one how long
it takes to notice one, to switch plans, to build operators and to load snapshots. Once that is made up for,
what the two nodes left need of CPU and memory is measured for some seconds, and the controller is asked what
it estimates for the slices that the second victim leads; then that one is killed, when the newest checkpoint
is almost as old as the one before got: the estimates are of that moment, with most to make up for.

Measured is the time from there until output is as late as it was at most before, and no later, which is what
the controller estimates; and the time until the first commit after the outage. The output must be the same
under all schemes.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click

from benchmarks import options
from benchmarks.gaps import delay, recovered
from benchmarks.held_state import HELD, PULSE, HeldState
from benchmarks.live_cluster import (
    LOOK_SECONDS,
    LiveCluster,
    LiveJob,
    commit_times,
    wait_until,
)
from benchmarks.pictures import partial_name, tell_results
from benchmarks.report import one_digest, print_table
from replication.naming import CHECKPOINTS, checkpoint_of
from streammine.model.errors import ClusterError
from streammine.model.schemes import Scheme
from streammine.runtime.stores import LocalStore

NODES = 3
SIZES = (10, 100, 500)
"""Megabytes of state."""

PLUGS_PER_MEGABYTE = 12_000
EPOCH_SECONDS = 0.1
SWITCHING_SECONDS = 10.0
"""Until the replicas of all slices stand where they are to."""

SETTLING_SECONDS = 3.0
"""From when all plugs are known, and again from when all replicas stand once more: a checkpoint holds them
all, and who stands by has taken its state in."""

LEARNING_SECONDS = 9.0
"""From the first kill until all that is lost is made up for, and longer where it is not."""

BUILT_MEGABYTES_PER_SECOND = 50.0
"""Of state, at least: a second replica is built while everything goes on, and the input is longer by that."""

NEARBY_EPOCHS = 20
"""How far a replica that has caught up may be behind the one that leads."""

WORST_AGE = 0.8
"""Of the newest checkpoint at the kill, as a share of how old the one before got."""

MEASURED_SECONDS = 3.0
AFTER_SECONDS = 10.0
LONGEST_RUN_SECONDS = 300.0
MAX_TIME = "10s"
"""Of a recovery, for the controller, which chooses nothing here."""

BAR = 2.0
"""How many times as long as the other one estimate and measured time may be."""

STEPS = ("detect_seconds", "switch_seconds", "deploy_seconds", "load_seconds", "catch_up_seconds")


@dataclass(frozen=True)
class Cost:
    """Of all nodes together: cores in use, and bytes in memory."""

    cores: float
    memory_bytes: float


@dataclass(frozen=True)
class Recovery:
    """What a kill came to, in seconds: until output was in time again, and until it went on at all, 0 for
    what is shorter than `told_from_seconds` or came no later than usual; what was estimated just before, by
    steps, and for what `outlook`; None where the controller said that something is `missing`."""

    seconds: float
    outage_seconds: float
    told_from_seconds: float
    estimate: dict[str, float] | None
    outlook: dict[str, Any] | None
    missing: tuple[str, ...]

    @property
    def estimated_seconds(self) -> float | None:
        return None if self.estimate is None else sum(self.estimate.values())

    @property
    def ratio(self) -> float | None:
        """Measured / estimated, where what can't be told from nothing counts as just that."""
        estimated = self.estimated_seconds
        if estimated is None:
            return None
        least = self.told_from_seconds
        return max(self.seconds, least) / max(estimated, least)


@click.command(help="Recovery time, its estimate, and cost of each fault-tolerance scheme.")
@click.option(
    "--slices",
    type=click.IntRange(1, 1000),
    default=NODES,
    show_default=True,
    help="Of every operator; each node leads some.",
)
@options.folder
@options.as_json
@click.option("--runs", type=click.IntRange(1), default=3, show_default=True)
@click.option(
    "--megabytes",
    "sizes",
    type=click.IntRange(1),
    multiple=True,
    default=SIZES,
    show_default=True,
    help="Of state; may be given several times. Results of some only are kept under a name of their own.",
)
@click.option(
    "--rate", type=click.IntRange(1), default=100_000, show_default=True, help="Events/s."
)
@click.option(
    "--scheme",
    "chosen",
    type=click.Choice([each.value for each in Scheme]),
    multiple=True,
    help="Default: all. Results of some only are kept under a name of their own.",
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
        found = (each["digest"] for each in rows if each["megabytes"] == megabytes)
        one_digest(found, f"{megabytes} MB")
    figures = {
        "name": _name(chosen, sizes),
        "nodes": NODES,
        "paced_events_per_second": rate,
        "runs": runs,
        "bar": BAR,
        "within": sum(each["within"] for each in rows),
        "worst_within": sum(each["worst_within"] for each in rows),
        "schemes": rows,
    }
    tell_results(folder, figures, as_json, lambda figure: _draw(figure, rows), _print)


def _name(chosen: Sequence[str], sizes: Sequence[int]) -> str:
    """Of the results: all schemes at all sizes have another than some."""
    names = [each.value for each in Scheme if each in (chosen or Scheme)]
    some_names = names if len(names) < len(Scheme) else []
    some_sizes = [] if set(sizes) >= set(SIZES) else sorted(set(sizes))
    return partial_name("schemes", [*some_names, *(f"{size}mb" for size in some_sizes)])


def _measured(scheme: Scheme, megabytes: int, rate: int, slices: int, runs: int) -> dict[str, Any]:
    plugs = megabytes * PLUGS_PER_MEGABYTE
    filling = max(plugs / rate, SWITCHING_SECONDS) + SETTLING_SECONDS
    learning = LEARNING_SECONDS + megabytes / BUILT_MEGABYTES_PER_SECOND + SETTLING_SECONDS
    seconds = filling + learning + MEASURED_SECONDS + AFTER_SECONDS
    held = HeldState(
        plugs,
        round(rate * seconds),
        round(rate * EPOCH_SECONDS),
        rate=rate,
        slices=slices,
        recovery={"max_time": MAX_TIME},
    )
    recoveries: list[Recovery] = []
    costs: list[Cost] = []
    state_bytes = 0
    digests = set[str]()
    for _ in range(runs):
        with tempfile.TemporaryDirectory(prefix="streammine-bench-") as scratch:
            output = Path(scratch)
            with LiveCluster(NODES) as cluster:
                job = cluster.submit(held.topology(output))
                began = cluster.began(job)
                _set_scheme(cluster, job, scheme)
                wait_until(began + filling)
                first, at = _kill(cluster, job, set())
                wait_until(at + LEARNING_SECONDS)
                _wait_until_whole(cluster, job, scheme, first)
                time.sleep(SETTLING_SECONDS)
                costs.append(_cost(cluster, job, first))
                state_bytes = max(state_bytes, cluster.state_bytes(job, HELD))
                _wait_for_the_worst_moment(job)
                told = cluster.slices(job)
                second, killed = _kill(cluster, job, {first})
                digests.add(cluster.finish(job, LONGEST_RUN_SECONDS).digest())
            recoveries.append(_recovery(scheme, told, second, output, began, killed))
    digest = one_digest(digests, f"{scheme}, {megabytes} MB")
    return _row(scheme, megabytes, state_bytes, recoveries, costs, digest)


def _set_scheme(cluster: LiveCluster, job: LiveJob, scheme: Scheme) -> None:
    """Wait until all replicas stand where it wants them."""
    graph = job.submission.spec.graph
    for vertex in graph.vertices:
        if vertex.replicable:
            slices = graph.slices_named(vertex.name)
            cluster.client.change_scheme(
                job.number, slices, vertex.name, scheme, LONGEST_RUN_SECONDS
            )


def _wait_until_whole(cluster: LiveCluster, job: LiveJob, scheme: Scheme, gone: str) -> None:
    """Until what is lost is made up for: a kill before that would show another scheme."""
    wanted = 2 if scheme.deploys else 1

    def whole() -> bool:
        groups = [each["replicas"] for each in cluster.slices(job).values()]
        return bool(groups) and all(_is_whole(each, wanted, gone) for each in groups)

    otherwise = "not all replicas that were lost are made up for"
    cluster.client.wait_for(whole, lambda: otherwise, LONGEST_RUN_SECONDS, job.number)


def _wait_for_the_worst_moment(job: LiveJob) -> None:
    """Until the newest checkpoint is almost as old as the one before it got: that is what is estimated.

    Raises ClusterError where no checkpoints come while there is input.
    """
    store = LocalStore(job.store)
    deadline = time.monotonic() + AFTER_SECONDS
    newest: int | None = None
    came: list[float] = []
    while time.monotonic() < deadline:
        now = time.monotonic()
        named = filter(None, map(checkpoint_of, store.list(CHECKPOINTS)))
        found = max((epoch for epoch, _ in named), default=None)
        if found != newest:
            newest = found
            came = [*came, now][-3:]
        # the first one may have been there long before it was seen
        if len(came) == 3 and now - came[-1] >= WORST_AGE * (came[-1] - came[-2]):
            return
        time.sleep(LOOK_SECONDS)
    raise ClusterError(f"no checkpoints for {AFTER_SECONDS:g} s")


def _is_whole(replicas: list[dict[str, Any]], wanted: int, gone: str) -> bool:
    there = [each for each in replicas if each["node"] != gone and each["phase"] != "deploying"]
    linked = [each["frontier"] for each in there if each["phase"] != "ready"]
    return (
        len(there) == len(replicas) >= wanted
        and bool(linked)
        and min(linked) >= max(linked) - NEARBY_EPOCHS
    )


def _cost(cluster: LiveCluster, job: LiveJob, gone: str) -> Cost:
    """What all nodes use from now on for some seconds, but for the one that is gone."""
    before = _loads(cluster, job, gone)
    time.sleep(MEASURED_SECONDS)
    after = _loads(cluster, job, gone)
    used = sum(after[name]["cpu_seconds"] - before[name]["cpu_seconds"] for name in before)
    passed = max(after[name]["clock"] - before[name]["clock"] for name in before)
    return Cost(used / passed, sum(load["memory_bytes"] for load in after.values()))


def _loads(cluster: LiveCluster, job: LiveJob, gone: str) -> dict[str, dict[str, float]]:
    nodes = cluster.client.status(job.number)["nodes"]
    return {name: node["load"] for name, node in nodes.items() if name != gone}


def _kill(cluster: LiveCluster, job: LiveJob, gone: set[str]) -> tuple[str, float]:
    """Kill a node that is not the manager and leads state; which, and when by the system's clock.

    Raises ClusterError where there is none.
    """
    manager = cluster.client.status(job.number)["manager"]
    leading = {
        each["node"]
        for name, each in cluster.slices(job).items()
        if name.partition("/")[0] == HELD and each["node"] not in {manager, *gone}
    }
    if not leading:
        raise ClusterError("only the manager's node holds state; give it more slices")
    name = min(leading)
    killed = time.time()
    os.kill(cluster.local.processes[name].pid, signal.SIGKILL)
    return name, killed


def _recovery(
    scheme: Scheme,
    told: dict[str, dict[str, Any]],
    victim: str,
    output: Path,
    began: float,
    killed: float,
) -> Recovery:
    """`told`: the slices' status just before."""
    # the last one waits until all results are written
    commits = commit_times(output / PULSE)[:-1]
    delays = [(at, delay(epoch, at, began, EPOCH_SECONDS)) for epoch, at in commits]
    times = recovered(killed, delays, killed - MEASURED_SECONDS, EPOCH_SECONDS)
    if commits[-1][1] - killed < AFTER_SECONDS / 2:
        raise ClusterError("the input was over too soon after the kill: the machine is too busy")
    lost = [each["chosen"] for each in told.values() if each["node"] == victim and each["chosen"]]
    missing = {text for each in lost for text in each["missing"]}
    worst = max(
        () if missing else lost,
        key=lambda each: _seconds(each["schemes"][scheme.value]["seconds"]),
        default=None,
    )
    estimate = {} if worst is None else worst["schemes"][scheme.value]
    return Recovery(
        times.caught_up,
        times.outage,
        times.told_from,
        {step: _seconds(estimate[step]) for step in STEPS} if estimate else None,
        None if worst is None else worst["outlook"],
        tuple(sorted(missing)),
    )


def _seconds(told: float | None) -> float:
    """None stands for what takes for ever."""
    return float("inf") if told is None else told


def _row(
    scheme: Scheme,
    megabytes: int,
    state_bytes: int,
    recoveries: list[Recovery],
    costs: list[Cost],
    digest: str,
) -> dict[str, Any]:
    ratios = [each.ratio for each in recoveries if each.ratio is not None]
    estimates = [each.estimate for each in recoveries if each.estimate is not None]
    known = len(ratios) == len(recoveries)
    ratio = median(ratios) if known else None
    worst = max(ratios, key=_factor) if known else None
    return {
        "scheme": scheme.value,
        "megabytes": megabytes,
        "state_bytes": state_bytes,
        "recovery_seconds": round(median(each.seconds for each in recoveries), 3),
        "most_recovery_seconds": round(max(each.seconds for each in recoveries), 3),
        "outage_seconds": round(median(each.outage_seconds for each in recoveries), 3),
        "told_from_seconds": round(median(each.told_from_seconds for each in recoveries), 3),
        "estimate_seconds": _rounded([sum(each.values()) for each in estimates]),
        "estimate": {step: _rounded([each[step] for each in estimates]) for step in STEPS},
        "outlooks": [each.outlook for each in recoveries],
        "missing": sorted({text for each in recoveries for text in each.missing}),
        "ratio": None if ratio is None else round(ratio, 3),
        "worst_ratio": None if worst is None else round(worst, 3),
        "ratios": [round(each, 3) for each in ratios],
        "within": ratio is not None and _factor(ratio) <= BAR,
        "worst_within": worst is not None and _factor(worst) <= BAR,
        "cores": round(median(each.cores for each in costs), 3),
        "memory_bytes": round(median(each.memory_bytes for each in costs)),
        "digest": digest,
    }


def _factor(ratio: float) -> float:
    """How many times as long as the other one measured time and estimate are, whichever is longer."""
    return max(ratio, 1 / ratio) if ratio else float("inf")


def _rounded(values: list[float]) -> float | None:
    """The median."""
    return round(median(values), 3) if values else None


def _print(figures: dict[str, Any]) -> None:
    print(
        f"kill -9 of one of the two nodes that a first kill has left, "
        f"{figures['paced_events_per_second']:,} events/s, medians of {figures['runs']}"
    )
    head = (
        "state",
        "scheme",
        "recovery",
        "most",
        "output goes on",
        "estimate",
        "measured/estimate",
        "of the worst run",
        "cores",
        "memory",
    )
    rows = [
        (
            f"{each['state_bytes'] / 1e6:.0f} MB",
            each["scheme"],
            f"{each['recovery_seconds']:.2f} s",
            f"{each['most_recovery_seconds']:.2f} s",
            f"{each['outage_seconds']:.2f} s",
            "?" if each["estimate_seconds"] is None else f"{each['estimate_seconds']:.2f} s",
            "?" if each["ratio"] is None else f"{each['ratio']:.2f}",
            "?" if each["worst_ratio"] is None else f"{each['worst_ratio']:.2f}",
            f"{each['cores']:.2f}",
            f"{each['memory_bytes'] / 1e6:,.0f} MB",
        )
        for each in figures["schemes"]
    ]
    print_table(head, rows)
    told = [each["told_from_seconds"] for each in figures["schemes"]]
    for each in figures["schemes"]:
        if each["missing"]:
            print(f"{each['scheme']}: no estimate, not measured: {', '.join(each['missing'])}")
    print(
        f"estimates from what the first kill, the job's start and its snapshots have shown; within a "
        f"factor {figures['bar']:g}: {figures['within']} of {len(figures['schemes'])}, with the worst run of "
        f"each {figures['worst_within']} "
        "(what is too short to be told from the usual gaps between commits counts as just that long: "
        f"{min(told):.2f} to {max(told):.2f} s)"
    )


def _draw(figure: Any, rows: list[dict[str, Any]]) -> None:
    axes = figure.subplots()
    for megabytes in dict.fromkeys(each["megabytes"] for each in rows):
        chosen = [each for each in rows if each["megabytes"] == megabytes]
        names = [each["scheme"] for each in chosen]
        (line,) = axes.plot(
            names,
            [each["recovery_seconds"] for each in chosen],
            marker="o",
            label=f"{megabytes} MB: measured",
        )
        estimated = [
            (name, each["estimate_seconds"])
            for name, each in zip(names, chosen, strict=True)
            if each["estimate_seconds"] is not None
        ]
        if estimated:
            axes.plot(
                *zip(*estimated, strict=True),
                marker="x",
                linestyle=":",
                color=line.get_color(),
                label=f"{megabytes} MB: estimated before",
            )
    axes.set_ylabel("seconds from a kill until output is in time again")
    axes.set_title("recovery time of the six schemes")
    axes.tick_params(axis="x", rotation=20)
    axes.legend()
