"""What a node has to say of many links, and hears of them, comes in rows of one message."""

from __future__ import annotations

from streammine.engine import node_stimuli as node
from streammine.engine.stimuli import WorkResult
from streammine.model import control
from streammine.model.ids import SliceId
from streammine.model.job import Plan
from tests.unit.small_job import GRAPH
from tests.unit.test_node import JOB, NODES, begun, new_node, seen, told
from tests.unit.test_node_edges import running
from tests.unit.test_node_replicas import on_a, on_b

SOURCES = (SliceId("source", 0), SliceId("source", 1))
# channels 0, 1 of source/0 and 2, 3 of source/1 lead to counts/0 and counts/1


def read_up_to(slice_id: SliceId, epoch: int, job: int = JOB) -> node.WorkFinished:
    return node.WorkFinished(job, slice_id, 1, WorkResult(open_epoch=epoch), None)


def test_every_row_is_taken_though_some_name_no_channel() -> None:
    player = running("source/0", "source/1")
    rows = ((400, 1, 1, 9), (0, 1, 1, 4), (-1, 1, 1, 9), (2, 1, 1, 5), (3, 1, 1, 6))
    told(player, node.ControlReceived("a", control.Credits(JOB, rows)))
    first, second = (player.jobs[JOB].slices[each].outputs for each in SOURCES)
    frontiers = [each[number].links[1].frontier for each, number in ((first, 0), (second, 2))]
    assert frontiers == [4, 5]
    assert second[3].links[1].frontier == 6


def test_all_links_to_a_node_are_announced_in_one_message_and_once() -> None:
    player = running("source/0", "source/1")
    told(player, *(read_up_to(each, 4) for each in SOURCES))
    assert told(player, node.HeartbeatDue(1.0, 1.0, {}, {}))[1:] == [
        "to a: Announcements on 0, 1, 2, 3"
    ]
    assert told(player, node.ControlReceived("a", control.Credits(JOB, ((0, 1, 1, 4),)))) == []
    assert told(player, node.HeartbeatDue(2.0, 2.0, {}, {}))[1:] == [
        "to a: Announcements on 1, 2, 3"
    ]


def test_every_announcement_is_heard() -> None:
    player = running("counts/0")
    announced = control.Announcements(JOB, ((400, 1, 1, 3), (0, 1, 1, 3), (2, 1, 1, 3)))
    assert told(player, node.ControlReceived("a", announced)) == []
    told(player, *[node.HeartbeatDue(1.0, 1.0, {}, {})] * 2)
    assert told(player, node.ControlReceived("a", announced)) == [
        "to a: ResendRequest on 0",
        "to a: ResendRequest on 2",
    ]


def test_jobs_have_messages_of_their_own() -> None:
    player = new_node("b")
    player.handle(seen(player, NODES))
    for job in (JOB, JOB + 1):
        places = {each: (on_b(1) if each in SOURCES else on_a(1),) for each in GRAPH.slices}
        deployed = node.Deployed(job, 1, tuple(begun(each) for each in SOURCES))
        told(
            player,
            node.JobSeen(job, GRAPH, 2),
            node.PlanSeen(Plan(job, 1, "deploy", places)),
            deployed,
            node.PlanSeen(Plan(job, 2, "run", places)),
            read_up_to(SOURCES[0], 4, job),
        )
    effects = player.handle(node.HeartbeatDue(1.0, 1.0, {}, {}))
    messages = [each.message for each in effects if isinstance(each, node.TransmitControl)]
    announced = [each for each in messages if isinstance(each, control.Announcements)]
    assert [(each.job, [link[0] for link in each.links]) for each in announced] == [
        (JOB, [0, 1]),
        (JOB + 1, [0, 1]),
    ]


def test_news_of_more_links_than_a_message_holds_takes_several() -> None:
    links = [(channel, 1, 1, 3) for channel in range(10_000)]
    messages = list(control.in_messages(control.Announcements, JOB, links))
    assert [row for each in messages for row in each.links] == links
    assert {type(control.decode(control.encode(each))) for each in messages} == {
        control.Announcements
    }
    assert list(control.in_messages(control.Credits, JOB, [])) == []
