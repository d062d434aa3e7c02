"""Moves, drains and savepoints: what a client may ask of the manager, and what follows."""

from __future__ import annotations

import pytest

from streammine.engine.manager import ManagerMachine
from streammine.engine.manager_stimuli import (
    DrainAsked,
    Elected,
    MoveAsked,
    NodesChanged,
    Reported,
    SavepointAsked,
)
from streammine.engine.node_stimuli import (
    CheckpointPublished,
    CheckpointsFound,
    JobEndSeen,
    JobSeen,
    PlanSeen,
)
from streammine.model.ids import SliceId
from tests.unit.managing import (
    NODES,
    ON_A,
    ON_B,
    checkpoint,
    leading,
    new_manager,
    places,
    plan_of,
    planned,
    running,
    told,
)
from tests.unit.small_job import ASYNCHRONOUS, GRAPH, report, told_by
from tests.unit.test_manager_recovery import B, checkpointed, hear

COUNTS = SliceId("counts", 1)


def settled(*nodes: str, retained_after: int | None = None, frontier: int = 25) -> ManagerMachine:
    """Complete checkpoints 10 and 20; all have reported."""
    manager = checkpointed(*nodes)
    hear(manager, "a", *ON_A, frontier=frontier, retained_after=retained_after)
    hear(manager, "b", *ON_B, frontier=frontier, retained_after=retained_after)
    return manager


def arrives(manager: ManagerMachine, frontier: int) -> list[str]:
    """The second replica of counts/1, on a, reports."""
    version = plan_of(manager).version
    generation = plan_of(manager).placements[COUNTS][-1].generation
    reports = [report(name, frontier=25) for name in ON_A]
    reports.append(report("counts/1", generation, frontier))
    return planned(told(manager, Reported(told_by("a", version, reports))))


def test_a_move_is_a_second_replica_first_and_the_only_one_once_it_has_caught_up() -> None:
    manager = settled()
    assert planned(told(manager, MoveAsked(1, COUNTS, "a", True))) == ["plan 3: run"]
    assert places(manager)["counts/1"] == "b, a: 3 from 20"
    assert arrives(manager, 22) == []
    assert arrives(manager, 25) == ["plan 4: run"]
    assert places(manager)["counts/1"] == "a: 3 from 20"
    assert arrives(manager, 25) == []


def test_a_move_by_state_transfer_stops_the_slice_meanwhile() -> None:
    manager = settled()
    told(manager, MoveAsked(1, COUNTS, "a", False))
    assert places(manager)["counts/1"] == "a: 3 from 20"


@pytest.mark.parametrize(("lacks_from", "origin"), [(18, 10), (20, 10), (21, 20)])
def test_a_moved_slice_begins_where_nobody_lacks_anything_before(
    lacks_from: int, origin: int
) -> None:
    # where counts/0 lacks epochs from 18 on, a source that begins behind 20 could not give it 18 to 20
    manager = settled(frontier=lacks_from)
    told(manager, MoveAsked(1, SliceId("source", 1), "a", True))
    assert places(manager)["source/1"] == f"b, a: 3 from {origin}"


def test_a_slice_is_not_moved_while_its_senders_hold_too_little() -> None:
    manager = settled(retained_after=22)
    wish = MoveAsked(1, COUNTS, "a", True)
    assert manager.refusal(wish) == (
        "counts/1 can't be moved before the next checkpoint; ask again then"
    )
    assert planned(told(manager, wish)) == []


def test_nothing_that_a_moving_slice_may_ask_for_is_pruned() -> None:
    manager = settled()
    told(manager, MoveAsked(1, COUNTS, "a", True))
    for epoch in (30, 40, 50):
        hear(manager, "a", *ON_A, frontier=epoch + 5, snapshots=(epoch,))
        hear(manager, "b", *ON_B, frontier=epoch + 5, snapshots=(epoch,))
        told(manager, CheckpointPublished(1, epoch, None))
    assert [each.epoch for each in manager.jobs[1].coordinator.complete] == [40, 50]
    assert manager.jobs[1].retain_after == 20


