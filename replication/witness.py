"""The witness of a plan with an even number of replicas, as one of them sees it (used by `consensus`).

Whoever takes it counts for two as long as the plan lasts, even where its peers were silent for a moment only.
From then on nobody could go on without it. So the plan is *spent* where all are there again, or where the
holder is not; then the same replicas are to be listed in a new plan, with a witness of its own.
"""

from __future__ import annotations

from collections.abc import Collection

from replication.quorums import majority

SPENT_SECONDS = 0.25
"""For which it has to be so, at first."""

MOST_SPENT_SECONDS = 8.0
"""And at most: twice as long after each plan that was spent, until nobody takes a witness for four times as
long. Replicas that lose each other again and again are not worth a plan each time."""


class Witness:
    """`holder`: the generation that has taken it, as far as is known."""

    def __init__(self) -> None:
        self.holder: int | None = None
        self._patience_seconds = SPENT_SECONDS
        self._spent_since: float | None = None
        self._calm_since = 0.0

    def coordinator(self, replicas: Collection[int], live: Collection[int]) -> int:
        """Who leads ballots: the lowest that lives, but where too few do without it, who counts for two."""
        holder = self.holder
        if holder is not None and holder in live and len(live) < majority(len(replicas)):
            return holder
        return min(live)

    def begin(self, now_seconds: float) -> None:
        """Of another plan."""
        if self.is_spent(now_seconds):
            self._patience_seconds = min(MOST_SPENT_SECONDS, 2 * self._patience_seconds)
        self.holder = self._spent_since = None
        self._calm_since = now_seconds

    def look(
        self, mine: int, replicas: Collection[int], live: Collection[int], now_seconds: float
    ) -> None:
        """`live`: those of the plan's replicas that seem to take part, `mine` among them."""
        if self.holder is None:
            self._spent_since = None
            if now_seconds - self._calm_since >= 4 * self._patience_seconds:
                self._patience_seconds = SPENT_SECONDS
            return
        is_mine = self.holder == mine
        is_spent = len(live) == len(replicas) if is_mine else self.holder not in live
        if not is_spent:
            self._spent_since = None
        elif self._spent_since is None:
            self._spent_since = now_seconds

    def is_spent(self, now_seconds: float) -> bool:
        since = self._spent_since
        return since is not None and now_seconds - since >= self._patience_seconds
