"""Which replicas of a slice seem to take part (used by `consensus`).

It tells who tries what; no rule of safety depends on it.
"""

from __future__ import annotations

from replication.peers import Peers
from replication.quorums import bag_holders
from replication.resting import Rest
from streammine.model.agreement import AgreementSettings, ReplicaPlan

LEARNING_SECONDS = 1.0
"""After a plan, for which others may read the store: most do so in a few hundredths of a second. For so long
those that say nothing are waited for, too."""


class Living:
    """`now_seconds`: the time, as far as this replica has been told. `gone` have ended for certain."""

    def __init__(self, generation: int, peers: Peers, settings: AgreementSettings) -> None:
        self.now_seconds = 0.0
        self.gone: set[int] = set()
        self._generation = generation
        self._peers = peers
        self._rest = Rest(settings)
        self._plan: ReplicaPlan | None = None
        self._planned_at = 0.0

    def begin(self, plan: ReplicaPlan) -> None:
        """Nobody whom a new plan lists is missed at once."""
        self._plan = plan
        self._planned_at = self.now_seconds
        self._peers.keep(self.company)
        self.gone &= self.company

    def end(self, generations: frozenset[int]) -> None:
        if self._plan is not None:
            self.gone |= generations & self.company

    def look(self, now_seconds: float, is_open: bool) -> None:
        """Time has passed; `is_open`: there is something to agree on."""
        self.now_seconds = now_seconds
        self._rest.note(is_open, now_seconds)

    @property
    def repeat_seconds(self) -> float:
        """Between tellings of the same."""
        return self._rest.repeat_seconds

    @property
    def company(self) -> set[int]:
        """Replicas of the plan, and of those before it."""
        assert self._plan is not None
        former = {each for plan in self._plan.former for each in plan.replicas}
        return former.union(self._plan.replicas)

    @property
    def others(self) -> set[int]:
        """Those that may still be there, but for this one. Once the plan is not new any more, who was not
        heard of lately is not: it was left out, or has ended without anybody saying so."""
        others = self.company - self.gone - {self._generation}
        if self._plan_is_new:
            return others
        return others & self._peers.told_since(self.now_seconds - LEARNING_SECONDS)

    @property
    def live(self) -> set[int]:
        """Replicas of the plan that seem to take part in it, this one included."""
        assert self._plan is not None
        lost_before = self._lost_before
        live = set(self._plan.replicas) if self._planned_at > lost_before else set()
        self._peers.note_living(self._plan, lost_before, live)
        return (live - self.gone) | {self._generation}

    @property
    def others_learn(self) -> bool:
        """Enough others are there, and about to take part in a new plan. For `LEARNING_SECONDS` they are not
        taken for lost: else each plan's witness would be taken where stores differ in speed."""
        assert self._plan is not None
        if not self._plan_is_new:
            return False
        heard = self._peers.heard_since(self._lost_before) | self.live
        replicas = self._plan.replicas
        return len(heard.intersection(replicas)) >= bag_holders(len(replicas))

    @property
    def _plan_is_new(self) -> bool:
        return self.now_seconds - self._planned_at <= LEARNING_SECONDS

    @property
    def _lost_before(self) -> float:
        return self.now_seconds - self._rest.silence_seconds(self.now_seconds)
