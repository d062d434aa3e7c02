"""The manager's plans: refused ones, and what is not decided while something is lost or all is over."""

from __future__ import annotations

from streammine.engine.managed_job import JobPhase
from streammine.engine.manager_stimuli import Elected, MoveAsked, NodesChanged, Reported
from streammine.engine.node_stimuli import (
    CheckpointsFound,
    JobEndSeen,
    JobSeen,
    PlanRefused,
    PlanSeen,
)
from streammine.model.control import DamagedSnapshot
from tests.unit.managing import (
    NODES,
    ON_A,
    ON_B,
    leading,
    new_manager,
    places,
    plan_of,
    planned,
    snapshotting,
    told,
)
from tests.unit.small_job import ASYNCHRONOUS, GRAPH, heartbeat, report, told_by
from tests.unit.test_manager_moves import COUNTS, settled
from tests.unit.test_manager_recovery import A, checkpoint


def test_a_refused_plan_is_taken_back_to_the_one_that_stands() -> None:
    manager = settled()
    assert planned(told(manager, MoveAsked(1, COUNTS, "a", True))) == ["plan 3: run"]
    assert planned(told(manager, PlanRefused(1, 9), PlanRefused(2, 3))) == []
    assert places(manager)["counts/1"] == "b, a: 3 from 20"
    assert planned(told(manager, PlanRefused(1, 3))) == []
    assert (plan_of(manager).version, places(manager)["counts/1"]) == (2, "b")
    assert manager.jobs[1].phase is JobPhase.RUNNING


def test_a_refusal_of_an_earlier_plan_takes_back_what_was_built_on_it() -> None:
    manager = settled()
    told(manager, MoveAsked(1, COUNTS, "a", True))
    told(manager, PlanRefused(1, 1))
    assert plan_of(manager).version == 2


def test_a_first_plan_that_is_refused_is_made_anew() -> None:
    manager = leading("a", "b")
    assert told(manager, JobSeen(1, GRAPH, 2)) == ["plan 1: deploy"]
    assert told(manager, PlanRefused(1, 1)) == ["plan 1: deploy"]


def test_a_refusal_changes_nothing_of_a_job_that_is_over_or_has_no_plan() -> None:
    manager = settled()
    told(manager, JobEndSeen(1), PlanRefused(1, 2))
    assert manager.jobs[1].phase is JobPhase.ENDED
    other = new_manager()
    assert told(other, JobSeen(1, GRAPH, 2), PlanRefused(1, 1)) == []
    assert other.jobs[1].phase is JobPhase.SUBMITTED


def test_nothing_else_is_decided_before_what_is_lost_is_made_up_for() -> None:
    old = snapshotting()
    new = new_manager()
    told(new, NodesChanged((A,)), JobSeen(1, GRAPH, 2, ASYNCHRONOUS), PlanSeen(plan_of(old)))
    assert told(new, Elected(True)) == ["find checkpoints"]
    # a has not reported yet: what it has is not known
    assert told(new, CheckpointsFound(1, (checkpoint(10), checkpoint(20)))) == []


def test_a_job_that_ends_is_asked_for_nothing_more() -> None:
    manager = snapshotting()
    manager.jobs[1].directive = None
    told(manager, Reported(heartbeat("a", 2, ON_A, finished=ON_A)))
    manager.jobs[1].directive = None
    finished = told(manager, Reported(heartbeat("b", 2, ON_B, finished=ON_B)))
    assert finished == ["end: finished, None"]


def test_a_damaged_snapshot_alone_holds_up_nothing_while_some_have_not_reported() -> None:
    old = snapshotting()
    new = new_manager()
    told(new, NodesChanged(NODES), JobSeen(1, GRAPH, 2, ASYNCHRONOUS), PlanSeen(plan_of(old)))
    assert told(new, Elected(True)) == ["find checkpoints"]
    damaged = DamagedSnapshot("counts/0", 9, "counts/0/20.1", "checksum")
    told(new, Reported(told_by("a", 2, [report(name) for name in ON_A], damaged=[damaged])))
    found = told(new, CheckpointsFound(1, (checkpoint(10), checkpoint(20))))
    assert found == ["direct: make none, retain after none"]
