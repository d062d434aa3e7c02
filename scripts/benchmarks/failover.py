"""How long output stands still when a node is lost under active replication.

A paced job, every slice of which has replicas, commits a row for each epoch. In the middle one node is killed
(SIGKILL) or frozen (SIGSTOP); one that is frozen wakes up again, finds that it is no member any more and must
do no harm. Each node is the victim once: the manager's, those whose replicas lead, the others. The longest
time between two commits must hardly be longer than before, and the output that of a run without a fault.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import options
from benchmarks.gaps import longest_gap
from benchmarks.held_state import PULSE, HeldState
from benchmarks.live_cluster import LiveCluster, LiveJob, commit_times, wait_until
from benchmarks.pictures import tell_results
from benchmarks.report import print_table
from streammine.model.schemes import Scheme

BAR_SECONDS = 0.1
EPOCH_SECONDS = 0.1
WARM_SECONDS = 3.0
"""From the sources' begin to where gaps count: code is loaded, and a first checkpoint made."""

FROZEN_SECONDS = 14.0
"""Until the victim wakes up: the session of its node is over by then, and what it had is made up for."""

WOKEN_SECONDS = 4.0
WATCHED_SECONDS = {"killed": 6.0, "frozen": FROZEN_SECONDS + WOKEN_SECONDS}
"""By fault: for so long gaps count after it, and as long before it, undisturbed. The longest of many gaps is
longer than that of few."""

SHOWN_SECONDS = 6.0
"""Of the picture, before and after the fault."""

LONGEST_RUN_SECONDS = 90.0
SHOWN_KINDS = ("source", "stateful", "sink", "committer")
SIGNALS = {"killed": signal.SIGKILL, "frozen": signal.SIGSTOP}


@dataclass(frozen=True)
class Lost:
    """What became of a run whose `victim` was lost by a `fault`: the longest gaps before and after, in
    seconds, what the victim `was`, and the times of the commits around the fault. Victims are counted in the
    order in which nodes joined: the first one is the manager."""

    replicas: int
    nodes: int
    fault: str
    victim: int
    was: str
    before: float
    after: float
    digest: str
    commits: tuple[float, ...]

    @property
    def longer(self) -> float:
        return self.after - self.before


@click.command(help="From the loss of a node to the next output, under active replication.")
@options.slices
@options.folder
@options.as_json
@click.option(
    "--replicas",
    type=click.IntRange(2, 5),
    multiple=True,
    default=(2, 3),
    show_default=True,
    help="Of every slice; repeatable.",
)
@click.option(
    "--spare",
    type=click.IntRange(0, 8),
    multiple=True,
    default=(0, 1),
    show_default=True,
    help="Nodes beyond the replicas of a slice; repeatable.",
)
@click.option(
    "--fault",
    "faults",
    type=click.Choice(list(SIGNALS)),
    multiple=True,
    default=tuple(SIGNALS),
    show_default=True,
)
@click.option("--keys", type=click.IntRange(1), default=20_000, show_default=True, help="Plugs.")
@click.option(
    "--rate", type=click.IntRange(10), default=20_000, show_default=True, help="Events/s."
)
@click.option(
    "--runs", type=click.IntRange(1), default=3, show_default=True, help="Of each victim."
)
@click.option(
    "--receivers",
    is_flag=True,
    help="The input comes from two receivers of one feed that got different rows; replicas agree on "
    "whose count.",
)
def failover(
    slices: int,
    folder: Path,
    as_json: bool,
    replicas: tuple[int, ...],
    spare: tuple[int, ...],
    faults: tuple[str, ...],
    keys: int,
    rate: int,
    runs: int,
    receivers: bool,
) -> None:
    lost: list[Lost] = []
    with tempfile.TemporaryDirectory(prefix="streammine-bench-") as scratch:
        # what receivers got that is chosen may be something else in each run
        digests = {
            fault: _undisturbed(Path(scratch), _job(fault, keys, rate, slices))
            for fault in faults
            if not receivers
        }
        for count in replicas:
            for nodes in (count + more for more in spare):
                for fault in faults:
                    held = replace(_job(fault, keys, rate, slices, count), receivers=receivers)
                    for victim in [*range(nodes)] * runs:
                        lost.append(_measured(Path(scratch), held, nodes, fault, victim))
    for each in lost:
        if each.digest != digests.get(each.fault, each.digest):
            raise click.ClickException(f"the digest is another where {_said(each)}")
    figures = {
        "name": "failover",
        "paced_events_per_second": rate,
        "receivers": 2 if receivers else 1,
        "epoch_seconds": EPOCH_SECONDS,
        "runs": [_figures(each) for each in lost],
        "victims": [_victim_figures(every) for every in _by_victim(lost)],
        "median_longer_seconds": round(median(each.longer for each in lost), 3),
        "most_longer_seconds": round(max(each.longer for each in lost), 3),
        "bar_seconds": BAR_SECONDS,
        "digests": digests,
    }
    tell_results(folder, figures, as_json, lambda figure: _draw(figure, lost), _print)


def _job(fault: str, keys: int, rate: int, slices: int, replicas: int = 1) -> HeldState:
    seconds = WARM_SECONDS + 2 * WATCHED_SECONDS[fault]
    return HeldState(
        keys,
        round(rate * seconds),
        round(rate * EPOCH_SECONDS),
        rate=rate,
        slices=slices,
        replicas=replicas,
        scheme=Scheme.ACTIVE_REPLICATION if replicas > 1 else Scheme.PASSIVE_REPLICATION,
    )


def _undisturbed(output: Path, held: HeldState) -> str:
    """The digest of the output where there is one replica of everything, and no fault."""
    with LiveCluster(2) as cluster:
        return cluster.finish(cluster.submit(held.topology(output)), LONGEST_RUN_SECONDS).digest()


