"""Runs of one workload under several disciplines, compared in pairs.

A difference of a few per cent drowns in the noise of single runs. So runs come in pairs, first one and
then the other discipline in turn, and the median of the pairs' ratios is given with its interval.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.cluster import BenchmarkCluster
from benchmarks.intervals import Interval, median_interval, rounded
from benchmarks.workloads import Settings, Workload

YARDSTICK = "none"
COMPARED = ("epoch", "merge")
"""Each in pairs with the yardstick of its own. A pair is (yardstick, compared), in seconds."""

BESIDE = ("consensus", "strict")
"""Where nothing can differ, consensus has nothing to agree on: `ordering_receivers` measures where it has."""

PAIRS_PER_RUN_BESIDE = 5
"""Odd, so that neither discipline comes first behind such a run more often than the other."""


@dataclass
class Ordering:
    """What a workload took on a number of nodes, in seconds. `events`: in all of its streams."""

    workload: str
    nodes: int
    events: int
    pairs: dict[str, list[tuple[float, float]]] = field(
        default_factory=lambda: {name: [] for name in COMPARED}
    )
    beside: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in BESIDE})

    @property
    def runs(self) -> dict[str, list[float]]:
        """By discipline, those of the yardstick in the order of what they were compared with."""
        yardstick = [first for every in self.pairs.values() for first, _ in every]
        compared = {name: [second for _, second in every] for name, every in self.pairs.items()}
        return {YARDSTICK: yardstick, **compared, **self.beside}

    @property
    def medians(self) -> dict[str, float]:
        return {name: median(seconds) for name, seconds in self.runs.items()}

    def ratio(self, name: str) -> Interval:
        """Of speeds: the compared discipline's over the yardstick's."""
        return median_interval([first / second for first, second in self.pairs[name]])

    def ratio_beside(self, name: str) -> float:
        """Of the median speeds."""
        medians = self.medians
        return medians[YARDSTICK] / medians[name]

    def figures(self) -> dict[str, Any]:
        medians = self.medians
        return {
            "name": self.workload,
            "nodes": self.nodes,
            "events": self.events,
            **{f"{name}_seconds": round(value, 4) for name, value in medians.items()},
            **{f"{name}_ratio": rounded(self.ratio(name)) for name in COMPARED},
            **{f"{name}_ratio": round(self.ratio_beside(name), 4) for name in BESIDE},
            "runs": {name: [round(each, 4) for each in every] for name, every in self.runs.items()},
        }


def measured(
    workload: Workload,
    files: dict[str, Path],
    events: int,
    nodes: int,
    slices: int,
    pairs: int,
    folder: Path,
) -> Ordering:
    """`events` are those of one stream. The first run of each discipline is a warm-up."""
    found = Ordering(workload.name, nodes, events * workload.streams)
    with (
        tempfile.TemporaryDirectory(prefix="streammine-bench-") as scratch,
        BenchmarkCluster(nodes) as cluster,
    ):

        def run(discipline: str) -> float:
            settings = Settings(Path(scratch) / discipline, slices, discipline)
            # what the run before has written goes to the disk now, not while this one is measured
            os.sync()
            return cluster.run(workload.topology(files, settings), folder).seconds

        for discipline in (YARDSTICK, *COMPARED, *BESIDE):
            run(discipline)
        for number in range(pairs):
            for name in COMPARED:
                found.pairs[name].append(_pair(run, name, yardstick_first=number % 2 == 0))
            if number % PAIRS_PER_RUN_BESIDE == 0:
                for name in BESIDE:
                    found.beside[name].append(run(name))
    return found


def _pair(run: Callable[[str], float], name: str, yardstick_first: bool) -> tuple[float, float]:
    if yardstick_first:
        first = run(YARDSTICK)
        return first, run(name)
    second = run(name)
    return run(YARDSTICK), second
