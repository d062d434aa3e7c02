"""The manager when nodes are lost, snapshots damaged, and managers replaced."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streammine.engine.manager import LOOK_AGAIN_SECONDS, SILENT_SECONDS, ManagerMachine
from streammine.engine.manager_stimuli import Elected, NodesChanged, Reported, Ticked
from streammine.engine.node_stimuli import (
    CheckpointPublished,
    CheckpointsFound,
    DeclareEnd,
    JobSeen,
    PlanSeen,
)
from streammine.model.control import DamagedSnapshot
from streammine.model.epochs import BEGINNING
from streammine.model.ids import SliceId
from tests.unit.managing import (
    NODES,
    ON_A,
    ON_B,
    checkpoint,
    checkpointed,
    hear,
    new_manager,
    places,
    plan_of,
    planned,
    running,
    snapshotting,
    told,
)
from tests.unit.small_job import ASYNCHRONOUS, GRAPH, SLICES, heartbeat, record, report, told_by

A, B, C = ("a", 1), ("b", 2), ("c", 3)


# --- a lost node -------------------------------------------------------------------------------


def test_lost_slices_are_rebuilt_on_the_nodes_that_live() -> None:
    manager = checkpointed()
    hear(manager, "a", *ON_A, frontier=25)
    hear(manager, "b", *ON_B, frontier=25)
    assert planned(told(manager, NodesChanged((A,)))) == ["plan 3: run"]
    assert places(manager) == {
        "source/0": "a",
        "source/1": "a: 3 from 20",
        "counts/0": "a",
        "counts/1": "a: 3 from 20",
    }
    assert planned(told(manager, NodesChanged((A,)))) == [], "once is enough"


def test_the_outcome_counts_what_the_plan_s_replicas_did_and_no_lost_one_s() -> None:
    manager = checkpointed()
    hear(manager, "a", *ON_A, frontier=25)
    stale = [replace(report(name, 1, 25), counters={"rows_in": 99.0}) for name in ON_B]
    told(manager, Reported(told_by("b", 2, stale)), NodesChanged((A,)))
    replicas = [report(name, 1, finished=True) for name in ON_A]
    replicas += [report(name, 3, finished=True) for name in ON_B]
    counted = [replace(each, counters={"rows_in": 7.0}) for each in replicas]
    ends = manager.handle(Reported(told_by("a", 3, counted)))
    (outcome,) = [each.outcome for each in ends if isinstance(each, DeclareEnd)]
    assert outcome.counters == {name: {"rows_in": 7.0} for name in SLICES}


def test_lost_slices_go_where_least_is() -> None:
    manager = checkpointed("a", "b", "c")
    hear(manager, "a", *ON_A, frontier=25)
    told(manager, NodesChanged((A, C)))
    assert places(manager)["source/1"] == "c: 3 from 20"
    assert places(manager)["counts/1"] == "c: 3 from 20"


def test_nothing_is_rebuilt_before_all_who_live_have_reported() -> None:
    manager = checkpointed()
    assert told(manager, NodesChanged((B,))) == []
    assert planned(hear(manager, "b", *ON_B, frontier=25)) == ["plan 3: run"]


def test_nothing_is_rebuilt_before_the_checkpoints_are_known() -> None:
    manager = snapshotting()
    told(manager, Elected(False), Elected(True))
    hear(manager, "a", *ON_A)
    assert told(manager, NodesChanged((A,))) == []
    assert planned(told(manager, CheckpointsFound(1, ()))) == ["plan 3: run"]
    assert places(manager)["counts/1"] == "a: 3"


def test_a_slice_is_restored_before_what_a_living_consumer_lacks() -> None:
    # counts/0 lives and lacks epochs from 18 on: from 20 the sources would never make 18 again
    manager = checkpointed()
    hear(manager, "a", *ON_A, frontier=18)
    told(manager, NodesChanged((A,)))
    assert places(manager)["source/1"] == "a: 3 from 10"
    assert places(manager)["counts/1"] == "a: 3 from 20"


def test_who_is_being_built_lacks_what_comes_after_its_snapshot() -> None:
    # b's slices are on their way to c, where nothing was heard of them yet, when a is lost as well
    manager = checkpointed("a", "b", "c")
    hear(manager, "a", *ON_A, frontier=25)
    hear(manager, "c")
    told(manager, NodesChanged((A, C)))
    assert planned(told(manager, NodesChanged((C,)))) == ["plan 4: run"]
    assert places(manager) == {
        "source/0": "c: 4 from 20",
        "source/1": "c: 3 from 20",
        "counts/0": "c: 4 from 20",
        "counts/1": "c: 3 from 20",
    }


def test_who_is_being_built_for_the_first_time_lacks_everything() -> None:
    manager = snapshotting(deployed=False)
    told(manager, Reported(told_by("a", 0)))
    assert planned(told(manager, NodesChanged((A,)))) == ["plan 2: deploy"]
    assert places(manager) == {
        "source/0": "a",
        "source/1": "a: 2",
        "counts/0": "a",
        "counts/1": "a: 2",
    }


def test_a_newer_snapshot_than_the_last_checkpoint_is_good_enough() -> None:
    manager = checkpointed()
    hear(manager, "a", *ON_A, frontier=35, snapshots=(30,))
    hear(manager, "b", *ON_B, frontier=35, snapshots=(30,))
    told(manager, NodesChanged((A,)))
    assert places(manager)["source/1"] == "a: 3 from 30"
    assert places(manager)["counts/1"] == "a: 3 from 30"


def test_a_living_sender_that_kept_too_little_is_rebuilt_as_well() -> None:
    manager = checkpointed()
    hear(manager, "a", *ON_A, frontier=25, retained_after=22)
    told(manager, NodesChanged((A,)))
    assert places(manager)["source/0"] == "a: 3 from 20"
    assert places(manager)["counts/0"] == "a"


def test_without_snapshots_what_is_lost_begins_anew_with_all_that_leads_to_it() -> None:
    manager = running()
    told(manager, Reported(told_by("a", 2, [report(name, retained_after=3) for name in ON_A])))
    told(manager, NodesChanged((A,)))
    assert places(manager) == {
        "source/0": "a: 3",
        "source/1": "a: 3",
        "counts/0": "a",
        "counts/1": "a: 3",
    }


def test_when_all_are_lost_the_next_that_joins_gets_everything() -> None:
    manager = checkpointed()
    hear(manager, "a", *ON_A)
    assert told(manager, NodesChanged(())) == []
    assert planned(told(manager, NodesChanged((C,)))) == ["plan 3: run"]
    assert set(places(manager).values()) == {"c: 3 from 20"}


def test_a_node_that_comes_back_under_its_old_name_is_another_node() -> None:
    manager = checkpointed()
    hear(manager, "a", *ON_A, frontier=25)
    assert planned(told(manager, NodesChanged((A, ("b", 7))))) == ["plan 3: run"]
    placed = plan_of(manager).placements
    assert {(each.node, each.member) for group in placed.values() for each in group} <= {
        A,
        ("b", 7),
    }
    old_report = heartbeat("b", 2, ON_B)
    assert planned(told(manager, Reported(old_report))) == []


def test_a_node_that_is_silent_for_long_counts_as_lost() -> None:
    manager = checkpointed()
    told(manager, Ticked(100.0, 0.0))
    hear(manager, "a", *ON_A, frontier=25)
    hear(manager, "b", *ON_B, frontier=25)
    told(manager, Ticked(100.0 + SILENT_SECONDS, 0.0))
    hear(manager, "a", *ON_A, frontier=25)
    assert set(places(manager).values()) == {"a", "b"}
    assert planned(told(manager, Ticked(101.0 + SILENT_SECONDS, 0.0))) == ["plan 3: run"]
    assert places(manager)["counts/1"] == "a: 3 from 20"


def test_a_node_lost_during_the_deployment_is_made_up_for_in_it() -> None:
    manager = snapshotting(deployed=False)
    told(manager, Reported(heartbeat("a", 1, ON_A)))
    assert planned(told(manager, NodesChanged((A,)))) == ["plan 2: deploy"]
    reports = [report(name) for name in ON_A] + [report(name, 2) for name in ON_B]
    assert planned(told(manager, Reported(told_by("a", 2, reports)))) == ["plan 3: run"]


def test_versions_and_generations_never_come_twice() -> None:
    manager = checkpointed("a", "b", "c")
    hear(manager, "a", *ON_A, frontier=25)
    seen: set[tuple[str, int]] = set()
    last = plan_of(manager)
    members = [C, ("b", 4), ("b", 5), ("b", 6)]
    for member in members:
        told(manager, NodesChanged((A, member)))
        plan = plan_of(manager)
        assert plan.version == last.version + 1
        for slice_id, group in plan.placements.items():
            before = {each.generation for each in last.placements[slice_id]}
            for each in group:
                if each.generation not in before:
                    assert (str(slice_id), each.generation) not in seen
                    assert each.generation > max(before)
                    seen.add((str(slice_id), each.generation))
        last = plan
        told(manager, Reported(told_by(member[0], plan.version)))
    assert len(seen) == 2 * len(members)


# --- damaged snapshots -------------------------------------------------------------------------


def lost_b() -> ManagerMachine:
    manager = checkpointed()
    hear(manager, "a", *ON_A, frontier=25)
    told(manager, NodesChanged((A,)))
    return manager


def damaged(slice_text: str, epoch: int, generation: int) -> DamagedSnapshot:
    return DamagedSnapshot(slice_text, generation, record(slice_text, epoch).name, "checksum")


def test_of_a_damaged_snapshot_an_older_one_is_taken_and_senders_go_back_as_far() -> None:
    manager = lost_b()
    alive = [report(name, frontier=25) for name in ON_A] + [report("source/1", 3, 21)]
    told_so = told_by("a", 3, alive, damaged=[damaged("counts/1", 20, 3)])
    assert planned(told(manager, Reported(told_so))) == ["plan 4: run"]
    assert places(manager)["counts/1"] == "a: 4 from 10"


def test_who_retains_too_little_for_the_older_snapshot_is_rebuilt_with_it() -> None:
    manager = lost_b()
    alive = [report(name, frontier=25) for name in ON_A]
    alive.append(report("source/1", 3, 21, retained_after=20))
    told_so = told_by("a", 3, alive, damaged=[damaged("counts/1", 20, 3)])
    told(manager, Reported(told_so))
    assert places(manager)["counts/1"] == "a: 4 from 10"
    assert places(manager)["source/1"] == "a: 4 from 10"


def test_a_snapshot_that_the_last_checkpoint_does_not_name_is_not_relied_on() -> None:
    # counts/1 made one of 20 again after the checkpoint's was damaged; the store need not keep it
    manager = lost_b()
    alive = [report(name, frontier=25) for name in ON_A] + [report("source/1", 3, 21)]
    bad = [damaged("counts/1", 20, 3)]
    told(manager, Reported(told_by("a", 3, alive, damaged=bad)))
    alive.append(report("counts/1", 4, 25, snapshots=(20,)))
    told(manager, Reported(told_by("a", 4, alive, damaged=bad)))
    told(manager, NodesChanged((C,)))
    assert places(manager)["counts/1"] == "c: 5 from 10"


def test_when_every_snapshot_is_damaged_a_slice_begins_anew() -> None:
    manager = lost_b()
    alive = [report(name, frontier=25) for name in ON_A] + [report("source/1", 3, 21)]
    bad = [damaged("counts/1", 20, 3)]
    told(manager, Reported(told_by("a", 3, alive, damaged=bad)))
    bad = [damaged("counts/1", 10, 4)]
    asked = told(manager, Reported(told_by("a", 4, alive, damaged=bad)))
    assert planned(asked) == []
    assert told(manager, NodesChanged((A,))) == ["find checkpoints"]
    told(manager, CheckpointsFound(1, (checkpoint(10), checkpoint(20))))
    assert places(manager)["counts/1"] == "a: 5"
    again = told(manager, Reported(told_by("a", 5, alive, damaged=bad)))
    assert planned(again) == [], "what is damaged stays so, and is made up for once"


def test_where_the_kept_checkpoints_are_damaged_what_stands_before_them_is_taken() -> None:
    manager = lost_b()
    alive = [report(name, frontier=25) for name in ON_A] + [report("source/1", 3, 21)]
    told(manager, Reported(told_by("a", 3, alive, damaged=[damaged("counts/1", 20, 3)])))
    told(manager, Reported(told_by("a", 4, alive, damaged=[damaged("counts/1", 10, 4)])))
    told(manager, NodesChanged((A,)))
    told(manager, CheckpointsFound(1, None))
    assert places(manager)["counts/1"] == "a: 4 from 10", "the store could not be read"
    told(manager, Ticked(manager.now_seconds + LOOK_AGAIN_SECONDS, 1000.0))
    told(manager, NodesChanged((A,)))
    found = checkpoint(5), checkpoint(10), checkpoint(20)
    assert planned(told(manager, CheckpointsFound(1, found))) == ["plan 5: run"]
    assert places(manager)["counts/1"] == "a: 5 from 5"


def test_what_was_found_is_not_relied_on_once_there_are_newer_checkpoints() -> None:
    manager = checkpointed(found=(5, 10, 20))
    job = manager.jobs[1]
    (edge,) = job.graph.edges
    job.graph = replace(job.graph, edges=(replace(edge, stages=("feed",), either=True),))
    assert job.forgotten == 10
    assert 5 not in job.usable(SliceId("counts", 1)), "nothing is damaged"
    job.found((checkpoint(5), checkpoint(10), checkpoint(20)), 15)
    assert job.forgotten == 15, "removing had gone further"
    job.damaged = {"counts/1/20.1"}
    assert 5 not in job.usable(SliceId("counts", 1)), "found before"
    job.look = replace(job.look, damaged=frozenset(job.damaged))
    assert 5 in job.usable(SliceId("counts", 1))
    told(manager, CheckpointPublished(1, 30, None))
    job.coordinator = checkpointed(found=(20, 30)).jobs[1].coordinator
    assert 5 not in job.usable(SliceId("counts", 1))
    assert job.forgotten == 20


@pytest.mark.parametrize("forgotten", [BEGINNING, 10])
def test_nobody_agrees_anew_on_what_was_forgotten(forgotten: int) -> None:
    manager = lost_b()
    job = manager.jobs[1]
    (edge,) = job.graph.edges
    job.graph = replace(job.graph, edges=(replace(edge, stages=("feed",), either=True),))
    alive = [report(name, frontier=25) for name in ON_A] + [report("source/1", 3, 21)]
    told(manager, Reported(told_by("a", 3, alive, damaged=[damaged("counts/1", 20, 3)])))
    told(manager, Reported(told_by("a", 4, alive, damaged=[damaged("counts/1", 10, 4)])))
    told(manager, NodesChanged((A,)))
    found = CheckpointsFound(1, (checkpoint(10), checkpoint(20)), forgotten)
    (effect,) = manager.handle(found)
    if forgotten == BEGINNING:
        assert places(manager)["counts/1"] == "a: 5"
        return
    assert isinstance(effect, DeclareEnd)
    assert effect.outcome.status == "failed"
    assert effect.outcome.reason == (
        "counts/1 can't be restored: snapshots are damaged (counts/1/10.1, counts/1/20.1), and what its "
        "replicas agreed on up to epoch 10 is kept no more; check the store's disk, and run the job anew"
    )


def test_who_begins_anew_is_not_told_to_forget_what_was_covered() -> None:
    manager = checkpointed()
    everybody = (("a", ON_A), ("b", ON_B))
    for frontier, snapshots in ((25, ()), (35, (30,))):
        for node, slices in everybody:
            hear(manager, node, *slices, frontier=frontier, snapshots=snapshots)
    told(manager, CheckpointPublished(1, 30, None))
    job = manager.jobs[1]
    assert job.retain_after == 20
    told(manager, NodesChanged((A,)))
    alive = [report(name, frontier=35) for name in ON_A]
    for epoch, generation in ((30, 3), (20, 4)):
        bad = [damaged("counts/1", epoch, generation)]
        told(manager, Reported(told_by("a", generation, alive, damaged=bad)))
    told(manager, NodesChanged((A,)))
    told(manager, CheckpointsFound(1, (checkpoint(20), checkpoint(30))))
    assert places(manager)["counts/1"] == "a: 5"
    assert places(manager)["source/0"] == "a: 5", (
        "it has been told to forget, though it says nothing"
    )
    assert job.retain_after == BEGINNING


# --- another manager ---------------------------------------------------------------------------


def test_a_manager_that_is_not_elected_any_more_does_nothing() -> None:
    manager = checkpointed()
    hear(manager, "a", *ON_A)
    told(manager, Elected(False))
    assert (
        told(manager, NodesChanged((A,)), CheckpointPublished(1, 30, None), Ticked(1.0, 0.0)) == []
    )
    assert hear(manager, "a", *ON_A) == []


def test_a_new_manager_rebuilds_what_was_lost_with_the_old_one() -> None:
    #   b was the manager and is gone; a hears of it, is elected, looks for checkpoints and reports
    old = snapshotting()
    new = new_manager()
    told(new, NodesChanged(NODES), JobSeen(1, GRAPH, 2, ASYNCHRONOUS), PlanSeen(plan_of(old)))
    assert told(new, Elected(True)) == ["find checkpoints"]
    assert told(new, NodesChanged((A,))) == []
    assert hear(new, "a", *ON_A, frontier=25) == []
    assert planned(told(new, CheckpointsFound(1, (checkpoint(10), checkpoint(20))))) == [
        "plan 3: run"
    ]
    assert places(new)["counts/1"] == "a: 3 from 20"


def test_a_new_manager_does_not_rebuild_what_the_old_one_has_rebuilt() -> None:
    old = lost_b()
    plan = plan_of(old)
    new = new_manager()
    told(new, NodesChanged((A,)), JobSeen(1, GRAPH, 2, ASYNCHRONOUS), PlanSeen(plan))
    told(new, Elected(True), CheckpointsFound(1, (checkpoint(10), checkpoint(20))))
    assert planned(hear(new, "a", *ON_A, frontier=25)) == []
    assert plan_of(new) == plan


def test_a_checkpoint_of_an_earlier_term_does_not_count() -> None:
    manager = checkpointed()
    for node, slices in (("a", ON_A), ("b", ON_B)):
        lines = hear(manager, node, *slices, frontier=25)
    assert lines == ["direct: make 30, retain after none"]
    hear(manager, "a", *ON_A, frontier=35, snapshots=(30,))
    assert "write checkpoint 30" in hear(manager, "b", *ON_B, frontier=35, snapshots=(30,))
    told(manager, Elected(False), Elected(True))
    assert told(manager, CheckpointPublished(1, 30, None)) == []
    told(manager, CheckpointsFound(1, (checkpoint(10), checkpoint(20))))
    assert [each.epoch for each in manager.jobs[1].coordinator.complete] == [10, 20]


def test_what_an_earlier_term_looked_for_is_not_taken() -> None:
    manager = checkpointed()
    told(manager, Elected(False))
    assert told(manager, Elected(True)) == ["find checkpoints"]
    told(manager, Elected(False))
    assert told(manager, Elected(True)) == ["find checkpoints"]
    job = manager.jobs[1]
    told(manager, CheckpointsFound(1, (checkpoint(10), checkpoint(20))))
    assert not job.ready, "published since then may be one that this look has not seen"
    told(manager, CheckpointsFound(1, (checkpoint(20), checkpoint(30))))
    assert job.ready
    assert [each.epoch for each in job.coordinator.complete] == [20, 30]


def test_a_look_that_ends_while_another_node_manages_is_not_taken() -> None:
    manager = checkpointed()
    told(manager, Elected(False), Elected(True), Elected(False))
    told(manager, CheckpointsFound(1, (checkpoint(10), checkpoint(20))))
    assert told(manager, Elected(True)) == ["find checkpoints"]
    told(manager, CheckpointsFound(1, (checkpoint(30), checkpoint(40))))
    assert [each.epoch for each in manager.jobs[1].coordinator.complete] == [30, 40]


def test_a_store_that_can_not_be_read_is_looked_at_again() -> None:
    manager = checkpointed()
    told(manager, Ticked(10.0, 0.0), Elected(False), Elected(True))
    assert told(manager, CheckpointsFound(1, None)) == [], "it would fail again at once"
    hear(manager, "a", *ON_A, frontier=25)
    assert planned(told(manager, NodesChanged((A,)))) == [], "nothing is rebuilt meanwhile"
    assert "find checkpoints" not in told(manager, Ticked(10.5, 0.0))
    assert "find checkpoints" in told(manager, Ticked(11.0, 0.0))
    assert planned(told(manager, CheckpointsFound(1, None))) == []
    assert "find checkpoints" in told(manager, Ticked(12.0, 0.0))
    assert planned(told(manager, CheckpointsFound(1, (checkpoint(10), checkpoint(20))))) == [
        "plan 3: run"
    ]


# --- checkpoints -------------------------------------------------------------------------------


def test_checkpoints_are_named_written_and_pruned_behind_the_older_of_the_last_two() -> None:
    manager = snapshotting()
    hear(manager, "a", *ON_A)
    hear(manager, "b", *ON_B)
    assert told(manager, Ticked(1.0, 0.0)) == ["direct: make 10, retain after none"]
    hear(manager, "a", *ON_A, frontier=15, snapshots=(10,))
    lines = hear(manager, "b", *ON_B, frontier=15, snapshots=(10,))
    assert lines == ["write checkpoint 10"]
    assert (
        told(manager, CheckpointPublished(1, 10, None))[-1] == "direct: make 20, retain after none"
    )
    hear(manager, "a", *ON_A, frontier=25, snapshots=(10, 20))
    assert hear(manager, "b", *ON_B, frontier=25, snapshots=(10, 20)) == ["write checkpoint 20"]
    assert told(manager, CheckpointPublished(1, 20, None)) == [
        "keep checkpoints [10, 20]",
        "direct: make none, retain after 10",
        "direct: make 30, retain after 10",
    ]


def test_a_manifest_that_can_not_be_written_prunes_nothing() -> None:
    manager = checkpointed()
    hear(manager, "a", *ON_A, frontier=25)
    hear(manager, "b", *ON_B, frontier=25)
    hear(manager, "a", *ON_A, frontier=35, snapshots=(30,))
    hear(manager, "b", *ON_B, frontier=35, snapshots=(30,))
    lines = told(manager, CheckpointPublished(1, 30, "no space"))
    assert not [line for line in lines if "keep" in line or "retain after 10" in line]
    assert [each.epoch for each in manager.jobs[1].coordinator.complete] == [10, 20]


def test_the_directive_is_repeated_with_every_tick() -> None:
    manager = checkpointed()
    hear(manager, "a", *ON_A, frontier=25)
    hear(manager, "b", *ON_B, frontier=25)
    assert told(manager, Ticked(1.0, 0.0)) == ["direct: make 30, retain after none"]
    assert told(manager, Ticked(2.0, 0.0)) == ["direct: make 30, retain after none"]
