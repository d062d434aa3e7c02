"""What snapshots cost: no, asynchronous and synchronous ones at several intervals (Figure 6 of Carbone et
al. 2015, "Lightweight Asynchronous Snapshots for Distributed Dataflows").

Speed: runs at full speed come in pairs, one with snapshots and one without, in alternating order, and the
median of the pairs' ratios is given with its interval. Stalls: paced runs commit a row for every epoch, as
soon as every slice that holds state is through with it, so the longest time between two commits, once all
plugs are known, shows the longest time that processing stood still. The undisturbed run's longest time is
subtracted. Commit times tick every few milliseconds. Output lies in memory where there is such a folder: on
the disk that takes the snapshots a commit may wait for their data, which is no stall of processing.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import click

from benchmarks import options
from benchmarks.gaps import behind, longest_gap
from benchmarks.held_state import HELD, PULSE, Form, HeldState, Mode
from benchmarks.intervals import median_interval
from benchmarks.live_cluster import LiveCluster, SnapshotWatch, commit_times
from benchmarks.pictures import tell_results
from benchmarks.report import one_digest, print_table

INTERVALS_SECONDS = (0.1, 0.5, 1.0, 3.0)
MODES: tuple[Mode, ...] = ("asynchronous", "synchronous")
BARRED: tuple[Mode, float] = ("asynchronous", 1.0)
"""What the bar is about; it is measured most often."""

EVENTS = {"columns": 42_000_000, "objects": 10_500_000}
EPOCH_EVENTS = {"columns": 350_000, "objects": 35_000}
RATES = {"columns": 200_000, "objects": 100_000}
PACED_EPOCH_SECONDS = 0.1
PACED_SECONDS = 5
"""How long a paced run goes on once all plugs are known."""

MEMORY = Path("/dev/shm")
LONGEST_RUN_SECONDS = 300.0


@dataclass
class Cell:
    """What was measured of a mode and an interval; lists by pair or paced run."""

    mode: Mode
    interval_seconds: float
    ratios: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    nbytes: list[int] = field(default_factory=list)
    checkpoints: list[int] = field(default_factory=list)


@click.command(help="Throughput and stalls without, with asynchronous, with synchronous snapshots.")
@options.nodes
@options.slices
@options.events
@options.folder
@options.as_json
@click.option("--keys", type=click.IntRange(1), default=700_000, show_default=True, help="Plugs.")
@click.option(
    "--form",
    type=click.Choice(["columns", "objects"]),
    default="columns",
    show_default=True,
    help="State of an aggregate, or Python objects of a user's operator.",
)
@click.option(
    "--pairs",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Of asynchronous snapshots every second; 20 for a figure that counts.",
)
@click.option(
    "--other-pairs",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Of each other mode and interval.",
)
@click.option(
    "--paced-runs",
    type=click.IntRange(0),
    default=2,
    show_default=True,
    help="For stalls, of asynchronous snapshots every second and of none; one of each other.",
)
@click.option("--rate", type=click.IntRange(1), help="Events/s of paced runs.")
def snapshots(
    nodes: int,
    slices: int,
    events: int | None,
    folder: Path,
    as_json: bool,
    keys: int,
    form: Form,
    pairs: int,
    other_pairs: int,
    paced_runs: int,
    rate: int | None,
) -> None:
    base = HeldState(
        keys, events or EVENTS[form], EPOCH_EVENTS[form], form, mode="none", slices=slices
    )
    cells = [Cell(*each) for each in product(MODES, INTERVALS_SECONDS)]
    barred = next(cell for cell in cells if (cell.mode, cell.interval_seconds) == BARRED)
    quick = replace(base, rate=rate or RATES[form])
    paced = replace(
        quick,
        events=keys + PACED_SECONDS * (quick.rate or 0),
        epoch_events=round((quick.rate or 0) * PACED_EPOCH_SECONDS),
    )
    with (
        tempfile.TemporaryDirectory(prefix="streammine-bench-", dir=_folder_in_memory()) as scratch,
        LiveCluster(nodes) as cluster,
    ):
        bench = _Bench(cluster, Path(scratch))
        bench.seconds(base)
        for cell in cells:
            for number in range(pairs if cell is barred else other_pairs):
                bench.pair(base, cell, undisturbed_first=number % 2 == 0)
        undisturbed = [bench.gap(paced) for _ in range(paced_runs)]
        for cell in cells:
            for _ in range(paced_runs if cell is barred else min(paced_runs, 1)):
                cell.gaps.append(bench.gap(_with_snapshots(paced, cell)))
    figures = {
        "name": f"snapshots-{form}",
        "nodes": nodes,
        "events": base.events,
        "keys": keys,
        "state_bytes": bench.state_bytes,
        "none_seconds": round(median(bench.undisturbed), 4),
        "none_events_per_second": round(base.events / median(bench.undisturbed)),
        "paced_events_per_second": paced.rate,
        "paced_behind_milliseconds": round(bench.behind * 1000, 1),
        "none_longest_gap_milliseconds": _milliseconds(undisturbed),
        "cells": [_figures(cell, undisturbed) for cell in cells],
        "digest": bench.digest(),
    }
    tell_results(folder, figures, as_json, lambda figure: _draw(figure, figures), _print)


class _Bench:
    """Runs jobs and keeps what is common to them."""

    def __init__(self, cluster: LiveCluster, output: Path) -> None:
        self.undisturbed: list[float] = []
        self.behind = 0.0
        self.state_bytes = 0
        self._cluster = cluster
        self._output = output
        self._digests: set[str] = set()

    def digest(self) -> str:
        """Raises ClickException where runs at full speed differ in their output."""
        return one_digest(self._digests)

    def seconds(self, what: HeldState, cell: Cell | None = None) -> float:
        """Seconds of a run at full speed."""
        job = self._cluster.submit(what.topology(self._output))
        with SnapshotWatch(job.store) as watch:
            run = self._cluster.finish(job, LONGEST_RUN_SECONDS)
        if cell is not None:
            cell.nbytes.append(watch.nbytes)
            cell.checkpoints.append(watch.checkpoints)
        self._digests.add(run.digest())
        return run.seconds

    def pair(self, base: HeldState, cell: Cell, *, undisturbed_first: bool) -> None:
        disturbed = _with_snapshots(base, cell)
        if undisturbed_first:
            without, with_snapshots = self.seconds(base), self.seconds(disturbed, cell)
        else:
            with_snapshots, without = self.seconds(disturbed, cell), self.seconds(base)
        self.undisturbed.append(without)
        cell.ratios.append(without / with_snapshots)

    def gap(self, paced: HeldState) -> float:
        """The longest time between two commits of a paced run, once all plugs are known and until the
        last epoch."""
        assert paced.rate is not None
        job = self._cluster.submit(paced.topology(self._output))
        began = self._cluster.began(job)

        def look() -> None:
            held = self._cluster.state_bytes(job, HELD)
            self.state_bytes = max(self.state_bytes, held)

        self._cluster.finish(job, LONGEST_RUN_SECONDS, look)
        commits = commit_times(self._output / PULSE)
        filled, over = (began + each / paced.rate for each in (paced.plugs, paced.events))
        self.behind = max(self.behind, behind(commits, began, paced.epoch_seconds, over))
        # with the last epoch the window is over, and the results of all plugs are made
        *before, _ = sorted(at for _, at in commits)
        return longest_gap(before, filled, over)


def _folder_in_memory() -> str | None:
    """None: there is none, and temporary folders lie where they always do."""
    return str(MEMORY) if os.access(MEMORY, os.W_OK) else None


def _with_snapshots(base: HeldState, cell: Cell) -> HeldState:
    return replace(base, mode=cell.mode, interval_seconds=cell.interval_seconds)


def _milliseconds(seconds: list[float]) -> float | None:
    return round(median(seconds) * 1000, 1) if seconds else None


def _figures(cell: Cell, undisturbed: list[float]) -> dict[str, Any]:
    stall = None
    if cell.gaps and undisturbed:
        stall = round((median(cell.gaps) - median(undisturbed)) * 1000, 1)
    return {
        "mode": cell.mode,
        "interval_seconds": cell.interval_seconds,
        "pairs": len(cell.ratios),
        "ratio": (
            {name: round(value, 4) for name, value in asdict(median_interval(cell.ratios)).items()}
            if cell.ratios
            else None
        ),
        "longest_gap_milliseconds": _milliseconds(cell.gaps),
        "longest_stall_milliseconds": stall,
        "written_bytes": round(median(cell.nbytes)) if cell.nbytes else None,
        "checkpoints": median(cell.checkpoints) if cell.checkpoints else None,
        "ratios": [round(each, 4) for each in cell.ratios],
    }


def _print(figures: dict[str, Any]) -> None:
    print(
        f"{figures['name']}: {figures['events']:,} events, {figures['keys']:,} keys, "
        f"{figures['state_bytes'] / 1e6:.0f} MB of state, {figures['nodes']} nodes; "
        f"none: {figures['none_events_per_second'] / 1e6:.2f} M events/s"
    )
    head = ("mode", "interval", "of none", "95 % interval", "pairs", "stall", "written", "complete")
    rows = []
    for cell in figures["cells"]:
        ratio, stall = cell["ratio"], cell["longest_stall_milliseconds"]
        rows.append(
            (
                cell["mode"],
                f"{cell['interval_seconds']:g} s",
                "-" if ratio is None else f"{ratio['median']:.3f}",
                "-" if ratio is None else f"{ratio['low']:.3f} - {ratio['high']:.3f}",
                f"{cell['pairs']}",
                "-" if stall is None else f"{stall:.0f} ms",
                "-" if ratio is None else f"{cell['written_bytes'] / 1e6:.0f} MB",
                "-" if ratio is None else f"{cell['checkpoints']:g}",
            )
        )
    print_table(head, rows)
    print(
        "stall: longest time between two epochs' commits, beyond the undisturbed "
        f"{figures['none_longest_gap_milliseconds']} ms, "
        f"at {figures['paced_events_per_second']:,} events/s; at most "
        f"{figures['paced_behind_milliseconds']} ms late in the end"
    )


def _draw(figure: Any, figures: dict[str, Any]) -> None:
    speed, stalls = figure.subplots(1, 2)
    for mode in MODES:
        cells = [cell for cell in figures["cells"] if cell["mode"] == mode]
        measured = [cell for cell in cells if cell["ratio"] is not None]
        medians = [cell["ratio"]["median"] for cell in measured]
        errors = [
            [cell["ratio"]["median"] - cell["ratio"]["low"] for cell in measured],
            [cell["ratio"]["high"] - cell["ratio"]["median"] for cell in measured],
        ]
        intervals = [cell["interval_seconds"] for cell in measured]
        speed.errorbar(intervals, medians, yerr=errors, marker="o", capsize=3, label=mode)
        stalled = [cell for cell in cells if cell["longest_stall_milliseconds"] is not None]
        stalls.plot(
            [cell["interval_seconds"] for cell in stalled],
            [cell["longest_stall_milliseconds"] for cell in stalled],
            marker="o",
            label=mode,
        )
    speed.axhline(1.0, color="grey", linestyle=":", label="none")
    speed.set_ylabel("events/s as a share of none")
    stalls.set_ylabel("longest stall, ms")
    for axes in (speed, stalls):
        axes.set_xscale("log")
        axes.set_xticks(INTERVALS_SECONDS, [f"{each:g}" for each in INTERVALS_SECONDS])
        axes.set_xlabel("seconds between checkpoints")
        axes.legend()
    figure.suptitle(f"{figures['name']}: {figures['keys']:,} keys, {figures['nodes']} nodes")