def test_a_move_outlives_the_manager() -> None:
    old = settled()
    told(old, MoveAsked(1, COUNTS, "a", True))
    new = new_manager()
    told(new, NodesChanged(NODES), JobSeen(1, GRAPH, 2, ASYNCHRONOUS), PlanSeen(plan_of(old)))
    told(new, Elected(True), CheckpointsFound(1, old.jobs[1].coordinator.complete))
    hear(new, "b", *ON_B, frontier=25)
    assert arrives(new, 22) == []
    assert arrives(new, 26) == ["plan 4: run"]
    assert places(new)["counts/1"] == "a: 3 from 20"


def taken_over() -> ManagerMachine:
    """The manager of a new term, which has heard of the job's plan."""
    new = new_manager()
    told(new, NodesChanged(NODES), JobSeen(1, GRAPH, 2, ASYNCHRONOUS))
    told(new, PlanSeen(plan_of(settled())))
    assert told(new, Elected(True)) == ["find checkpoints"]
    return new


FOUND = CheckpointsFound(1, (checkpoint(10), checkpoint(20)))


def test_a_new_manager_moves_nothing_before_it_knows_what_everybody_holds() -> None:
    # else b's sources, of which it has heard nothing, would seem to hold all there ever was
    new, wish = taken_over(), MoveAsked(1, COUNTS, "a", True)
    told(new, FOUND)
    hear(new, "a", *ON_A, frontier=25)
    assert new.refusal(wish) == "a new manager is still learning where job 1 stands; ask again"
    assert planned(told(new, wish)) == []
    hear(new, "b", *ON_B, frontier=25, retained_after=10)
    assert new.refusal(wish) is None


def test_a_new_manager_moves_nothing_before_it_knows_the_checkpoints() -> None:
    new = taken_over()
    told(new, DrainAsked("b"))
    for node, slices in (("a", ON_A), ("b", ON_B)):
        assert planned(hear(new, node, *slices, frontier=25)) == []
    assert planned(told(new, FOUND)) == ["plan 4: run"]
    assert places(new)["counts/1"] == "b, a: 4 from 20"


@pytest.mark.parametrize(("lost", "left"), [("a", "b"), ("b", "a: 3 from 20")])
def test_a_replica_that_is_lost_during_a_move_leaves_the_other(lost: str, left: str) -> None:
    manager = settled()
    told(manager, MoveAsked(1, COUNTS, "a", True))
    arrives(manager, 22)
    told(manager, NodesChanged(tuple(node for node in NODES if node[0] != lost)))
    assert places(manager)["counts/1"] == left


def test_a_drain_moves_everything_away_and_places_nothing_there() -> None:
    manager = settled()
    assert planned(told(manager, DrainAsked("b"))) == ["plan 3: run", "plan 4: run"]
    assert places(manager) == {
        "source/0": "a",
        "source/1": "b, a: 4 from 20",
        "counts/0": "a",
        "counts/1": "b, a: 4 from 20",
    }
    assert plan_of(manager).draining == ("b",)


def test_a_node_is_drained_once_however_often_that_is_asked_for() -> None:
    manager = settled("a", "b", "c")
    told(manager, DrainAsked("b"), DrainAsked("b"))
    assert plan_of(manager).draining == ("b",)


def test_what_is_drained_goes_where_least_is() -> None:
    manager = settled("a", "b", "c")
    told(manager, DrainAsked("b"))
    assert places(manager) == {
        "source/0": "a",
        "source/1": "b, c: 4 from 20",
        "counts/0": "a",
        "counts/1": "b, c: 4 from 20",
    }


def test_where_all_who_live_are_to_be_emptied_what_is_lost_goes_to_them_all_the_same() -> None:
    manager = settled("a", "b", "c")
    told(manager, DrainAsked("b"), DrainAsked("a"), NodesChanged(NODES))
    hear(manager, "a", *ON_A, frontier=25)
    told(manager, NodesChanged((B,)))
    generation = plan_of(manager).version
    assert places(manager) == {
        "source/0": f"b: {generation} from 20",
        "source/1": "b",
        "counts/0": f"b: {generation} from 20",
        "counts/1": "b",
    }


def test_a_second_replica_that_is_lost_is_no_loss_of_the_job() -> None:
    manager = settled("a", "b", "c")
    told(manager, MoveAsked(1, COUNTS, "c", True))
    arrived = told_by("c", plan_of(manager).version, [report("counts/1", 3, 22)])
    assert planned(told(manager, Reported(arrived))) == []
    assert planned(told(manager, NodesChanged(NODES))) == ["plan 4: run"]
    assert places(manager)["counts/1"] == "b"
    assert plan_of(manager).rebuilt == 0


