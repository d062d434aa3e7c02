"""The manager with a controller: what it is told, and how what it decides becomes plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from streammine.assembly import POLICIES
from streammine.engine.job_status import job_status
from streammine.engine.manager import SILENT_SECONDS, ManagerMachine
from streammine.engine.manager_stimuli import (
    DrainAsked,
    Elected,
    NodesChanged,
    Reported,
    SavepointAsked,
    SchemeAsked,
    Ticked,
)
from streammine.engine.node_stimuli import (
    CheckpointsFound,
    FindCheckpoints,
    JobSeen,
    KeepMemory,
    MemoryKept,
    PlanRefused,
    PlanSeen,
)
from streammine.engine.scheme_control import _by_size, _goes_on
from streammine.model.control import Heartbeat, StepReport
from streammine.model.ids import SliceId
from streammine.model.job import Placement, Plan
from streammine.model.job_codec import decode_plan, encode_plan
from streammine.model.recovery_assessment import (
    Assessment,
    ControlMemory,
    ControlPhase,
    Decision,
    SharedLoss,
    SliceStance,
)
from streammine.model.recovery_policy import (
    Measurement,
    RecoveryGoal,
    SliceObservation,
    Step,
)
from streammine.model.schemes import Scheme
from tests.unit.managing import NODES, ON_A, ON_B, checkpoint, plan_of, running, told
from tests.unit.small_job import ASYNCHRONOUS, GRAPH, report, told_by

GOAL = RecoveryGoal(2.0)
CHOSEN = replace(ASYNCHRONOUS, goal=GOAL, paced=("source",))
COUNTS = SliceId("counts", 0)
PASSIVE, _, COLD, HOT, STANDBY, ACTIVE = Scheme


class Scripted:
    """Decides what a test wants, and remembers what it was told."""

    def __init__(self, goal: RecoveryGoal, detection_seconds: float) -> None:
        self.goal = goal
        self.detection_seconds = detection_seconds
        self.wanted: dict[SliceId, Scheme] = {}
        self.measurements: list[Measurement] = []
        self.seen: Mapping[SliceId, SliceObservation] = {}
        self.stances: dict[SliceId, SliceStance] = {}
        self.decisions: list[Decision] = []
        self.detections: tuple[float, ...] = ()

    @property
    def memory(self) -> ControlMemory:
        return ControlMemory(self.detections, tuple(self.decisions))

    def recall(self, memory: ControlMemory) -> None:
        self.detections = (*memory.detection_seconds, *self.detections)
        self.decisions = [*memory.decisions, *self.decisions]

    def measured(self, measurement: Measurement) -> None:
        self.measurements.append(measurement)

    def observe(
        self,
        now_seconds: float,
        observations: Mapping[SliceId, SliceObservation],
        clock_seconds: float,
    ) -> list[Decision]:
        self.seen = observations
        made = []
        for slice_id, seen in observations.items():
            known = self.stances.get(slice_id)
            before = seen.scheme if known is None else known.scheme
            scheme = self.wanted.get(slice_id, before)
            self.stances[slice_id] = SliceStance(ControlPhase.SETTLED, scheme, "so", Assessment())
            if scheme is not before:
                made.append(Decision(slice_id, before, scheme, clock_seconds, "so", Assessment()))
        self.stances = {each: self.stances[each] for each in observations}
        self.decisions += made
        return made


def manager_of(recovery=CHOSEN) -> ManagerMachine:
    """Its job runs on a and b, and has two checkpoints."""
    manager = ManagerMachine(replace(POLICIES, controller=Scripted, detection_seconds=3.0))
    manager.handle(Ticked(1.0, 1000.0))
    found = CheckpointsFound(1, (checkpoint(10), checkpoint(20)))
    told(manager, Elected(True), NodesChanged(NODES), JobSeen(1, GRAPH, 2, recovery), found)
    beat(manager, 1.0)
    assert plan_of(manager).version == 2
    beat(manager, 1.25)
    return manager


def beat(manager: ManagerMachine, now: float, steps=(), **counters: float) -> list[str]:
    """Both nodes tell of their first replicas, with the same counters, and time passes."""
    lines = []
    for node, slices in (("a", ON_A), ("b", ON_B)):
        told_by_node = told_by(
            node,
            plan_of(manager).version,
            [replace(report(name, 1, 25, snapshots=(20,)), counters=counters) for name in slices],
        )
        share = replace(told_by_node.jobs[0], steps=steps)
        load = {"clock": now, "workers": 2.0}
        heartbeat = replace(told_by_node, load=load, jobs=(share,))
        lines += told(manager, Reported(heartbeat))
    return lines + told(manager, Ticked(now, 1000.0 + now))


def control_of(manager: ManagerMachine) -> Scripted:
    control = manager.jobs[1].control
    assert control is not None
    assert isinstance(control.controller, Scripted)
    return control.controller


def planned(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith(("plan", "decided"))]


def test_of_a_job_without_a_goal_all_is_estimated_and_nothing_chosen() -> None:
    manager = manager_of(ASYNCHRONOUS)
    controller = control_of(manager)
    assert set(controller.seen) == set(GRAPH.slices)
    assert all(each.fixed for each in controller.seen.values())
    controller.wanted[COUNTS] = HOT
    assert planned(beat(manager, 3.0)) == [
        "decided: counts/0 passive-replication -> passive-standby-hot"
    ]
    # the real one decides nothing where all is fixed; and what it might is in no plan
    assert plan_of(manager).schemes == {}


def test_without_a_goal_slices_are_looked_at_once_a_second() -> None:
    manager = manager_of(ASYNCHRONOUS)
    controller = control_of(manager)
    looks = []
    for turn in range(8, 24):
        controller.seen = {}
        beat(manager, turn / 4)
        if controller.seen:
            looks.append(turn / 4)
    assert looks == [2.0, 3.0, 4.0, 5.0]


def test_where_no_snapshots_are_made_nothing_is_estimated() -> None:
    assert running().jobs[1].control is None


def test_a_refused_plan_of_a_person_is_not_made_again_where_nobody_chooses() -> None:
    manager = manager_of(ASYNCHRONOUS)
    told(manager, PlanSeen(plan_of(manager)), SchemeAsked(1, "counts/0", "deployed"))
    beat(manager, 3.0)
    assert control_of(manager).seen[COUNTS].scheme is Scheme.DEPLOYED
    told(manager, PlanRefused(1, plan_of(manager).version))
    beat(manager, 3.25)
    assert plan_of(manager).schemes == {}


def test_a_controller_is_told_the_goal_and_how_long_a_loss_may_go_unnoticed() -> None:
    controller = control_of(manager_of())
    assert (controller.goal, controller.detection_seconds) == (GOAL, 3.0)


def test_a_decision_becomes_a_plan_and_the_replica_follows() -> None:
    manager = manager_of()
    control_of(manager).wanted[COUNTS] = HOT
    lines = planned(beat(manager, 2.0))
    assert lines[:2] == [
        "decided: counts/0 passive-replication -> passive-standby-hot",
        "plan 3: run",
    ]
    assert plan_of(manager).schemes == {COUNTS: HOT}
    beat(manager, 2.25)
    assert [(each.node, each.rung) for each in plan_of(manager).placements[COUNTS]] == [
        ("a", ACTIVE),
        ("b", HOT),
    ]


def test_what_stands_already_makes_no_plan() -> None:
    manager = manager_of()
    control_of(manager).wanted[COUNTS] = PASSIVE
    assert planned(beat(manager, 2.0)) == []


def test_a_refused_plan_is_made_again_without_another_decision() -> None:
    manager = manager_of()
    told(manager, PlanSeen(plan_of(manager)))
    control_of(manager).wanted[COUNTS] = COLD
    beat(manager, 2.0)
    version = plan_of(manager).version
    told(manager, PlanRefused(1, version))
    assert plan_of(manager).schemes == {}
    assert "decided" not in " ".join(beat(manager, 2.25))
    assert plan_of(manager).schemes == {COUNTS: COLD}


def test_a_scheme_that_a_person_has_set_is_left_alone_until_it_is_handed_back() -> None:
    manager = manager_of()
    controller = control_of(manager)
    told(manager, SchemeAsked(1, "counts/0", "active-standby"))
    assert plan_of(manager).fixed == (COUNTS,)
    controller.wanted[COUNTS] = PASSIVE
    beat(manager, 2.0)
    assert controller.seen[COUNTS].fixed
    assert controller.seen[COUNTS].scheme is STANDBY
    assert plan_of(manager).schemes[COUNTS] is STANDBY
    told(manager, SchemeAsked(1, "counts", "automatic"))
    assert plan_of(manager).fixed == ()
    beat(manager, 2.25)
    assert not controller.seen[COUNTS].fixed
    assert plan_of(manager).schemes[COUNTS] is PASSIVE


def test_who_has_set_a_scheme_is_part_of_the_plan() -> None:
    manager = manager_of()
    told(manager, SchemeAsked(1, "counts", "active-standby"))
    assert decode_plan(encode_plan(plan_of(manager))) == plan_of(manager)
    assert plan_of(manager).fixed == (COUNTS, SliceId("counts", 1))


def test_nobody_chooses_where_the_job_says_nothing_of_recovery() -> None:
    manager = manager_of(ASYNCHRONOUS)
    wish = SchemeAsked(1, "counts", "automatic")
    assert manager.refusal(wish) == "job 1 says nothing of `recovery`, so nobody chooses a scheme"


def test_what_nodes_have_measured_is_counted_once_however_often_it_is_told() -> None:
    manager = manager_of()
    first = StepReport("deploy", "counts/0", 1, 0.25, 0.0)
    second = StepReport("load", "counts/1", 3, 0.5, 100.0)
    beat(manager, 2.0, (first,))
    beat(manager, 2.25, (first, second))
    # each of the two nodes has measured them
    assert control_of(manager).measurements == [
        *[Measurement(Step.DEPLOY, 0.25)] * 2,
        *[Measurement(Step.LOAD, 0.5, 100.0)] * 2,
    ]


def test_a_lost_node_says_how_long_losses_go_unnoticed() -> None:
    manager = manager_of()
    for quarter in range(6, 11):
        # times are those of the manager's looks at its clock
        beat(manager, quarter / 4)
    told(manager, Ticked(3.0, 1003.0), NodesChanged(NODES[:1]))
    # last heard at 2.25, and it was to be heard again 0.25 s later
    assert control_of(manager).measurements == [Measurement(Step.DETECT, 0.75 - 0.25 / 2)]


def test_a_node_that_was_drained_says_nothing_of_how_losses_are_noticed() -> None:
    manager = manager_of()
    told(manager, DrainAsked("b"))
    beat(manager, 2.0)
    told(manager, NodesChanged(NODES[:1], 2.1))
    assert control_of(manager).measurements == []


def test_a_loss_and_a_heartbeat_are_noticed_when_they_come() -> None:
    manager = manager_of()
    for quarter in range(6, 10):
        beat(manager, quarter / 4)
    # it has news, twice between two beats
    for now_seconds in (2.3125, 2.34375):
        told(manager, Reported(told_by("b", plan_of(manager).version, ()), now_seconds))
    told(manager, NodesChanged(NODES[:1], 2.4375))
    assert control_of(manager).measurements == [Measurement(Step.DETECT, 0.09375 / 2)]


def test_a_member_that_is_silent_is_lost_once_and_when_it_is_left_out() -> None:
    manager = manager_of()
    beat(manager, 2.0)
    told(manager, Ticked(1.0 + SILENT_SECONDS, 0.0))
    told(manager, Reported(told_by("a", plan_of(manager).version, ()), 1.0 + SILENT_SECONDS))
    assert control_of(manager).measurements == []
    told(manager, Ticked(3.0 + SILENT_SECONDS, 0.0))
    (lost,) = control_of(manager).measurements
    assert lost.step is Step.DETECT
    assert SILENT_SECONDS < lost.seconds <= SILENT_SECONDS + 2.0
    # its session ends much later
    told(manager, NodesChanged(NODES[:1], 600.0))
    assert control_of(manager).measurements == [lost]


@pytest.mark.parametrize(
    ("senders", "goes_on"),
    [
        (("a", "a"), False),
        (("a", "b"), True),
        (("b", "b"), True),
        (("a b queues", "a"), False),
        (("a b queues", "b"), False),
        (("a b", "a"), True),
    ],
)
def test_a_slice_that_is_lost_with_all_that_send_to_it_leaves_nothing_out(
    senders: tuple[str, ...], goes_on: bool
) -> None:
    """Each sender: the nodes of its replicas; a second one publishes unless it only queues."""
    placements = {COUNTS: (Placement("a", 1, 1),)}
    for index, text in enumerate(senders):
        node, *further = text.split()
        group = [Placement(node, 1, 1)]
        if further:
            rung = HOT if "queues" in further else ACTIVE
            group.append(Placement(further[0], 2, 2, rung=rung))
        placements[SliceId("source", index)] = tuple(group)
    assert _goes_on(Plan(1, 1, "run", placements), GRAPH, COUNTS) is goes_on


def test_what_is_lost_with_a_slice_s_node_is_made_up_for_by_the_nodes_left() -> None:
    manager = manager_of()
    counters = {"bytes_in": 1e6, "state_bytes": 3e6}
    beat(manager, 2.0, **counters, busy_seconds=0.5)
    beat(manager, 3.0, **counters, busy_seconds=1.0)
    # what b leads goes to a, which has two workers
    shared = control_of(manager).seen[SliceId("counts", 1)].shared
    sizes = ((len(ON_B), len(ON_B) * 3e6),)
    assert shared == SharedLoss(len(ON_B), sizes, pytest.approx(len(ON_B) * 0.5 / 2))
    # a snapshot that is larger than the state is read all the same
    beat(manager, 4.0, bytes_in=1e6, state_bytes=1.0)
    (nbytes,) = {checkpoint(20).slices[name].record.nbytes for name in ON_B}
    shared = control_of(manager).seen[SliceId("counts", 1)].shared
    assert shared.snapshots == ((len(ON_B), len(ON_B) * nbytes),)
    assert nbytes > 1


def test_nodes_share_what_there_is_of_each_size() -> None:
    assert _by_size([30e6, 1.5e3, 0.0, 40e6, 2e3], 2) == (
        (0.5, 0.0),
        (1.0, 1.75e3),
        (1.0, 35e6),
    )
    assert _by_size([], 3) == ()


def test_a_new_manager_learns_anew_what_nodes_repeat_and_knows_what_was_chosen() -> None:
    manager = manager_of()
    step = StepReport("deploy", "counts/0", 1, 0.25, 0.0)
    control_of(manager).wanted[COUNTS] = COLD
    beat(manager, 2.0, (step,))
    told(manager, Elected(False), Elected(True), CheckpointsFound(1, (checkpoint(20),)))
    controller = control_of(manager)
    assert controller.measurements == []
    beat(manager, 3.0, (step,))
    assert controller.measurements == [Measurement(Step.DEPLOY, 0.25)] * 2
    seen = controller.seen
    assert (seen[COUNTS].scheme, seen[COUNTS].chosen) == (COLD, True)
    assert not seen[SliceId("counts", 1)].chosen


def remembered(manager: ManagerMachine, now: float) -> list[ControlMemory]:
    """What is to be written when it has become so late."""
    effects = manager.handle(Ticked(now, 1000.0 + now))
    return [each.memory for each in effects if isinstance(each, KeepMemory)]


def test_decisions_and_detection_times_are_kept_for_the_next_manager() -> None:
    manager = manager_of()
    assert remembered(manager, 1.5) == [], "there is nothing to keep"
    control_of(manager).detections = (0.25,)
    (first,) = remembered(manager, 2.0)
    assert first == ControlMemory((0.25,))
    control_of(manager).wanted[COUNTS] = COLD
    beat(manager, 2.5)
    assert remembered(manager, 2.75) == [], "one is written after the other"
    manager.handle(MemoryKept(1, first))
    (second,) = remembered(manager, 3.0)
    (decision,) = second.decisions
    assert (decision.chosen, decision.at_seconds) == (COLD, 1002.5)
    manager.handle(MemoryKept(1, second, "the disk is full"))
    assert remembered(manager, 3.5) == []
    assert remembered(manager, 4.0) == [second], "it is tried again after a while"
    manager.handle(MemoryKept(1, second))
    assert remembered(manager, 9.0) == []
    # another manager, which has never heard of any of it
    told(manager, Elected(False), Elected(True))
    assert control_of(manager).memory == ControlMemory()
    control_of(manager).detections = (0.5,)
    assert remembered(manager, 9.5) == [], "what was there before would be lost"
    told(manager, CheckpointsFound(1, None))
    asked = manager.handle(Ticked(10.5, 1010.5))
    assert FindCheckpoints(1, 0, memory=True) in asked
    found = (checkpoint(10), checkpoint(20))
    told(manager, CheckpointsFound(1, found, memory=second))
    assert remembered(manager, 11.0) == [replace(second, detection_seconds=(0.25, 0.5))]
    status = job_status(manager.jobs[1], manager.live)
    assert [each["at_seconds"] for each in status["decisions"]] == [1002.5]


def test_what_an_earlier_term_has_written_is_not_taken_for_what_is_known_now() -> None:
    manager = manager_of()
    control_of(manager).detections = (0.25,)
    (first,) = remembered(manager, 2.0)
    told(manager, Elected(False), Elected(True), CheckpointsFound(1, (checkpoint(20),)))
    manager.handle(MemoryKept(1, first))
    control_of(manager).detections = (0.25,)
    assert remembered(manager, 3.0) == [first]


def test_nothing_is_chosen_before_everybody_has_reported() -> None:
    manager = manager_of()
    told(manager, Elected(False), Elected(True), CheckpointsFound(1, (checkpoint(20),)))
    told(manager, Ticked(2.0, 1002.0))
    assert control_of(manager).seen == {}


def test_nothing_is_chosen_while_a_savepoint_is_made() -> None:
    manager = manager_of()
    told(manager, SavepointAsked(1))
    control_of(manager).wanted[COUNTS] = COLD
    assert planned(beat(manager, 2.0)) == []


def test_rates_are_those_of_the_last_seconds_by_the_node_s_clock() -> None:
    manager = manager_of()
    # 4 MB come in each second, half of it is made, and takes a quarter of a core
    for turn in range(1, 21):
        at = 0.25 * turn
        beat(
            manager, 2.0 + at, bytes_in=4e6 * at, bytes_out=2e6 * at, busy_seconds=0.25 * at,
            state_bytes=5e6, bytes_waiting=700.0,
        )  # fmt: skip
    seen = control_of(manager).seen[COUNTS]
    assert seen.input_bytes_per_second == 4e6
    assert seen.output_bytes_per_second == 2e6
    assert seen.processing_bytes_per_second == 16e6
    assert (seen.busy_share, seen.state_bytes, seen.queued_bytes) == (0.25, 5e6, 700.0)
    assert (seen.nodes, seen.replicas, seen.input_waits) == (2, 2, False)
    # a source's input is what it makes of it
    assert control_of(manager).seen[SliceId("source", 0)].input_bytes_per_second == 2e6


def test_what_comes_while_slices_catch_up_is_not_taken_for_the_rate_of_the_input() -> None:
    manager = manager_of()
    job = manager.jobs[1]
    came, at = 0.0, 2.0

    def comes(seconds: float, rate: float) -> float:
        nonlocal came, at
        for _ in range(round(4 * seconds)):
            at += 0.25
            came += 0.25 * rate
            beat(manager, at, bytes_in=came, busy_seconds=0.1 * at)
        return control_of(manager).seen[COUNTS].input_bytes_per_second

    assert comes(4.0, 1e6) == 1e6
    assert job.control is not None
    job.control.lost(at, ("c", 3), job)
    assert comes(4.0, 9e6) == 1e6
    # a checkpoint that was named before the loss says nothing
    job.coordinator._complete = (checkpoint(20), checkpoint(job.coordinator.proposed))
    assert comes(1.0, 2e6) == 1e6
    job.coordinator._complete = (checkpoint(30), checkpoint(job.coordinator.proposed + 1))
    assert comes(1.0, 2e6) == 1e6, "what was counted meanwhile is still in the rates"
    assert comes(2.0, 2e6) == 2e6


def test_how_fast_slices_catch_up_counts_as_soon_as_it_is_known() -> None:
    manager = manager_of()
    # 4 MB/s, and while it keeps up it works for half of the time
    beat(manager, 10.0)
    beat(manager, 12.0, bytes_in=8e6, busy_seconds=1.0)
    seen = control_of(manager).seen[COUNTS]
    assert (seen.processing_bytes_per_second, seen.busy_share, seen.replay_share) == (8e6, 0.5, 0.5)
    # it was late once, and took 40 MB/s: a tenth of its time is enough to keep up
    beat(manager, 14.0, bytes_in=16e6, busy_seconds=2.0, replayed_bytes=4e6, replay_seconds=0.1)
    for each in (COUNTS, SliceId("counts", 1)):
        seen = control_of(manager).seen[each]
        assert seen.processing_bytes_per_second == 40e6
        assert (seen.busy_share, seen.replay_share) == (0.5, pytest.approx(0.1))
    # how it keeps up is the least: what made it late once has taken its time away, too
    manager = manager_of()
    beat(manager, 10.0)
    beat(manager, 12.0, bytes_in=8e6, busy_seconds=1.0, replayed_bytes=1e6, replay_seconds=0.5)
    seen = control_of(manager).seen[COUNTS]
    assert (seen.processing_bytes_per_second, seen.replay_share) == (8e6, 0.5)


def test_what_is_lost_with_a_node_counts_how_fast_slices_catch_up() -> None:
    manager = manager_of()
    beat(manager, 10.0)
    beat(manager, 12.0, bytes_in=8e6, busy_seconds=1.0)
    beat(manager, 14.0, bytes_in=16e6, busy_seconds=2.0, replayed_bytes=4e6, replay_seconds=0.1)
    # b's slices, of which the source's input is what it makes, go to a, which has two workers
    shared = control_of(manager).seen[SliceId("counts", 1)].shared
    assert shared.replay_share == pytest.approx(
        sum("source" not in each for each in ON_B) * 0.1 / 2
    )


def test_where_no_source_has_a_pace_the_input_waits() -> None:
    manager = manager_of(replace(CHOSEN, paced=()))
    beat(manager, 2.0)
    assert control_of(manager).seen[COUNTS].input_waits


def test_a_checkpoint_is_as_old_as_it_is_known_to_be_frozen() -> None:
    manager = manager_of()
    beat(manager, 3.0)
    checkpointed = control_of(manager).seen[COUNTS].checkpoint
    assert checkpointed is not None
    # it was first heard of at 1.0
    assert (checkpointed.age_seconds, checkpointed.snapshot_bytes) == (2.0, 10)


def test_a_slice_that_is_being_rebuilt_is_seen_as_before() -> None:
    manager = manager_of()
    beat(manager, 2.0, state_bytes=5e6)
    heartbeat = told_by("a", plan_of(manager).version, [report("source/0", 1, 25)])
    told(manager, Reported(heartbeat), Ticked(2.25, 1002.25))
    assert control_of(manager).seen[COUNTS].state_bytes == 5e6


def test_a_finished_slice_is_not_chosen_for() -> None:
    manager = manager_of()
    finished = [report(name, 1, 25, finished=True) for name in ON_A]
    heartbeat: Heartbeat = told_by("a", plan_of(manager).version, finished)
    told(manager, Reported(heartbeat), Ticked(2.0, 1002.0))
    assert COUNTS not in control_of(manager).seen
    assert SliceId("counts", 1) in control_of(manager).seen


def test_the_real_controller_begins_with_active_replication() -> None:
    manager = ManagerMachine(POLICIES)
    manager.handle(Ticked(1.0, 1000.0))
    told(manager, Elected(True), NodesChanged(NODES), JobSeen(1, GRAPH, 2, CHOSEN))
    told(manager, CheckpointsFound(1, ()))
    beat(manager, 1.0)
    beat(manager, 1.25)
    assert set(plan_of(manager).schemes.values()) == {ACTIVE}
    assert all(len(group) == 2 for group in plan_of(manager).placements.values())


def test_status_says_what_each_slice_has_and_why() -> None:
    manager = manager_of()
    control_of(manager).wanted[COUNTS] = COLD
    beat(manager, 2.0, state_bytes=5.0)
    beat(manager, 2.25, state_bytes=5.0)
    status = job_status(manager.jobs[1], manager.live)
    counts = status["slices"]["counts/0"]
    assert counts["scheme"] == "passive-standby-cold"
    assert counts["chosen"]["reason"] == "so"
    leading, standing_by = counts["replicas"]
    assert (leading["leads"], leading["counters"]["state_bytes"]) == (True, 5.0)
    assert (standing_by["rung"], standing_by["phase"]) == ("passive-standby-cold", "deploying")
    (decision,) = status["decisions"]
    assert (decision["previous"], decision["chosen"]) == (
        "passive-replication",
        "passive-standby-cold",
    )
