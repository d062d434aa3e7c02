"""The six fault-tolerance schemes: how many rungs of one ladder stand ready before a crash (DESIGN §5).

A slice is brought to life by the same steps whatever the reason: deploy, load state, take and queue events,
process, publish. A scheme says how many of them its further replicas have done in advance, so each costs more
than the one before, and takes less time when the replica that leads is lost (Martin 2015, chapter 6).

==========================  ========  ==========  =============  ==========  ==========
scheme                      deployed  state held  events queued  processing  publishing
==========================  ========  ==========  =============  ==========  ==========
passive-replication
deployed                    x
passive-standby-cold        x         x
passive-standby-hot         x         x           x
active-standby              x         x           x              x
active-replication          x         x           x              x           x
==========================  ========  ==========  =============  ==========  ==========
"""

from __future__ import annotations

from enum import StrEnum

AUTOMATIC = "automatic"
"""What a person says of a slice whose scheme is to be chosen again."""


class SchemeOrigin(StrEnum):
    """Who says which scheme a slice is to have."""

    TOPOLOGY = "topology"
    PERSON = "person"
    CONTROLLER = "controller"


class Scheme(StrEnum):
    """Members stand in the order of the ladder, cheapest first. Said of one replica, it is its rung."""

    PASSIVE_REPLICATION = "passive-replication"
    DEPLOYED = "deployed"
    PASSIVE_STANDBY_COLD = "passive-standby-cold"
    PASSIVE_STANDBY_HOT = "passive-standby-hot"
    ACTIVE_STANDBY = "active-standby"
    ACTIVE_REPLICATION = "active-replication"

    @property
    def rung(self) -> int:
        """0 for the lowest."""
        return _LADDER.index(self)

    @property
    def deploys(self) -> bool:
        """A further replica's operator is built on another node."""
        return self.rung >= 1

    @property
    def holds_state(self) -> bool:
        """It has the state of the newest complete checkpoint, or a newer one, in memory."""
        return self.rung >= 2

    @property
    def queues(self) -> bool:
        """Whoever sends to the slice sends to it, too."""
        return self.rung >= 3

    @property
    def processes(self) -> bool:
        """It does the slice's work."""
        return self.rung >= 4

    @property
    def publishes(self) -> bool:
        """It sends what it makes to those behind the slice."""
        return self.rung >= 5


_LADDER = tuple(Scheme)
