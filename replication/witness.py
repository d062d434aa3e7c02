"""The witness of a plan with an even number of replicas, as one of them sees it (used by `consensus`).

Whoever takes it counts for two as long as the plan lasts, even where its peers were silent for a moment only.
From then on nobody could go on without it. So the plan is *spent* where the holder needs its second vote no
more, or where another one needs it; then the same replicas are to be listed in a new plan, with a witness of
its own.
"""

from __future__ import annotations

from collections.abc import Collection

SPENT_SECONDS = 0.25
"""For which it has to be so: a replica that is silent now and then is not worth a plan each time."""


class Witness:
    """`holder`: the generation that has taken it, as far as is known."""

    def __init__(self) -> None:
        self.holder: int | None = None
        self._spent_since: float | None = None

    def begin(self) -> None:
        """Of another plan."""
        self.holder = self._spent_since = None

    def look(
        self, mine: int, replicas: Collection[int], live: Collection[int], now_seconds: float
    ) -> None:
        """`live`: those of the plan's replicas that seem to take part, `mine` among them."""
        if self.holder is None:
            return
        all_live = len(live) == len(replicas)
        if all_live if self.holder == mine else self.holder not in live:
            self._spent_since = now_seconds if self._spent_since is None else self._spent_since
        else:
            self._spent_since = None

    def is_spent(self, now_seconds: float) -> bool:
        since = self._spent_since
        return since is not None and now_seconds - since >= SPENT_SECONDS
