"""The node among plans that change: what it builds, withdraws, rewires and drops."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streammine.engine import node_stimuli as node
from streammine.engine import stimuli
from streammine.engine.node import NodeMachine
from streammine.engine.node_stimuli import NewReplica
from streammine.engine.stimuli import WorkResult
from streammine.model import control
from streammine.model.contracts import FrozenSlice
from streammine.model.epochs import BEGINNING
from streammine.model.frames import CHECKPOINT, FrameKind
from streammine.model.job import Placement
from streammine.model.snapshots import Restore
from tests.unit.small_job import ASYNCHRONOUS, GRAPH, heartbeat, machine, record
from tests.unit.test_node import (
    COUNTS,
    JOB,
    NODES,
    SOURCE,
    built,
    done,
    frame,
    new_node,
    plan,
    running_b,
    seen,
    text,
    told,
)

RESTORE = Restore(5, record("counts/1", 5))
ON_A, ON_B = Placement("a", 1, 1), Placement("b", 1, 2)


def on_b(generation: int, restore: Restore | None = None) -> Placement:
    return Placement("b", generation, 2, restore)


def on_a(generation: int) -> Placement:
    return Placement("a", generation, 1)


def deployed(version: int, *replicas: NewReplica) -> node.Deployed:
    return node.Deployed(JOB, version, tuple(map(machine, replicas)))


def test_links_stand_from_the_start_between_replicas_that_begin_together() -> None:
    player = new_node("b")
    told(player, seen(player, NODES), node.JobSeen(JOB, GRAPH, 2))
    (effect,) = [each for each in player.handle(plan(1)) if isinstance(each, node.Deploy)]
    assert {str(each.slice): each.links for each in effect.replicas} == {
        "source/1": {2: (1,), 3: (1,)},
        "counts/1": {1: (1,), 3: (1,)},
    }


def test_a_replica_of_a_later_generation_has_no_links_and_others_none_to_it() -> None:
    player = new_node("b")
    told(player, seen(player, NODES), node.JobSeen(JOB, GRAPH, 2))
    effects = player.handle(plan(3, source_0=(on_a(3),), counts_1=(on_b(3, RESTORE),)))
    (effect,) = [each for each in effects if isinstance(each, node.Deploy)]
    assert {str(each.slice): each.links for each in effect.replicas} == {
        "source/1": {2: (1,), 3: ()},
        "counts/1": {},
    }


def test_a_replica_that_the_plan_lists_here_no_more_is_withdrawn() -> None:
    player = running_b()
    assert told(player, plan(3, counts_1=(on_a(3),))) == [
        "withdraw counts/1@1",
        "to a: report [(3, None)]",
    ]
    assert set(player.jobs[JOB].slices) == {SOURCE}
    assert set(player.jobs[JOB].slices[SOURCE].outputs[3].links) == set()


def test_a_new_generation_of_a_slice_on_the_same_node_replaces_the_old_one() -> None:
    player = running_b()
    assert told(player, plan(3, counts_1=(on_b(3, RESTORE),))) == [
        "withdraw counts/1@1",
        "deploy counts/1@3 from 5 for plan 3",
    ]
    lines = told(player, deployed(3, NewReplica(COUNTS, 3, RESTORE)))
    assert lines.count("to a: Subscribe on 1") == 2, "when it hears of the plan, and at its start"
    assert "to a: report [(3, None)]" in lines
    source = player.jobs[JOB].slices[SOURCE]
    assert set(source.outputs[3].links) == {3}, "its wish found the sender on this node"


def test_slices_that_stay_hear_of_new_generations_at_the_other_ends() -> None:
    player = running_b()
    lines = told(player, plan(3, source_0=(ON_A, on_b(3)), counts_0=(on_a(3),)))
    assert "deploy source/0@3 for plan 3" in lines
    counts = player.jobs[JOB].slices[COUNTS]
    assert set(counts.inputs[1].feeds) == {1, 3}
    assert set(counts.inputs[3].feeds) == {1}
    assert set(player.jobs[JOB].slices[SOURCE].outputs[2].links) == set(), "1 is gone, 3 may ask"
    wish = control.Subscribe(JOB, 2, 1, 3, BEGINNING, BEGINNING)
    assert told(player, node.ControlReceived("a", wish)) == ["to a: Announcements on 2"]


def test_of_replicas_that_are_not_listed_only_those_of_plans_to_come_get_a_link() -> None:
    player = running_b()
    told(player, plan(4, counts_0=(on_a(1),)))

    for receiver in (2, 3, 4, 5):
        wish = control.Subscribe(JOB, 2, 1, receiver, BEGINNING, BEGINNING)
        told(player, node.ControlReceived("a", wish))
    # plans up to the fourth may have had 2, 3 and 4
    assert set(player.jobs[JOB].slices[SOURCE].outputs[2].links) == {1, 5}


def test_results_of_a_replica_that_was_withdrawn_are_dropped() -> None:
    player = running_b()
    told(player, plan(3, counts_1=(on_b(3, RESTORE),)))
    told(player, deployed(3, NewReplica(COUNTS, 3, RESTORE)))
    stale = (
        done(COUNTS, WorkResult(closed=(3,))),
        done(COUNTS, None, "boom"),
        node.SnapshotWritten(JOB, COUNTS, 1, record("counts/1", 5)),
        node.SliceWoken(JOB, COUNTS, 1),
    )
    assert told(player, *stale) == []
    machine_now = player.jobs[JOB].slices[COUNTS]
    assert not machine_now.busy
    assert list(machine_now.snapshots.records) == []
    assert player.jobs[JOB].failed is None


def test_what_was_built_for_a_plan_that_is_over_is_withdrawn_at_once() -> None:
    player = new_node("b")
    told(player, seen(player, NODES), node.JobSeen(JOB, GRAPH, 2), plan(1))
    assert told(player, plan(2, counts_1=(on_a(2),))) == [], "one deployment at a time"
    lines = told(player, built(["source/1", "counts/1"]))
    assert lines[0] == "withdraw counts/1@1"
    assert set(player.jobs[JOB].slices) == {SOURCE}
    assert "to a: report [(2, None)]" in lines


def test_what_a_newer_plan_puts_here_is_built_after_the_deployment_under_way() -> None:
    player = new_node("b")
    told(player, seen(player, NODES), node.JobSeen(JOB, GRAPH, 2), plan(1))
    told(player, plan(2, counts_1=(on_b(2, RESTORE),)))
    lines = told(player, built(["source/1", "counts/1"]))
    assert lines == ["withdraw counts/1@1", "deploy counts/1@2 from 5 for plan 2"]


def test_a_place_under_another_membership_is_not_this_nodes() -> None:
    player = new_node("b")
    told(player, seen(player, (NODES[0], ("b", 9))), node.JobSeen(JOB, GRAPH, 2))
    assert told(player, plan(1)) == ["to a: report [(1, None)]"]
    assert told(player, seen(player, NODES)) == ["deploy source/1, counts/1 for plan 1"]


def test_a_damaged_snapshot_is_reported_and_not_tried_again() -> None:
    player = running_b()
    told(player, plan(3, counts_1=(on_b(3, RESTORE),)))
    damaged = control.DamagedSnapshot("counts/1", 3, "counts/1/5.1", "checksum")
    lines = told(player, node.Deployed(JOB, 3, (), None, (damaged,)))
    assert lines == ["to a: report [(3, None)]"]
    (effect,) = [
        each
        for each in player.handle(node.HeartbeatDue(1.0, 1.0, {}, {}))
        if isinstance(each, node.TransmitControl) and isinstance(each.message, control.Heartbeat)
    ]
    assert isinstance(effect.message, control.Heartbeat)
    assert effect.message.jobs[0].damaged == (damaged,)
    assert told(player, plan(4, counts_1=(on_b(4),))) == ["deploy counts/1@4 for plan 4"]
    assert player.jobs[JOB].damaged == {}


def directive(
    proposed: int, retain_after: int = BEGINNING, plan_version: int = 2
) -> control.Directive:
    return control.Directive(JOB, proposed, proposed, retain_after, plan_version)


def test_a_directive_of_the_manager_reaches_all_slices_and_later_ones_too() -> None:
    player = running_b()
    lines = told(player, node.ControlReceived("a", directive(7, 3)))
    assert lines == ["to a: report [(2, None)]"], "the source agrees"
    assert player.jobs[JOB].slices[SOURCE].accepted == 7
    assert player.jobs[JOB].slices[SOURCE].retained_after == 3
    assert told(player, node.ControlReceived("a", directive(7, 3))) == []
    told(player, plan(3, source_1=(on_b(3),)))
    told(player, deployed(3, NewReplica(SOURCE, 3)))
    assert player.jobs[JOB].slices[SOURCE].accepted == 7


def test_what_an_older_plan_had_no_use_for_may_be_needed_under_a_newer_one() -> None:
    player = running_b()
    told(player, node.ControlReceived("a", directive(7, 3)))
    told(player, plan(3, source_1=(on_b(3),)))
    told(player, deployed(3, NewReplica(SOURCE, 3)))
    source = player.jobs[JOB].slices[SOURCE]
    assert source.retained_after == BEGINNING
    told(player, node.ControlReceived("a", directive(7, 3, plan_version=2)))
    assert source.retained_after == BEGINNING
    told(player, node.ControlReceived("a", directive(7, 3, plan_version=3)))
    assert source.retained_after == 3


def test_what_a_plan_that_is_not_seen_yet_has_no_use_for_is_kept() -> None:
    player = running_b()
    told(player, node.ControlReceived("a", directive(7, 3, plan_version=3)))
    source = player.jobs[JOB].slices[SOURCE]
    assert (source.accepted, source.retained_after) == (7, BEGINNING)
    told(player, plan(3))
    told(player, node.ControlReceived("a", directive(7, 3, plan_version=3)))
    assert source.retained_after == 3


def test_a_directive_of_anybody_else_is_dropped() -> None:
    player = running_b()
    assert told(player, node.ControlReceived("b", directive(7))) == []
    assert told(player, node.ControlReceived("a", replace(directive(7), job=9))) == []
    assert player.jobs[JOB].slices[SOURCE].accepted == BEGINNING


def test_a_snapshot_is_written_by_the_shell_and_reported() -> None:
    player = running_b()
    for channel in (1, 3):
        told(player, frame(channel, FrameKind.EPOCH_END, 5, 0, CHECKPOINT))
    frozen = WorkResult(frozen=FrozenSlice(5, BEGINNING))
    assert told(player, done(COUNTS, frozen))[0] == "write snapshot 5 of counts/1@1"
    written = node.SnapshotWritten(JOB, COUNTS, 1, record("counts/1", 5))
    (effect,) = player.handle(written)
    assert text(effect) == "to a: report [(2, None)]"
    assert isinstance(effect, node.TransmitControl)
    assert isinstance(effect.message, control.Heartbeat)
    reports = {each.slice: each for each in effect.message.jobs[0].slices}
    assert reports["counts/1"].frozen == 5
    assert reports["counts/1"].snapshots == (record("counts/1", 5),)
    assert reports["source/1"].snapshots == ()


def test_snapshots_that_fail_again_and_again_fail_the_job() -> None:
    player = running_b()
    for epoch in (5, 6, 7):
        for channel in (1, 3):
            told(player, frame(channel, FrameKind.EPOCH_END, epoch, epoch - 5, CHECKPOINT))
        told(player, done(COUNTS, WorkResult(frozen=FrozenSlice(epoch, BEGINNING))))
        told(player, node.SnapshotWritten(JOB, COUNTS, 1, None, "no space"))
    failed = player.jobs[JOB].failed
    assert failed is not None
    assert "counts/1: 3 snapshots in a row could not be written" in failed


def manager_a() -> NodeMachine:
    player = new_node("a")
    told(player, seen(player, NODES), node.JobSeen(JOB, GRAPH, 2, ASYNCHRONOUS))
    told(player, node.CheckpointsFound(JOB, ()), plan(1))
    told(player, built(["source/0", "counts/0"]))
    told(player, node.ControlReceived("b", heartbeat("b", 1, ("source/1", "counts/1"))), plan(2))
    return player


def test_the_manager_looks_for_checkpoints_and_tells_everybody_what_it_wants() -> None:
    player = new_node("a")
    told(player, seen(player, NODES))
    job = node.JobSeen(JOB, GRAPH, 2, ASYNCHRONOUS)
    assert told(player, job) == ["find checkpoints", "declare plan 1: deploy"]
    player = manager_a()
    heard = heartbeat("b", 2, ("source/1", "counts/1"))
    told(player, done_at_a(5))
    told(player, node.ControlReceived("b", heard))
    lines = told(player, node.HeartbeatDue(1.0, 1.0, {}, {}))
    assert "to b: Directive on None" in lines
    assert player.jobs[JOB].directed.proposed == player.manager.jobs[JOB].coordinator.proposed == 10


def done_at_a(open_epoch: int) -> node.WorkFinished:
    slice_id = GRAPH.slices[0]
    return node.WorkFinished(JOB, slice_id, 1, WorkResult(open_epoch=open_epoch))


def test_when_the_manager_is_lost_the_next_node_takes_over_and_mends() -> None:
    player = running_b()
    lines = told(player, seen(player, (("b", 2),)))
    assert lines[-1] == "declare plan 3: run"
    placements = player.manager.jobs[JOB].plan
    assert placements is not None
    assert {each.node for group in placements.placements.values() for each in group} == {"b"}


@pytest.mark.parametrize(
    ("message", "refusal"),
    [
        (control.SavepointRequest(9), "job 9 is not running"),
        (control.MoveRequest(JOB, "counts/x", "b", "live"), "there is no slice counts/-1"),
        (control.MoveRequest(JOB, "counts/0", "a", "live"), "counts/0 is on a already"),
        (control.DrainRequest("z"), "there is no node 'z'"),
    ],
)
def test_a_clients_wish_is_refused_with_the_reason(
    message: control.SavepointRequest | control.MoveRequest | control.DrainRequest, refusal: str
) -> None:
    player = manager_a()
    answer = player.refusal(message)
    assert answer is not None
    assert answer.startswith(refusal)
    assert told(player, node.ControlReceived("client", message)) == []


def test_a_move_is_declared_by_the_manager() -> None:
    player = manager_a()
    wish = control.MoveRequest(JOB, "counts/0", "b", "live")
    assert player.refusal(wish) is None
    assert told(player, node.ControlReceived("client", wish))[0] == "declare plan 3: run"


def test_work_that_is_done_once_more_is_patient_only_beside_another_replica() -> None:
    # one that was rebuilt does it once more as well, and everybody waits for it
    player = running_b()
    counts = player.jobs[JOB].slices[COUNTS]
    counts.handle = lambda _: [stimuli.Run((), repeats=True)]  # type: ignore[method-assign]

    def patience() -> list[bool]:
        effects = player.handle(node.SliceWoken(JOB, COUNTS, 1))
        return [each.catches_up for each in effects if isinstance(each, node.Perform)]

    assert patience() == [False]
    told(player, plan(3, counts_1=(on_b(1), on_a(3))))
    assert patience() == [True]


def test_the_shell_is_told_what_is_taken_late() -> None:
    player = running_b()
    counts = player.jobs[JOB].slices[COUNTS]
    counts.handle = lambda _: [stimuli.Run((), late_bytes=77)]  # type: ignore[method-assign]
    (effect,) = player.handle(node.SliceWoken(JOB, COUNTS, 1))
    assert effect == node.Perform(JOB, COUNTS, 1, (), late_bytes=77)


def test_a_replica_leads_when_it_is_its_slices_oldest() -> None:
    player = running_b()
    counts = player.jobs[JOB].slices[COUNTS]
    assert counts.leads
    told(player, plan(3, counts_1=(ON_B, on_a(5))))
    assert counts.leads, "who comes later does not lead"
    both = plan(4, counts_1=(on_a(5), on_b(6)))
    told(player, both)
    told(player, deployed(4, NewReplica(COUNTS, 6, None)))
    second = player.jobs[JOB].slices[COUNTS]
    assert second is not counts
    assert not second.leads
    assert second.spare
    told(player, plan(5, counts_1=(on_b(6),)))
    assert second.leads
    assert not second.spare


def test_a_replica_is_built_knowing_who_is_beside_it() -> None:
    player = new_node("b")
    told(player, seen(player, NODES), node.JobSeen(JOB, GRAPH, 2))
    effects = player.handle(plan(1, counts_1=(on_a(1), on_b(2))))
    (effect,) = [each for each in effects if isinstance(each, node.Deploy)]
    beside = {str(each.slice): each.beside for each in effect.replicas}
    assert beside == {"source/1": (), "counts/1": (1,)}


def test_replicas_of_the_first_plan_have_links_to_all_of_the_other_end() -> None:
    # GRAPH has one replica of each, so generation 2 is an added one: none of its links stand
    player = new_node("b")
    told(player, seen(player, NODES), node.JobSeen(JOB, GRAPH, 2))
    effects = player.handle(plan(1, source_0=(ON_A, on_b(2))))
    (effect,) = [each for each in effects if isinstance(each, node.Deploy)]
    links = {str(each.slice): each.links for each in effect.replicas}
    assert links["counts/1"] == {1: (1,), 3: (1,)}
    assert links["source/0"] == {}
