"""The manager's protocol: what it declares, and when."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from streammine.engine.manager import (
    ENDED_JOBS_KEPT,
    Elected,
    EndJob,
    EndSeen,
    JobArrived,
    ManagerEffect,
    ManagerMachine,
    ManagerStimulus,
    NodesChanged,
    PlanSeen,
    PublishPlan,
    Reported,
    StopAsked,
)
from streammine.model.job import Plan
from tests.unit.small_job import GRAPH, SLICES, heartbeat

ON_A, ON_B = ("source/0", "counts/0"), ("source/1", "counts/1")


def text(effects: Sequence[ManagerEffect]) -> list[str]:
    return [
        f"plan {effect.plan.version}: {effect.plan.phase}"
        if isinstance(effect, PublishPlan)
        else f"end: {effect.outcome.status}, {effect.outcome.reason}"
        for effect in effects
    ]


def told(manager: ManagerMachine, *stimuli: ManagerStimulus) -> list[str]:
    """What the manager does about all of these."""
    return [line for stimulus in stimuli for line in text(manager.handle(stimulus))]


def leading(*nodes: str) -> ManagerMachine:
    manager = ManagerMachine()
    assert told(manager, Elected(True), NodesChanged(nodes)) == []
    return manager


def running() -> ManagerMachine:
    """A manager whose job runs on a and b."""
    manager = leading("a", "b")
    arrived = JobArrived(1, GRAPH, 2)
    deployed = [Reported(heartbeat("a", 1, ON_A)), Reported(heartbeat("b", 1, ON_B))]
    assert told(manager, arrived, *deployed) == ["plan 1: deploy", "plan 2: run"]
    return manager


def test_a_job_is_deployed_then_run_then_ended() -> None:
    #   job -> plan 1 deploy -> (all nodes deployed) -> plan 2 run -> (all slices finished) -> end
    manager = leading("a", "b")
    assert told(manager, JobArrived(1, GRAPH, 2)) == ["plan 1: deploy"]
    assert told(manager, Reported(heartbeat("a", 1, ON_A))) == []
    assert told(manager, Reported(heartbeat("b", 1, ON_B))) == ["plan 2: run"]
    assert told(manager, Reported(heartbeat("a", 2, ON_A, finished=ON_A))) == []
    assert told(manager, Reported(heartbeat("b", 2, ON_B, finished=("source/1",)))) == []
    assert told(manager, Reported(heartbeat("b", 2, ON_B, finished=ON_B))) == [
        "end: finished, None"
    ]
    assert told(manager, Reported(heartbeat("b", 2, ON_B, finished=ON_B))) == []


def test_slices_go_to_as_many_nodes_as_the_job_wants() -> None:
    manager = leading("a", "b", "c")
    (effect,) = manager.handle(JobArrived(1, GRAPH, 2))
    assert isinstance(effect, PublishPlan)
    places = {str(name): group[0].node for name, group in effect.plan.placements.items()}
    assert places == {"source/0": "a", "source/1": "b", "counts/0": "a", "counts/1": "b"}


def test_a_job_waits_for_a_node_and_for_an_elected_manager() -> None:
    manager = ManagerMachine()
    assert told(manager, JobArrived(1, GRAPH, 2), NodesChanged(("a",))) == []
    assert told(manager, NodesChanged(())) == []
    assert told(manager, Elected(True)) == []
    assert told(manager, NodesChanged(("b",))) == ["plan 1: deploy"]


def test_a_report_of_an_older_plan_does_not_count_as_deployed() -> None:
    manager = leading("a")
    assert told(manager, JobArrived(1, GRAPH, 1)) == ["plan 1: deploy"]
    assert told(manager, Reported(heartbeat("a", 0))) == []
    assert told(manager, Reported(heartbeat("a", 1, SLICES))) == ["plan 2: run"]


def test_a_failure_ends_the_job_with_its_text() -> None:
    failed = heartbeat("b", 2, ON_B, failed="operator 'x': boom")
    assert told(running(), Reported(failed)) == ["end: failed, operator 'x': boom"]


def test_a_lost_node_ends_the_job_if_it_hosted_slices() -> None:
    manager = running()
    assert told(manager, NodesChanged(("a", "b", "c"))) == []
    assert told(manager, NodesChanged(("a", "b"))) == []
    (line,) = told(manager, NodesChanged(("a",)))
    assert line == "end: failed, node b is gone while it hosted slices of the job"


def test_a_stop_ends_the_job_once() -> None:
    manager = running()
    assert told(manager, StopAsked(2, "no such job")) == []
    assert told(manager, StopAsked(1, "enough")) == ["end: stopped, enough"]
    assert told(manager, StopAsked(1, "enough")) == []


def test_the_outcome_carries_the_counters_of_all_slices() -> None:
    manager = running()
    manager.handle(Reported(heartbeat("a", 2, ON_A, finished=ON_A)))
    (effect,) = manager.handle(Reported(heartbeat("b", 2, ON_B, finished=ON_B)))
    assert isinstance(effect, EndJob)
    assert effect.outcome.counters == {name: {"rows_in": 3.0} for name in SLICES}


@pytest.mark.parametrize("phase", ["deploy", "run"])
def test_a_new_manager_goes_on_where_the_old_one_stopped(phase: str) -> None:
    #   old: plan 1 deploy [, plan 2 run], gone     new: one heartbeat of each node, and it knows
    old = running()
    plan = old.jobs[1].plan
    assert plan is not None
    version = 2 if phase == "run" else 1
    seen = Plan(1, version, phase, plan.placements)  # type: ignore[arg-type]
    new = ManagerMachine()
    stood_by = told(new, NodesChanged(("a", "b")), JobArrived(1, GRAPH, 2), PlanSeen(seen))
    assert stood_by == []
    assert told(new, Elected(True), Reported(heartbeat("a", version, ON_A, finished=ON_A))) == []
    last = told(new, Reported(heartbeat("b", version, ON_B, finished=ON_B)))
    assert last == (["end: finished, None"] if phase == "run" else ["plan 2: run"])


def test_a_job_that_has_ended_is_left_alone() -> None:
    manager = running()
    assert told(manager, EndSeen(1), NodesChanged(("a",)), StopAsked(1, "late")) == []
    plan = manager.jobs[1].plan
    assert plan is not None
    assert told(manager, PlanSeen(plan)) == []


def test_old_jobs_that_are_over_are_forgotten() -> None:
    machine = ManagerMachine()
    for number in range(40):
        machine.handle(JobArrived(number, GRAPH, 1))
        machine.handle(EndSeen(number))
    assert list(machine.jobs) == list(range(40 - ENDED_JOBS_KEPT, 40))
