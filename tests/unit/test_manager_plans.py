"""The manager's plans: refused ones, and what is not decided while something is lost or all is over."""

from __future__ import annotations

from dataclasses import replace

from streammine.engine.managed_job import JobPhase
from streammine.engine.manager_stimuli import DrainAsked, Elected, MoveAsked, NodesChanged, Reported
from streammine.engine.node_stimuli import (
    CheckpointsFound,
    DeclarePlan,
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
from tests.unit.test_manager_moves import COUNTS, arrives, settled
from tests.unit.test_manager_recovery import A, B, C, checkpoint, checkpointed, hear


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


def test_what_a_store_says_of_a_job_that_is_forgotten_matters_to_nobody() -> None:
    assert told(settled(), CheckpointsFound(7, (checkpoint(30),))) == []


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


def test_a_new_term_begins_with_nothing_heard_and_the_same_one_goes_on() -> None:
    manager = settled()
    assert told(manager, Elected(True)) == []
    assert set(manager.jobs[1].reports) == {A, B}
    told(manager, Elected(False))
    assert told(manager, Elected(True)) == ["find checkpoints"]
    assert manager.jobs[1].reports == {}


def test_of_two_plans_with_one_number_the_one_that_stands_counts() -> None:
    manager = settled()
    stands = plan_of(manager)
    told(manager, MoveAsked(1, COUNTS, "a", True))
    told(manager, PlanSeen(replace(stands, version=3, savepoint=True)))
    assert plan_of(manager).placements == stands.placements
    assert plan_of(manager).savepoint


def test_what_stands_is_the_newest_plan_that_was_seen() -> None:
    manager = settled()
    first = plan_of(manager)
    told(manager, MoveAsked(1, COUNTS, "a", True))
    told(manager, PlanSeen(plan_of(manager)), PlanSeen(first))
    assert arrives(manager, 25) == ["plan 4: run"]
    told(manager, PlanRefused(1, 4))
    assert manager.jobs[1].standing is not None
    assert manager.jobs[1].standing.version == 3


def test_after_a_refusal_plans_are_of_another_series_and_the_old_one_is_no_news() -> None:
    manager = settled()
    stands = plan_of(manager)
    told(manager, PlanSeen(stands))
    manager.handle(MoveAsked(1, COUNTS, "a", True))
    told(manager, PlanRefused(1, 3, 0))
    assert plan_of(manager) == stands
    declared, *_ = manager.handle(MoveAsked(1, COUNTS, "a", True))
    assert declared == DeclarePlan(plan_of(manager), series=1)
    told(manager, PlanRefused(1, 3, 0))
    assert plan_of(manager).version == 3
    told(manager, PlanRefused(1, 3, 1))
    assert plan_of(manager) == stands


def test_a_process_that_is_no_member_is_not_heard() -> None:
    manager = settled()
    stranger = told_by("b", 2, [report(name) for name in ON_B], member=9)
    told(manager, Reported(stranger))
    assert set(manager.jobs[1].reports) == {A, B}


def test_snapshots_of_replicas_that_the_plan_does_not_list_are_not_the_jobs() -> None:
    manager = settled()
    job = manager.jobs[1]
    stray = [report("counts/1", 9, 25, snapshots=(30,))]
    told(manager, Reported(told_by("b", 2, stray)))
    assert 30 not in job.snapshots.get(COUNTS, {})
    listed = [report("counts/1", 1, 25, snapshots=(30,))]
    told(manager, Reported(told_by("b", 2, listed)))
    assert 30 in job.snapshots[COUNTS]


def test_before_a_plan_is_known_every_replica_counts() -> None:
    manager = new_manager()
    told(manager, NodesChanged(NODES), JobSeen(1, GRAPH, 2, ASYNCHRONOUS))
    told(manager, Reported(told_by("b", 2, [report("counts/1", 1, 25, snapshots=(30,))])))
    assert 30 in manager.jobs[1].snapshots[COUNTS]


def test_lost_slices_are_not_rebuilt_on_a_node_that_is_to_be_emptied() -> None:
    manager = checkpointed("a", "b", "c")
    hear(manager, "a", *ON_A, frontier=25)
    hear(manager, "b", *ON_B, frontier=25)
    assert planned(told(manager, DrainAsked("c"))) == ["plan 3: run"]
    assert planned(told(manager, NodesChanged((A, C)))) == ["plan 4: run"]
    assert places(manager)["counts/1"].startswith("a: ")


def test_a_job_that_fails_is_asked_for_nothing_more() -> None:
    manager = snapshotting()
    manager.jobs[1].directive = None
    failed = told(manager, Reported(heartbeat("b", 2, ON_B, failed="boom")))
    assert failed == ["end: failed, boom"]