def test_a_drain_waits_until_slices_can_be_moved() -> None:
    manager = settled(retained_after=22)
    assert planned(told(manager, DrainAsked("b"))) == ["plan 3: run"]
    assert planned(hear(manager, "a", *ON_A, frontier=25, retained_after=10)) == []
    assert planned(hear(manager, "b", *ON_B, frontier=25, retained_after=10)) == ["plan 4: run"]


def test_a_savepoint_ends_the_job_with_the_next_complete_checkpoint() -> None:
    manager = settled()
    assert planned(told(manager, SavepointAsked(1))) == ["plan 3: run"]
    assert plan_of(manager).savepoint
    hear(manager, "a", *ON_A, frontier=35, snapshots=(30,))
    hear(manager, "b", *ON_B, frontier=35, snapshots=(30,))
    assert told(manager, CheckpointPublished(1, 30, None))[-1] == "end: savepoint, None"


def test_a_savepoint_that_can_not_be_written_does_not_end_the_job() -> None:
    manager = settled()
    told(manager, SavepointAsked(1))
    hear(manager, "a", *ON_A, frontier=35, snapshots=(30,))
    hear(manager, "b", *ON_B, frontier=35, snapshots=(30,))
    assert not [line for line in told(manager, CheckpointPublished(1, 30, "full")) if "end" in line]


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        (SavepointAsked(2), "job 2 is not running"),
        (
            MoveAsked(1, SliceId("counts", 7), "a", True),
            "there is no slice counts/7; the job's are",
        ),
        (MoveAsked(1, COUNTS, "z", True), "there is no node 'z'"),
        (MoveAsked(1, COUNTS, "b", True), "counts/1 is on b already"),
        (DrainAsked("z"), "there is no node 'z'; live are a, b"),
    ],
)
def test_what_can_not_be_followed_is_refused_with_the_reason(
    wish: SavepointAsked | MoveAsked | DrainAsked, why: str
) -> None:
    manager = settled()
    refusal = manager.refusal(wish)
    assert refusal is not None
    assert refusal.startswith(why)
    before = plan_of(manager)
    assert planned(told(manager, wish)) == []
    assert plan_of(manager) == before


def test_what_is_true_is_said_of_a_job_that_does_not_run_yet_or_any_more() -> None:
    manager = leading()
    wish = SavepointAsked(1)
    told(manager, JobSeen(1, GRAPH, 2, ASYNCHRONOUS))
    assert manager.refusal(wish) == "job 1 has no plan yet; try again"
    told(manager, NodesChanged(NODES))
    assert manager.refusal(wish) == "job 1 is still being deployed; try again"
    told(manager, JobEndSeen(1))
    assert manager.refusal(wish) == "job 1 is not running"


def test_a_node_is_not_emptied_where_all_others_are_to_be() -> None:
    manager = settled("a", "b", "c")
    told(manager, DrainAsked("b"))
    assert manager.refusal(DrainAsked("b")) is None, "a second time"
    assert manager.refusal(DrainAsked("c")) is None
    told(manager, DrainAsked("c"))
    assert manager.refusal(DrainAsked("a")) == (
        "a is the only node that takes slices of job 1, for b, c are to be emptied, too; start another one "
        "first"
    )
    told(manager, JobEndSeen(1))
    assert manager.refusal(DrainAsked("a")) is None, "no job is in the way any more"


def test_more_refusals() -> None:
    manager = settled()
    told(manager, MoveAsked(1, COUNTS, "a", True))
    again = manager.refusal(MoveAsked(1, COUNTS, "a", True))
    assert again == "counts/1 is on its way to a already"
    assert running().refusal(SavepointAsked(1)) == (
        "job 1 makes no snapshots (`snapshot: none`); start it again with `snapshot: {every: 1s}` in its "
        "topology"
    )
    told(manager, NodesChanged((B,)))
    assert manager.refusal(DrainAsked("b")) == "b is the only node; start another one first"
    told(manager, Elected(False))
    assert manager.refusal(DrainAsked("b")) == "this node is not the manager now; ask again"
