"""What the status says of slices' schemes: who has set them, what stands of them, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from streammine.assembly import POLICIES
from streammine.engine.job_status import job_status
from streammine.engine.manager import ManagerMachine
from streammine.engine.manager_stimuli import Elected, NodesChanged, Reported, SchemeAsked, Ticked
from streammine.engine.node_stimuli import CheckpointPublished, CheckpointsFound, JobSeen
from streammine.model.control import Heartbeat, SeatReport, StepReport
from streammine.model.epochs import BEGINNING
from streammine.model.ids import SliceId
from streammine.model.job import JobGraph
from streammine.model.recovery_policy import RecoveryGoal
from streammine.model.schemes import Scheme
from streammine.model.snapshots import RecoverySettings
from tests.unit.managing import NODES, checkpoint, plan_of, running, told
from tests.unit.small_job import ASYNCHRONOUS, GRAPH, report, told_by

COUNTS = SliceId("counts", 0)
GOAL = replace(ASYNCHRONOUS, goal=RecoveryGoal(60.0))
STEPS = tuple(
    StepReport(step, "counts/0", 1, 0.25, nbytes)
    for step, nbytes in (("switch", 0.0), ("deploy", 0.0), ("save", 100.0))
)
PASSIVE, DEPLOYED, COLD, HOT, STANDBY, ACTIVE = Scheme


class Told:
    """A manager with the real controller, and its nodes, which tell of all replicas that they have but those
    of which `hidden` says otherwise."""

    def __init__(self, recovery: RecoverySettings, graph: JobGraph = GRAPH) -> None:
        self.manager = ManagerMachine(POLICIES)
        self.now = 1.0
        self.manager.handle(Ticked(self.now, 1000.0))
        told(self.manager, Elected(True), NodesChanged(NODES), JobSeen(1, graph, 2, recovery))
        told(self.manager, CheckpointsFound(1, (checkpoint(10), checkpoint(20))))
        self.hidden = set[int]()
        self.rungs: Mapping[int, Scheme] = {}
        self.seat_epoch = 20

    def beat(self, seconds: float = 0.25, snapshots: Sequence[int] = (20,)) -> None:
        self.now += seconds
        for node in ("a", "b"):
            told(self.manager, Reported(self._heartbeat(node, snapshots)))
        told(self.manager, Ticked(self.now, 1000.0 + self.now))

    def checkpoint(self, epoch: int) -> None:
        self.beat(snapshots=(epoch,))
        told(self.manager, CheckpointPublished(1, epoch, None))

    def _heartbeat(self, node: str, snapshots: Sequence[int]) -> Heartbeat:
        plan = plan_of(self.manager)
        counters = {
            "bytes_in": 1e6 * self.now,
            "busy_seconds": 0.1 * self.now,
            "state_bytes": 2e9,
        }
        reports, seats = [], []
        for slice_id, group in plan.placements.items():
            for each in group:
                if each.node != node or each.generation in self.hidden:
                    continue
                name, rung = str(slice_id), self.rungs.get(each.generation, each.rung)
                if rung.queues:
                    leads = each == group[0]
                    made = report(
                        name,
                        each.generation,
                        max(snapshots) + 5,
                        accepted=max(snapshots),
                        snapshots=snapshots if leads else (),
                        rung=rung,
                    )
                    reports.append(replace(made, counters=counters))
                else:
                    seats.append(SeatReport(name, each.generation, self.seat_epoch, 5))
        heartbeat = told_by(node, plan.version, reports)
        (share,) = heartbeat.jobs
        share = replace(share, seats=tuple(seats), steps=STEPS)
        return replace(heartbeat, load={"clock": self.now, "workers": 2.0}, jobs=(share,))

    def slice(self, slice_id: SliceId = COUNTS) -> Any:
        tree: Any = job_status(self.manager.jobs[1], self.manager.live)
        return tree["slices"][str(slice_id)]

    def measured(self) -> Told:
        """All is known that estimates need."""
        for epoch in (30, 40, 50, 60):
            self.checkpoint(epoch)
            for _ in range(4):
                self.beat(snapshots=(epoch,))
        return self

    def ask(self, scheme: Scheme) -> None:
        told(self.manager, SchemeAsked(1, str(COUNTS), scheme.value))
        self.beat(snapshots=(60,))
        self.beat(snapshots=(60,))

    @property
    def further(self) -> int:
        """The generation of the second replica."""
        return plan_of(self.manager).placements[COUNTS][1].generation


def test_without_a_goal_there_is_an_estimate_and_a_cost_of_every_scheme() -> None:
    job = Told(ASYNCHRONOUS).measured()
    for slice_id in GRAPH.slices:
        chosen = job.slice(slice_id)["chosen"]
        assert (chosen["phase"], chosen["missing"]) == ("fixed", [])
        assert list(chosen["schemes"]) == [each.value for each in Scheme]
    costs = [each["cost"] for each in job.slice()["chosen"]["schemes"].values()]
    # by default weights: one node, and 2 GB of state
    assert (costs[0], costs[1]) == (0.0, 1.0)
    assert costs[2] == pytest.approx(3.0, abs=0.5)
    assert job_status(job.manager.jobs[1], job.manager.live)["decisions"] == []
    assert plan_of(job.manager).schemes == {}


@pytest.mark.parametrize("late", range(4))
def test_a_checkpoint_is_as_old_as_it_gets_however_seldom_slices_are_looked_at(late: int) -> None:
    # looks are at the same moment of each second, and so are checkpoints
    job = Told(ASYNCHRONOUS)
    for _ in range(late):
        job.beat()
    for epoch in range(30, 170, 10):
        job.checkpoint(epoch)
        for _ in range(3):
            job.beat(snapshots=(epoch,))
    # it is known to be complete half a second after it was frozen
    assert job.slice()["chosen"]["outlook"]["checkpoint_seconds"] == 1.5


def test_before_something_is_measured_it_is_said_to_be_missing() -> None:
    job = Told(ASYNCHRONOUS)
    job.beat()
    job.beat()
    chosen = job.slice()["chosen"]
    assert (chosen["schemes"], chosen["reason"]) == ({}, "the topology says so")
    assert "how old checkpoints get" in chosen["missing"]


def test_who_has_set_a_scheme_is_said() -> None:
    job = Told(ASYNCHRONOUS).measured()
    assert job.slice()["set_by"] == "topology"
    job.ask(DEPLOYED)
    assert job.slice()["set_by"] == "person"
    job.beat(1.0)
    assert job.slice()["chosen"]["reason"] == "a person has set it"
    source, counts = GRAPH.vertices
    graph = JobGraph((replace(source, replicable=False), counts), GRAPH.edges)
    job = Told(GOAL, graph).measured()
    assert job.slice()["set_by"] == "controller"
    assert job.slice()["chosen"]["phase"] != "fixed"
    assert job.slice(SliceId("source", 0))["set_by"] == "topology"
    assert job.slice(SliceId("source", 0))["chosen"] is None


@pytest.mark.parametrize("scheme", list(Scheme))
def test_what_stands_is_what_the_further_replica_has_told_of(scheme: Scheme) -> None:
    job = Told(ASYNCHRONOUS).measured()
    job.ask(scheme)
    assert job.slice()["stands"] == job.slice()["scheme"] == scheme.value


@pytest.mark.parametrize("scheme", [COLD, STANDBY])
def test_what_is_still_being_built_does_not_stand(scheme: Scheme) -> None:
    job = Told(ASYNCHRONOUS).measured()
    job.hidden = set(range(2, 10))
    job.ask(scheme)
    assert job.further in job.hidden
    assert (job.slice()["scheme"], job.slice()["stands"]) == (scheme.value, PASSIVE.value)


def test_an_operator_without_state_stands_deployed() -> None:
    job = Told(ASYNCHRONOUS).measured()
    job.seat_epoch = BEGINNING
    job.ask(COLD)
    assert job.slice()["stands"] == DEPLOYED.value


def test_a_replica_that_has_not_climbed_yet_stands_where_it_is() -> None:
    job = Told(ASYNCHRONOUS).measured()
    job.ask(HOT)
    job.rungs = {job.further: HOT}
    job.ask(STANDBY)
    assert (job.slice()["scheme"], job.slice()["stands"]) == (STANDBY.value, HOT.value)


def test_a_replica_that_has_just_come_stands_no_higher_than_it_is_to() -> None:
    """Before it is told where, a replica takes itself for the only one."""
    job = Told(ASYNCHRONOUS).measured()
    job.ask(STANDBY)
    job.rungs = {job.further: ACTIVE}
    job.beat(snapshots=(60,))
    assert job.slice()["stands"] == STANDBY.value


def test_on_a_crowded_node_a_replica_stands_hot() -> None:
    job = Told(ASYNCHRONOUS).measured()
    job.ask(ACTIVE)
    plan = plan_of(job.manager)
    (node,) = [each.node for each in plan.placements[COUNTS][1:]]
    load = {"spare_wait_seconds": 60.0}
    told(job.manager, Reported(replace(told_by(node, 0), load=load, jobs=())))
    job.beat(snapshots=(60,))
    job.beat(snapshots=(60,))
    assert plan_of(job.manager).crowded == (node,)
    assert (job.slice()["scheme"], job.slice()["stands"]) == (ACTIVE.value, HOT.value)


def test_where_one_node_is_left_nothing_stands() -> None:
    job = Told(ASYNCHRONOUS).measured()
    job.ask(ACTIVE)
    told(job.manager, NodesChanged(NODES[:1]))
    job.beat(snapshots=(60,))
    assert (job.slice()["scheme"], job.slice()["stands"]) == (ACTIVE.value, PASSIVE.value)


def test_what_is_not_estimated_says_why() -> None:
    tree: Any = job_status(running().jobs[1], ())
    for each in tree["slices"].values():
        assert each["chosen"] is None
        assert each["unestimated"].startswith("the job makes no snapshots (`snapshot: none`)")
    source, counts = GRAPH.vertices
    alone = Told(ASYNCHRONOUS, JobGraph((replace(source, replicable=False), counts), GRAPH.edges))
    alone.measured()
    assert "no further replica" in alone.slice(SliceId("source", 0))["unestimated"]
    assert alone.slice()["unestimated"] is None
