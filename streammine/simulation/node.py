"""A virtual node: the other shell around `NodeMachine`, with the simulation's world for a machine.

It does what the real node does (`streammine.runtime.node`), in the same order, with bytes for all that
crosses between nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from streammine.assembly import CompiledJob
from streammine.engine import node_stimuli as machine
from streammine.engine.node import NodeMachine
from streammine.engine.node_stimuli import NodeStimulus
from streammine.engine.processor import Processor
from streammine.engine.slice import SliceMachine
from streammine.model import control
from streammine.model.coordination import (
    CoordinationEvent,
    CoordinationService,
    JobEnded,
    JobSubmitted,
    MembersChanged,
    PlanPublished,
)
from streammine.model.errors import StreammineError
from streammine.model.frames import FrameHeader
from streammine.model.ids import SliceId
from streammine.model.job_codec import decode_plan, decode_spec, encode_outcome, encode_plan
from streammine.simulation.network import Body, Receiver
from streammine.simulation.world import World


@dataclass
class HostedJob:
    """What a node holds of a job."""

    compiled: CompiledJob
    processors: dict[SliceId, Processor] = field(default_factory=dict)
    schemas: dict[int, pa.Schema] = field(default_factory=dict)
    started_at_seconds: float = 0.0


class VirtualNode:
    """One node. It lives from `start` to the end of the simulation."""

    def __init__(self, name: str, world: World) -> None:
        self.name = name
        self.machine = NodeMachine(name)
        self.jobs: dict[int, HostedJob] = {}
        self.ended: set[int] = set()
        self._world = world
        self._calls_due_seconds = 0.0
        self._perform: dict[type, Callable[..., None]] = {
            machine.Deploy: self._deploy,
            machine.Undeploy: self._undeploy,
            machine.Perform: self._work,
            machine.TransmitFrame: self._transmit_frame,
            machine.TransmitControl: self._transmit_control,
            machine.WakeSlice: self._wake_slice,
            machine.DeclarePlan: self._declare_plan,
            machine.DeclareEnd: self._declare_end,
            machine.SourcesStart: self._sources_start,
        }

    def start(self) -> None:
        """Connect to the network and begin to tell heartbeats."""
        world = self._world
        world.network.attach(self.name, Receiver(self._data, self._control))
        first = world.random.uniform(0.0, world.settings.heartbeat_seconds)
        world.clock.after(first, self._heartbeat)

    def _handle(self, stimulus: NodeStimulus) -> None:
        effects = self._world.step(self, stimulus)
        for effect in effects:
            self._perform[type(effect)](effect)

    # --- what comes in --------------------------------------------------------------------------

    def listen(self, event: CoordinationEvent) -> None:
        """Takes the coordination service's events."""
        match event:
            case MembersChanged(members):
                self._handle(machine.MembersSeen(tuple(member.name for member in members)))
            case JobSubmitted(number, blob):
                spec = decode_spec(blob)
                self.jobs[number] = HostedJob(self._world.compile(spec))
                self._handle(machine.JobSeen(number, spec.graph, spec.nodes))
            case PlanPublished(_, _, blob):
                self._handle(machine.PlanSeen(decode_plan(blob)))
            case JobEnded(job, _):
                self.ended.add(job)
                self._handle(machine.JobEndSeen(job))
            case _:
                raise AssertionError(f"the virtual coordinator never says {event}")

    def _data(self, sender: str, header: bytes, body: Body) -> None:
        known = FrameHeader.decode(header)
        job = self.jobs.get(known.job)
        if job is None:
            return
        nbytes = 0
        if isinstance(body, pa.Buffer):
            nbytes = body.size
            body = pa.ipc.read_record_batch(body, job.schemas[known.channel])
            body.validate()
        elif body is not None:
            nbytes = body.nbytes
        self._handle(machine.FrameReceived(known, body, nbytes))

    def _control(self, sender: str, message: bytes) -> None:
        self._handle(machine.ControlReceived(sender, control.decode(message)))

    def _heartbeat(self) -> None:
        counters = {
            (number, slice_id): _counters(processor)
            for number, job in self.jobs.items()
            for slice_id, processor in job.processors.items()
        }
        self._handle(machine.HeartbeatDue({"slices": float(len(counters))}, counters))
        self._world.clock.after(self._world.settings.heartbeat_seconds, self._heartbeat)

    # --- effects --------------------------------------------------------------------------------

    def _deploy(self, effect: machine.Deploy) -> None:
        def deployed() -> None:
            self._world.progressed()
            try:
                machines = self._built(effect)
                done = machine.Deployed(effect.job, effect.version, machines)
            except StreammineError as error:
                done = machine.Deployed(effect.job, effect.version, (), str(error))
            self._handle(done)

        self._world.work_later(deployed)

    def _built(self, effect: machine.Deploy) -> tuple[SliceMachine, ...]:
        job = self.jobs[effect.job]
        machines = []
        environment = self._world.environment(job.compiled)
        for slice_id, generation in effect.slices:
            built = job.compiled.slice(effect.job, slice_id, generation, environment)
            built.processor.prepare()
            job.processors[slice_id] = built.processor
            machines.append(built.machine)
        for channel in job.compiled.graph.channels:
            if channel.target in job.processors:
                edge = job.compiled.graph.edges[channel.edge]
                job.schemas[channel.number] = job.compiled.edge_schema(edge)
        return tuple(machines)

    def _undeploy(self, effect: machine.Undeploy) -> None:
        job = self.jobs.pop(effect.job, None)
        for processor in job.processors.values() if job is not None else ():
            processor.close()

    def _work(self, effect: machine.Perform) -> None:
        job = self.jobs[effect.job]
        processor = job.processors[effect.slice]

        def finished() -> None:
            self._world.progressed()
            if effect.job not in self.jobs:
                return
            elapsed = self._world.clock.now_seconds - job.started_at_seconds
            try:
                result = processor.perform(effect.work, elapsed)
                done = machine.WorkFinished(
                    effect.job, effect.slice, result, None, _counters(processor)
                )
            except StreammineError as error:
                done = machine.WorkFinished(effect.job, effect.slice, None, str(error))
            self._handle(done)

        self._world.work_later(finished)

    def _transmit_frame(self, effect: machine.TransmitFrame) -> None:
        body = effect.frame.body
        if self._world.settings.serialised and isinstance(body, pa.RecordBatch):
            body = body.serialize()
        assert body is None or isinstance(body, (pa.Buffer, pa.RecordBatch))
        header = effect.frame.header.encode()
        self._world.network.send_data(self.name, effect.node, header, body)

    def _transmit_control(self, effect: machine.TransmitControl) -> None:
        self._world.network.send_control(self.name, effect.node, control.encode(effect.message))

    def _wake_slice(self, effect: machine.WakeSlice) -> None:
        def woken() -> None:
            self._world.progressed()
            self._handle(machine.SliceWoken(effect.job, effect.slice))

        self._world.sleeping_until(self._world.clock.after(effect.seconds, woken))

    def _sources_start(self, effect: machine.SourcesStart) -> None:
        self.jobs[effect.job].started_at_seconds = self._world.clock.now_seconds

    def _declare_plan(self, effect: machine.DeclarePlan) -> None:
        plan = effect.plan
        self._coordinate(
            lambda service: service.publish_plan(plan.job, plan.version, encode_plan(plan))
        )

    def _declare_end(self, effect: machine.DeclareEnd) -> None:
        self._coordinate(
            lambda service: service.end_job(effect.job, encode_outcome(effect.outcome))
        )

    def _coordinate(self, call: Callable[[CoordinationService], object]) -> None:
        """Calls reach the service late, but in order."""
        world = self._world
        delay = world.random.uniform(0.0, world.settings.coordination_delay_seconds)
        due = max(world.clock.now_seconds + delay, self._calls_due_seconds)
        self._calls_due_seconds = due

        def called() -> None:
            world.progressed()
            call(world.coordinator)

        world.clock.at(due, called)


def _counters(processor: Processor) -> dict[str, float]:
    counted = processor.counters
    return {
        "rows_in": float(counted.rows_in),
        "rows_out": float(counted.rows_out),
        "rows_dead": float(counted.rows_dead),
        "batches_in": float(counted.batches_in),
        "epochs": float(counted.epochs),
        "spilled_bytes": float(counted.spilled_bytes),
    }
