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