def _measured(output: Path, held: HeldState, nodes: int, fault: str, victim: int) -> Lost:
    with LiveCluster(nodes) as cluster:
        job = cluster.submit(held.topology(output))
        began = cluster.began(job)
        first = began + WARM_SECONDS
        name = cluster.client.members[victim].name
        was = ", ".join(_roles(cluster, job, name)) or "leads nothing"
        wait_until(first + WATCHED_SECONDS[fault])
        process = cluster.local.processes[name].pid
        begun = time.time()
        os.kill(process, SIGNALS[fault])
        if fault == "frozen":
            wait_until(begun + FROZEN_SECONDS)
            os.kill(process, signal.SIGCONT)
        run = cluster.finish(job, LONGEST_RUN_SECONDS)
        _require_equal_replicas(output)
        times = [at for _, at in commit_times(output / PULSE)]
        assert held.replicas is not None
        return Lost(
            held.replicas,
            nodes,
            fault,
            victim + 1,
            was,
            longest_gap([at for at in times if at <= begun], first, begun),
            longest_gap(times, begun, min(begun + WATCHED_SECONDS[fault], max(times))),
            run.digest(),
            tuple(at - begun for at in times),
        )


def _require_equal_replicas(output: Path) -> None:
    """All replicas of a sink's slice have written the same rows of an epoch, lost or not."""
    written: dict[Path, pa.Table] = {}
    for path in sorted((output / "result").glob("part-*.parquet")):
        table = pq.read_table(path)
        known = written.setdefault(path.with_name(path.name.partition("-g")[0]), table)
        if not known.equals(table):
            raise click.ClickException(f"{path} has other rows than another replica has written")


def _roles(cluster: LiveCluster, job: LiveJob, name: str) -> Iterator[str]:
    """What a node does that others feel when it is lost."""
    if cluster.client.status(job.number)["manager"] == name:
        yield "manager"
    kinds = {vertex.name: vertex.kind for vertex in job.submission.spec.graph.vertices}
    led = [
        kinds[slice_name.rpartition("/")[0]]
        for slice_name, each in cluster.slices(job).items()
        if each["node"] == name
    ]
    counts = Counter[str](led)
    kinds_led = [f"{counts[kind]} {kind}" for kind in SHOWN_KINDS if counts[kind]]
    if kinds_led:
        yield f"leads {', '.join(kinds_led)}"


def _figures(lost: Lost) -> dict[str, Any]:
    return {
        "replicas": lost.replicas,
        "nodes": lost.nodes,
        "fault": lost.fault,
        "victim": lost.victim,
        "was": lost.was,
        "gap_before_seconds": round(lost.before, 3),
        "gap_after_seconds": round(lost.after, 3),
        "longer_seconds": round(lost.longer, 3),
    }


def _by_victim(lost: list[Lost]) -> list[list[Lost]]:
    """The runs in which the same node of the same set-up was lost by the same fault."""
    found: dict[tuple[int, int, str, int], list[Lost]] = {}
    for each in lost:
        found.setdefault((each.replicas, each.nodes, each.fault, each.victim), []).append(each)
    return list(found.values())


def _victim_figures(lost: list[Lost]) -> dict[str, Any]:
    first = lost[0]
    return {
        "replicas": first.replicas,
        "nodes": first.nodes,
        "fault": first.fault,
        "victim": first.victim,
        "was": list(dict.fromkeys(each.was for each in lost)),
        "runs": len(lost),
        "gap_before_seconds": round(median(each.before for each in lost), 3),
        "gap_after_seconds": round(median(each.after for each in lost), 3),
        "longer_seconds": round(median(each.longer for each in lost), 3),
        "most_longer_seconds": round(max(each.longer for each in lost), 3),
    }


def _said(lost: Lost) -> str:
    return f"{lost.victim} ({lost.was}) of {lost.nodes} nodes was {lost.fault}, {lost.replicas} replicas"


def _print(figures: dict[str, Any]) -> None:
    print(
        f"failover: {figures['paced_events_per_second']:,} events/s in epochs of "
        f"{figures['epoch_seconds'] * 1000:.0f} ms, each committed alone; medians of "
        f"{figures['victims'][0]['runs']}"
    )
    head = ("replicas", "nodes", "fault", "gap before", "after", "longer", "most", "victim", "was")
    rows = [
        (
            f"{each['replicas']}",
            f"{each['nodes']}",
            each["fault"],
            *(
                f"{each[name] * 1000:.0f} ms"
                for name in (
                    "gap_before_seconds",
                    "gap_after_seconds",
                    "longer_seconds",
                    "most_longer_seconds",
                )
            ),
            f"{each['victim']}",
            " / ".join(each["was"]),
        )
        for each in figures["victims"]
    ]
    print_table(head, rows)
    print(
        f"of all runs: median {figures['median_longer_seconds'] * 1000:.0f} ms longer, most "
        f"{figures['most_longer_seconds'] * 1000:.0f} ms; bar: {BAR_SECONDS * 1000:.0f} ms; "
        + ("replicas wrote the same" if figures["receivers"] > 1 else "digests unchanged")
    )


def _draw(figure: Any, lost: list[Lost]) -> None:
    axes = figure.subplots()
    for each in lost:
        around = [at for at in each.commits if abs(at) < SHOWN_SECONDS]
        gaps = [(late, (late - early) * 1000) for early, late in pairwise(around)]
        axes.plot(*zip(*gaps, strict=True), linewidth=0.8)
    axes.axvline(0.0, color="black", linestyle=":")
    axes.set_xlabel("seconds after the fault")
    axes.set_ylabel("ms since the commit before")
    axes.set_title("time between commits around the loss of a node")
