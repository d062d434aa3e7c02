"""One run of the sliding window over a day of edits: looked at twice a second, undisturbed or with kills.

What it costs is what all nodes' processes need of CPU, and the bytes that all replicas hold: state, and
events that wait.
"""

from __future__ import annotations

import json
import math
import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from benchmarks.edits import COLUMNS, ROOT
from benchmarks.gaps import delay, longest_gap, recovered_after
from benchmarks.live_cluster import LiveCluster, LiveJob, commit_times, wait_until
from streammine import Topology
from streammine.model.errors import ClusterError

SOURCE = "edits"
WINDOW = "trends"
SPEED = 60
"""At which the twenty minutes of the application's window are 20 s."""

EPOCH_SECONDS = 0.5
LOOK_SECONDS = 0.5
USUAL_SECONDS = 5.0
"""Before a kill: for so long it is seen how late commits are without one."""

WATCHED_SECONDS = 12.0
"""After a kill: for so long a commit may begin to be late because of it. By then the node has been replaced,
and a checkpoint is complete."""

LONGEST_SECONDS = 120.0
"""Beyond the day, until a run must be over."""

CHECKPOINT = "2s"


@dataclass(frozen=True)
class Day:
    """What is played: the pattern of the files, how many there are, and for how many seconds.
    The window keeps `text_bytes` with each edit."""

    files: str
    slices: int
    seconds: int
    text_bytes: int


def topology(day: Day, output: Path, **more: Any) -> Topology:
    """The application's operator on a day of edits; `more` are fields of the topology, such as recovery."""
    return (
        Topology(
            name="controller",
            epoch={"time": f"{round(EPOCH_SECONDS * SPEED)}s", "column": "time"},
            snapshot={"mode": "asynchronous", "every": CHECKPOINT},
            **more,
        )
        .source(
            SOURCE,
            files=day.files,
            format="json",
            schema=COLUMNS,
            prepare="none",
            speed=SPEED,
            slices=day.slices,
        )
        .operator(
            WINDOW,
            input=SOURCE,
            key="channel",
            operator="benchmarks.state_operators:KeptTexts",
            with_={"text_bytes": day.text_bytes},
            slices=day.slices,
        )
        .sink("result", input=WINDOW, format="parquet", path=str(output))
    )


@dataclass(frozen=True)
class Look:
    """The job at one moment, `at` seconds after its sources began. `schemes` by slice; `rows` read so far;
    `held_bytes` by all replicas, `window_bytes` by those of the window that lead; `cpu_seconds`
    used so far by each node, and `memory_bytes` in memory of them all."""

    at: float
    schemes: dict[str, str]
    rows: float
    held_bytes: float
    window_bytes: float
    cpu_seconds: dict[str, float]
    memory_bytes: float

    def used_since(self, earlier: Look) -> float:
        """Seconds of CPU, of the nodes that both saw."""
        return sum(
            max(0.0, self.cpu_seconds[name] - earlier.cpu_seconds[name])
            for name in earlier.cpu_seconds.keys() & self.cpu_seconds.keys()
        )


def look_at(status: dict[str, Any], job: int, at: float) -> Look | None:
    """Out of a status answer; None where the manager does not know the job yet."""
    told = status["jobs"].get(str(job))
    if told is None:
        return None
    schemes, rows, held, window = {}, 0.0, 0.0, 0.0
    for name, each in told["slices"].items():
        vertex = name.rpartition("/")[0]
        schemes[name] = each["scheme"]
        if vertex == SOURCE:
            rows += each["counters"].get("rows_in", 0.0)
        if vertex == WINDOW:
            window += each["counters"].get("state_bytes", 0.0)
        held += sum(
            replica["counters"].get(counter, 0.0)
            for replica in each["replicas"]
            for counter in ("state_bytes", "bytes_waiting")
        )
    loads = {name: node["load"] for name, node in status["nodes"].items() if node["load"]}
    return Look(
        at,
        schemes,
        rows,
        held,
        window,
        {name: load["cpu_seconds"] for name, load in loads.items()},
        sum(load["memory_bytes"] for load in loads.values()),
    )


@dataclass(frozen=True)
class Kill:
    """Seconds after the sources' begin of a kill, who it was, how long output stood still, and until it was
    where it would have been."""

    at: float
    victim: str
    gap: float
    recovered: float


