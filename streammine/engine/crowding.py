"""Which nodes have no time left for replicas that only stand behind others.

The priority scheduler is the ladder on a short leash (DESIGN §5): on a *crowded* node such replicas step down
to hot standby, where they queue what comes and are given the state of each complete checkpoint; once there is
room again they climb back. Their work goes behind all other anyway, so a short spike only makes their queues
longer. A node is crowded

* when such work has waited for `CROWDED_SECONDS`, for those who lead need all of the time, or
* when it has its turn but too seldom: what a replica processes now came `CROWDED_SECONDS` ago, its queue has
  become longer since, and the node has no room. A long queue that becomes shorter is caught up with.

It has room when its workers were idle for a share `ROOM_SHARE` of the last `ROOM_SECONDS`: what stepped down
needs about as much time as those who lead, and comes back then. A share of less time would tell little: load
comes in epochs and checkpoints, so a node with much room is busy at every other heartbeat.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from streammine.engine.managed_job import ManagedJob
from streammine.model.control import Heartbeat
from streammine.model.ids import SliceId
from streammine.model.job import Placement

CROWDED_SECONDS = 3.0
ROOM_SHARE = 0.55
ROOM_SECONDS = 2.0

LOOK_SECONDS = 0.1
"""Between two looks at a queue, so that few are kept however often a node speaks."""


@dataclass(frozen=True)
class Queue:
    """Of a replica that stands behind another one: the bytes that have come so far, and that wait of them."""

    came_bytes: float
    waiting_bytes: float


def queues_behind(jobs: Mapping[int, ManagedJob], heartbeat: Heartbeat) -> dict[Hashable, Queue]:
    """Of the replicas on a node that work beside one that leads."""
    found: dict[Hashable, Queue] = {}
    for told in heartbeat.jobs:
        job = jobs.get(told.job)
        if job is None or job.plan is None:
            continue
        for report in told.slices:
            group = job.plan.placements.get(SliceId.parse(report.slice), ())
            if _stands_behind(group, heartbeat.node, report.generation):
                counters = report.counters
                key = told.job, report.slice, report.generation
                found[key] = Queue(
                    counters.get("bytes_in", 0.0), counters.get("bytes_waiting", 0.0)
                )
    return found


def _stands_behind(group: Sequence[Placement], node: str, generation: int) -> bool:
    """Whether it works, and nobody of the slice is on the way to another node."""
    works = any(
        (each.node, each.generation) == (node, generation) and each.rung.processes
        for each in group[1:]
    )
    return works and not any(each.leaving for each in group)


class Crowding:
    """What is known of each node, by name. Times are of the manager's clock."""

    def __init__(self) -> None:
        self._crowded: set[str] = set()
        self._idle: dict[str, _IdleTime] = {}
        self._queues: dict[str, dict[Hashable, _WatchedQueue]] = {}

    @property
    def crowded(self) -> tuple[str, ...]:
        return tuple(sorted(self._crowded))

    def heard(
        self,
        node: str,
        now_seconds: float,
        load: Mapping[str, float],
        queues: Mapping[Hashable, Queue],
    ) -> None:
        """A heartbeat told of `spare_wait_seconds` and `idle_share`, and of the `queues` of those who stand
        behind others there, each under a key that is the replica's alone."""
        idle = self._idle.setdefault(node, _IdleTime())
        idle.note(now_seconds, load.get("idle_share", 0.0))
        known = self._queues.get(node, {})
        watched = {key: known.get(key) or _WatchedQueue() for key in queues}
        self._queues[node] = watched
        for key, queue in queues.items():
            watched[key].note(now_seconds, queue)
        starves = load.get("spare_wait_seconds", 0.0) >= CROWDED_SECONDS
        if starves:
            self._crowded.add(node)
        elif idle.is_room:
            self._crowded.discard(node)
        elif any(each.falls_behind for each in watched.values()):
            self._crowded.add(node)

    def keep(self, nodes: set[str]) -> None:
        """No others are alive."""
        self._crowded &= nodes
        for known in (self._idle, self._queues):
            for gone in known.keys() - nodes:
                del known[gone]

    def adopt(self, crowded: tuple[str, ...]) -> None:
        """What another manager found out, as its plan says."""
        self._crowded = set(crowded)


class _IdleTime:
    """Of a node's workers, over the last `ROOM_SECONDS` and no less."""

    def __init__(self) -> None:
        self._shares = deque[tuple[float, float]]()

    def note(self, now_seconds: float, share: float) -> None:
        """They were idle for that share of the time since the note before."""
        shares = self._shares
        shares.append((now_seconds, share))
        while len(shares) > 1 and shares[1][0] <= now_seconds - ROOM_SECONDS:
            shares.popleft()

    @property
    def is_room(self) -> bool:
        shares = self._shares
        known_seconds = shares[-1][0] - shares[0][0]
        idle_seconds = sum(share * (at - before) for (before, _), (at, share) in pairwise(shares))
        return known_seconds >= ROOM_SECONDS and idle_seconds >= ROOM_SHARE * known_seconds


class _WatchedQueue:
    """Looks at one queue, oldest first, with their times."""

    def __init__(self) -> None:
        self._looks = deque[tuple[float, Queue]]()

    def note(self, now_seconds: float, queue: Queue) -> None:
        looks = self._looks
        if len(looks) > 1 and looks[-1][0] - looks[-2][0] < LOOK_SECONDS:
            looks.pop()
        looks.append((now_seconds, queue))
        while len(looks) > 1 and looks[1][0] <= now_seconds - CROWDED_SECONDS:
            looks.popleft()

    @property
    def falls_behind(self) -> bool:
        """Not all is processed that had come by `CROWDED_SECONDS` ago, and more waits than did then."""
        (then_seconds, then), (now_seconds, now) = self._looks[0], self._looks[-1]
        if now_seconds - then_seconds < CROWDED_SECONDS:
            return False
        came_since = now.came_bytes - then.came_bytes
        return now.waiting_bytes > max(came_since, then.waiting_bytes)
