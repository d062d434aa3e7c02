"""When a replica that has to learn what was decided can't be told by anybody any more."""

from __future__ import annotations

import pytest

from replication.learning import forgotten_until
from streammine.model.agreement import Report

DECIDED, PLAN = 5, 3


def said(decided: int, tells_after: int, ready_in: int = PLAN, plan_version: int = PLAN) -> Report:
    return Report(8, 1, plan_version, ready_in, decided, tells_after=tells_after)


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
    assert forgotten_until(DECIDED, PLAN, others) == until
