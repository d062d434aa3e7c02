"""One replica's part in the ballots of one plan: it names, accepts, leads and counts (used by `consensus`).

What follows one epoch goes through these stages here::

    stage      what happens                                              next stage
    open       this replica has bags for what follows, or is behind
               and has heard what another one named: it names them       named         ballot (plan, 0)
    open,      a leader asks: no lower ballot any more                   promised
      named
    any        a leader's value is of no lower ballot, and held          accepted      ballot (plan, attempt)
    any        this replica leads: it asks for promises                  promised
    promised   a majority has promised: it proposes, once held           accepted

The stage is no more than what stands in `Instance`: the highest ballot promised, the last one accepted in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from replication.chain import Bags
from replication.peers import Peers, accepted, has_promised
from replication.quorums import (
    INHERITED,
    NAMED,
    Accepted,
    leader,
    majority,
    may_be_chosen,
    most_common,
    unanimous,
)
from streammine.model.agreement import AgreementSettings, BagSet, Ballot, Entry, ReplicaPlan

WINDOW = 16
"""Epochs beyond the last decision that a replica names or leads."""

LONGEST_WAIT = 64
"""A leader waits at most so many times its patience before it tries again."""


@dataclass(slots=True)
class Instance:
    """What follows one epoch, as this replica stands to it. `seen_at`: since when it waits for others.
    `leading`: its own ballot, with the `proposal` in it, which it tries anew at `again_at`."""

    promised: Ballot
    accepted: Accepted | None = None
    seen_at: float | None = None
    leading: Ballot | None = None
    proposal: BagSet | None = None
    again_at: float = 0.0
    tries: int = 0


class Chosen(NamedTuple):
    """A value that can't change any more, and how many replicas hold its bags for certain."""

    value: BagSet
    holders: int


