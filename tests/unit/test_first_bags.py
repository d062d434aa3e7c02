"""Replicas that choose without agreeing take what they have first."""

from __future__ import annotations

from replication import FirstBags
from streammine.model.agreement import (
    AgreementSettings,
    Bag,
    BagHeld,
    BagSet,
    Decided,
    Decision,
    EpochEnded,
    PlanChanged,
    Process,
    ReplicaPlan,
    Tick,
)


def test_the_first_bag_of_each_channel_is_processed_once_its_epoch_is_over() -> None:
    choice = FirstBags(1, AgreementSettings(), processed=3)
    east, west, other = Bag("0"), Bag("1"), Bag("2")
    for held in (BagHeld(0, 5, west), BagHeld(0, 5, east), BagHeld(2, 5, other)):
        assert choice.handle(held) == []
    decision = Decision(3, BagSet(5, ((0, west), (2, other))))
    assert choice.handle(EpochEnded(5)) == [Decided(decision), Process(decision)]
    assert choice.decided == 5


def test_what_comes_too_late_changes_nothing() -> None:
    choice = FirstBags(1, AgreementSettings())
    choice.handle(EpochEnded(5))
    assert choice.handle(BagHeld(0, 5, Bag("0"))) == []
    empty = Decision(5, BagSet(6))
    assert choice.handle(EpochEnded(6)) == [Decided(empty), Process(empty)]


def test_it_votes_in_no_plan() -> None:
    choice = FirstBags(1, AgreementSettings())
    for stimulus in (PlanChanged(ReplicaPlan(1, (1, 2))), Tick(1.0)):
        assert choice.handle(stimulus) == []
    assert not choice.binds_all
