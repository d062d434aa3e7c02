"""A replica that knows less than the store, where decisions were removed since a checkpoint covers them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from replication import Consensus
from replication.decisions import (
    forget_decisions,
    seal_decisions,
    store_decisions,
    superseded_decisions,
)
from replication.phases import Phase
from streammine.model import agreement as words
from streammine.model.agreement import Bag, Decision, ReplicaPlan
from streammine.model.epochs import BEGINNING
from streammine.model.ids import SliceId
from tests.unit.memory_store import MemoryStore

COUNTS = SliceId("counts", 0)
SETTINGS = words.AgreementSettings(every_decision_stored=True, bags_come=True)
EPOCHS = 40
REMOVED = 20
OF_1, OF_2 = Bag("1"), Bag("2")


class Pair:
    """Replicas 1 and 2 of plan 1 at one store. What one tells the other does not arrive while it is `cut`."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.machines = {one: Consensus(one, SETTINGS, 0, 0) for one in (1, 2)}
        self.processed: dict[int, list[Decision]] = {1: [], 2: []}
        self.outrun: dict[int, int] = {}
        self.cut = False
        self._witnesses: dict[int, int] = {}
        self._now_seconds = 0.0

    def give(self, one: int, stimulus: words.AgreementStimulus) -> None:
        """And all that follows from it."""
        given: list[tuple[int, words.AgreementStimulus]] = [(one, stimulus)]
        for each, what in given:
            for effect in self.machines[each].handle(what):
                given += self._answers(each, effect)

    def _answers(
        self, one: int, effect: words.AgreementEffect
    ) -> Iterator[tuple[int, words.AgreementStimulus]]:
        match effect:
            case words.Tell(receivers, message):
                for each in () if self.cut else receivers:
                    yield each, words.Heard(message)
            case words.SealStore(version, known):
                yield one, seal_decisions(self.store, COUNTS, version, known)
            case words.MakeDurable(stored):
                yield one, store_decisions(self.store, COUNTS, one, stored)
            case words.AskWitness(version):
                holder = self._witnesses.setdefault(version, one)
                yield one, words.WitnessAnswered(version, holder)
            case words.Process(decision):
                self.processed[one].append(decision)
            case words.Outrun(covered):
                self.outrun[one] = covered

    def plan(self, version: int, *replicas: int) -> None:
        for one in replicas:
            self.give(one, words.PlanChanged(ReplicaPlan(version, replicas)))

    def pass_time(self, seconds: float, *replicas: int) -> None:
        for _ in range(round(seconds * 100)):
            self._now_seconds += 0.01
            for one in replicas:
                self.give(one, words.Tick(self._now_seconds))

    def go_on(self, replicas: tuple[int, ...] = (1, 2)) -> None:
        """Epochs come, of which each replica has another receiver's bag first."""
        for epoch in range(1, EPOCHS + 1):
            for one in replicas:
                for bag in (OF_1, OF_2) if one == 1 else (OF_2, OF_1):
                    self.give(one, words.BagHeld(0, epoch, bag))
                self.give(one, words.EpochEnded(epoch))
            self.pass_time(0.05, *replicas)

    def remove(self) -> None:
        """A checkpoint covers the first decisions for good."""
        removed = superseded_decisions(self.store, REMOVED)
        for name in [*removed, *forget_decisions(self.store, REMOVED, removed)]:
            self.store.delete(name)


def one_ahead() -> tuple[Pair, int, int]:
    """They are cut off from each other; who has the witness goes on, and the other one knows nothing."""
    pair = Pair()
    pair.plan(1, 1, 2)
    pair.pass_time(0.2, 1, 2)
    pair.cut = True
    pair.go_on()
    ahead = max(pair.machines, key=lambda one: pair.machines[one].decided)
    behind = 3 - ahead
    assert pair.machines[ahead].decided == EPOCHS
    assert not pair.processed[behind]
    return pair, ahead, behind


def test_who_lacks_what_was_removed_gives_up_where_nobody_is_left() -> None:
    pair, _, behind = one_ahead()
    pair.remove()
    pair.plan(2, behind)
    pair.pass_time(2.0, behind)
    assert pair.outrun == {behind: REMOVED}
    assert not pair.processed[behind]


def test_who_lacks_what_was_removed_gives_up_where_the_other_is_out_of_reach() -> None:
    pair, _, behind = one_ahead()
    pair.remove()
    pair.plan(2, 1, 2)
    pair.pass_time(2.0, 1, 2)
    assert pair.outrun == {behind: REMOVED}
    assert not pair.processed[behind]


def test_who_lacks_what_was_removed_learns_it_from_the_other() -> None:
    pair, ahead, behind = one_ahead()
    pair.remove()
    pair.cut = False
    pair.plan(2, 1, 2)
    pair.pass_time(2.0, 1, 2)
    assert not pair.outrun
    assert pair.processed[behind] == pair.processed[ahead]
    assert {each.phase for each in pair.machines.values()} == {Phase.VOTING}


def test_what_was_not_removed_is_learnt_from_the_store() -> None:
    pair, ahead, behind = one_ahead()
    pair.plan(2, behind)
    pair.pass_time(2.0, behind)
    assert not pair.outrun
    assert pair.processed[behind] == pair.processed[ahead]


@pytest.mark.parametrize("begun", [REMOVED - 1, REMOVED])
def test_who_was_built_from_the_checkpoint_that_covers_what_was_removed_goes_on(begun: int) -> None:
    pair, ahead, _ = one_ahead()
    pair.remove()
    pair.machines[3], pair.processed[3] = Consensus(3, SETTINGS, begun, begun), []
    pair.plan(2, 3)
    pair.go_on((3,))
    if begun < REMOVED:
        assert (pair.outrun, pair.processed[3]) == ({3: REMOVED}, [])
    else:
        assert pair.processed[3] == pair.processed[ahead][REMOVED:]


def test_the_store_tells_up_to_where_decisions_may_be_gone() -> None:
    pair, _, _ = one_ahead()
    assert seal_decisions(pair.store, COUNTS, 7, 0).removed_until == BEGINNING
    pair.remove()
    read = seal_decisions(pair.store, COUNTS, 8, 0)
    assert read.removed_until == REMOVED
    assert min(each.decision.after for each in read.decisions) == REMOVED
