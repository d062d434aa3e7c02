"""The node: reconciles towards the plan, and routes between its slices, its peers and the manager.

It holds no socket and no thread: the shell (real or simulated) feeds it what happened and performs what it
asks for, in order. Whatever passes between two slices of one node is passed on by reference inside one
`handle` call; whatever leaves the node is an effect.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from streammine.engine import manager, stimuli
from streammine.engine.channel import Outgoing
from streammine.engine.manager import ManagerMachine
from streammine.engine.node_stimuli import (
    ControlReceived,
    DeclareEnd,
    DeclarePlan,
    Deploy,
    Deployed,
    FrameReceived,
    HeartbeatDue,
    JobBroken,
    JobEndSeen,
    JobSeen,
    MembersSeen,
    NodeEffect,
    NodeStimulus,
    Perform,
    PlanSeen,
    SliceWoken,
    SourcesStart,
    TransmitControl,
    TransmitFrame,
    Undeploy,
    WakeSlice,
    WorkFinished,
)
from streammine.engine.slice import Phase, SliceMachine
from streammine.model import control
from streammine.model.frames import FrameHeader
from streammine.model.ids import SliceId
from streammine.model.job import Channel, JobGraph, Plan


@dataclass
class HostedJob:
    """A job as this node sees it."""

    number: int
    graph: JobGraph
    plan: Plan | None = None
    deploying: int | None = None
    deployed: int = 0
    started: bool = False
    failed: str | None = None
    slices: dict[SliceId, SliceMachine] = field(default_factory=dict)
    counters: dict[SliceId, dict[str, float]] = field(default_factory=dict)
    channels: tuple[Channel, ...] = ()

    def node_of(self, slice_id: SliceId) -> str:
        assert self.plan is not None
        return self.plan.placements[slice_id][0].node


class NodeMachine:
    """One node's protocol. `handle` is the only mutator."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.manager_name: str | None = None
        self.manager = ManagerMachine()
        self.jobs: dict[int, HostedJob] = {}
        self.heartbeats: dict[str, control.Heartbeat] = {}
        self._load: dict[str, float] = {}
        self._local: deque[tuple[int, SliceId, stimuli.Stimulus]] = deque()

    def handle(self, stimulus: NodeStimulus) -> list[NodeEffect]:
        effects: list[NodeEffect] = []
        match stimulus:
            case MembersSeen(nodes):
                self._members(nodes, effects)
            case JobSeen(job, graph, nodes):
                self.jobs.setdefault(job, HostedJob(job, graph, channels=graph.channels))
                self._manage(manager.JobArrived(job, graph, nodes), effects)
            case PlanSeen(plan):
                self._plan(plan, effects)
            case JobEndSeen(job):
                self._manage(manager.EndSeen(job), effects)
                if self.jobs.pop(job, None) is not None:
                    effects.append(Undeploy(job))
            case Deployed():
                self._deployed(stimulus, effects)
            case FrameReceived(header, body, nbytes):
                self._frame(header, body, nbytes)
            case ControlReceived(sender, message):
                self._control(sender, message, effects)
            case WorkFinished():
                self._work_finished(stimulus, effects)
            case JobBroken(job, failure):
                if job in self.jobs:
                    self._fail(self.jobs[job], failure, effects)
            case SliceWoken(job, slice_id):
                self._local.append((job, slice_id, stimuli.Woken()))
            case HeartbeatDue():
                self._heartbeat_due(stimulus, effects)
        self._drain(effects)
        return effects

    # --- membership and management --------------------------------------------------------------

    def _members(self, nodes: tuple[str, ...], effects: list[NodeEffect]) -> None:
        changed = (nodes[0] if nodes else None) != self.manager_name
        self.manager_name = nodes[0] if nodes else None
        self._manage(manager.Elected(self.manager_name == self.name), effects)
        self._manage(manager.NodesChanged(nodes), effects)
        if changed:
            self._report(effects)

    def _manage(self, stimulus: manager.ManagerStimulus, effects: list[NodeEffect]) -> None:
        for effect in self.manager.handle(stimulus):
            match effect:
                case manager.PublishPlan(plan):
                    effects.append(DeclarePlan(plan))
                case manager.EndJob(job, outcome):
                    effects.append(DeclareEnd(job, outcome))

    def _report(self, effects: list[NodeEffect]) -> None:
        """Tell the manager where this node is."""
        if self.manager_name is None:
            return
        heartbeat = control.Heartbeat(
            self.name, self._load, tuple(self._job_report(job) for job in self.jobs.values())
        )
        if self.manager_name == self.name:
            self._heard(heartbeat, effects)
        else:
            effects.append(TransmitControl(self.manager_name, heartbeat))

    def _heard(self, heartbeat: control.Heartbeat, effects: list[NodeEffect]) -> None:
        self.heartbeats[heartbeat.node] = heartbeat
        self._manage(manager.Reported(heartbeat), effects)

    def _job_report(self, job: HostedJob) -> control.JobReport:
        return control.JobReport(
            job.number,
            job.deployed,
            job.deployed > 0,
            job.failed,
            tuple(
                control.SliceReport(
                    str(slice_id),
                    _generation(machine),
                    machine.phase.value,
                    machine.processed_below,
                    machine.phase is Phase.FINISHED,
                    job.counters.get(slice_id, {}),
                )
                for slice_id, machine in job.slices.items()
            ),
        )

    def _heartbeat_due(self, stimulus: HeartbeatDue, effects: list[NodeEffect]) -> None:
        self._load = stimulus.load
        self._take_counters(stimulus.counters)
        for job in self.jobs.values():
            for slice_id in job.slices:
                self._local.append((job.number, slice_id, stimuli.Beat()))
        self._report(effects)

    def _take_counters(self, counters: dict[tuple[int, SliceId], dict[str, float]]) -> None:
        for (number, slice_id), values in counters.items():
            if number in self.jobs:
                self.jobs[number].counters[slice_id] = values

    # --- plans ----------------------------------------------------------------------------------

    def _plan(self, plan: Plan, effects: list[NodeEffect]) -> None:
        self._manage(manager.PlanSeen(plan), effects)
        job = self.jobs.get(plan.job)
        if job is None or (job.plan is not None and plan.version <= job.plan.version):
            return
        job.plan = plan
        self._reconcile(job, effects)

    def _reconcile(self, job: HostedJob, effects: list[NodeEffect]) -> None:
        plan = job.plan
        assert plan is not None
        if job.deploying is not None or job.failed is not None:
            return
        wanted = tuple(
            (slice_id, placement.generation)
            for slice_id, group in plan.placements.items()
            for placement in group
            if placement.node == self.name and slice_id not in job.slices
        )
        if wanted:
            job.deploying = plan.version
            effects.append(Deploy(job.number, plan.version, wanted))
            return
        job.deployed = plan.version
        if plan.phase == "run" and not job.started:
            job.started = True
            effects.append(SourcesStart(job.number))
            for slice_id in job.slices:
                self._local.append((job.number, slice_id, stimuli.Start()))
        self._report(effects)

    def _deployed(self, stimulus: Deployed, effects: list[NodeEffect]) -> None:
        job = self.jobs.get(stimulus.job)
        if job is None:
            effects.append(Undeploy(stimulus.job))
            return
        job.deploying = None
        if stimulus.failure is not None:
            self._fail(job, stimulus.failure, effects)
            return
        for machine in stimulus.slices:
            job.slices[machine.slice_id] = machine
        self._reconcile(job, effects)

    def _fail(self, job: HostedJob, failure: str, effects: list[NodeEffect]) -> None:
        if job.failed is None:
            job.failed = failure
            self._report(effects)

    # --- data and control -----------------------------------------------------------------------

    def _frame(self, header: FrameHeader, body: object, nbytes: int) -> None:
        job = self.jobs.get(header.job)
        if job is None or header.channel >= len(job.channels):
            return
        target = job.channels[header.channel].target
        self._local.append((header.job, target, stimuli.FrameArrived(header, body, nbytes)))

    def _control(
        self, sender: str, message: control.ControlMessage, effects: list[NodeEffect]
    ) -> None:
        match message:
            case control.Credit(job, channel, generation, frontier):
                self._at_source(job, channel, stimuli.CreditArrived(channel, generation, frontier))
            case control.ResendRequest(job, channel, generation, sequence):
                self._at_source(job, channel, stimuli.ResendAsked(channel, generation, sequence))
            case control.Announce(job, channel, generation, next_sequence):
                self._at_target(job, channel, stimuli.Announced(channel, generation, next_sequence))
            case control.Heartbeat(node) if node == sender:
                self._heard(message, effects)
            case control.StopRequest(job, reason):
                self._manage(manager.StopAsked(job, reason), effects)
            case _:
                return

    def _at_source(self, number: int, channel: int, stimulus: stimuli.Stimulus) -> None:
        job = self.jobs.get(number)
        if job is not None and 0 <= channel < len(job.channels):
            self._local.append((number, job.channels[channel].source, stimulus))

    def _at_target(self, number: int, channel: int, stimulus: stimuli.Stimulus) -> None:
        job = self.jobs.get(number)
        if job is not None and 0 <= channel < len(job.channels):
            self._local.append((number, job.channels[channel].target, stimulus))

    def _work_finished(self, done: WorkFinished, effects: list[NodeEffect]) -> None:
        job = self.jobs.get(done.job)
        if job is None or done.slice not in job.slices:
            return
        if done.failure is not None:
            self._fail(job, done.failure, effects)
            return
        assert done.result is not None
        job.counters[done.slice] = done.counters
        self._local.append((done.job, done.slice, stimuli.WorkDone(done.result)))

    # --- slices ---------------------------------------------------------------------------------

    def _drain(self, effects: list[NodeEffect]) -> None:
        """Hand stimuli to local slices until none is left; they only ever make fewer or leave."""
        while self._local:
            number, slice_id, stimulus = self._local.popleft()
            job = self.jobs.get(number)
            machine = job.slices.get(slice_id) if job is not None else None
            if job is None or machine is None or job.failed is not None:
                continue
            try:
                for effect in machine.handle(stimulus):
                    self._slice_effect(job, slice_id, effect, effects)
            except Exception as error:
                # its state is lost, so the job can't go on; other jobs of the node can
                failure = f"slice {slice_id}: {error!r} after\n{machine.story()}"
                self._fail(job, failure, effects)

    def _slice_effect(
        self, job: HostedJob, slice_id: SliceId, effect: stimuli.Effect, effects: list[NodeEffect]
    ) -> None:
        match effect:
            case stimuli.Run(work):
                effects.append(Perform(job.number, slice_id, work))
            case stimuli.SendFrame(frame):
                self._send(job, frame, effects)
            case stimuli.GrantCredit(channel, generation, frontier):
                node = job.node_of(job.channels[channel].source)
                credit = control.Credit(job.number, channel, generation, frontier)
                self._tell(node, credit, effects)
            case stimuli.AskResend(channel, generation, sequence):
                node = job.node_of(job.channels[channel].source)
                request = control.ResendRequest(job.number, channel, generation, sequence)
                self._tell(node, request, effects)
            case stimuli.Announce(channel, generation, next_sequence):
                node = job.node_of(job.channels[channel].target)
                announce = control.Announce(job.number, channel, generation, next_sequence)
                self._tell(node, announce, effects)
            case stimuli.WakeAfter(seconds):
                effects.append(WakeSlice(job.number, slice_id, seconds))
            case stimuli.SliceFinished():
                self._report(effects)

    def _send(self, job: HostedJob, frame: Outgoing, effects: list[NodeEffect]) -> None:
        target = job.channels[frame.header.channel].target
        node = job.node_of(target)
        if node != self.name:
            effects.append(TransmitFrame(node, frame))
            return
        arrived = stimuli.FrameArrived(frame.header, frame.body, frame.nbytes)
        self._local.append((job.number, target, arrived))

    def _tell(self, node: str, message: control.ControlMessage, effects: list[NodeEffect]) -> None:
        if node == self.name:
            self._control(self.name, message, effects)
        else:
            effects.append(TransmitControl(node, message))

    def status(self, number: int | None) -> dict[str, object]:
        """What this node knows of the cluster, from heartbeats, as a tree for clients."""
        return {
            "manager": self.manager_name,
            "nodes": {
                name: {"load": dict(heartbeat.load)}
                for name, heartbeat in sorted(self.heartbeats.items())
            },
            "jobs": {
                str(job): self._job_status(job)
                for job in self.manager.jobs
                if number is None or job == number
            },
        }

    def _job_status(self, number: int) -> dict[str, object]:
        managed = self.manager.jobs[number]
        return {
            "phase": managed.phase.value,
            "slices": {
                report.slice: {
                    "node": name,
                    "phase": report.phase,
                    "frontier": report.frontier,
                    "counters": dict(report.counters),
                }
                for name, job_report in sorted(managed.reports.items())
                for report in job_report.slices
            },
        }


def _generation(machine: SliceMachine) -> int:
    """All channels of a replica carry its generation."""
    for output in machine.outputs.values():
        return output.generation
    for channel in machine.inputs.values():
        return channel.generation
    raise AssertionError(f"slice {machine.slice_id} has no channel")
