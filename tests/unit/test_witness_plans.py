"""A witness that was taken in a moment's silence is given back by another plan, and plans come to rest."""

from __future__ import annotations

from itertools import pairwise

import pytest

from replication.witness import SPENT_SECONDS
from streammine.model import agreement as words
from tests.unit.agreement_transcripts import Replicas, ready, together_for
from tests.unit.timed_agreement import TimedAgreement

HICCUP = (2.0, 2.1)


def test_a_plan_is_spent_when_the_holder_of_the_witness_needs_it_no_more() -> None:
    # if 1 were lost now, 2 could not go on before the plan that makes up for it
    replicas = taken_by_first()
    for _ in range(30):
        replicas("1 waits little")
        assert spent(replicas) == [0, 0], "1 is alone"
    together_for(replicas, SPENT_SECONDS - 0.05)
    assert spent(replicas) == [0, 0]
    replicas("1 waits long")
    together_for(replicas, SPENT_SECONDS - 0.05)
    assert spent(replicas) == [0, 0], "2 was silent in between"
    together_for(replicas, 0.1)
    assert spent(replicas) == [1, 0]
    replicas("plan 2 of 1 2")
    together_for(replicas, 2 * SPENT_SECONDS)
    assert spent(replicas) == [0, 0], "there is a new witness, which nobody has taken"


def test_a_plan_is_spent_when_the_holder_of_the_witness_is_silent() -> None:
    replicas = taken_by_first()
    replicas("2 has 5a")
    replicas("2 waits long")
    replicas("witness 2: 1")
    replicas("2 waits little")
    assert spent(replicas) == [0, 0]
    for _ in range(20):
        replicas("2 waits little")
    assert spent(replicas) == [0, 1]
    replicas("1 waits little")
    replicas("2 hears 1")
    replicas("2 waits little")
    assert spent(replicas) == [0, 0], "1 is there, and can take part"


def test_who_held_the_witness_of_a_former_plan_is_no_answer_for_this_one() -> None:
    # the answer comes when 1 knows of plan 2, and has not read the store yet
    replicas = ready(2, stored=True)
    for line in ("1 has 5a", "1 waits long"):
        replicas(line)
    late = words.WitnessAnswered(1, 1)
    replicas("plan 2 of 1 2")
    replicas.give(1, late)
    assert "1 asks for the witness" not in replicas("1 read"), "2 is about to take part"
    assert "1 asks for the witness" in replicas("1 waits long")


def taken_by_first() -> Replicas:
    """Two replicas, of which the first has heard nobody for long."""
    replicas = ready(2)
    for line in ("1 has 5a", "1 waits long", "witness 1: 1"):
        replicas(line)
    return replicas


def spent(replicas: Replicas) -> list[int]:
    return [machine.spent_plan for machine in replicas.machines.values()]


@pytest.mark.parametrize("hiccup_of", [1, 2])
def test_after_a_hiccup_one_plan_lists_the_same_replicas_anew(hiccup_of: int) -> None:
    run = TimedAgreement(frozen={hiccup_of: [HICCUP]})
    assert len(run.plans) == 2
    assert HICCUP[1] < run.plans[1] < HICCUP[1] + 1.0


@pytest.mark.parametrize("hiccup_of", [1, 2])
@pytest.mark.parametrize("then_frozen", [1, 2])
def test_output_goes_on_whoever_is_frozen_after_a_hiccup(hiccup_of: int, then_frozen: int) -> None:
    frozen = {hiccup_of: [HICCUP]}
    frozen.setdefault(then_frozen, []).append((5.0, 9.0))
    assert TimedAgreement(frozen=frozen).longest_gap < 0.15


def test_a_holder_that_is_frozen_before_it_gave_the_witness_back_holds_up_the_others_briefly() -> (
    None
):
    # nobody could decide for as long as it is frozen
    run = TimedAgreement(frozen={2: [HICCUP], 1: [(2.2, 8.0)]})
    assert 0.3 < run.longest_gap < 1.0


@pytest.mark.parametrize("seals", [(0.01, 0.1), (0.04, 0.2), (0.06, 0.08), (0.2, 0.4)])
@pytest.mark.parametrize("hiccup", [False, True])
def test_plans_come_to_rest_where_one_store_is_slower(
    seals: tuple[float, float], hiccup: bool
) -> None:
    # who is ready first must not take the witness of each plan, for the other one is there
    seal_seconds = dict(enumerate(seals, 1))
    run = TimedAgreement(seal_seconds, frozen={2: [HICCUP] if hiccup else []})
    assert len(run.plans) <= 1 + hiccup


def test_replicas_that_never_hear_each_other_are_listed_anew_more_and_more_seldom() -> None:
    run = TimedAgreement(cut=2.0, seconds=60.0)
    between = [later - before for before, later in pairwise(run.plans[1:])]
    assert len(run.plans) <= 18
    assert between[0] < 2.0
    assert max(between) >= 7.5


def test_messages_that_take_longer_than_silence_may_cost_a_plan_or_two() -> None:
    assert len(TimedAgreement(message_seconds=0.06).plans) <= 3
