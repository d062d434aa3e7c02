"""Decisions that a replica brings to the store (used by `consensus`)."""

from __future__ import annotations

from replication.chain import Bags
from streammine.model.agreement import AgreementSettings, Decision, MakeDurable, StoredDecision

WRITES_AT_ONCE = 8
"""Decisions that a lonely replica brings to the store at the same time."""


class Writing:
    """Each decision is written once under a plan; what comes while the store is busy is written together.

    A store may fail or hang for one replica alone. Where it has been for `write_seconds` this one is *late*,
    and says so; then another one writes, until what is under way here is done. A decision is unique, each
    replica writes under a name of its own, and looks for a seal afterwards: so two may well write the same.
    """

    def __init__(self, bags: Bags, settings: AgreementSettings) -> None:
        self._bags = bags
        self._settings = settings
        self._plan_version = 0
        self._under_way: set[int] = set()
        self._waiting: list[StoredDecision] = []
        self._begun_at = self._now_seconds = 0.0
        self._was_late = False

    def __len__(self) -> int:
        return len(self._under_way) + len(self._waiting)

    @property
    def is_busy(self) -> bool:
        return len(self) >= WRITES_AT_ONCE

    @property
    def is_late(self) -> bool:
        waited = self._now_seconds - self._begun_at
        return bool(self._under_way) and waited >= self._settings.write_seconds

    def look(self, now_seconds: float) -> bool:
        """Time has passed; whether `is_late` is something else than the last time."""
        self._now_seconds = now_seconds
        before, self._was_late = self._was_late, self.is_late
        return before != self._was_late

    def begin(self, plan_version: int) -> None:
        """What is under way for older plans is of no use any more."""
        self._plan_version = plan_version
        self._under_way = set()
        self._waiting = []

    def put(self, decision: Decision) -> None:
        # bags go there with it, unless they can be had where they were made
        held = self._settings.every_decision_stored or not self._bags.lacking(decision.chosen)
        stored = StoredDecision(self._plan_version, decision)
        if held and decision.after not in self._under_way and stored not in self._waiting:
            self._waiting.append(stored)

    def take(self) -> list[MakeDurable]:
        """What is to be done now, if anything."""
        if self._under_way or not self._waiting:
            return []
        taken, self._waiting = tuple(self._waiting), []
        self._under_way = {each.decision.after for each in taken}
        self._begun_at = self._now_seconds
        return [MakeDurable(taken)]

    def settled(self, decision: Decision) -> None:
        """It stands, whoever wrote it."""
        self._waiting = [each for each in self._waiting if each.decision != decision]

    def done(self, stored: StoredDecision) -> None:
        if stored.plan_version == self._plan_version:
            self._under_way.discard(stored.decision.after)
