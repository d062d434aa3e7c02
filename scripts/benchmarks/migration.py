"""How long output pauses while a slice moves to another node: live, and by stop and copy.

A paced job commits a row for every epoch, as soon as every slice that holds state is through with it. One of
two slices is moved in the middle. The longest time between two commits from the wish until the slice runs on
its new node alone (and for a second after) is compared with the longest one in the same run before, once all
plugs were known.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click

from benchmarks import options
from benchmarks.gaps import behind, longest_gap
from benchmarks.held_state import HELD, PULSE, Form, HeldState
from benchmarks.live_cluster import LiveCluster, LiveJob, commit_times, wait_until
from benchmarks.pictures import tell_results
from benchmarks.report import one_digest, print_table
from streammine.model.errors import ClusterError

BAR = 1.5
MODES = ("live", "state-transfer")
BYTES_PER_PLUG = 100
"""About what an aggregate's slice holds for a plug; what it holds in fact is printed."""

MOST_RATE = 200_000
"""Events/s, as in the other benchmarks of fault tolerance: two nodes must keep pace with room to spare."""

MEGABYTES = (10, 100, 500)
EPOCH_SECONDS = 0.2
STEADY_SECONDS = 6.0
AFTER_SECONDS = 20.0
SETTLE_SECONDS = 1.0
MOVE_SECONDS = 60.0
ASK_SECONDS = 10.0
LOOK_SECONDS = 0.05
LONGEST_RUN_SECONDS = 200.0


@dataclass(frozen=True)
class Moved:
    """What was seen of a move; gaps in seconds, `commits` relative to its beginning.

    `behind`: how late the last commit before it was.
    """

    mode: str
    state_bytes: int
    undisturbed: float
    disturbed: float
    behind: float
    seconds: float
    commits: tuple[float, ...]
    digest: str

    @property
    def ratio(self) -> float:
        return self.disturbed / self.undisturbed


@click.command(help="The longest pause of output while a slice moves, live and by stop and copy.")
@options.folder
@options.as_json
@click.option(
    "--megabytes",
    type=click.IntRange(1),
    multiple=True,
    default=MEGABYTES,
    show_default=True,
    help="State of both slices together, about.",
)
@click.option(
    "--mode", "modes", type=click.Choice(MODES), multiple=True, help="Default: both, in turn."
)
@click.option(
    "--form", type=click.Choice(["columns", "objects"]), default="columns", show_default=True
)
@click.option(
    "--runs",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="Of each size and mode; the median counts.",
)
@click.option(
    "--fill-seconds",
    type=click.IntRange(1),
    default=8,
    show_default=True,
    help="Until all plugs are known, or longer where there are many; the pace follows from it.",
)
def migration(
    folder: Path,
    as_json: bool,
    megabytes: tuple[int, ...],
    modes: tuple[str, ...],
    form: Form,
    runs: int,
    fill_seconds: int,
) -> None:
    found: list[tuple[int, Moved]] = []
    with tempfile.TemporaryDirectory(prefix="streammine-bench-") as scratch:
        for size in megabytes:
            for mode in (modes or MODES) * runs:
                # a new cluster each time: processes that held much don't give it all back
                with LiveCluster(2) as cluster:
                    held = _held(size, form, fill_seconds)
                    found.append((size, _measured(cluster, Path(scratch), held, mode)))
            one_digest((each.digest for moved, each in found if moved == size), f"{size} MB")
    figures = {
        "name": "migration",
        "nodes": 2,
        "form": form,
        "epoch_seconds": EPOCH_SECONDS,
        "bar": BAR,
        "moves": [_figures(size, each) for size, each in found],
        "median_ratios": _median_ratios(found),
    }
    tell_results(folder, figures, as_json, lambda figure: _draw(figure, found), _print)


