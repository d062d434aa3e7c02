"""How many replicas of a plan are enough, and what a quorum's answers leave open (used by `consensus`).

A plan has n replicas. Where n is even a witness has a vote, too, which counts for its holder; a *majority*
is more than half of the votes. With m = the fewest replicas that ever make a majority:

    n                               1   2   3   4   5   6   7
    votes                           1   3   3   5   5   7   7
    majority, in votes              1   2   2   3   3   4   4
    fewest replicas m               1   1   2   2   3   3   4     the holder of the witness counts for two
    unanimous enough (round 0)      1   2   3   4   4   5   6     n - (m - 1) // 2
    bag is on enough replicas       -   2   2   3   3   4   4     never one: it would die with the bag
    answers that close the plan     0   1   2   2   3   3   4     each set of the line above contains one

Any two majorities share a replica: with the witness, its holder, or one of the others. (The holder of n = 2
is a majority by itself, and in every other one.)

*Round 0* has no leader: everybody names what it has. Two names may be split among replicas so that whoever
is silent decides which had the majority; then a new leader could not tell which was chosen. So as many have
to be equal that two such sets and any majority always share a replica, 2 (n - m0) < m (Lamport 2006, "Fast
Paxos", section 2.2): then what was chosen is the most common name in any majority.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from streammine.model.agreement import BagSet, Ballot

INHERITED = -1
"""Attempt of what a replica brings along from former plans."""

NAMED = 0
"""Attempt in which everybody names what it has; above it, each has a leader."""


def majority(replicas: int) -> int:
    """Votes, the witness's included, that settle a led ballot."""
    return replicas // 2 + 1


def fewest(replicas: int) -> int:
    """Replicas that may make a majority, one of them with the witness."""
    return (replicas + 1) // 2


def unanimous(replicas: int) -> int:
    """Replicas whose equal names settle round 0."""
    return replicas - (fewest(replicas) - 1) // 2


def bag_holders(replicas: int) -> int:
    """Replicas on which a bag is as safe as in the store."""
    return max(2, majority(replicas))


def closing(replicas: int) -> int:
    """Replicas of a former plan whose word closes it: without them nothing is chosen there any more but
    what goes by the store, and what was chosen one of them knows."""
    return max(0, replicas - bag_holders(replicas) + 1)


def leader(replicas: tuple[int, ...], attempt: int) -> int:
    """Whose ballot it is; the lowest generation has the first."""
    assert attempt > NAMED, "nobody leads round 0"
    return replicas[(attempt - 1) % len(replicas)]


class Accepted(NamedTuple):
    """What one replica accepted."""

    ballot: Ballot
    value: BagSet


def most_common(values: Iterable[BagSet]) -> BagSet:
    """Among those as common as each other the lowest epoch, so that least is passed over; then the first."""
    counts: dict[BagSet, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return min(counts, key=lambda value: (-counts[value], value.epoch))


def may_be_chosen(accepted: Iterable[Accepted]) -> BagSet | None:
    """The only value that can have been chosen, as far as a quorum's answers tell; None: none was.

    Of the highest ballot that was accepted in; in round 0 and among what was inherited, the most common.
    """
    answers = list(accepted)
    if not answers:
        return None
    highest = max(each.ballot for each in answers)
    return most_common(each.value for each in answers if each.ballot == highest)
