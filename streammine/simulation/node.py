"""A virtual node: the other shell around `NodeMachine`, with the simulation's world for a machine.

It does what the real node does (`streammine.runtime.node`), in the same order, with bytes for all that
crosses between nodes. One object is one process: after a crash another one takes its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pyarrow as pa

from streammine.assembly import (
    POLICIES,
    Declaring,
    StepTimes,
    write_snapshot,
)
from streammine.engine import node_stimuli as machine
from streammine.engine.crowding import CROWDED_SECONDS
from streammine.engine.kept import loaded
from streammine.engine.node import NodeMachine
from streammine.engine.node_stimuli import NodeStimulus
from streammine.engine.policies import Policies
from streammine.engine.processor import Processor
from streammine.engine.slice import SliceMachine
from streammine.engine.stimuli import WorkResult
from streammine.model import control
from streammine.model.agreement import AskWitness, WitnessAnswered
from streammine.model.coordination import (
    ConnectionChanged,
    CoordinationEvent,
    CoordinationService,
    JobEnded,
    JobSubmitted,
    Member,
    MembersChanged,
    PlanPublished,
)
from streammine.model.errors import (
    OutputError,
    ReplacedError,
    SnapshotDamagedError,
    StreammineError,
)
from streammine.model.frames import FrameHeader
from streammine.model.ids import SliceId
from streammine.model.job import JobGraph
from streammine.model.job_codec import decode_plan, decode_spec, encode_outcome
from streammine.model.recovery import CheckpointCoordinator
from streammine.model.recovery_policy import Step
from streammine.model.snapshots import RecoverySettings, SnapshotRecord
from streammine.simulation import keeping
from streammine.simulation.calls import Call, CoordinationCalls
from streammine.simulation.hosting import HostedJob, counters_of
from streammine.simulation.network import Body, Message, Receiver
from streammine.simulation.process import VirtualProcess
from streammine.simulation.settings import MOST_SLOWNESS
from streammine.simulation.world import World

Replica = tuple[SliceId, int]


class VirtualNode:
    """One node's process. It lives from `start` until it crashes or the simulation is over.

    `tasks` counts what it has done on worker threads, `snapshots` what it has written; `slowness` and
    `disk_slowness` stretch both. `on_lost` is called when its session turns out to be over.
    """

    def __init__(self, name: str, world: World, on_lost: Callable[[VirtualNode], None]) -> None:
        self.name = name
        self._world = world
        self.machine = NodeMachine(name, self._policies())
        world.coverage.watch_manager(self.machine.manager)
        self.process = VirtualProcess()
        self.session = world.coordinator.open(name, self._listen)
        self.jobs: dict[int, HostedJob] = {}
        self.tasks = 0
        self.snapshots = 0
        self.slowness = 1.0
        self.disk_slowness = 1.0
        self.crowded = 0
        self._random = Random(f"{world.seed}/node/{name}/{self.session.number}")
        skew = world.settings.clock_skew_seconds
        self._clock_ahead_seconds = Random(f"{world.seed}/clock/{name}").uniform(-skew, skew)
        self._on_lost = on_lost
        self._declaring = Declaring()
        self._calls = CoordinationCalls(name, world, self.process, self.session, self._random)
        self._under_way: dict[int, Callable[[], object]] = {}
        self._perform: dict[type, Callable[..., None]] = {
            machine.Deploy: self._deploy,
            machine.Sit: self._sit,
            machine.Unseat: self._unseat,
            machine.Withdraw: self._withdraw,
            machine.Undeploy: self._undeploy,
            machine.Perform: self._work,
            machine.TransmitFrame: self._transmit_frame,
            machine.TransmitControl: self._transmit_control,
            machine.WakeSlice: self._wake_slice,
            machine.DeclarePlan: self._declare_plan,
            machine.SchemeDecided: lambda told: world.tell(name, str(told.decision)),
            machine.ReplicasLack: lambda told: world.tell(name, str(told)),
            machine.DeclareEnd: self._declare_end,
            machine.SourcesStart: self._sources_start,
            machine.WriteSnapshot: self._write_snapshot,
            machine.MakeSure: self._make_sure,
            machine.MoveToDisk: self._move_to_disk,
            machine.PublishCheckpoint: self._publish_checkpoint,
            machine.CollectSnapshots: self._collect_snapshots,
            machine.FindCheckpoints: self._find_checkpoints,
            machine.KeepMemory: self._keep_memory,
        }

    def _policies(self) -> Policies:
        settings = self._world.settings
        seconds = settings.session_timeout_seconds * settings.clock_rate
        return replace(POLICIES, coordinator=self._coordinator, detection_seconds=seconds)

    def _coordinator(self, graph: JobGraph, recovery: RecoverySettings) -> CheckpointCoordinator:
        made = POLICIES.coordinator(graph, recovery)
        self._world.coverage.watch_coordinator(made)
        return made

    @property
    def concerned(self) -> bool:
        """Whether it hosts slices of a job that is not over."""
        return any(job.replicas for job in self.jobs.values())

    def processor(self, job: int, slice_id: SliceId, generation: int) -> Processor:
        """What does a replica's work."""
        return self.jobs[job].replicas[slice_id, generation].processor

    # --- life -----------------------------------------------------------------------------------

    def start(self, member: Member, on_joined: Callable[[], None]) -> None:
        """Connect to the network, begin to tell heartbeats, and join; a process that can't ends itself."""
        world = self._world
        world.network.attach(self.name, Receiver(self._data, self._control))
        self._later(self._random.uniform(0.0, world.settings.heartbeat_seconds), self._heartbeat)

        def join(service: CoordinationService) -> None:
            service.join(member)
            on_joined()

        self._calls.make(join, lambda: self._on_lost(self))

    def crash(self, random: Random) -> None:
        """The process is gone. Of what its threads were at, some had been done, but nobody hears of it:
        a file may have been written, and a snapshot may be there in parts."""
        for task in list(self._under_way.values()):
            if random.random() < 0.5:
                self._world.disk.mortal[self.name] = random.randint(0, 3)
                try:
                    task()
                except StreammineError:
                    continue
                finally:
                    self._world.disk.mortal.pop(self.name, None)
        self._under_way.clear()
        self.process.die()
        self._world.monitor.crashed(self)
        self._world.tell(self.name, "is gone")

    def _handle(self, stimulus: NodeStimulus) -> None:
        effects = self._world.step(self, stimulus)
        for effect in effects:
            self._perform[type(effect)](effect)

    def _later(self, delay_seconds: float, event: Callable[[], None]) -> float:
        return self._world.clock.after(delay_seconds, lambda: self.process.occur(event))

    def _in_background(
        self, delay_seconds: float, task: Callable[[], object], done: Callable[[], None]
    ) -> None:
        """Let a worker thread do a task; `done` is handed on when the time that it takes is over."""
        self.tasks += 1
        number = self.tasks
        world = self._world
        world.tasks_under_way += 1
        self._under_way[number] = task

        def over() -> None:
            world.tasks_under_way -= 1
            self.process.occur(finished)

        def finished() -> None:
            world.progressed()
            del self._under_way[number]
            done()

        delay = self._random.uniform(0.0, delay_seconds)
        world.clock.after(delay, over)

    # --- what comes in --------------------------------------------------------------------------

    def _listen(self, event: CoordinationEvent) -> None:
        """Takes the coordination service's events."""
        self.process.occur(lambda: self._coordination(event))

    def _coordination(self, event: CoordinationEvent) -> None:
        match event:
            case MembersChanged(members):
                seen = tuple((member.name, member.sequence) for member in members)
                own = [each.sequence for each in members if each.session == self.session.number]
                now_seconds = self._seconds()
                self._handle(machine.MembersSeen(seen, own[0] if own else None, now_seconds))
            case JobSubmitted(number, blob):
                if number not in self.jobs:
                    spec = decode_spec(blob)
                    self.jobs[number] = HostedJob(self._world.compiled, StepTimes(self._seconds))
                    self._handle(machine.JobSeen(number, spec.graph, spec.nodes, spec.recovery))
            case PlanPublished(number, version, blob):
                if number in self.jobs:
                    self.jobs[number].times.seen(version)
                self._handle(machine.PlanSeen(decode_plan(blob)))
            case JobEnded(job, _):
                self._handle(machine.JobEndSeen(job))
            case ConnectionChanged(state):
                self._world.tell(self.name, f"connection {state}")
                if state == "lost":
                    self._on_lost(self)

    def _data(self, sender: str, header: bytes, body: Body) -> None:
        self.process.occur(lambda: self._take_data(header, body))

    def _take_data(self, header: bytes, body: Body) -> None:
        known = FrameHeader.decode(header)
        job = self.jobs.get(known.job)
        if job is None:
            return
        nbytes = 0
        if isinstance(body, pa.Buffer):
            schema = job.schemas.get(known.channel)
            if schema is None:
                return
            nbytes = body.size
            body = pa.ipc.read_record_batch(body, schema)
        elif body is not None:
            nbytes = body.nbytes
        self._handle(machine.FrameReceived(known, body, nbytes))

    def _control(self, sender: str, message: Message) -> None:
        if isinstance(message, bytes):
            message = control.decode(message)
        self.process.occur(lambda: self._take_control(sender, message))

    def _take_control(self, sender: str, message: control.ControlMessage) -> None:
        self._handle(machine.ControlReceived(sender, message, self._seconds()))

    def ask(self, request: control.ControlMessage) -> None:
        """A client's request, as it comes over the wire."""
        self._control(self.name, control.encode(request))

    def _system_clock_seconds(self) -> float:
        return self._world.clock.now_seconds + self._clock_ahead_seconds

    def _seconds(self) -> float:
        """What machines take for seconds."""
        return self._world.clock.now_seconds * self._world.settings.clock_rate

    def _heartbeat(self) -> None:
        counters = {
            (number, replica[0]): counters_of(built.processor, job.replays[replica])
            for number, job in self.jobs.items()
            for replica, built in job.replicas.items()
        }
        system = self._system_clock_seconds()
        load = {
            "slices": float(len(counters)),
            "clock": self._seconds(),
            "workers": 1.0,
            "spare_wait_seconds": 2 * CROWDED_SECONDS if self.crowded else 0.0,
            "idle_share": 0.0 if self.crowded else 1.0,
        }
        steps = {number: job.times.reports for number, job in self.jobs.items()}
        self._handle(machine.HeartbeatDue(self._seconds(), system, load, counters, steps))
        self._later(self._world.settings.heartbeat_seconds, self._heartbeat)

    # --- effects --------------------------------------------------------------------------------

    def _deploy(self, effect: machine.Deploy) -> None:
        delay = self._work_delay_seconds
        begun = self._seconds()
        self._in_background(delay, lambda: None, lambda: self._deployed(effect, begun))

    def _deployed(self, effect: machine.Deploy, begun: float) -> None:
        job = self.jobs.get(effect.job)
        if job is None:
            return
        machines: list[SliceMachine] = []
        damaged: list[control.DamagedSnapshot] = []
        failure = None
        environment = self._world.environment(self.name)
        for replica in effect.replicas:
            try:
                seat = job.seats.give(replica.slice)
                built = job.times.built(job.compiled, effect.job, replica, environment, seat, begun)
            except SnapshotDamagedError as error:
                damaged.append(machine.damaged_by(replica, error))
            except StreammineError as error:
                failure = str(error)
            else:
                job.replicas[replica.slice, replica.generation] = built
                machines.append(built.machine)
        self._know_schemas(job)
        self._handle(
            machine.Deployed(effect.job, effect.version, tuple(machines), failure, tuple(damaged))
        )

    def _know_schemas(self, job: HostedJob) -> None:
        graph = job.compiled.graph
        hosted = {slice_id for slice_id, _ in job.replicas}
        for channel in graph.channels:
            if channel.target in hosted and channel.number not in job.schemas:
                job.schemas[channel.number] = job.compiled.edge_schema(graph.edges[channel.edge])

    def _sit(self, effect: machine.Sit) -> None:
        begun = self._seconds()

        def seated() -> None:
            job = self.jobs.get(effect.job)
            if job is not None:
                environment = self._world.environment(self.name)
                self._handle(job.seats.sit(job.compiled, effect, environment, begun))

        self._in_background(self._work_delay_seconds, lambda: None, seated)

    def _unseat(self, effect: machine.Unseat) -> None:
        self.jobs[effect.job].seats.leave(effect.slice)

    def _withdraw(self, effect: machine.Withdraw) -> None:
        self.jobs[effect.job].withdraw((effect.slice, effect.generation))

    def _undeploy(self, effect: machine.Undeploy) -> None:
        job = self.jobs.pop(effect.job, None)
        if job is not None:
            for replica in list(job.replicas):
                job.withdraw(replica)
            job.seats.close()

    def _work(self, effect: machine.Perform) -> None:
        job = self.jobs[effect.job]
        replica = (effect.slice, effect.generation)
        processor = job.replicas[replica].processor
        begun = self._seconds()

        def perform() -> WorkResult:
            elapsed = self._system_clock_seconds() - job.began_at_seconds
            return processor.perform(effect.work, elapsed)

        def finished() -> None:
            if replica not in job.replicas:
                return
            result, failure, replaced, damaged = None, None, False, None
            replay = job.replays[replica]
            try:
                result = perform()
                job.times.performed(result, *replica, begun)
                took_seconds = self._seconds() - begun
                replay.performed(effect.work, effect.late_bytes, result, took_seconds)
            except SnapshotDamagedError as error:
                damaged = machine.damaged_by(effect, error)
            except StreammineError as error:
                failure, replaced = str(error), isinstance(error, ReplacedError)
            processor.counters.busy_seconds += self._seconds() - begun
            counters = counters_of(processor, replay)
            self._handle(
                machine.WorkFinished(
                    effect.job, *replica, result, failure, counters, replaced, damaged
                )
            )

        delay = self._work_delay_seconds
        self._in_background(delay, perform, finished)

    # --- effects: storage -----------------------------------------------------------------------

    def _write_snapshot(self, effect: machine.WriteSnapshot) -> None:
        job = self.jobs[effect.job]
        replica = (effect.slice, effect.generation)
        store = self._world.snapshots(self.name)
        begun = self._seconds()

        def write() -> SnapshotRecord:
            return write_snapshot(store, *replica, effect.frozen, effect.previous)

        def written() -> None:
            if replica not in job.replicas:
                return
            try:
                record, failure = write(), None
                job.times.took(Step.SAVE, *replica, begun, record.nbytes)
            except OutputError as error:
                record, failure = None, str(error)
            self._handle(machine.SnapshotWritten(effect.job, *replica, record, failure))

        self.snapshots += 1
        self._in_background(self._disk_delay_seconds, write, written)

    def _make_sure(self, effect: machine.MakeSure) -> None:
        if isinstance(effect.wish, AskWitness):
            self._take_witness(effect, effect.wish.plan_version)
            return
        store = self._world.snapshots(self.name)
        self._in_background(
            self._disk_delay_seconds,
            lambda: keeping.make_sure(store, effect),
            lambda: self._handle(keeping.make_sure(store, effect)),
        )

    def _take_witness(self, effect: machine.MakeSure, version: int) -> None:
        def answered(holder: int | None) -> machine.MadeSure:
            return machine.MadeSure(effect, WitnessAnswered(version, holder))

        def take(service: CoordinationService) -> None:
            name = machine.witness_name(effect.slice, version)
            told = answered(service.take_witness(effect.job, name, effect.generation))
            self.process.occur(lambda: self._handle(told))

        self._coordinate(take, answered(None))

    def _move_to_disk(self, effect: machine.MoveToDisk) -> None:
        job = self.jobs[effect.job]
        replica = (effect.slice, effect.generation)
        spill = job.replicas[replica].spill

        def move() -> None:
            for body in effect.bodies if replica in job.replicas else ():
                body.to_disk(spill)

        self._in_background(self._disk_delay_seconds, move, move)

    def _at_store(self, task: Callable[[], machine.NodeStimulus]) -> None:
        """It may also be done, and nobody hear of it, when the process is killed."""
        self._in_background(self._disk_delay_seconds, task, lambda: self._handle(task()))

    def _publish_checkpoint(self, effect: machine.PublishCheckpoint) -> None:
        store, monitor = self._world.snapshots(self.name), self._world.monitor
        self._at_store(lambda: keeping.publish(store, monitor, effect))

    def _collect_snapshots(self, effect: machine.CollectSnapshots) -> None:
        store, verified = self._world.snapshots(self.name), self.jobs[effect.job].verified

        def remove() -> None:
            keeping.tidy(store, effect, verified)

        self._in_background(self._disk_delay_seconds, remove, remove)

    def _find_checkpoints(self, effect: machine.FindCheckpoints) -> None:
        store = self._world.snapshots(self.name)
        self._in_background(
            self._disk_delay_seconds,
            lambda: None,
            lambda: self._handle(keeping.find(store, effect)),
        )

    def _keep_memory(self, effect: machine.KeepMemory) -> None:
        store = self._world.snapshots(self.name)
        self._at_store(lambda: keeping.remember(store, effect))

    @property
    def _disk_delay_seconds(self) -> float:
        return self._world.settings.work_delay_seconds * min(self.disk_slowness, MOST_SLOWNESS)

    @property
    def _work_delay_seconds(self) -> float:
        return self._world.settings.work_delay_seconds * min(self.slowness, MOST_SLOWNESS)

    # --- effects: messages ----------------------------------------------------------------------

    def _transmit_frame(self, effect: machine.TransmitFrame) -> None:
        body: Body = loaded(effect.frame.body)
        if self._world.settings.serialised and body is not None:
            body = body.serialize()
        header = effect.frame.header.encode()
        self._world.network.send_data(self.name, effect.node, header, body)

    def _transmit_control(self, effect: machine.TransmitControl) -> None:
        # bytes or not is the same to whoever gets it; coding takes its time
        message: Message = effect.message
        if self._world.settings.serialised:
            message = control.encode(effect.message)
        self._world.network.send_control(self.name, effect.node, message)

    def _wake_slice(self, effect: machine.WakeSlice) -> None:
        def woken() -> None:
            if not effect.ticks:
                self._world.progressed()
            self._handle(machine.SliceWoken(effect.job, effect.slice, effect.generation))

        due = self._later(effect.seconds, woken)
        if not effect.ticks:
            self._world.sleeping_until(due)

    def _sources_start(self, effect: machine.SourcesStart) -> None:
        self.jobs[effect.job].began_at_seconds = effect.began_at

    def _declare_plan(self, effect: machine.DeclarePlan) -> None:
        plan = effect.plan
        if plan.job in self.jobs:
            self.jobs[plan.job].times.declared(plan.version)
        self._coordinate(
            lambda service: self._declaring.publish(service, effect),
            machine.PlanRefused(plan.job, plan.version, effect.series),
        )

    def _declare_end(self, effect: machine.DeclareEnd) -> None:
        self._coordinate(
            lambda service: service.end_job(effect.job, encode_outcome(effect.outcome))
        )

    def _coordinate(self, call: Call, refused: NodeStimulus | None = None) -> None:
        self._calls.make(call, None if refused is None else lambda: self._handle(refused))
