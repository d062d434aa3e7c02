"""When a replica that has to learn what was decided can't be told by anybody any more."""

from __future__ import annotations

import pytest

from replication.learning import untold_until
from replication.living import LEARNING_SECONDS, Living
from replication.peers import Peers
from streammine.model.agreement import AgreementSettings, FormerPlan, ReplicaPlan, Report
from streammine.model.epochs import BEGINNING

DECIDED, PLAN = 5, 3


def said(decided: int, tells_after: int, ready_in: int = PLAN, plan_version: int = PLAN) -> Report:
    return Report(8, 1, plan_version, ready_in, decided, tells_after=tells_after)


def heard(sender: int, sequence: int) -> Report:
    return Report(sender, sequence, PLAN, PLAN, DECIDED)


BEGAN_LATER = said(decided=20, tells_after=10)


@pytest.mark.parametrize(
    ("others", "until"),
    [
        ([BEGAN_LATER], 10),
        ([BEGAN_LATER, said(decided=30, tells_after=6)], 6),
        ([BEGAN_LATER, said(decided=5, tells_after=0)], 10),
        ([BEGAN_LATER, said(decided=6, tells_after=5)], None),
        ([BEGAN_LATER, None], None),
        ([said(decided=20, tells_after=10, ready_in=2)], None),
        ([said(decided=20, tells_after=10, ready_in=2, plan_version=2)], None),
        ([said(decided=20, tells_after=10, ready_in=2), said(decided=5, tells_after=0)], 10),
        ([said(decided=5, tells_after=0)], None),
        ([], None),
    ],
    ids=[
        "the other one began later",
        "the first that anybody can tell is told",
        "who knows as little can tell nothing",
        "one knows just what comes next",
        "one has not said anything yet",
        "nobody votes yet",
        "nobody votes in the newest plan",
        "who votes may know as little",
        "nobody knows more",
        "nobody else is left",
    ],
)
def test_who_is_left_behind(others: list[Report | None], until: int | None) -> None:
    assert untold_until(DECIDED, PLAN, others, stored=False, removed=BEGINNING) == until


@pytest.mark.parametrize(
    ("others", "until"),
    [
        ([said(decided=20, tells_after=10, ready_in=2)], 10),
        ([said(decided=20, tells_after=10, ready_in=2, plan_version=2)], 10),
        ([said(decided=20, tells_after=4, ready_in=2)], None),
        ([said(decided=20, tells_after=10, ready_in=2), None], None),
        ([], None),
    ],
    ids=[
        "nobody votes yet",
        "nobody votes in the newest plan",
        "one who votes no more can tell",
        "one has not said anything yet",
        "nobody else is left",
    ],
)
def test_who_is_left_behind_waits_for_no_vote_where_decisions_are_stored(
    others: list[Report | None], until: int | None
) -> None:
    assert untold_until(DECIDED, PLAN, others, stored=True, removed=BEGINNING) == until


@pytest.mark.parametrize(
    ("removed", "others", "until"),
    [
        (DECIDED, [], None),
        (DECIDED + 4, [], DECIDED + 4),
        (DECIDED + 4, [said(decided=5, tells_after=0)], DECIDED + 4),
        (DECIDED + 4, [None], None),
        (DECIDED + 4, [said(decided=20, tells_after=4)], None),
        (DECIDED + 4, [BEGAN_LATER], DECIDED + 4),
    ],
    ids=[
        "nothing that it lacks was removed",
        "nobody else is left",
        "the other one knows as little",
        "the other one has not said anything yet",
        "the other one can tell",
        "the other one began later",
    ],
)
def test_who_lacks_what_was_removed_from_the_store_is_left_behind(
    removed: int, others: list[Report | None], until: int | None
) -> None:
    assert untold_until(DECIDED, PLAN, others, stored=True, removed=removed) == until


def test_who_was_left_out_and_says_nothing_any_more_is_not_waited_for() -> None:
    peers = Peers()
    living = Living(1, peers, AgreementSettings())
    living.begin(ReplicaPlan(PLAN, (1, 2, 3), (FormerPlan(PLAN - 1, (1, 2, 4)),)))
    for sender in (2, 4):
        peers.hear(heard(sender, 1), 0.0)
    living.look(LEARNING_SECONDS, is_open=True)
    assert living.others == {2, 3, 4}, "the plan is new, and they may be slow"
    peers.hear(heard(2, 2), LEARNING_SECONDS)
    living.look(1.5 * LEARNING_SECONDS, is_open=True)
    assert living.others == {2}
    peers.hear(heard(4, 2), 2 * LEARNING_SECONDS)
    living.look(2.5 * LEARNING_SECONDS, is_open=True)
    assert living.others == {4}, "and who speaks again counts again"
