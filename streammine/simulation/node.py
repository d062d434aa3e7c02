"""A virtual node: the other shell around `NodeMachine`, with the simulation's world for a machine.

It does what the real node does (`streammine.runtime.node`), in the same order, with bytes for all that
crosses between nodes. One object is one process: after a crash another one takes its place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pyarrow as pa

from streammine.assembly import (
    POLICIES,
    collect,
    write_snapshot,
)
from streammine.engine import node_stimuli as machine
from streammine.engine.crowding import CROWDED_SECONDS
from streammine.engine.kept import loaded
from streammine.engine.node import NodeMachine
from streammine.engine.node_stimuli import NodeStimulus
from streammine.engine.processor import Processor
from streammine.engine.slice import SliceMachine
from streammine.engine.stimuli import WorkResult
from streammine.model import control
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
    ClusterError,
    OutputError,
    ReplacedError,
    SnapshotDamagedError,
    StalePlanError,
    StreammineError,
)
from streammine.model.frames import FrameHeader
from streammine.model.ids import SliceId
from streammine.model.job import JobGraph
from streammine.model.job_codec import decode_plan, decode_spec, encode_outcome, encode_plan
from streammine.model.recovery import CheckpointCoordinator
from streammine.model.snapshots import RecoverySettings, SnapshotRecord
from streammine.simulation import keeping
from streammine.simulation.hosting import HostedJob, counters_of
from streammine.simulation.network import Body, Message, Receiver
from streammine.simulation.process import VirtualProcess
from streammine.simulation.world import World

COORDINATION_ATTEMPTS = 20
COORDINATION_PAUSE_SECONDS = 0.1
MOST_SLOWNESS = 25.0
"""However many faults slow a node down: slower than that it would look stuck."""


Replica = tuple[SliceId, int]


Call = Callable[[CoordinationService], object]


class VirtualNode:
    """One node's process. It lives from `start` until it crashes or the simulation is over.

    `tasks` counts what it has done on worker threads, `snapshots` what it has written; `slowness` and
    `disk_slowness` stretch both. `on_lost` is called when its session turns out to be over.
    """

    def __init__(self, name: str, world: World, on_lost: Callable[[VirtualNode], None]) -> None:
        self.name = name
        self.machine = NodeMachine(name, replace(POLICIES, coordinator=self._coordinator))
        world.coverage.watch_manager(self.machine.manager)
        self.process = VirtualProcess()
        self.session = world.coordinator.open(name, self._listen)
        self.jobs: dict[int, HostedJob] = {}
        self.tasks = 0
        self.snapshots = 0
        self.slowness = 1.0
        self.disk_slowness = 1.0
        self.crowded = 0
        self._world = world
        self._random = Random(f"{world.seed}/node/{name}/{self.session.number}")
        skew = world.settings.clock_skew_seconds
        self._clock_ahead_seconds = Random(f"{world.seed}/clock/{name}").uniform(-skew, skew)
        self._on_lost = on_lost
        self._calls: deque[tuple[Call, NodeStimulus | None]] = deque()
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
            machine.DeclareEnd: self._declare_end,
            machine.SourcesStart: self._sources_start,
            machine.WriteSnapshot: self._write_snapshot,
            machine.MoveToDisk: self._move_to_disk,
            machine.PublishCheckpoint: self._publish_checkpoint,
            machine.CollectSnapshots: self._collect_snapshots,
            machine.FindCheckpoints: self._find_checkpoints,
        }

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
        """Connect to the network, begin to tell heartbeats, and join."""
        world = self._world
        world.network.attach(self.name, Receiver(self._data, self._control))
        self._later(self._random.uniform(0.0, world.settings.heartbeat_seconds), self._heartbeat)

        def join(service: CoordinationService) -> None:
            service.join(member)
            on_joined()

        self._coordinate(join)

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
                self._handle(machine.MembersSeen(seen, own[0] if own else None))
            case JobSubmitted(number, blob):
                if number not in self.jobs:
                    spec = decode_spec(blob)
                    self.jobs[number] = HostedJob(self._world.compiled)
                    self._handle(machine.JobSeen(number, spec.graph, spec.nodes, spec.recovery))
            case PlanPublished(_, _, blob):
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
        received = machine.ControlReceived(sender, message)
        self.process.occur(lambda: self._handle(received))

    def ask(self, request: control.ControlMessage) -> None:
        """A client's request, as it comes over the wire."""
        self._control(self.name, control.encode(request))

    def _system_clock_seconds(self) -> float:
        return self._world.clock.now_seconds + self._clock_ahead_seconds

    def _heartbeat(self) -> None:
        counters = {
            (number, slice_id): counters_of(built.processor)
            for number, job in self.jobs.items()
            for (slice_id, _), built in job.replicas.items()
        }
        now = self._world.clock.now_seconds * self._world.settings.clock_rate
        load = {
            "slices": float(len(counters)),
            "spare_wait_seconds": 2 * CROWDED_SECONDS if self.crowded else 0.0,
            "idle_share": 0.0 if self.crowded else 1.0,
        }
        self._handle(machine.HeartbeatDue(now, self._system_clock_seconds(), load, counters))
        self._later(self._world.settings.heartbeat_seconds, self._heartbeat)

    # --- effects --------------------------------------------------------------------------------

    def _deploy(self, effect: machine.Deploy) -> None:
        delay = self._work_delay_seconds
        self._in_background(delay, lambda: None, lambda: self._deployed(effect))

    def _deployed(self, effect: machine.Deploy) -> None:
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
                built = job.compiled.slice(effect.job, replica, environment, seat)
                built.prepare()
            except SnapshotDamagedError as error:
                assert replica.restore is not None
                assert replica.restore.record is not None
                name, text = replica.restore.record.name, str(replica.slice)
                damaged.append(control.DamagedSnapshot(text, replica.generation, name, str(error)))
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
        def seated() -> None:
            job = self.jobs.get(effect.job)
            if job is not None:
                environment = self._world.environment(self.name)
                self._handle(job.seats.sit(job.compiled, effect, environment))

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

        def perform() -> WorkResult:
            elapsed = self._system_clock_seconds() - job.began_at_seconds
            return processor.perform(effect.work, elapsed)

        def finished() -> None:
            if replica not in job.replicas:
                return
            result, failure, replaced, damaged = None, None, False, None
            try:
                result = perform()
            except SnapshotDamagedError as error:
                damaged = machine.spoiled(effect, str(error))
            except StreammineError as error:
                failure, replaced = str(error), isinstance(error, ReplacedError)
            counters = counters_of(processor)
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

        def write() -> SnapshotRecord:
            return write_snapshot(store, *replica, effect.frozen, effect.previous)

        def written() -> None:
            if replica not in job.replicas:
                return
            try:
                record, failure = write(), None
            except OutputError as error:
                record, failure = None, str(error)
            self._handle(machine.SnapshotWritten(effect.job, *replica, record, failure))

        self.snapshots += 1
        self._in_background(self._disk_delay_seconds, write, written)

    def _move_to_disk(self, effect: machine.MoveToDisk) -> None:
        job = self.jobs[effect.job]
        replica = (effect.slice, effect.generation)
        spill = job.replicas[replica].spill

        def move() -> None:
            for body in effect.bodies if replica in job.replicas else ():
                body.to_disk(spill)

        self._in_background(self._disk_delay_seconds, move, move)

    def _publish_checkpoint(self, effect: machine.PublishCheckpoint) -> None:
        store, monitor = self._world.snapshots(self.name), self._world.monitor
        self._in_background(
            self._disk_delay_seconds,
            lambda: keeping.publish(store, monitor, effect),
            lambda: self._handle(keeping.publish(store, monitor, effect)),
        )

    def _collect_snapshots(self, effect: machine.CollectSnapshots) -> None:
        store, verified = self._world.snapshots(self.name), self.jobs[effect.job].verified

        def remove() -> None:
            collect(store, effect.keep, verified)

        self._in_background(self._disk_delay_seconds, remove, remove)

    def _find_checkpoints(self, effect: machine.FindCheckpoints) -> None:
        store = self._world.snapshots(self.name)
        self._in_background(
            self._disk_delay_seconds,
            lambda: None,
            lambda: self._handle(keeping.find(store, effect)),
        )

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
            self._world.progressed()
            self._handle(machine.SliceWoken(effect.job, effect.slice, effect.generation))

        self._world.sleeping_until(self._later(effect.seconds, woken))

    def _sources_start(self, effect: machine.SourcesStart) -> None:
        self.jobs[effect.job].began_at_seconds = effect.began_at

    def _declare_plan(self, effect: machine.DeclarePlan) -> None:
        plan = effect.plan
        self._coordinate(
            lambda service: service.publish_plan(plan.job, plan.version, encode_plan(plan)),
            machine.PlanRefused(plan.job, plan.version),
        )

    def _declare_end(self, effect: machine.DeclareEnd) -> None:
        self._coordinate(
            lambda service: service.end_job(effect.job, encode_outcome(effect.outcome))
        )

    def _coordinate(self, call: Call, refused: NodeStimulus | None = None) -> None:
        """Calls reach the service late, one after the other; one that fails is made again some times
        before the next has its turn. Where its answer is lost it may have been heard, too. `refused` is
        said when a call did not come about."""
        self._calls.append((call, refused))
        if len(self._calls) == 1:
            self._call(COORDINATION_ATTEMPTS, 0.0)

    def _call(self, attempts: int, pause_seconds: float) -> None:
        world = self._world
        delay = self._random.uniform(0.0, world.settings.coordination_delay_seconds)
        call, refused = self._calls[0]

        def heard() -> None:
            # what has left the process is heard, whether it stands still by now or not
            world.progressed()
            try:
                call(self.session)
            except StalePlanError as error:
                world.tell(self.name, str(error))
                self.process.occur(given_up)
                return
            except ClusterError:
                self.process.occur(failed)
                return
            self.process.occur(answered)

        def answered() -> None:
            if not self.session.connected:
                failed()
                return
            self._next_call()

        def failed() -> None:
            if attempts > 1 and not self.session.over:
                self._call(attempts - 1, COORDINATION_PAUSE_SECONDS)
                return
            given_up()

        def given_up() -> None:
            self._next_call()
            if refused is not None:
                self._handle(refused)

        if self.process.alive:
            world.clock.after(pause_seconds + delay, heard)

    def _next_call(self) -> None:
        self._calls.popleft()
        if self._calls:
            self._call(COORDINATION_ATTEMPTS, 0.0)
