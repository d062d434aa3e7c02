"""The replicas of a slice never process different bags, whatever happens, and agree once they can talk.

The safety properties are asserted by the world, with each epoch that is processed.
"""

from __future__ import annotations

from collections import Counter

import pytest

from replication.quorums import bag_holders, closing, fewest, majority, unanimous
from tests.property.agreement_world import run

SEEDS_AT_ONCE = 50


@pytest.mark.parametrize("first", range(0, 200, SEEDS_AT_ONCE))
def test_replicas_that_come_and_go_process_the_same(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + SEEDS_AT_ONCE):
        counts += run(seed).counts
    effects = ("Process", "FetchBag", "MakeDurable", "AskWitness", "SealStore")
    for what in (*effects, "crashed", "listed anew"):
        assert counts[what], f"no seed came to {what}"


@pytest.mark.parametrize("first", range(0, 200, SEEDS_AT_ONCE))
def test_leaders_that_get_into_each_others_way_settle_the_same(first: int) -> None:
    for seed in range(first, first + SEEDS_AT_ONCE):
        run(seed, duel=True)


@pytest.mark.parametrize("stored", [False, True])
def test_replicas_that_nobody_can_tell_what_was_decided_hold_up_no_one(stored: bool) -> None:
    counts: Counter[str] = Counter()
    for seed in range(150):
        counts += run(seed, stored, succession=True).counts
    assert counts["left behind"]


@pytest.mark.parametrize("seed", [900325, 902915, 951434])
def test_who_is_left_behind_by_all_that_could_tell_it_gives_up(seed: int) -> None:
    """Those that the plan lists beside it, if any, began later; who knew all was left out and is silent."""
    run(seed, stored=True, succession=True)


@pytest.mark.parametrize("first", range(0, 100, SEEDS_AT_ONCE))
def test_stored_decisions_survive_the_loss_of_all_replicas_at_once(first: int) -> None:
    for seed in range(first, first + SEEDS_AT_ONCE):
        run(seed, stored=True)


@pytest.mark.parametrize("seed", [95, 557, 598])
def test_nobody_decides_anew_what_was_removed_from_the_store(seed: int) -> None:
    assert run(seed, stored=True).counts["removed"]


@pytest.mark.parametrize("count", range(1, 40))
def test_quorums_share_replicas_as_the_argument_wants_it(count: int) -> None:
    votes = count if count % 2 else count + 1
    assert 2 * majority(count) > votes
    # two sets of equal names and a majority share a replica
    assert 2 * (count - unanimous(count)) < fewest(count)
    # a majority without the witness, and one with it in the hands of one of its replicas
    assert majority(count) + fewest(count) > count
    # what is on enough replicas is known to one of those that close a plan
    assert bag_holders(count) + closing(count) > count
    # and what was settled by equal names is the most common there
    assert 2 * (count - unanimous(count)) < max(1, closing(count))
