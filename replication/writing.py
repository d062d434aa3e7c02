"""Decisions that a replica brings to the store (used by `consensus`)."""

from __future__ import annotations

from replication.chain import Bags
from streammine.model.agreement import AgreementSettings, Decision, MakeDurable, StoredDecision


class Writing:
    """Each decision is written once under a plan; those of one step together."""

    def __init__(self, bags: Bags, settings: AgreementSettings) -> None:
        self._bags = bags
        self._settings = settings
        self._plan_version = 0
        self._under_way: set[int] = set()
        self._of_this_step: list[StoredDecision] = []

    def __len__(self) -> int:
        return len(self._under_way)

    def begin(self, plan_version: int) -> None:
        """What is under way for older plans is of no use any more."""
        self._plan_version = plan_version
        self._under_way = set()
        self._of_this_step = []

    def put(self, decision: Decision) -> None:
        # bags go there with it, unless they can be had where they were made
        held = self._settings.every_decision_stored or not self._bags.lacking(decision.chosen)
        if held and decision.after not in self._under_way:
            self._under_way.add(decision.after)
            self._of_this_step.append(StoredDecision(self._plan_version, decision))

    def take(self) -> list[MakeDurable]:
        """What is to be done for this step, if anything."""
        taken, self._of_this_step = self._of_this_step, []
        return [MakeDurable(tuple(taken))] if taken else []

    def done(self, stored: StoredDecision) -> None:
        if stored.plan_version == self._plan_version:
            self._under_way.discard(stored.decision.after)