class Ballots:
    """`inherited`: by the epoch before, what former plans may have chosen. `changes` counts what there was to
    tell; `witness`: this replica holds it. One that is `behind` holds up nobody: it names what it hears, and
    accepts bags that it does not hold."""

    def __init__(
        self,
        plan: ReplicaPlan,
        generation: int,
        inherited: dict[int, BagSet],
        peers: Peers,
        bags: Bags,
        settings: AgreementSettings,
    ) -> None:
        self.plan = plan
        self.witness = False
        self.behind = False
        self.changes = 0
        self._generation = generation
        self._peers = peers
        self._bags = bags
        self._settings = settings
        self._named = Ballot(plan.version, NAMED)
        # what was counted since anything changed, for it is asked for again and again
        self._counted: dict[int, Chosen | None] = {}
        self._counted_in = (0, 0, False)
        brought = Ballot(plan.version, INHERITED)
        self._instances = {
            after: Instance(self._named, Accepted(brought, value))
            for after, value in inherited.items()
        }

    def entries(self) -> tuple[Entry, ...]:
        return tuple(self._entry(after) for after in self._near())

    def _near(self) -> list[int]:
        """What is to be told, and fetched. Thousands may have been brought along; where every decision is in
        the store, those that come later have time, and nobody learns them from this replica alone."""
        afters = sorted(self._instances)
        return afters[: 2 * WINDOW] if self._settings.every_decision_stored else afters

    @property
    def tells_all(self) -> bool:
        """Nothing is left out of `entries`."""
        return len(self._near()) == len(self._instances)

    def forget(self, decided: int) -> None:
        for after in [each for each in self._instances if each < decided]:
            del self._instances[after]

    def open(self, decided: int) -> bool:
        """Something behind the last decision is named or led."""
        return any(after >= decided for after in self._instances)

    # --- round 0 ------------------------------------------------------------------------------------

    def name(self, decided: int) -> None:
        """Name what is complete here; but of what former plans may have chosen only that."""
        after = decided
        for _ in range(WINDOW):
            instance = self._instances.get(after)
            known = instance.accepted if instance is not None else None
            value = self._to_name(after) if known is None else known.value
            if value is None:
                return
            instance = self._instance(after)
            brought = known is not None and known.ballot.attempt == INHERITED
            # nothing else can be named after that; where every decision is stored, its bags will come
            may = self._may_accept(value) or (brought and self._settings.every_decision_stored)
            if instance.promised == self._named and (known is None or brought) and may:
                instance.accepted = Accepted(self._named, value)
                self.changes += 1
            after = value.epoch

    def _to_name(self, after: int) -> BagSet | None:
        if self.behind:
            votes = self._peers.votes(self.plan, after)
            heard = [vote.value for _, vote in votes if vote.ballot == self._named]
            if heard:
                return most_common(heard)
        return self._bags.next_set(after)

    def _may_accept(self, value: BagSet) -> bool:
        return self.behind or not self._bags.lacking(value)

    # --- led ballots --------------------------------------------------------------------------------

    def follow(self, decided: int) -> None:
        """Promise and accept what leaders ask for."""
        for sender, entry in self._led(decided):
            instance = self._instance(entry.after)
            if entry.promised > instance.promised and self._leads(sender, entry.promised):
                self._promise(instance, entry.promised)
            vote = self._offer(sender, entry)
            if vote is not None and self._may_accept(vote.value):
                self._promise(instance, vote.ballot)
                instance.accepted = vote

    def _promise(self, instance: Instance, ballot: Ballot) -> None:
        instance.promised = ballot
        instance.leading = instance.proposal = instance.seen_at = None
        self.changes += 1

    def lead(self, decided: int, live: Collection[int], now_seconds: float) -> None:
        """Bring about what does not come by itself; to be called by who coordinates."""
        after = decided
        for _ in range(WINDOW):
            names = self._names(after)
            if not names:
                return
            instance = self._instance(after)
            if self.chosen(after) is None:
                self._lead(after, instance, names, live, now_seconds)
            value = instance.proposal
            if value is None and instance.accepted is not None:
                value = instance.accepted.value
            if value is None:
                return
            after = value.epoch

    def _lead(
        self,
        after: int,
        instance: Instance,
        names: dict[int, BagSet],
        live: Collection[int],
        now_seconds: float,
    ) -> None:
        if instance.seen_at is None:
            instance.seen_at = now_seconds
        if instance.leading is None:
            in_vain = now_seconds - instance.seen_at >= self._settings.patience_seconds
            if in_vain or all(each in names for each in live):
                self._ask(after, instance, now_seconds)
        elif now_seconds >= instance.again_at and self._is_in_vain(after, instance):
            self._ask(after, instance, now_seconds)
        if instance.leading is not None and instance.proposal is None:
            instance.proposal = self._proposal(after, instance.leading, names)
        ours = instance.accepted is not None and instance.accepted.ballot == instance.leading
        value = instance.proposal
        if value is not None and not ours and self._may_propose(value, names, live):
            assert instance.leading is not None
            assert instance.promised == instance.leading
            instance.accepted = Accepted(instance.leading, value)
            self.changes += 1

    def _may_propose(self, value: BagSet, names: dict[int, BagSet], live: Collection[int]) -> bool:
        """Where every decision is stored it is enough that another one has the bags, and lives."""
        others = (names.get(each) == value for each in live if each != self._generation)
        return self._may_accept(value) or (self._settings.every_decision_stored and any(others))

    def _is_in_vain(self, after: int, instance: Instance) -> bool:
        """Others promised a higher ballot, or nobody has the bags any more of what is proposed."""
        assert instance.leading is not None
        passed = self._highest(after, instance) > instance.leading
        value = instance.proposal
        offered = instance.accepted is not None and instance.accepted.ballot == instance.leading
        return passed or (value is not None and not offered and not self._may_accept(value))

    def _highest(self, after: int, instance: Instance) -> Ballot:
        """The highest ballot that anybody promised."""
        others = (entry.promised for _, entry in self._peers.entries(self.plan, after))
        return max([instance.promised, *others])

    def _ask(self, after: int, instance: Instance, now_seconds: float) -> None:
        """Begin a ballot above all that is heard of."""
        highest = self._highest(after, instance)
        count = len(self.plan.replicas)
        attempt = self.plan.replicas.index(self._generation) + 1
        while attempt <= highest.attempt:
            attempt += count
        instance.leading = instance.promised = Ballot(self.plan.version, attempt)
        instance.proposal = None
        waits = min(1 << instance.tries, LONGEST_WAIT)
        instance.again_at = now_seconds + self._settings.patience_seconds * waits
        instance.tries += 1
        self.changes += 1

    def _proposal(self, after: int, ballot: Ballot, names: dict[int, BagSet]) -> BagSet | None:
        """What may have been chosen below the ballot, else what most have; None without a majority."""
        answers = [entry for _, entry in self._all_entries(after) if has_promised(entry, ballot)]
        if len(answers) + self.witness < majority(len(self.plan.replicas)):
            return None
        votes = [vote for entry in answers if (vote := accepted(entry)) is not None]
        return may_be_chosen(votes) or most_common(names.values())

    # --- counting -----------------------------------------------------------------------------------

    def chosen(self, after: int) -> Chosen | None:
        """What was chosen to follow the epoch, as far as is heard here."""
        state = (self.changes, self._peers.changes, self.witness)
        if state != self._counted_in:
            self._counted_in = state
            self._counted = {}
        if after not in self._counted:
            self._counted[after] = self._count(after)
        return self._counted[after]

    def _count(self, after: int) -> Chosen | None:
        holders: dict[Accepted, int] = {}
        mine: Accepted | None = None
        for generation, vote in self._votes(after):
            if vote.ballot >= self._named:
                holders[vote] = holders.get(vote, 0) + 1
                mine = vote if generation == self._generation else mine
        count = len(self.plan.replicas)
        for vote, holding in holders.items():
            if vote.ballot == self._named:
                enough = holding >= unanimous(count)
            else:
                enough = holding + (self.witness and vote == mine) >= majority(count)
            if enough:
                return Chosen(vote.value, holding)
        return None

    def wanted(self, decided: int) -> Iterator[tuple[int, BagSet]]:
        """Values by the epoch before them that this replica would accept, had it the bags."""
        for after in self._near():
            if after < decided:
                continue
            instance = self._instances[after]
            brought = instance.accepted
            if brought is not None and brought.ballot.attempt == INHERITED:
                yield after, brought.value
            if instance.proposal is not None:
                yield after, instance.proposal
        for sender, entry in self._led(decided):
            vote = self._offer(sender, entry)
            if vote is not None:
                yield entry.after, vote.value

    # --- helpers ------------------------------------------------------------------------------------

    def _led(self, decided: int) -> list[tuple[int, Entry]]:
        """Entries of others that tell of a led ballot."""
        return [
            (report.sender, entry)
            for report in self._peers.voters(self.plan)
            for entry in report.entries
            if entry.after >= decided and entry.promised > self._named
        ]

    def _offer(self, sender: int, entry: Entry) -> Accepted | None:
        """The value that a leader wants to be accepted here, if that is allowed and new."""
        vote = accepted(entry)
        if vote is None or not self._leads(sender, vote.ballot):
            return None
        instance = self._instance(entry.after)
        known = instance.accepted is not None and instance.accepted.ballot == vote.ballot
        return None if known or vote.ballot < instance.promised else vote

    def _leads(self, sender: int, ballot: Ballot) -> bool:
        return ballot > self._named and leader(self.plan.replicas, ballot.attempt) == sender

    def _names(self, after: int) -> dict[int, BagSet]:
        """What replicas of the plan have for what follows the epoch."""
        return {generation: vote.value for generation, vote in self._votes(after)}

    def _votes(self, after: int) -> list[tuple[int, Accepted]]:
        """What was accepted to follow the epoch: by this replica first, as for `_all_entries`."""
        found = list(self._peers.votes(self.plan, after))
        instance = self._instances.get(after)
        if instance is not None and instance.accepted is not None:
            found.insert(0, (self._generation, instance.accepted))
        return found

    def _all_entries(self, after: int) -> list[tuple[int, Entry]]:
        """This replica's first: among equals it prefers what it need not fetch."""
        found = list(self._peers.entries(self.plan, after))
        if after in self._instances:
            found.insert(0, (self._generation, self._entry(after)))
        return found

    def _entry(self, after: int) -> Entry:
        instance = self._instances[after]
        if instance.accepted is None:
            return Entry(after, instance.promised)
        return Entry(after, instance.promised, *instance.accepted)

    def _instance(self, after: int) -> Instance:
        if after not in self._instances:
            self._instances[after] = Instance(self._named)
        return self._instances[after]
