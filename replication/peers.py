"""What a replica has heard from the others of its slice (used by `consensus`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from replication.quorums import NAMED, Accepted
from streammine.model.agreement import (
    BagSet,
    Ballot,
    Decisions,
    Entry,
    Pulse,
    ReplicaPlan,
    Report,
)
from streammine.model.epochs import BEGINNING


class Peers:
    """The newest report of each generation, and when it was heard of. `unbuilt`: those that the plan brings,
    and that have to be built before they take part in it. `changes` counts newer reports, and that some were
    forgotten."""

    def __init__(self) -> None:
        self.reports: dict[int, Report] = {}
        self._entries: dict[int, dict[int, Entry]] = {}
        self._votes: dict[int, dict[int, Accepted]] = {}
        self._heard_at: dict[int, float] = {}
        self._pulses: dict[int, int] = {}
        self._told: dict[int, int] = {}
        self.unbuilt: set[int] = set()
        self.changes = 0
        self._voters: tuple[int, ...] = ()
        self._voters_in = (0, 0)

    def hear(self, report: Report, now_seconds: float) -> bool:
        """Whether it is newer than what was known."""
        known = self.reports.get(report.sender)
        if known is not None and report.sequence <= known.sequence:
            return False
        self.reports[report.sender] = report
        self._entries[report.sender] = {entry.after: entry for entry in report.entries}
        votes = ((entry.after, accepted(entry)) for entry in report.entries)
        self._votes[report.sender] = {after: vote for after, vote in votes if vote is not None}
        self._heard_at[report.sender] = now_seconds
        self.changes += 1
        if report.ready_in == report.plan_version:
            self.unbuilt.discard(report.sender)
        return True

    def feel(self, pulse: Pulse, now_seconds: float) -> bool:
        """Whether the report is known that it is about, or a newer one."""
        known = self.reports.get(pulse.sender)
        if known is None:
            return False
        if pulse.sequence > max(known.sequence, self._pulses.get(pulse.sender, 0)):
            self._pulses[pulse.sender] = pulse.sequence
            self._heard_at[pulse.sender] = now_seconds
            if pulse.decided > known.decided:
                self.reports[pulse.sender] = replace(known, decided=pulse.decided)
        return known.sequence >= pulse.report

    def expect(self, replicas: set[int]) -> None:
        """A plan lists these."""
        self.unbuilt = replicas - (self.reports.keys() - self.unbuilt)

    @property
    def late(self) -> set[int]:
        """Those that the store does not answer."""
        return {each for each, report in self.reports.items() if not report.writes}

    def knows(self, generation: int) -> int:
        """Up to where a replica knows what was decided, if it has got what it was told."""
        report = self.reports.get(generation)
        decided = BEGINNING if report is None else report.decided
        return max(decided, self._told.get(generation, BEGINNING))

    def note_told(self, generations: tuple[int, ...], message: Decisions) -> None:
        """Who has been told is told again only after `forget_told`; but not who could not follow."""
        for each in generations:
            if message.decisions[0].after <= self.knows(each):
                self._told[each] = message.decisions[-1].chosen.epoch

    def forget_told(self) -> None:
        """Messages may have been lost."""
        self._told.clear()

    def answers(self, plan_version: int) -> dict[int, Report]:
        """The reports that are given for that plan."""
        return {
            generation: report
            for generation, report in self.reports.items()
            if report.plan_version == plan_version
        }

    def keep(self, generations: set[int]) -> None:
        for gone in self.reports.keys() - generations:
            del self.reports[gone], self._entries[gone], self._votes[gone], self._heard_at[gone]
            self._pulses.pop(gone, None)
        self.changes += 1

    def note_living(self, plan: ReplicaPlan, lost_before: float, live: set[int]) -> None:
        """Add the voters that were heard of since, and take out those that were not, or are paused."""
        for report in self.voters(plan):
            heard = self._heard_at[report.sender] > lost_before
            (live.add if heard and report.votes else live.discard)(report.sender)

    def told_since(self, time: float) -> set[int]:
        """Replicas of any plan that were heard of later."""
        return {sender for sender, at in self._heard_at.items() if at > time}

    def heard_since(self, time: float) -> set[int]:
        """Those of `told_since` that are not paused."""
        return {each for each in self.told_since(time) if self.reports[each].votes}

    def voters(self, plan: ReplicaPlan) -> list[Report]:
        """Reports from replicas of the plan that take part in it."""
        state = (plan.version, self.changes)
        if state != self._voters_in:
            self._voters_in = state
            self._voters = tuple(
                generation
                for generation in plan.replicas
                if (report := self.reports.get(generation)) is not None
                and plan.version == report.ready_in == report.plan_version
            )
        return [self.reports[generation] for generation in self._voters]

    def entries(self, plan: ReplicaPlan, after: int) -> Iterator[tuple[int, Entry]]:
        """What the plan's voters say of what follows the epoch."""
        for report in self.voters(plan):
            entry = self._entries[report.sender].get(after)
            if entry is not None:
                yield report.sender, entry

    def votes(self, plan: ReplicaPlan, after: int) -> Iterator[tuple[int, Accepted]]:
        """What they accepted to follow it."""
        for report in self.voters(plan):
            vote = self._votes[report.sender].get(after)
            if vote is not None:
                yield report.sender, vote

    def holders(self, after: int, value: BagSet) -> tuple[int, ...]:
        """Replicas that have the bags of what is to follow the epoch, as far as is known."""
        return tuple(
            sorted(
                generation
                for generation, report in self.reports.items()
                if report.decided >= value.epoch
                or any(entry.after == after and entry.value == value for entry in report.entries)
            )
        )


def accepted(entry: Entry) -> Accepted | None:
    if entry.ballot is None or entry.value is None:
        return None
    return Accepted(entry.ballot, entry.value)


def has_promised(entry: Entry, ballot: Ballot) -> bool:
    """Whether the entry is an answer to the ballot, with all that is accepted in those below it.

    Below the first one that is led there is round 0 alone, in which nobody names twice. So who has named has
    said all, and the first leader needs no promise of it.
    """
    if entry.promised == ballot:
        return True
    named = entry.ballot == Ballot(ballot.plan_version, NAMED)
    return ballot.attempt == NAMED + 1 and named and entry.promised <= ballot
