"""The controller on a stream that rises and falls: what it chooses, what that costs, and whether it recovers.

A day of edits is played in some minutes, in the rhythm of a real one; the state is a window of the last 20 s
and follows the rate. It is played under the controller, under active replication of everything, and under
the controller while nodes are killed (SIGKILL) at random moments, each of which is replaced. A recovery ends
when commits are no later than before the kill. The output must be the same each time. After Martin (2015),
chapter 6.

As long as no loss was measured, the controller takes it that one may go unnoticed for as long as the failure
detector allows. So in every run a node is killed early, and costs count from when that is over.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

from benchmarks import options
from benchmarks.controller_runs import (
    SPEED,
    WATCHED_SECONDS,
    WINDOW,
    Day,
    Look,
    Played,
    play,
    random_moments,
)
from benchmarks.edits import real_rhythm, rhythm_of, write_edits
from benchmarks.pictures import tell_results
from benchmarks.report import one_digest, print_table
from streammine.model.schemes import Scheme

BAR_COST = 0.6
"""Of what active replication of everything costs."""

FIRST_KILL_SECONDS = 10.0
COSTS_FROM_SECONDS = 25.0
"""The node that was killed first has been replaced, and schemes have been chosen again."""

AFTER_SECONDS = 10.0

SHARES = {
    "cost": "cost",
    "process_cost": "with memory of processes",
    "cores": "cores",
    "held_bytes": "held",
    "memory_bytes": "memory of processes",
}
"""What is shown of a run as a share of active replication, and under which words."""


@click.command(help="The controller on a day of edits: schemes, cost, and recovery from kills.")
@options.slices
@options.folder
@options.as_json
@click.option("--nodes", type=click.IntRange(2, 64), default=3, show_default=True)
@click.option(
    "--seconds",
    type=click.IntRange(40),
    default=420,
    show_default=True,
    help="In which the day is played.",
)
@click.option(
    "--rate",
    type=click.IntRange(1),
    default=8_000,
    show_default=True,
    help="Edits/s in the mean of the day.",
)
@click.option(
    "--text-bytes",
    type=click.IntRange(0, 100_000),
    default=1_000,
    show_default=True,
    help="Of text that the window keeps with each edit.",
)
@click.option(
    "--max-time",
    type=click.FloatRange(0.1),
    default=5.5,
    show_default=True,
    help="Seconds that a recovery may take.",
)
@click.option(
    "--kills",
    type=click.IntRange(0),
    default=20,
    show_default=True,
    help="At random moments, in a run of their own; 0: no such run.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the kills.")
@click.option(
    "--rhythm",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON lines of edits with a time, whose minutes the rate follows; default: a real day of Wikipedia.",
)
def controller(
    slices: int,
    folder: Path,
    as_json: bool,
    nodes: int,
    seconds: int,
    rate: int,
    text_bytes: int,
    max_time: float,
    kills: int,
    seed: int,
    rhythm: Path | None,
) -> None:
    try:
        played = real_rhythm() if rhythm is None else rhythm_of(rhythm)
        last = seconds - AFTER_SECONDS
        moments = random_moments(kills, COSTS_FROM_SECONDS, last, WATCHED_SECONDS, seed)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    files = write_edits(folder, played.minutes, seconds, SPEED, rate, slices)
    day = Day(files, slices, seconds, text_bytes)
    chosen = {"recovery": {"max_time": f"{round(max_time * 1000)}ms"}}
    full = {"scheme": Scheme.ACTIVE_REPLICATION}
    plans: list[tuple[str, list[float], dict[str, Any]]] = [
        ("controller", [], chosen),
        ("active replication", [], full),
        *([("killed", moments, chosen)] if kills else []),
    ]
    runs: dict[str, Played] = {}
    with tempfile.TemporaryDirectory(prefix="streammine-bench-") as scratch:
        for name, more, settings in plans:
            each = [FIRST_KILL_SECONDS, *more]
            runs[name] = play(day, nodes, Path(scratch), each, COSTS_FROM_SECONDS, seed, **settings)
    digest = one_digest(each.digest for each in runs.values())
    figures = {
        "name": "controller",
        "nodes": nodes,
        "seconds": seconds,
        "rhythm": played.name,
        "rhythm_minutes": len(played.minutes),
        "events": seconds * rate,
        "paced_events_per_second": rate,
        "text_bytes": text_bytes,
        "max_recovery_seconds": max_time,
        **_summary(runs, max_time),
        "bar_cost_ratio": BAR_COST,
        "runs": {name: _run_figures(each) for name, each in runs.items()},
        "digest": digest,
    }
    tell_results(folder, figures, as_json, lambda figure: _draw(figure, runs, max_time), _print)


def _summary(runs: dict[str, Played], max_time: float) -> dict[str, Any]:
    """Of what active replication costs undisturbed, also where nodes are killed."""
    full = runs["active replication"]
    found: dict[str, Any] = _ratios(runs["controller"], full)
    if "killed" in runs:
        found |= {f"killed_{name}": ratio for name, ratio in _ratios(runs["killed"], full).items()}
        kills = runs["killed"].kills
        found["most_recovery_seconds"] = _seconds(max(each.recovered for each in kills))
        found["recovered_in_time"] = sum(each.recovered <= max_time for each in kills)
        found["kills"] = len(kills)
    return found


def _ratios(ours: Played, full: Played) -> dict[str, float]:
    return {
        "cost_ratio": round(ours.cost / full.cost, 3),
        "process_cost_ratio": round(ours.process_cost / full.process_cost, 3),
        "cores_ratio": round(ours.cores / full.cores, 3),
        "held_bytes_ratio": round(ours.held_bytes / full.held_bytes, 3),
        "memory_bytes_ratio": round(ours.memory_bytes / full.memory_bytes, 3),
    }


def _seconds(seconds: float) -> float | None:
    """None: never."""
    return round(seconds, 3) if seconds < math.inf else None


def _run_figures(played: Played) -> dict[str, Any]:
    window = [look.window_bytes for look in played.counted]
    return {
        "cost": round(played.cost, 4),
        "process_cost": round(played.process_cost, 4),
        "cores": round(played.cores, 3),
        "held_bytes": round(played.held_bytes),
        "memory_bytes": round(played.memory_bytes),
        "least_window_bytes": round(min(window)),
        "most_window_bytes": round(max(window)),
        "most_delay_seconds": round(max(delay for _, delay in played.commits), 3),
        "kills": [
            {
                "at_seconds": round(each.at, 3),
                "victim": each.victim,
                "gap_seconds": round(each.gap, 3),
                "recovery_seconds": _seconds(each.recovered),
            }
            for each in played.kills
        ],
        "decisions": played.decisions,
        "looks": [
            {
                "at_seconds": round(look.at, 2),
                "rows": look.rows,
                "held_bytes": look.held_bytes,
                "window_bytes": look.window_bytes,
                "memory_bytes": look.memory_bytes,
                "schemes": look.schemes,
            }
            for look in played.looks
        ],
    }


def _print(figures: dict[str, Any]) -> None:
    print(
        f"controller: {figures['events']:,} edits in {figures['seconds']} s on {figures['nodes']} nodes, in "
        f"the rhythm of {figures['rhythm']} ({figures['rhythm_minutes']:,} minutes), recoveries within "
        f"{figures['max_recovery_seconds']:g} s"
    )
    head = ("run", "cost", "cores", "held", "memory", "window", "latest commit")
    rows = [
        (
            name,
            f"{run['cost']:.3f}",
            f"{run['cores']:.2f}",
            f"{run['held_bytes'] / 1e6:.1f} MB",
            f"{run['memory_bytes'] / 1e6:,.0f} MB",
            f"{run['least_window_bytes'] / 1e6:.1f} - {run['most_window_bytes'] / 1e6:.1f} MB",
            f"{run['most_delay_seconds']:.2f} s",
        )
        for name, run in figures["runs"].items()
    ]
    print_table(head, rows)
    _print_ratios(figures)
    kills = [
        (
            name,
            f"{each['at_seconds']:.1f} s",
            each["victim"],
            f"{each['gap_seconds']:.2f} s",
            "never" if each["recovery_seconds"] is None else f"{each['recovery_seconds']:.2f} s",
        )
        for name, run in figures["runs"].items()
        for each in run["kills"]
    ]
    print_table(("run", "killed at", "node", "no output for", "recovered after"), kills)
    if "kills" not in figures:
        return
    print(
        f"{figures['recovered_in_time']} of {figures['kills']} kills recovered within "
        f"{figures['max_recovery_seconds']:g} s; digests unchanged"
    )


def _print_ratios(figures: dict[str, Any]) -> None:
    print("as a share of active replication:")
    shares = [
        (name, *(f"{figures[f'{prefix}{key}_ratio']:.2f}" for key in SHARES))
        for name, prefix in (("controller", ""), ("killed", "killed_"))
        if f"{prefix}cost_ratio" in figures
    ]
    print_table(("run", *SHARES.values()), shares)
    print(f"bar of the cost: {figures['bar_cost_ratio']:g}; cost is cores and GB held")


def _draw(figure: Any, runs: dict[str, Played], max_time: float) -> None:
    figure.set_size_inches(9, 10)
    rate, state, schemes, cost, late = figure.subplots(5, 1, sharex=True)
    for name, played in runs.items():
        looks = played.looks
        at = [look.at for look in looks]
        pairs = list(pairwise(looks))
        cores = [now.used_since(then) / (now.at - then.at) for then, now in pairs]
        if len(played.kills) <= 1:
            # where a slice is set back again and again its rows say nothing of the rate
            rows = [max(0.0, now.rows - then.rows) / (now.at - then.at) for then, now in pairs]
            rate.plot(at[1:], rows, linewidth=0.8, label=name)
        state.plot(at, [look.held_bytes / 1e6 for look in looks], linewidth=0.8, label=name)
        cost.plot(at[1:], cores, linewidth=0.8, label=name)
        late.plot(*zip(*played.commits, strict=True), linewidth=0.8, label=name)
    _draw_schemes(schemes, runs["controller"].looks)
    if "killed" in runs:
        for kill in runs["killed"].kills:
            late.axvline(kill.at, color="black", linestyle=":", linewidth=0.6)
    late.axhline(max_time, color="grey", linestyle="--", linewidth=0.8)
    for axes, label in (
        (rate, "edits/s read"),
        (state, "MB held"),
        (schemes, "slices by scheme"),
        (cost, "cores in use"),
        (late, "commits late (s)"),
    ):
        axes.set_ylabel(label)
        axes.legend(fontsize="x-small", loc="upper right")
    late.set_xlabel("seconds after the sources' begin; dotted: kill -9 of a node")
    rate.set_title("a window of 20 s over a day of edits: what the controller chooses")


def _draw_schemes(axes: Any, looks: list[Look]) -> None:
    """How many of the slices have each scheme, those of the window apart."""
    at = [look.at for look in looks]
    for scheme in Scheme:
        counts = [Counter(look.schemes.values())[scheme.value] for look in looks]
        if any(counts):
            axes.step(at, counts, where="post", label=scheme.value)
    windows = [
        sum(
            scheme == Scheme.ACTIVE_REPLICATION.value
            for name, scheme in look.schemes.items()
            if name.startswith(f"{WINDOW}/")
        )
        for look in looks
    ]
    axes.step(at, windows, where="post", linestyle=":", label=f"{WINDOW}: active-replication")