@dataclass
class Played:
    """A run that is over; its decisions are dated from the begin. `commits`: (seconds after the begin, how
    long after the epoch's end). What it costs is counted from `costs_from` seconds after the begin on."""

    digest: str
    looks: list[Look]
    decisions: list[dict[str, Any]]
    commits: list[tuple[float, float]]
    kills: list[Kill] = field(default_factory=list)
    costs_from: float = 0.0

    @property
    def counted(self) -> list[Look]:
        return [look for look in self.looks if look.at >= self.costs_from]

    @property
    def cores(self) -> float:
        """In use by all nodes' processes."""
        looks = self.counted
        used = sum(later.used_since(earlier) for earlier, later in pairwise(looks))
        return used / (looks[-1].at - looks[0].at)

    @property
    def held_bytes(self) -> float:
        """By all replicas, in the mean."""
        return fmean(look.held_bytes for look in self.counted)

    @property
    def memory_bytes(self) -> float:
        """Of all nodes' processes, in the mean."""
        return fmean(look.memory_bytes for look in self.counted)

    @property
    def cost(self) -> float:
        """Cores and GB held, a unit of each at the price 1, as the controller weighs them by default."""
        return self.cores + self.held_bytes / 1e9

    @property
    def process_cost(self) -> float:
        """The same with all memory of the processes instead of what replicas hold."""
        return self.cores + self.memory_bytes / 1e9


def random_moments(count: int, first: float, last: float, apart: float, seed: int) -> list[float]:
    """`count` moments in [first, last], each in a stretch of its own and at least `apart` seconds behind
    the one before. Raises ValueError where there is no room."""
    if not count:
        return []
    random = Random(seed)
    stretch = (last - first) / count
    if stretch < apart:
        raise ValueError(
            f"{count} kills need {count * apart:g} s, and there are {max(0.0, last - first):g} s; play for "
            "longer, or kill less often"
        )
    return [
        first + number * stretch + random.random() * (stretch - apart) for number in range(count)
    ]


def play(
    day: Day,
    nodes: int,
    output: Path,
    kills: Sequence[float],
    costs_from: float,
    seed: int,
    **more: Any,
) -> Played:
    """Run the topology on a new cluster. A random node is killed at each of the moments `kills`, in seconds
    after the sources' begin, the first time not the manager, and another started in its place."""
    random = Random(seed)
    with LiveCluster(nodes) as cluster:
        job = cluster.submit(topology(day, output, **more), ROOT)
        began = cluster.began(job)
        watch = _Watch(cluster, job, began)
        killed: list[tuple[float, str]] = []
        for moment in [*kills, day.seconds]:
            watch.until(began + moment)
            if moment == day.seconds:
                break
            names = sorted(cluster.local.processes)
            if not killed:
                # how long its own loss goes unnoticed no manager measures
                names.remove(cluster.client.status(job.number)["manager"])
            name = random.choice(names)
            killed.append((time.time(), name))
            os.kill(cluster.local.processes[name].pid, signal.SIGKILL)
        digest = cluster.finish(job, LONGEST_SECONDS, watch.tend).digest()
    # the day begins in the middle of event time, at whose origin epoch 0 would have begun
    origin = began - job.submission.spec.recovery.pace_begins[SOURCE] / 1e6 / SPEED
    commits = [(at, delay(epoch, at, origin, EPOCH_SECONDS)) for epoch, at in commit_times(output)]
    return Played(
        digest,
        watch.looks,
        [each | {"at_seconds": each["at_seconds"] - began} for each in watch.decisions.values()],
        [(at - began, late) for at, late in commits],
        list(kills_among(killed, commits, began)),
        costs_from,
    )


class _Watch:
    """Looks at a job while time passes, and has nodes that are gone replaced."""

    def __init__(self, cluster: LiveCluster, job: LiveJob, began: float) -> None:
        self.looks: list[Look] = []
        self.decisions: dict[str, dict[str, Any]] = {}
        self._cluster = cluster
        self._job = job
        self._began = began

    def until(self, moment: float) -> None:
        """Look again and again until that system time."""
        while (now := time.time()) < moment:
            self.tend()
            self._look()
            wait_until(min(moment, now + LOOK_SECONDS))

    def tend(self) -> None:
        self._cluster.local.tend()

    def _look(self) -> None:
        try:
            status = self._cluster.client.status(self._job.number, LOOK_SECONDS)
        except ClusterError:
            # the manager was killed, and the next one is not there yet
            return
        look = look_at(status, self._job.number, time.time() - self._began)
        if look is None:
            return
        self.looks.append(look)
        for each in status["jobs"][str(self._job.number)]["decisions"]:
            self.decisions.setdefault(json.dumps(each, sort_keys=True), each)


def kills_among(
    killed: Sequence[tuple[float, str]], commits: Sequence[tuple[float, float]], began: float
) -> Iterator[Kill]:
    """What became of kills (system time, victim), each of which is watched until the next. `commits`: (system
    time, delay); `began`: when the sources did."""
    times = [at for at, _ in commits]
    for (at, victim), (following, _) in pairwise([*killed, (math.inf, "")]):
        until = min(following, at + WATCHED_SECONDS)
        before = [late for moment, late in commits if at - USUAL_SECONDS < moment <= at]
        usual = max(before, default=0.0) + EPOCH_SECONDS
        recovered = recovered_after(at, [each for each in commits if each[0] <= until], usual)
        if recovered == math.inf:
            # not by then; the next kill may have added to it
            recovered = recovered_after(at, commits, usual)
        yield Kill(at - began, victim, longest_gap(times, at, until), recovered)
