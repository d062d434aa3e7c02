"""What spikes of load do to a job that has replicas on the nodes on which it runs (Martin 2015, Figure 5).

The readings of a file come at a pace that leaves the nodes some time, and every 20 s for 2 s so fast that
they have enough for what leads, but not for the replicas behind it. Measured is, with and without these, how
many events are in the epochs that are committed in every second, how late these are, what waits at the
others, and how many of them have stepped down, which they do when a spike is longer than a node may be
crowded for. How fast the pace is follows from what the nodes can do without one, and without replicas.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Any

import click

from benchmarks import options
from benchmarks.gaps import delay
from benchmarks.held_state import HELD, PULSE, Form, HeldState, ReadingsFile
from benchmarks.inputs import PLUGS, uneven_readings_file
from benchmarks.intervals import median_interval, rounded
from benchmarks.live_cluster import LiveCluster, LiveJob, commit_times
from benchmarks.load_spikes import (
    EVERY_SECONDS,
    SPIKE_SECONDS,
    Backlog,
    LoadShape,
    backlog,
    changes,
    counted_between,
    most_between,
)
from benchmarks.pictures import tell_results
from benchmarks.report import one_digest, print_table
from streammine.engine.crowding import CROWDED_SECONDS
from streammine.model.schemes import Scheme

BAR = 0.97

EPOCH_SECONDS = 0.1
SPEED = round(1 / EPOCH_SECONDS)
PROBE_SECONDS = 4.0
"""About so long it is measured what the nodes can do."""

WARM_SECONDS = 2.0
"""From the begin of the load: what waits then is not usual yet."""

PROBE_EVENTS = 1_000_000
LONGEST_RUN_SECONDS = 300.0
WITHOUT, WITH = "without", "with"


@dataclass
class Spiked:
    """A run, in seconds since the pace began: how many events were in all epochs committed by then; bytes
    that waited at replicas behind others, and how many of these had stepped down; how late commits were, by
    when their epochs were due."""

    taken: list[tuple[float, float]] = field(default_factory=lambda: [(0.0, 0.0)])
    waiting: list[tuple[float, float]] = field(default_factory=list)
    paused: list[tuple[float, float]] = field(default_factory=list)
    delays: list[tuple[float, float]] = field(default_factory=list)
    seconds: float = 0.0
    digest: str = ""

    def in_spikes(self, shape: LoadShape) -> float:
        """Events that were taken while there were more than usual."""
        return sum(counted_between(self.taken, begin, end) for begin, end in shape.spans)

    def backlogs(self, shape: LoadShape, usual: float) -> list[Backlog | None]:
        """What each spike left, where `usual` bytes wait anyway."""
        return [
            backlog(self.waiting, begin, end, begin + EVERY_SECONDS, usual)
            for begin, end in shape.spans
        ]

    def each_second(self, shape: LoadShape) -> list[int]:
        """Events that were taken in it."""
        return [
            round(counted_between(self.taken, at, at + 1.0)) for at in range(int(shape.seconds))
        ]

    def usual_delay(self, shape: LoadShape) -> float:
        """The median of the epochs before the first spike, but for the first second's."""
        return median(late for due, late in self.delays if 1.0 < due <= shape.begins[0])

    def worst_delay(self, shape: LoadShape) -> float:
        """Of the epochs of spikes."""
        return max(
            late
            for due, late in self.delays
            if any(begin < due <= end for begin, end in shape.spans)
        )


