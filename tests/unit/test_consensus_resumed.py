"""A lone replica that finds all that was decided since the last checkpoint in the store."""

from __future__ import annotations

from replication import Consensus
from replication.ballots import WINDOW
from streammine.model import agreement as words
from streammine.model.agreement import Bag, BagSet, Decision, StoredDecision

DECIDED = 400
STORED = tuple(
    StoredDecision(1, Decision(epoch, BagSet(epoch + 1, ((0, Bag("0")),))))
    for epoch in range(DECIDED)
)


def resumed(stored: bool) -> Consensus:
    """A replica of two that has learnt, and has heard nothing of the other one."""
    machine = Consensus(7, words.AgreementSettings(every_decision_stored=stored), 0, 0)
    machine.handle(words.PlanChanged(words.ReplicaPlan(5, (7, 8))))
    if not stored:
        for epoch in range(1, DECIDED + 1):
            machine.handle(words.BagHeld(0, epoch, Bag("0")))
    machine.handle(words.StoreRead(5, STORED))
    return machine


def told(machine: Consensus) -> words.Report:
    effects = machine.handle(words.Tick(1.0))
    (report,) = [each.message for each in effects if isinstance(each, words.Tell)]
    assert isinstance(report, words.Report)
    return report


def test_a_report_tells_what_comes_next_and_not_all_that_is_in_the_store() -> None:
    told_of = [entry.after for entry in told(resumed(stored=True)).entries]
    assert told_of == list(range(2 * WINDOW))


def test_where_memory_alone_holds_it_a_report_tells_all() -> None:
    assert len(told(resumed(stored=False)).entries) == DECIDED


def test_what_is_in_the_store_is_processed_to_its_end() -> None:
    machine = Consensus(7, words.AgreementSettings(every_decision_stored=True), 0, 0)
    effects = machine.handle(words.PlanChanged(words.ReplicaPlan(5, (7,))))
    effects += machine.handle(words.StoreRead(5, STORED))
    for epoch in range(1, DECIDED + 1):
        effects += machine.handle(words.BagHeld(0, epoch, Bag("0")))
        effects += machine.handle(words.EpochEnded(epoch))
    processed = []
    while effects:
        effect = effects.pop(0)
        if isinstance(effect, words.MakeDurable):
            effects += machine.handle(words.DecisionDurable(effect.stored, 5))
        elif isinstance(effect, words.Process):
            processed.append(effect.decision)
    assert processed == [each.decision for each in STORED]


def test_a_replica_that_is_far_behind_catches_up_while_more_is_decided() -> None:
    """Each decision that the other one tells it of lies far beyond what it knows."""
    settings = words.AgreementSettings(every_decision_stored=True)
    ahead, behind = (Consensus(one, settings, 0, 0) for one in (7, 8))
    machines = {7: ahead, 8: behind}
    stored = list(STORED)
    for each in machines.values():
        each.handle(words.PlanChanged(words.ReplicaPlan(4, (7,))))
    ahead.handle(words.StoreRead(4, STORED))
    own = tuple(StoredDecision(4, each.decision) for each in STORED)
    for first in range(0, DECIDED, WINDOW):
        ahead.handle(words.DecisionDurable(own[first : first + WINDOW], 4))
    assert ahead.decided == DECIDED
    messages: list[tuple[int, words.AgreementMessage]] = []

    def give(one: int, stimulus: words.AgreementStimulus) -> None:
        for effect in machines[one].handle(stimulus):
            match effect:
                case words.Tell(receivers, message):
                    messages.extend((each, message) for each in receivers)
                case words.MakeDurable(written):
                    stored.extend(written)
                    give(one, words.DecisionDurable(written, 5))

    for one in machines:
        give(one, words.PlanChanged(words.ReplicaPlan(5, (7, 8), (words.FormerPlan(4, (7,)),))))
    give(8, words.Heard(next(message for receiver, message in messages if receiver == 8)))
    for one in machines:
        give(one, words.StoreRead(5, STORED))
    give(7, words.Tick(1.0))
    give(7, words.WitnessAnswered(5, 7))
    turns = 0
    while behind.ready_in < 5:
        turns += 1
        assert turns < 100, f"{behind.decided} of {ahead.decided}"
        epoch = DECIDED + turns
        give(7, words.BagHeld(0, epoch, Bag("0")))
        give(7, words.EpochEnded(epoch))
        sent, messages = messages, []
        for receiver, message in sent:
            give(receiver, words.Heard(message))
        for one in machines:
            give(one, words.Tick(1.0 + turns * 0.005))
