"""The manager's protocol: what it declares, and when."""

from __future__ import annotations

import pytest

from streammine.assembly import POLICIES
from streammine.engine.manager import ENDED_JOBS_KEPT, PACE_DELAY_SECONDS, ManagerMachine
from streammine.engine.manager_stimuli import Elected, NodesChanged, Reported, StopAsked, Ticked
from streammine.engine.node_stimuli import DeclareEnd, DeclarePlan, JobEndSeen, JobSeen, PlanSeen
from streammine.model.job import Plan
from streammine.model.job_codec import decode_plan, encode_plan
from tests.unit.managing import NODES, ON_A, ON_B, leading, new_manager, running, told
from tests.unit.small_job import GRAPH, SLICES, heartbeat


def test_a_job_is_deployed_then_run_then_ended() -> None:
    #   job -> plan 1 deploy -> (all nodes deployed) -> plan 2 run -> (all slices finished) -> end
    manager = leading("a", "b")
    assert told(manager, JobSeen(1, GRAPH, 2)) == ["plan 1: deploy"]
    assert told(manager, Reported(heartbeat("a", 1, ON_A))) == []
    assert told(manager, Reported(heartbeat("b", 1, ON_B))) == ["plan 2: run"]
    assert told(manager, Reported(heartbeat("a", 2, ON_A, finished=ON_A))) == []
    assert told(manager, Reported(heartbeat("b", 2, ON_B, finished=("source/1",)))) == []
    assert told(manager, Reported(heartbeat("b", 2, ON_B, finished=ON_B))) == [
        "end: finished, None"
    ]
    assert told(manager, Reported(heartbeat("b", 2, ON_B, finished=ON_B))) == []


def test_the_pace_of_a_job_begins_once_just_after_its_slices_are_deployed() -> None:
    manager = new_manager()
    told(manager, Elected(True), NodesChanged(NODES), JobSeen(1, GRAPH, 2))
    told(manager, Ticked(7.0, 5000.0), Reported(heartbeat("a", 1, ON_A)))
    (declared,) = manager.handle(Reported(heartbeat("b", 1, ON_B)))
    assert isinstance(declared, DeclarePlan)
    assert declared.plan.began_at == 5000.0 + PACE_DELAY_SECONDS
    told(manager, Ticked(8.0, 5001.0), NodesChanged((("b", 2),)))
    assert manager.jobs[1].plan is not None
    later = manager.handle(Reported(heartbeat("b", 2, ON_B)))
    plans = [each.plan for each in later if isinstance(each, DeclarePlan)]
    plans.append(manager.jobs[1].plan)
    assert plans[-1].version == 3, "it makes up for the loss"
    assert {each.began_at for each in plans} == {declared.plan.began_at}
    assert decode_plan(encode_plan(plans[-1])) == plans[-1]


def test_no_pace_begins_before_the_manager_knows_the_time() -> None:
    manager = ManagerMachine(POLICIES)
    told(manager, Elected(True), NodesChanged(NODES), JobSeen(1, GRAPH, 2))
    reports = [Reported(heartbeat("a", 1, ON_A)), Reported(heartbeat("b", 1, ON_B))]
    assert told(manager, *reports) == []
    assert told(manager, Ticked(7.0, 5000.0)) == ["plan 2: run"]


def test_slices_go_to_as_many_nodes_as_the_job_wants() -> None:
    manager = leading("a", "b", "c")
    (effect,) = manager.handle(JobSeen(1, GRAPH, 2))
    assert isinstance(effect, DeclarePlan)
    places = {str(name): group[0].node for name, group in effect.plan.placements.items()}
    assert places == {"source/0": "a", "source/1": "b", "counts/0": "a", "counts/1": "b"}


def test_a_job_waits_for_a_node_and_for_an_elected_manager() -> None:
    manager = new_manager()
    assert told(manager, JobSeen(1, GRAPH, 2), NodesChanged((("a", 1),))) == []
    assert told(manager, NodesChanged(())) == []
    assert told(manager, Elected(True)) == []
    assert told(manager, NodesChanged((("b", 2),))) == ["plan 1: deploy"]


def test_a_report_of_an_older_plan_does_not_count_as_deployed() -> None:
    manager = leading("a")
    assert told(manager, JobSeen(1, GRAPH, 1)) == ["plan 1: deploy"]
    assert told(manager, Reported(heartbeat("a", 0))) == []
    assert told(manager, Reported(heartbeat("a", 1, SLICES))) == ["plan 2: run"]


def test_a_failure_ends_the_job_with_its_text() -> None:
    failed = heartbeat("b", 2, ON_B, failed="operator 'x': boom")
    assert told(running(), Reported(failed)) == ["end: failed, operator 'x': boom"]


def test_nodes_that_host_nothing_come_and_go() -> None:
    manager = running()
    more = (*NODES, ("c", 3))
    assert told(manager, NodesChanged(more), NodesChanged(NODES)) == []


def test_a_stop_ends_the_job_once() -> None:
    manager = running()
    assert told(manager, StopAsked(2, "no such job")) == []
    assert told(manager, StopAsked(1, "enough")) == ["end: stopped, enough"]
    assert told(manager, StopAsked(1, "enough")) == []


def test_the_outcome_carries_the_counters_of_all_slices() -> None:
    manager = running()
    manager.handle(Reported(heartbeat("a", 2, ON_A, finished=ON_A)))
    (effect,) = manager.handle(Reported(heartbeat("b", 2, ON_B, finished=ON_B)))
    assert isinstance(effect, DeclareEnd)
    assert effect.outcome.counters == {name: {"rows_in": 3.0} for name in SLICES}


@pytest.mark.parametrize("phase", ["deploy", "run"])
def test_a_new_manager_goes_on_where_the_old_one_stopped(phase: str) -> None:
    #   old: plan 1 deploy [, plan 2 run], gone     new: one heartbeat of each node, and it knows
    old = running()
    plan = old.jobs[1].plan
    assert plan is not None
    version = 2 if phase == "run" else 1
    seen = Plan(1, version, phase, plan.placements)  # type: ignore[arg-type]
    new = new_manager()
    assert told(new, NodesChanged(NODES), JobSeen(1, GRAPH, 2), PlanSeen(seen)) == []
    assert told(new, Elected(True), Reported(heartbeat("a", version, ON_A, finished=ON_A))) == []
    last = told(new, Reported(heartbeat("b", version, ON_B, finished=ON_B)))
    assert last == (["end: finished, None"] if phase == "run" else ["plan 2: run"])


def test_a_job_that_has_ended_is_left_alone() -> None:
    manager = running()
    assert told(manager, JobEndSeen(1), NodesChanged(NODES[:1]), StopAsked(1, "late")) == []
    plan = manager.jobs[1].plan
    assert plan is not None
    assert told(manager, PlanSeen(plan)) == []


def test_old_jobs_that_are_over_are_forgotten() -> None:
    machine: ManagerMachine = new_manager()
    for number in range(40):
        machine.handle(JobSeen(number, GRAPH, 1))
        machine.handle(JobEndSeen(number))
    assert list(machine.jobs) == list(range(40 - ENDED_JOBS_KEPT, 40))
