"""The node's protocol: reconciling towards the plan, and routing between slices, peers and manager."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from streammine.assembly import POLICIES
from streammine.engine import node_stimuli as node
from streammine.engine import stimuli
from streammine.engine.node import NodeMachine
from streammine.engine.node_status import node_status
from streammine.engine.node_stimuli import NewReplica, NodeEffect, NodeStimulus
from streammine.engine.placement import place
from streammine.engine.slice import SliceMachine
from streammine.engine.stimuli import Output, WorkResult
from streammine.model import control
from streammine.model.epochs import INFINITY
from streammine.model.frames import FrameHeader, FrameKind
from streammine.model.ids import SliceId
from streammine.model.job import Placement, Plan
from tests.unit.small_job import ASYNCHRONOUS, GRAPH, heartbeat, machine
from tests.unit.transcripts import ARRIVING_BYTES, effect_text

JOB = 1
NODES = (("a", 1), ("b", 2))
PLACES: dict[SliceId, tuple[Placement, ...]] = {
    slice_id: tuple(Placement(name, 1, member) for name, member in places)
    for slice_id, places in place(GRAPH, NODES).items()
}
SOURCE, COUNTS = SliceId("source", 1), SliceId("counts", 1)


def text(effect: NodeEffect) -> str:
    match effect:
        case node.Deploy(_, version, replicas):
            return f"deploy {', '.join(map(replica_text, replicas))} for plan {version}"
        case node.Withdraw(_, slice_id, generation):
            return f"withdraw {slice_id}@{generation}"
        case node.Undeploy(job):
            return f"undeploy {job}"
        case node.Perform(_, slice_id, _, work):
            return f"{slice_id}: {effect_text(stimuli.Run(work))}"
        case node.TransmitFrame(name, frame):
            return f"to {name}: {effect_text(stimuli.SendFrame(frame))}"
        case node.TransmitControl(name, control.Heartbeat(_, _, _, jobs)):
            return f"to {name}: report {[(each.plan_version, each.failed) for each in jobs]}"
        case node.TransmitControl(name, control.Credits() | control.Announcements() as message):
            channels = ", ".join(str(channel) for channel, *_ in message.links)
            return f"to {name}: {type(message).__name__} on {channels}"
        case node.TransmitControl(name, message):
            return f"to {name}: {type(message).__name__} on {getattr(message, 'channel', None)}"
        case node.WakeSlice(_, slice_id, _, seconds):
            return f"wake {slice_id} after {seconds:g} s"
        case node.DeclarePlan(plan):
            return f"declare plan {plan.version}: {plan.phase}"
        case node.DeclareEnd(_, outcome):
            return f"declare end: {outcome.status}"
        case node.Sit(_, slice_id, generation, restore):
            state = "" if restore is None else f" after {restore.epoch}"
            return f"sit {slice_id}@{generation}{state}"
        case node.Unseat(_, slice_id):
            return f"unseat {slice_id}"
        case node.SourcesStart():
            return "sources start"
        case node.WriteSnapshot(_, slice_id, generation, frozen):
            return f"write snapshot {frozen.epoch} of {slice_id}@{generation}"
        case node.MoveToDisk(_, slice_id, _, bodies):
            return f"{slice_id}: to disk: {len(bodies)}"
        case node.PublishCheckpoint(_, checkpoint):
            return f"publish checkpoint {checkpoint.epoch}"
        case node.CollectSnapshots(_, keep):
            return f"keep checkpoints {[each.epoch for each in keep]}"
        case node.FindCheckpoints():
            return "find checkpoints"


def replica_text(replica: NewReplica) -> str:
    if replica.generation == 1:
        return str(replica.slice)
    origin = "" if replica.restore is None else f" from {replica.restore.epoch}"
    return f"{replica.slice}@{replica.generation}{origin}"


def told(player: NodeMachine, *happened: NodeStimulus) -> list[str]:
    return [text(effect) for stimulus in happened for effect in player.handle(stimulus)]


def seen(player: NodeMachine, nodes: tuple[tuple[str, int], ...]) -> node.MembersSeen:
    """The members as this node sees them: it is the one of its name."""
    return node.MembersSeen(nodes, dict(nodes).get(player.name))


def new_node(name: str) -> NodeMachine:
    return NodeMachine(name, POLICIES)


def plan(version: int, **placed: tuple[Placement, ...]) -> node.PlanSeen:
    """Plan `version`; `placed` replaces places by name, like ``counts_1``."""
    places = dict(PLACES)
    for name, group in placed.items():
        places[SliceId.parse(name.replace("_", "/"))] = group
    return node.PlanSeen(Plan(JOB, version, "deploy" if version == 1 else "run", places))


def begun(slice_id: SliceId) -> SliceMachine:
    """A replica of the first plan."""
    ends = (*GRAPH.inputs[slice_id], *GRAPH.outputs[slice_id])
    return machine(NewReplica(slice_id, 1, None, {each.number: (1,) for each in ends}))


def built(names: Iterable[str], version: int = 1) -> node.Deployed:
    return node.Deployed(JOB, version, tuple(begun(SliceId.parse(name)) for name in names))


def done(slice_id: SliceId, result: WorkResult | None, failure: str | None = None) -> NodeStimulus:
    return node.WorkFinished(JOB, slice_id, 1, result, failure)


def running_b() -> NodeMachine:
    """Node b, not the manager, with source/1 and counts/1 running."""
    player = new_node("b")
    told(player, seen(player, NODES), node.JobSeen(JOB, GRAPH, 2), plan(1))
    told(player, built(["source/1", "counts/1"]), plan(2))
    return player


def frame(
    channel: int, kind: FrameKind, epoch: int, sequence: int, flags: int = 0
) -> node.FrameReceived:
    data = kind is FrameKind.DATA
    header = FrameHeader(JOB, channel, 1, 1, epoch, 0, sequence, int(data), kind, flags)
    return node.FrameReceived(header, "batch" if data else None, ARRIVING_BYTES * data)


def test_the_first_member_is_the_manager_and_declares_plans() -> None:
    player = new_node("a")
    assert told(player, seen(player, NODES), node.HeartbeatDue(0.0, 1000.0, {}, {})) == []
    assert told(player, node.JobSeen(JOB, GRAPH, 2)) == ["declare plan 1: deploy"]
    assert told(player, plan(1)) == ["deploy source/0, counts/0 for plan 1"]
    assert told(player, built(["source/0", "counts/0"])) == []
    heard = node.ControlReceived("b", heartbeat("b", 1, ("source/1", "counts/1")))
    assert told(player, heard) == ["declare plan 2: run"]
    assert told(player, plan(2)) == ["sources start", "source/0: run read 64"]


def test_a_manager_begins_its_terms_under_its_own_number() -> None:
    player = new_node("a")
    player.handle(seen(player, (("a", 5), ("b", 7))))
    effects = player.handle(node.JobSeen(JOB, GRAPH, 2, ASYNCHRONOUS))
    assert node.FindCheckpoints(JOB, 5, memory=True) in effects


def test_another_node_deploys_what_is_placed_on_it_and_reports() -> None:
    player = new_node("b")
    assert told(player, seen(player, NODES)) == ["to a: report []"]
    assert told(player, node.JobSeen(JOB, GRAPH, 2)) == []
    assert told(player, plan(1)) == ["deploy source/1, counts/1 for plan 1"]
    assert told(player, built(["source/1", "counts/1"])) == ["to a: report [(1, None)]"]
    assert told(player, plan(2)) == [
        "sources start",
        "to a: report [(2, None)]",
        "source/1: run read 64",
    ]
    assert told(player, plan(2), plan(1)) == [], "a plan is followed once, and never backwards"


def test_the_pace_began_when_the_plan_says_however_late_a_node_comes() -> None:
    player = new_node("b")
    told(player, seen(player, NODES), node.JobSeen(JOB, GRAPH, 2))
    run = node.PlanSeen(replace(plan(7).plan, phase="run", began_at=12.5))
    player.handle(run)
    effects = player.handle(built(["source/1", "counts/1"], 7))
    assert node.SourcesStart(JOB, 12.5) in effects


def test_a_plan_that_comes_while_slices_are_built_is_followed_afterwards() -> None:
    player = new_node("b")
    told(player, seen(player, NODES), node.JobSeen(JOB, GRAPH, 2), plan(1))
    assert told(player, plan(2)) == []
    assert told(player, built(["source/1", "counts/1"])) == [
        "sources start",
        "to a: report [(2, None)]",
        "source/1: run read 64",
    ]


def test_frames_to_a_slice_of_this_node_do_not_leave_it_and_others_do() -> None:
    # channels 0, 1 of source/0 and 2, 3 of source/1 lead to counts/0 on a and counts/1 here
    player = running_b()
    outputs = tuple(Output(channel, 4, 1, ARRIVING_BYTES, "batch") for channel in (2, 3))
    result = WorkResult(outputs, open_epoch=5)
    assert told(player, done(SOURCE, result)) == [
        "to a: send 2.0 end 3",
        "to a: send 2.1 data 4, the last",
        "source/1: run read 64",
        "counts/1: run accumulate 4 from 3",
    ]


def test_credit_finds_the_sender_on_this_node_or_another() -> None:
    player = running_b()
    told(player, frame(1, FrameKind.EPOCH_END, 3, 0))
    lines = told(player, done(SOURCE, WorkResult(open_epoch=4)))
    assert "to a: Credits on 1" in lines
    source = player.jobs[JOB].slices[SOURCE]
    assert source.outputs[3].links[1].frontier == 4, "its own credit came by itself"
    assert source.outputs[2].links[1].frontier < 4
    told(player, node.ControlReceived("a", control.Credits(JOB, ((2, 1, 1, 4),))))
    assert source.outputs[2].links[1].frontier == 4


def test_a_gap_is_asked_for_at_the_senders_node_and_announcements_go_to_the_receivers() -> None:
    player = running_b()
    assert told(player, frame(1, FrameKind.DATA, 3, 5)) == ["to a: ResendRequest on 1"]
    told(player, done(SOURCE, WorkResult(open_epoch=4)))
    assert told(player, node.HeartbeatDue(1.0, 1.0, {}, {})) == [
        "to a: report [(2, None)]",
        "to a: Announcements on 2",
    ]


def test_what_names_no_job_or_channel_that_stands_is_dropped() -> None:
    player = running_b()
    unknown = FrameHeader(99, 0, 1, 1, 0, 0, 0, 0, FrameKind.EPOCH_END)
    assert told(player, node.FrameReceived(unknown, None, 0)) == []
    assert told(player, frame(400, FrameKind.DATA, 0, 0)) == []
    assert told(player, node.ControlReceived("a", control.Credits(JOB, ((400, 1, 1, 4),)))) == []
    assert told(player, node.ControlReceived("a", heartbeat("c", 1))) == [], "not the sender's own"


def test_a_replica_that_was_replaced_does_not_fail_the_job() -> None:
    player = running_b()
    assert told(player, node.WorkFinished(JOB, SOURCE, 1, None, "taken over", replaced=True)) == []
    assert player.jobs[JOB].failed is None


def test_an_error_is_told_to_the_manager_and_the_jobs_slices_stand_still() -> None:
    player = running_b()
    failed = done(SOURCE, None, "operator 'x': boom")
    assert told(player, failed) == ["to a: report [(2, \"operator 'x': boom\")]"]
    assert told(player, frame(1, FrameKind.DATA, 3, 0)) == []
    assert told(player, node.JobEndSeen(JOB)) == [f"undeploy {JOB}"]
    assert player.jobs == {}


def test_slices_that_can_not_be_built_fail_the_job() -> None:
    player = new_node("b")
    told(player, seen(player, NODES), node.JobSeen(JOB, GRAPH, 2), plan(1))
    failed = node.Deployed(JOB, 1, (), "no module named 'x'")
    assert told(player, failed) == ["to a: report [(0, \"no module named 'x'\")]"]
    assert told(player, plan(2)) == []


def test_a_job_that_ended_while_it_was_built_is_undeployed() -> None:
    player = new_node("b")
    told(player, seen(player, NODES), node.JobSeen(JOB, GRAPH, 2), plan(1))
    assert told(player, node.JobEndSeen(JOB)) == [f"undeploy {JOB}"]
    assert told(player, built(["source/1", "counts/1"])) == [f"undeploy {JOB}"]


def test_the_manager_ends_the_job_when_the_last_slice_anywhere_is_finished() -> None:
    player = new_node("a")
    told(player, seen(player, NODES), node.JobSeen(JOB, GRAPH, 2), plan(1))
    told(player, built(["source/0", "counts/0"]))
    told(player, node.ControlReceived("b", heartbeat("b", 1, ("source/1", "counts/1"))), plan(2))
    on_b = ("source/1", "counts/1")
    told(player, node.ControlReceived("b", heartbeat("b", 2, on_b, finished=on_b)))
    source = SliceId("source", 0)
    over = WorkResult(open_epoch=INFINITY, exhausted=True)
    told(player, done(source, over), done(source, WorkResult(finished=True)))
    told(player, frame(2, FrameKind.EPOCH_END, INFINITY, 0))
    lines = told(player, done(SliceId("counts", 0), WorkResult(finished=True)))
    assert lines == ["declare end: finished"]


def test_a_client_can_ask_for_the_state_of_everything() -> None:
    player = new_node("a")
    told(player, seen(player, NODES), node.JobSeen(JOB, GRAPH, 2), plan(1))
    told(player, node.ControlReceived("b", heartbeat("b", 1, ("source/1",))))
    status = node_status(player, None)
    assert status["manager"] == "a"
    jobs = status["jobs"]
    assert isinstance(jobs, dict)
    assert jobs["1"]["slices"]["source/1"]["node"] == "b"
    assert node_status(player, 2)["jobs"] == {}


def test_a_node_that_is_gone_is_not_shown_any_more() -> None:
    player = new_node("a")
    told(player, seen(player, NODES), node.ControlReceived("b", heartbeat("b", 1, ())))
    assert node_status(player, None)["nodes"].keys() == {"a", "b"}
    told(player, seen(player, NODES[:1]))
    # on its way while it went
    told(player, node.ControlReceived("b", heartbeat("b", 1, ())))
    assert node_status(player, None)["nodes"].keys() == {"a"}