def _held(size: int, form: Form, fill_seconds: int) -> HeldState:
    plugs = size * 1_000_000 // BYTES_PER_PLUG
    rate = max(1, min(plugs // fill_seconds, MOST_RATE))
    return HeldState(
        plugs,
        round(plugs + rate * (STEADY_SECONDS + AFTER_SECONDS)),
        max(1, round(rate * EPOCH_SECONDS)),
        form,
        rate=rate,
    )


def _measured(cluster: LiveCluster, output: Path, held: HeldState, mode: str) -> Moved:
    job = cluster.submit(held.topology(output))
    began = cluster.began(job)
    assert held.rate is not None
    filled = began + held.plugs / held.rate
    wait_until(filled + STEADY_SECONDS)
    state_bytes = cluster.state_bytes(job, HELD)
    asked = _move(cluster, job, mode)
    moved = time.time()
    run = cluster.finish(job, LONGEST_RUN_SECONDS)
    commits = commit_times(output / PULSE)
    times = [at for _, at in commits]
    return Moved(
        mode,
        state_bytes,
        longest_gap([at for at in times if at <= asked], filled, asked),
        longest_gap(times, asked, moved + SETTLE_SECONDS),
        behind(commits, began, held.epoch_seconds, asked),
        moved - asked,
        tuple(at - asked for at in times),
        run.digest(),
    )


def _move(cluster: LiveCluster, job: LiveJob, mode: str) -> float:
    """Move the second slice to the other node; the system time when that was asked for.

    A move that can't begin before the next checkpoint is asked for again. Raises ClusterError.
    """
    slice_name = f"{HELD}/1"
    (here,) = cluster.client.nodes_of(job.number)[slice_name]
    there = next(name for name in cluster.local.processes if name != here)
    deadline = time.monotonic() + ASK_SECONDS
    while True:
        asked = time.time()
        try:
            cluster.client.move(job.number, slice_name, there, mode, MOVE_SECONDS)
        except ClusterError as error:
            if "before the next checkpoint" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(LOOK_SECONDS)
        else:
            return asked


def _figures(size: int, moved: Moved) -> dict[str, Any]:
    return {
        "megabytes": size,
        "mode": moved.mode,
        "state_bytes": moved.state_bytes,
        "undisturbed_milliseconds": round(moved.undisturbed * 1000, 1),
        "moving_milliseconds": round(moved.disturbed * 1000, 1),
        "ratio": round(moved.ratio, 3),
        "behind_milliseconds": round(moved.behind * 1000, 1),
        "move_seconds": round(moved.seconds, 3),
        "digest": moved.digest,
    }


def _median_ratios(found: list[tuple[int, Moved]]) -> list[dict[str, Any]]:
    ratios: dict[tuple[int, str], list[float]] = {}
    for size, moved in found:
        ratios.setdefault((size, moved.mode), []).append(moved.ratio)
    return [
        {"megabytes": size, "mode": mode, "ratio": round(median(values), 3)}
        for (size, mode), values in ratios.items()
    ]


def _print(figures: dict[str, Any]) -> None:
    print(
        f"migration of one of 2 slices, state in {figures['form']}, epochs of {EPOCH_SECONDS:g} s"
    )
    head = ("mode", "state", "undisturbed gap", "gap while moving", "ratio", "behind", "move took")
    rows = [
        (
            each["mode"],
            f"{each['state_bytes'] / 1e6:.0f} MB",
            f"{each['undisturbed_milliseconds']:.0f} ms",
            f"{each['moving_milliseconds']:.0f} ms",
            f"{each['ratio']:.2f}",
            f"{each['behind_milliseconds']:.0f} ms",
            f"{each['move_seconds']:.2f} s",
        )
        for each in figures["moves"]
    ]
    print_table(head, rows)
    for each in figures["median_ratios"]:
        print(f"median of {each['mode']}, {each['megabytes']} MB: {each['ratio']:.2f}")
    print(
        f"bar: at most {BAR:g} for the live move. behind: how late the last commit before it was; "
        "more than an epoch says that the machine could not keep pace"
    )


def _draw(figure: Any, found: list[tuple[int, Moved]]) -> None:
    sizes = list(dict.fromkeys(size for size, _ in found))
    panels = figure.subplots(1, len(sizes), sharey=True, squeeze=False)[0]
    for axes, size in zip(panels, sizes, strict=True):
        labels = {mode: mode for mode in MODES}
        for moved in (each for of, each in found if of == size):
            gaps = [
                (later, (later - early) * 1000)
                for early, later in zip(moved.commits, moved.commits[1:], strict=False)
                if later > -STEADY_SECONDS
            ]
            axes.plot(
                [at for at, _ in gaps],
                [gap for _, gap in gaps],
                color=f"C{MODES.index(moved.mode)}",
                label=labels.pop(moved.mode, None),
            )
        axes.axvline(0.0, color="grey", linestyle=":")
        axes.set_title(f"{size} MB")
        axes.set_xlabel("seconds after the move began")
        axes.legend()
    panels[0].set_yscale("log")
    panels[0].set_ylabel("ms since the last commit")
