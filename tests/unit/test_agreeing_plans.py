"""Which replicas agree with whom, plan by plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from streammine.engine.manager_stimuli import Reported, Ticked
from streammine.model.ids import SliceId
from streammine.model.job import AgreeingReplicas, JobGraph
from tests.unit.managing import planned, told
from tests.unit.small_job import ASYNCHRONOUS, report, told_by
from tests.unit.test_manager_replicas import Managed, replicated

FIRST, SECOND = SliceId("counts", 0), SliceId("counts", 1)


class Job(Managed):
    """Two replicas of each slice, of which the counts' agree on their input."""

    def __init__(self, nodes: str) -> None:
        graph = replicated(2)
        edges = tuple(replace(each, either=True, stages=("any",)) for each in graph.edges)
        super().__init__(nodes, graph=JobGraph(graph.vertices, edges))

    def listed(self, slice_id: SliceId) -> tuple[int, tuple[int, ...]]:
        """The plan that the slice's replicas are listed under, and their generations."""
        found = self.plan.agreeing[slice_id]
        return found.version - ASYNCHRONOUS.first_generation, found.replicas

    def spend(self, node: str, slices: Sequence[SliceId], version: int) -> list[str]:
        """A node reports that its replicas of these have spent that plan."""
        spent = ASYNCHRONOUS.first_generation + version
        reports = [
            report(str(one), each.generation, 25, spent_plan=spent if one in slices else 0)
            for one, group in self.plan.placements.items()
            for each in group
            if each.node == node
        ]
        return planned(told(self.manager, Reported(told_by(node, self.plan.version, reports))))


def test_replicas_are_listed_under_the_plan_that_first_listed_just_these() -> None:
    job = Job("abc")
    assert job.plan.version == 2
    assert job.listed(FIRST) == job.listed(SECOND) == (1, (1, 2))
    assert job.drawn() | {"counts/0": "b a", "counts/1": "c a"} == job.drawn()
    job.live("ac")
    assert job.listed(SECOND) == (1, (1, 2))
    assert job.listed(FIRST) == (3, (2, 4)), (
        "the one that is left, and the one that makes up for the other"
    )


@pytest.mark.parametrize("node", "ab")
def test_replicas_that_have_spent_their_plan_are_listed_anew_and_once(node: str) -> None:
    job = Job("ab")
    before = job.plan
    assert job.spend(node, [FIRST], 1) == ["plan 3: run"]
    assert job.plan.placements == before.placements
    assert job.listed(FIRST) == (3, (1, 2))
    assert job.listed(SECOND) == (1, (1, 2)), "these have not"
    assert job.spend(node, [FIRST], 1) == [], "said before the plan was known"
    assert job.spend(node, [FIRST, SECOND], 1) == ["plan 4: run"]
    assert job.listed(FIRST) == (3, (1, 2))
    assert job.listed(SECOND) == (4, (1, 2))
    assert job.hear() == []


def test_a_replica_that_can_not_go_on_is_built_anew_and_the_others_stay() -> None:
    job = Job("ab")
    gone = next(each for each in job.plan.placements[FIRST] if each.node == "a")
    (kept,) = (each for each in job.plan.placements[FIRST] if each != gone)
    others = {each: group for each, group in job.plan.placements.items() if each != FIRST}

    def tell() -> list[str]:
        reports = [
            report(str(one), each.generation, 25, outrun=(one, each) == (FIRST, gone))
            for one, group in job.plan.placements.items()
            for each in group
            if each.node == "a"
        ]
        return planned(told(job.manager, Reported(told_by("a", job.plan.version, reports))))

    assert tell()
    job.hear()
    first = job.plan.placements[FIRST]
    assert kept in first
    assert gone not in first
    (new,) = (each for each in first if each != kept)
    assert new.node == "a"
    assert new.begin == 20, "from the newest complete checkpoint"
    assert {each: group for each, group in job.plan.placements.items() if each != FIRST} == others
    assert tell() == [], "it is no more"


def test_replicas_that_are_listed_anew_have_been_there_all_the_while() -> None:
    # nothing was lost, so the time in which nothing is lost goes on
    job = Job("ab")
    managed = job.manager.jobs[1]
    assert managed.whole is not None
    since = managed.whole[1]
    told(job.manager, Ticked(since + 700.0, 1700.0))
    job.hear()
    assert job.spend("a", [FIRST], 1) == ["plan 3: run"]
    job.hear()
    assert managed.whole == (job.plan.placements, since)


def test_any_other_plan_lists_them_anew_too() -> None:
    job = Job("abc")
    before = AgreeingReplicas(job.plan.agreeing[SECOND].version, (1, 2))
    job.manager.leading = False
    job.spend("a", [SECOND], 1)
    assert job.plan.agreeing[SECOND] == before, "who does not lead plans nothing"
    job.manager.leading = True
    job.live("ac")
    assert job.listed(SECOND) == (3, (1, 2))
