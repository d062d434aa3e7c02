"""Which nodes have no time left for replicas that only stand behind others.

The priority scheduler is the ladder on a short leash (DESIGN §5): on a *crowded* node such replicas step down
to hot standby, where they queue what comes and are given the state of each complete checkpoint; once there is
room again they climb back. Their work goes behind all other anyway, so a short spike only makes their queues
longer; a node is crowded when it has waited for `CROWDED_SECONDS`. It has room again when its workers have
been idle for a share `ROOM_SHARE` of the time, for `ROOM_SECONDS` on end: what comes back needs about as much
time as those who lead.
"""

from __future__ import annotations

from collections.abc import Mapping

CROWDED_SECONDS = 3.0
ROOM_SHARE = 0.4
ROOM_SECONDS = 2.0


class Crowding:
    """What is known of each node, by name. Times are of the manager's clock."""

    def __init__(self) -> None:
        self._crowded: set[str] = set()
        self._room_since: dict[str, float] = {}

    @property
    def crowded(self) -> tuple[str, ...]:
        return tuple(sorted(self._crowded))

    def heard(self, node: str, now_seconds: float, load: Mapping[str, float]) -> None:
        """A heartbeat told of `spare_wait_seconds` and `idle_share`."""
        if load.get("spare_wait_seconds", 0.0) >= CROWDED_SECONDS:
            self._crowded.add(node)
        if load.get("idle_share", 0.0) < ROOM_SHARE:
            self._room_since.pop(node, None)
        elif now_seconds - self._room_since.setdefault(node, now_seconds) >= ROOM_SECONDS:
            self._crowded.discard(node)

    def keep(self, nodes: set[str]) -> None:
        """No others are alive."""
        self._crowded &= nodes
        for gone in self._room_since.keys() - nodes:
            del self._room_since[gone]

    def adopt(self, crowded: tuple[str, ...]) -> None:
        """What another manager found out, as its plan says."""
        self._crowded = set(crowded)
