"""The node at the edges of what it knows: first and last channels, and what it does not tell yet."""

from __future__ import annotations

import pytest

from streammine.engine import node_stimuli as node
from streammine.engine.node import NodeMachine
from streammine.engine.releasing import Releasing
from streammine.engine.stimuli import Output, WorkResult
from streammine.model import control
from streammine.model.epochs import BEGINNING
from streammine.model.frames import FrameKind
from streammine.model.ids import SliceId
from tests.unit.small_job import GRAPH
from tests.unit.test_node import (
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
    told,
)
from tests.unit.test_node_replicas import manager_a, on_a, on_b

LAST = len(GRAPH.channels) - 1


def running(*slices: str) -> NodeMachine:
    """Node b with these slices of the job; all others are on a."""
    places = {
        str(each).replace("/", "_"): (on_b(1) if str(each) in slices else on_a(1),)
        for each in GRAPH.slices
    }
    player = new_node("b")
    told(player, seen(player, NODES), node.JobSeen(JOB, GRAPH, 2), plan(1, **places))
    told(player, built(slices), plan(2, **places))
    return player


@pytest.mark.parametrize(
    ("channel", "source", "target"),
    [(0, "source/0", "counts/0"), (LAST, "source/1", "counts/1")],
)
def test_the_first_and_the_last_channel_are_channels_like_others(
    channel: int, source: str, target: str
) -> None:
    announced = control.Announcements(JOB, ((channel, 1, 1, 3),))
    receiver = running(target)
    assert told(receiver, node.ControlReceived("a", announced)) == []
    told(receiver, *[node.HeartbeatDue(1.0, 1.0, {}, {})] * 2)
    assert told(receiver, node.ControlReceived("a", announced)) == [
        f"to a: ResendRequest on {channel}"
    ]
    sender = running(source)
    told(sender, node.ControlReceived("a", control.Credits(JOB, ((channel, 1, 1, 4),))))
    machine = sender.jobs[JOB].slices[SliceId.parse(source)]
    assert machine.outputs[channel].links[1].frontier == 4
    wish = control.Subscribe(JOB, channel, 1, 3, BEGINNING, BEGINNING)
    told(sender, node.ControlReceived("a", wish))
    assert set(machine.outputs[channel].links) == {1, 3}, "a later plan may list 3"
    inputs = machine_inputs(target)
    assert channel in inputs
    ends = [frame(each, FrameKind.EPOCH_END, 3, 0) for each in inputs]
    assert f"to a: Credits on {', '.join(map(str, inputs))}" in told(receiver, *ends)


def machine_inputs(slice_name: str) -> list[int]:
    return [each.number for each in GRAPH.inputs[SliceId.parse(slice_name)]]


@pytest.mark.parametrize("channel", [-1, LAST + 1])
def test_a_channel_beyond_the_first_or_the_last_is_none(channel: int) -> None:
    player = running_b()
    for message in (
        control.Credits(JOB, ((channel, 1, 1, 4),)),
        control.Announcements(JOB, ((channel, 1, 1, 3),)),
        control.ResendRequest(JOB, channel, 1, 1, 0),
        control.Subscribe(JOB, channel, 1, 2, BEGINNING, BEGINNING),
    ):
        assert told(player, node.ControlReceived("a", message)) == []
    if channel > 0:
        assert told(player, frame(channel, FrameKind.EPOCH_END, 3, 0)) == []
    assert player.jobs[JOB].failed is None


def test_frames_that_are_asked_for_again_are_sent_again() -> None:
    player = running_b()
    told(player, done(SOURCE, WorkResult((Output(2, 4, 1, 10, "batch"),), open_epoch=5)))
    asked = node.ControlReceived("a", control.ResendRequest(JOB, 2, 1, 1, 1))
    assert told(player, asked) == ["to a: send 2.1 data 4, the last"]


def reports(player: NodeMachine) -> list[control.Heartbeat]:
    return [
        each.message
        for each in player.handle(node.HeartbeatDue(1.0, 1.0, {}, {}))
        if isinstance(each, node.TransmitControl) and isinstance(each.message, control.Heartbeat)
    ]


