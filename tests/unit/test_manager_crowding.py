"""Which nodes a manager takes for crowded when it takes over: those that another one found to be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streammine.engine.manager import ManagerMachine
from streammine.engine.manager_stimuli import Elected, NodesChanged, Reported, Ticked
from streammine.engine.node_stimuli import CheckpointsFound, JobEndSeen, JobSeen, PlanSeen
from streammine.model.ids import SliceId
from streammine.model.job import JobGraph, Plan
from streammine.model.schemes import Scheme
from tests.unit.managing import NODES, checkpoint, new_manager, plan_of, snapshotting, told
from tests.unit.small_job import ASYNCHRONOUS, GRAPH, report, told_by
from tests.unit.test_manager_replicas import Managed, replicated

COUNTS = SliceId("counts", 0)
"""Its second replica is on b."""


def paused_plan(*crowded: str) -> Plan:
    """Of a job whose further replicas stand at hot standby on these nodes."""
    plan = Managed("ab").plan
    placements = {
        slice_id: (
            group[0],
            *(
                replace(each, rung=Scheme.PASSIVE_STANDBY_HOT) if each.node in crowded else each
                for each in group[1:]
            ),
        )
        for slice_id, group in plan.placements.items()
    }
    return replace(plan, crowded=crowded, placements=placements)


def unreplicated_plan(number: int, *crowded: str) -> Plan:
    return replace(plan_of(snapshotting()), job=number, crowded=crowded)


def new_leader(plans: list[Plan]) -> ManagerMachine:
    """It has seen these plans, in this order."""
    manager = new_manager()
    told(manager, NodesChanged(NODES))
    for plan in plans:
        told(manager, JobSeen(plan.job, graph_of(plan), 2, ASYNCHRONOUS))
    told(manager, *map(PlanSeen, plans), Elected(True))
    for plan in plans:
        told(manager, CheckpointsFound(plan.job, (checkpoint(10), checkpoint(20))))
    return manager


def graph_of(plan: Plan) -> JobGraph:
    return replicated(2) if any(len(group) > 1 for group in plan.placements.values()) else GRAPH


def crowded(manager: ManagerMachine) -> tuple[str, ...]:
    """By the plan, once all have told of themselves."""
    plan = plan_of(manager)
    for node in "ab":
        reports = [
            report(str(slice_id), each.generation, 25, rung=each.rung)
            for slice_id, group in plan.placements.items()
            for each in group
            if each.node == node
        ]
        told(manager, Reported(told_by(node, plan.version, reports)))
    told(manager, Ticked(1.0, 1001.0))
    return plan_of(manager).crowded


@pytest.mark.parametrize("others", [[], [unreplicated_plan(2)]])
def test_paused_replicas_stay_where_they_are(others: list[Plan]) -> None:
    manager = new_leader([paused_plan("b"), *others])
    assert crowded(manager) == ("b",)
    group = plan_of(manager).placements[COUNTS]
    assert [(each.node, each.rung) for each in group[1:]] == [("b", Scheme.PASSIVE_STANDBY_HOT)]


def test_a_plan_that_nobody_keeps_up_does_not_count() -> None:
    """Of a job without further replicas, or of one that is over."""
    manager = new_leader([paused_plan(), unreplicated_plan(2, "a")])
    assert crowded(manager) == ()
    manager = new_manager()
    told(manager, NodesChanged(NODES))
    over = replace(paused_plan("a"), job=2)
    for plan in (over, paused_plan()):
        told(manager, JobSeen(plan.job, replicated(2), 2, ASYNCHRONOUS), PlanSeen(plan))
        told(manager, JobEndSeen(2))
    told(manager, Elected(True), CheckpointsFound(1, (checkpoint(10), checkpoint(20))))
    assert crowded(manager) == ()


def test_who_leads_before_it_has_seen_a_plan_takes_it_from_there() -> None:
    manager = new_manager()
    told(manager, Elected(True), JobSeen(1, replicated(2), 2, ASYNCHRONOUS))
    told(manager, PlanSeen(paused_plan("b")), NodesChanged(NODES))
    told(manager, CheckpointsFound(1, (checkpoint(10), checkpoint(20))))
    assert crowded(manager) == ("b",)


def test_what_is_found_crowded_no_more_stays_so_whatever_plans_come() -> None:
    manager = new_leader([paused_plan("b")])
    assert crowded(manager) == ("b",)
    load = {"spare_wait_seconds": 0.0, "idle_share": 1.0}
    beat = replace(told_by("b", 0), load=load, jobs=())
    told(manager, Reported(beat), Ticked(4.0, 1004.0), Reported(beat), Ticked(5.0, 1005.0))
    assert plan_of(manager).crowded == ()
    told(manager, PlanSeen(replace(plan_of(manager), crowded=("b",))))
    assert crowded(manager) == ()