@click.command(help="Spikes of load on nodes with and without replicas that stand behind others.")
@options.nodes
@options.slices
@options.folder
@options.as_json
@click.option("--pairs", type=click.IntRange(1), default=20, show_default=True)
@click.option("--spikes", type=click.IntRange(1), default=2, show_default=True, help="Of a run.")
@click.option(
    "--spike-seconds",
    type=click.FloatRange(EPOCH_SECONDS, EVERY_SECONDS, max_open=True),
    default=SPIKE_SECONDS,
    show_default=True,
    help=f"How long a spike is, of {EVERY_SECONDS:g} s; beyond {CROWDED_SECONDS:g} s replicas may step down.",
)
@click.option(
    "--base",
    type=click.FloatRange(0.0, min_open=True),
    default=0.25,
    show_default=True,
    help="Pace between spikes, as a share of what the nodes can do without replicas.",
)
@click.option(
    "--spike",
    type=click.FloatRange(0.0, min_open=True),
    default=0.75,
    show_default=True,
    help="Pace in spikes, likewise.",
)
@click.option(
    "--capacity",
    type=click.IntRange(1000),
    help="What they can do, in events/s; default: measured.",
)
@click.option(
    "--scheme",
    type=click.Choice([each.value for each in Scheme if each.processes]),
    default=Scheme.ACTIVE_REPLICATION.value,
    show_default=True,
)
@click.option(
    "--form", type=click.Choice(["columns", "objects"]), default="columns", show_default=True
)
def spikes(
    nodes: int,
    slices: int,
    folder: Path,
    as_json: bool,
    pairs: int,
    spikes: int,
    spike_seconds: float,
    base: float,
    spike: float,
    capacity: int | None,
    scheme: str,
    form: Form,
) -> None:
    runs: dict[str, list[Spiked]] = {WITHOUT: [], WITH: []}
    with (
        tempfile.TemporaryDirectory(prefix="streammine-bench-") as scratch,
        LiveCluster(nodes) as cluster,
    ):
        job = _Job(Path(scratch), cluster, form, slices, Scheme(scheme))
        capacity = capacity or job.capacity()
        shape = LoadShape(round(base * capacity), round(spike * capacity), spikes, spike_seconds)
        job.paced(shape)
        for number in range(pairs):
            for kind in (WITHOUT, WITH) if number % 2 == 0 else (WITH, WITHOUT):
                runs[kind].append(job.spiked(replicated=kind == WITH))
    digest = one_digest(each.digest for every in runs.values() for each in every)
    figures = {
        "name": "spikes",
        "nodes": nodes,
        "scheme": scheme,
        "form": form,
        "capacity_events_per_second": capacity,
        "base_events_per_second": shape.base,
        "spike_events_per_second": shape.spike,
        "spike_seconds": spike_seconds,
        "crowded_seconds": CROWDED_SECONDS,
        "pairs": pairs,
        **_figures(runs, shape),
        "bar": BAR,
        "digest": digest,
    }
    tell_results(folder, figures, as_json, lambda figure: _draw(figure, runs, shape), _print)