def test_a_node_reports_once_it_is_a_member_and_knows_the_manager() -> None:
    player = new_node("b")
    assert reports(player) == []
    assert told(player, seen(player, NODES[:1])) == []
    assert reports(player) == []
    assert told(player, seen(player, NODES)) == [], "the manager is the one that it was"
    assert [each.member for each in reports(player)] == [2]


def test_a_job_counts_as_deployed_here_from_the_first_plan_on() -> None:
    player = new_node("b")
    told(player, seen(player, NODES), node.JobSeen(JOB, GRAPH, 2))
    assert [each.jobs[0].deployed for each in reports(player)] == [False]
    told(player, plan(1), built(["source/1", "counts/1"]))
    assert [each.jobs[0].deployed for each in reports(player)] == [True]


def test_a_plan_that_changes_nothing_for_a_slice_is_not_told_to_it() -> None:
    player = running_b()
    told(player, plan(3, source_0=(on_a(3),)))
    # the new source has not been heard of yet
    assert told(player, plan(4, source_0=(on_a(3),))) == ["to a: report [(4, None)]"]
    assert "to a: Subscribe on 1" in told(player, node.HeartbeatDue(1.0, 1.0, {}, {}))


def test_the_report_of_a_finished_slice_tells_its_last_epoch() -> None:
    player = running_b()
    told(player, done(SOURCE, WorkResult(open_epoch=5, last_epoch=4)))
    (before,) = reports(player)
    by_name = {each.slice: each for each in before.jobs[0].slices}
    assert by_name["source/1"].final_epoch == BEGINNING
    assert by_name["source/1"].last_epoch == 4
    told(player, done(SOURCE, WorkResult(finished=True)))
    (after,) = reports(player)
    by_name = {each.slice: each for each in after.jobs[0].slices}
    assert by_name["source/1"].finished
    assert by_name["source/1"].final_epoch == 4
    assert by_name["counts/1"].final_epoch == BEGINNING


def test_a_job_that_the_shell_can_not_go_on_with_fails_and_no_other() -> None:
    player = running_b()
    assert told(player, node.JobBroken(99, "boom")) == []
    assert told(player, node.JobBroken(JOB, "boom")) == ["to a: report [(2, 'boom')]"]


def test_a_source_that_sleeps_reads_again_when_it_is_woken() -> None:
    player = running_b()
    lines = told(player, done(SOURCE, WorkResult(open_epoch=5, wake_after_seconds=0.5)))
    assert "wake source/1 after 0.5 s" in lines
    assert told(player, node.SliceWoken(JOB, SOURCE, 1)) == ["source/1: run read 64"]


def test_counters_are_those_of_the_last_heartbeat_and_of_jobs_that_are_here() -> None:
    player = running_b()
    counters = {(JOB, SOURCE): {"rows_out": 3.0}, (99, SOURCE): {"rows_out": 9.0}}
    (message,) = [
        each.message
        for each in player.handle(node.HeartbeatDue(1.0, 1.0, {}, counters))
        if isinstance(each, node.TransmitControl) and isinstance(each.message, control.Heartbeat)
    ]
    (source,) = [each for each in message.jobs[0].slices if each.slice == "source/1"]
    assert source.counters["rows_out"] == 3.0


def test_a_client_may_stop_a_job() -> None:
    player = manager_a()
    stop = control.StopRequest(JOB, "enough")
    assert told(player, node.ControlReceived("client", stop)) == ["declare end: stopped"]


def test_what_a_slice_keeps_beyond_its_share_is_moved_to_disk_by_the_shell() -> None:
    player = running_b()
    source = player.jobs[JOB].slices[SOURCE]
    source._releasing = Releasing(source.outputs, retained_bytes=2)
    result = WorkResult((Output(2, 4, 1, 10, "batch"),), open_epoch=5)
    assert "source/1: to disk: 1" in told(player, done(SOURCE, result))