class _Job:
    """The job on a cluster, which stays up for all runs."""

    def __init__(
        self, scratch: Path, cluster: LiveCluster, form: Form, slices: int, scheme: Scheme
    ) -> None:
        self._scratch = scratch
        self._cluster = cluster
        self._form: Form = form
        self._slices = slices
        self._scheme = scheme

    def capacity(self) -> int:
        """Events/s, without replicas and as fast as it goes; a first run warms up, and says how many events
        take some seconds."""
        events = PROBE_EVENTS
        for _ in range(2):
            counts = [PROBE_EVENTS // 20] * (events * 20 // PROBE_EVENTS)
            path = uneven_readings_file(self._scratch / f"probe-{events}.parquet", counts)
            held = self._held(ReadingsFile(path, len(counts)), events)
            job = self._cluster.submit(held.topology(self._scratch))
            seconds = self._cluster.finish(job, LONGEST_RUN_SECONDS).seconds
            speed = events / seconds
            events = max(PROBE_EVENTS, round(speed * PROBE_SECONDS))
        return round(speed)

    def paced(self, shape: LoadShape) -> None:
        """What comes from now on."""
        counts = shape.counts(EPOCH_SECONDS)
        path = uneven_readings_file(self._scratch / "spikes.parquet", counts)
        self._file = ReadingsFile(path, len(counts), SPEED)
        self._shape = shape

    def spiked(self, replicated: bool) -> Spiked:
        replicas = {"replicas": 2, "scheme": self._scheme} if replicated else {}
        held = self._held(self._file, sum(self._shape.counts(EPOCH_SECONDS)), **replicas)
        cluster, spiked = self._cluster, Spiked()
        job = cluster.submit(held.topology(self._scratch))
        began = cluster.began(job)
        run = cluster.finish(job, LONGEST_RUN_SECONDS, lambda: _look(cluster, job, began, spiked))
        spiked.seconds, spiked.digest = run.seconds, run.digest()
        ends = list(accumulate(self._shape.counts(EPOCH_SECONDS)))
        for epoch, at in commit_times(self._scratch / PULSE):
            late = delay(epoch, at, began, EPOCH_SECONDS)
            spiked.delays.append((at - began - late, late))
            if epoch < len(ends):
                spiked.taken.append((at - began, ends[epoch]))
        return spiked

    def _held(self, file: ReadingsFile, events: int, **fields: Any) -> HeldState:
        return HeldState(
            PLUGS, events, events, self._form, slices=self._slices, file=file, **fields
        )


def _look(cluster: LiveCluster, job: LiveJob, began: float, spiked: Spiked) -> None:
    """Note what waits at the slices that hold state, at the time of the newest heartbeat."""
    status = cluster.client.status(job.number)
    told = status["jobs"].get(str(job.number))
    if told is None:
        return
    waiting = paused = 0.0
    for name, each in told["slices"].items():
        if name.partition("/")[0] != HELD:
            continue
        for replica in each["replicas"]:
            counters = replica["counters"]
            if not replica["leads"]:
                waiting += counters.get("bytes_waiting", 0.0)
                paused += not Scheme(replica["rung"]).processes
    at = max(node["load"]["clock"] for node in status["nodes"].values()) - began
    spiked.waiting.append((at, waiting))
    spiked.paused.append((at, paused))


def _figures(runs: dict[str, list[Spiked]], shape: LoadShape) -> dict[str, Any]:
    pairs = list(zip(runs[WITHOUT], runs[WITH], strict=True))
    ratios = [second.in_spikes(shape) / first.in_spikes(shape) for first, second in pairs]
    usual = _usual_waiting(runs[WITH], shape)
    backlogs = [each for run in runs[WITH] for each in run.backlogs(shape, usual)]
    return {
        "spike_ratio": rounded(median_interval(ratios)),
        "seconds_ratio": rounded(
            median_interval([first.seconds / second.seconds for first, second in pairs])
        ),
        "spike_delay_seconds": {
            kind: round(median(each.worst_delay(shape) for each in every), 3)
            for kind, every in runs.items()
        },
        "usual_delay_seconds": {
            kind: round(median(each.usual_delay(shape) for each in every), 3)
            for kind, every in runs.items()
        },
        "most_waiting_bytes": round(max(level for run in runs[WITH] for _, level in run.waiting)),
        "usual_waiting_bytes": round(usual),
        "spikes": len(backlogs),
        **_backlog_figures(backlogs),
        "paused_replicas": round(max(level for run in runs[WITH] for _, level in run.paused)),
        "each_spike": [
            _spike_figures(runs[WITH], shape, usual, number) for number in range(shape.spikes)
        ],
        "runs": {
            kind: [_told(each, shape, usual) for each in every] for kind, every in runs.items()
        },
    }


def _usual_waiting(runs: list[Spiked], shape: LoadShape) -> float:
    """The most that waited before the first spike, in any run: looks are few, and load comes in epochs."""
    return max(most_between(run.waiting, WARM_SECONDS, shape.begins[0]) for run in runs)


def _spike_figures(
    runs: list[Spiked], shape: LoadShape, usual: float, number: int
) -> dict[str, Any]:
    """A spike of all runs with replicas, up to the next: what waited and who had stepped down at most."""
    begin, end = shape.begins[number], shape.begins[number] + EVERY_SECONDS
    backlogs = [run.backlogs(shape, usual)[number] for run in runs]
    return {
        "at_seconds": begin,
        "most_waiting_bytes": round(max(most_between(run.waiting, begin, end) for run in runs)),
        **_backlog_figures(backlogs),
        "paused_replicas": round(max(most_between(run.paused, begin, end) for run in runs)),
    }


def _backlog_figures(backlogs: Sequence[Backlog | None]) -> dict[str, Any]:
    """Of some spikes: how many filled a queue, and how many of these queues were drained, after how long."""
    filled = [each.drained_after_seconds for each in backlogs if each is not None]
    known = [each for each in filled if each is not None]
    return {
        "filled": len(filled),
        "drained": len(known),
        "drained_after_seconds": round(max(known), 2) if known else None,
        "median_drained_after_seconds": round(median(known), 2) if known else None,
    }


def _told(run: Spiked, shape: LoadShape, usual: float) -> dict[str, Any]:
    return {
        "seconds": round(run.seconds, 3),
        "events_in_spikes": round(run.in_spikes(shape)),
        "events_each_second": run.each_second(shape),
        "spike_delay_seconds": round(run.worst_delay(shape), 3),
        "backlogs": [_told_backlog(each) for each in run.backlogs(shape, usual)],
        "waiting_bytes": [(round(at, 2), round(level)) for at, level in run.waiting],
        "paused_replicas": [(round(at, 2), round(level)) for at, level in changes(run.paused)],
    }


def _told_backlog(found: Backlog | None) -> dict[str, Any] | None:
    """As JSON; null where a spike filled no queue."""
    if found is None:
        return None
    seconds = found.drained_after_seconds
    return {"drained_after_seconds": None if seconds is None else round(seconds, 2)}


def _print(figures: dict[str, Any]) -> None:
    print(
        f"spikes: {figures['base_events_per_second']:,} events/s, and "
        f"{figures['spike_events_per_second']:,} for {figures['spike_seconds']:g} s in every "
        f"{EVERY_SECONDS:g}; the {figures['nodes']} nodes can do "
        f"{figures['capacity_events_per_second']:,} without replicas; {figures['pairs']} pairs, "
        f"{figures['scheme']}"
    )
    rows = [
        (
            kind,
            f"{median(run['events_in_spikes'] for run in every):,.0f}",
            f"{figures['usual_delay_seconds'][kind] * 1000:.0f} ms",
            f"{figures['spike_delay_seconds'][kind] * 1000:.0f} ms",
            f"{median(run['seconds'] for run in every):.2f} s",
        )
        for kind, every in figures["runs"].items()
    ]
    print_table(
        ("replicas", "events done in spikes", "usual delay", "longest in spikes", "seconds"), rows
    )
    ratio, seconds = figures["spike_ratio"], figures["seconds_ratio"]
    print(
        f"events done in spikes: {ratio['median']:.3f} ({ratio['low']:.3f} - {ratio['high']:.3f}) of "
        f"those without the others; speed of whole runs {seconds['median']:.3f} "
        f"({seconds['low']:.3f} - {seconds['high']:.3f}); bar: {BAR:.2f}"
    )
    spikes = [
        (
            f"{each['at_seconds']:g} s",
            f"{each['most_waiting_bytes'] / 1e6:.1f} MB",
            f"{each['filled']} of {figures['pairs']}",
            f"{each['drained']} of {each['filled']}",
            *(
                "-" if each[key] is None else f"{each[key]:.1f} s"
                for key in ("median_drained_after_seconds", "drained_after_seconds")
            ),
            str(each["paused_replicas"]),
        )
        for each in figures["each_spike"]
    ]
    print_table(
        (
            "spike at",
            "most that waited",
            "filled a queue",
            "drained",
            "after its end",
            "at most",
            "stepped down",
        ),
        spikes,
    )
    print(
        "filled: with more than twice of what waits without a spike "
        f"({figures['usual_waiting_bytes'] / 1e6:.1f} MB at most); "
        "drained: to a twentieth, or so much, and no more until the next"
    )
    print(_stepped_down(figures))


def _stepped_down(figures: dict[str, Any]) -> str:
    """How many had at what time, in the last run in which any had."""
    if figures["paused_replicas"] == 0:
        crowded, length = figures["crowded_seconds"], figures["spike_seconds"]
        if length > crowded:
            return (
                f"NOBODY stepped down, though a spike has {length:g} s and a node counts as crowded when "
                f"replicas behind others have waited for {crowded:g} s"
            )
        return f"nobody stepped down, as nobody does in spikes of no more than {crowded:g} s"
    told = [each["paused_replicas"] for each in figures["runs"][WITH]]
    last = next(each for each in reversed(told) if any(level for _, level in each))
    steps = ", ".join(f"{level} from {at:.1f} s" for at, level in last)
    return f"stepped down, in the last run in which any had: {steps}"


def _shown(runs: dict[str, list[Spiked]]) -> int:
    """The pair that is drawn: the last in which anybody stepped down, or the last."""
    paused = [n for n, run in enumerate(runs[WITH]) if any(level for _, level in run.paused)]
    return paused[-1] if paused else -1


def _draw(figure: Any, runs: dict[str, list[Spiked]], shape: LoadShape) -> None:
    figure.set_size_inches(9, 7)
    upper, middle, lower = figure.subplots(3, sharex=True, height_ratios=(3, 3, 1))
    shown = _shown(runs)
    for kind, every in runs.items():
        speeds = [each / 1e6 for each in every[shown].each_second(shape)]
        upper.step(range(len(speeds)), speeds, where="post", label=f"{kind} replicas")
    upper.set_ylabel("million events/s committed")
    upper.set_title("the leading replicas, and what waits at those that stand behind them")
    upper.legend()
    behind = runs[WITH][shown]
    middle.plot(*zip(*((at, level / 1e6) for at, level in behind.waiting), strict=True))
    middle.set_ylabel("MB that wait")
    lower.step(*zip(*behind.paused, strict=True), where="post")
    lower.set_ylabel("stepped down")
    lower.set_ylim(0, 1.1 * max(1.0, *(level for _, level in behind.paused)))
    lower.set_xlabel("seconds")
    for axes in (upper, middle, lower):
        for begin, end in shape.spans:
            axes.axvspan(begin, end, color="grey", alpha=0.2)
