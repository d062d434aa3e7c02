"""The node process: sockets, coordinator, clock and worker threads around the pure `NodeMachine`.

The machine belongs to whoever holds the lock. The loop's thread owns the sockets and feeds in what comes
from outside; a worker that has finished a slice's work feeds that in itself and performs what follows, so
that work which leads to more work on this node never waits for another thread to wake up. What must
leave by a socket goes into the outbox, whoever puts it there, so effects happen in the order in which the
machine gave them. The loop empties it and sends without the lock: a replay of a thousand frames keeps no
worker waiting. Credit alone may wait until something else is sent or no work is left, and then only the
furthest on a link counts.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

from streammine.assembly import POLICIES, Declaring
from streammine.engine import node_stimuli as machine
from streammine.engine.kept import loaded
from streammine.engine.node import NodeMachine
from streammine.engine.node_status import node_status
from streammine.engine.node_stimuli import NodeStimulus
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
from streammine.model.epochs import BEGINNING
from streammine.model.errors import (
    ClusterError,
    ProtocolError,
    ReplacedError,
    SnapshotDamagedError,
    StalePlanError,
    UnknownJobError,
)
from streammine.model.frames import FrameHeader
from streammine.model.job import JobOutcome
from streammine.model.job_codec import (
    decode_plan,
    decode_spec,
    encode_outcome,
)
from streammine.runtime.deciding import Decider
from streammine.runtime.failures import failure_text
from streammine.runtime.hosting import HostedJob, stamped
from streammine.runtime.measured import MeasuredProcess, counters_of
from streammine.runtime.outbox import Outbox
from streammine.runtime.recovery import SnapshotKeeper
from streammine.runtime.transport import ControlReceived, DataReceived, RequestReceived, Transport
from streammine.runtime.workers import Turn, Workers

logger = logging.getLogger(__name__)
DECISIONS_LOG = "streammine.decisions"
"""Told where what is only worth knowing is not."""

HEARTBEAT_SECONDS = 0.25
LONGEST_WAIT_MILLISECONDS = 1000
COORDINATION_ATTEMPTS = 20
"""For a plan, as the session may still come back; an outcome is tried on, or its job would never end."""

COORDINATION_PAUSE_SECONDS = 1.0


@dataclass(frozen=True)
class NodeSettings:
    """How a node runs. `folder` is its private scratch folder; `threads` work for its slices."""

    name: str
    folder: Path
    threads: int = 1
    verify: Callable[[bytes, bytes], bool] | None = None


class Node:
    """One node. `run` returns when `stop` is called, the coordination service is `lost`, or the cluster is
    `over`."""

    def __init__(self, settings: NodeSettings, transport: Transport) -> None:
        self.settings = settings
        self.transport = transport
        self.machine = NodeMachine(settings.name, POLICIES)
        self.workers = Workers(settings.threads, settings.name)
        self.callers = Workers(1, f"{settings.name}-coordination")
        self.deployers = Workers(1, f"{settings.name}-deployment")
        self.writers = Workers(1, f"{settings.name}-snapshots")
        self._declaring = Declaring()
        self.decider = Decider(settings.name, self._handle, self._coordinate)
        self.keeper = SnapshotKeeper(settings.name)
        self.jobs: dict[int, HostedJob] = {}
        self.service: CoordinationService | None = None
        self.lost: str | None = None
        self.over = False
        self._events: queue.SimpleQueue[Callable[[], NodeStimulus | None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._outbox = Outbox()
        self._loop_thread = 0
        self._timers: list[tuple[float, int, NodeStimulus]] = []
        self._numbers = count()
        self._next_heartbeat = 0.0
        self._stopped = threading.Event()
        self._members: dict[str, Member] = {}
        self._measured = MeasuredProcess()
        self._perform: dict[type, Callable[..., None]] = {
            machine.Deploy: self._deploy,
            machine.Sit: self._sit,
            machine.Unseat: self._unseat,
            machine.Withdraw: self._withdraw,
            machine.WriteSnapshot: self._at_store(self.keeper.write),
            machine.MakeSure: lambda wish: self.decider.make_sure(self.jobs[wish.job], wish),
            machine.MoveToDisk: self._move_to_disk,
            machine.PublishCheckpoint: self._at_store(self.keeper.publish),
            machine.CollectSnapshots: self._at_store(self.keeper.collect),
            machine.FindCheckpoints: self._at_store(self.keeper.find),
            machine.KeepMemory: self._at_store(self.keeper.remember),
            machine.Undeploy: self._undeploy,
            machine.Perform: self._work,
            machine.TransmitFrame: self._transmit,
            machine.TransmitControl: self._transmit,
            machine.WakeSlice: self._wake_slice,
            machine.DeclarePlan: self._declare_plan,
            machine.SchemeDecided: self._scheme_decided,
            machine.ReplicasLack: self._replicas_lack,
            machine.DeclareEnd: self._declare_end,
            machine.SourcesStart: self._sources_start,
        }

    # --- from other threads ---------------------------------------------------------------------

    def listen(self, event: CoordinationEvent) -> None:
        """Takes the coordination service's events; safe from any thread."""
        self._post(lambda: self._coordination(event))

    def stop(self) -> None:
        """Make `run` return; safe from any thread and from a signal handler."""
        self._stopped.set()
        self.transport.wake()

    def _post(self, event: Callable[[], NodeStimulus | None]) -> None:
        self._events.put(event)
        self.transport.wake()

    # --- the loop -------------------------------------------------------------------------------

    def run(self, service: CoordinationService) -> None:
        """Take part in the cluster until stopped. Raises ClusterError when membership is lost."""
        self.service = service
        self._loop_thread = threading.get_ident()
        try:
            while not self._stopped.is_set():
                self._turn()
        finally:
            self.workers.close()
            self.callers.close()
            self.deployers.close()
            self.writers.close()
            self.decider.close()
            for job in self.jobs.values():
                job.close()
        if self.lost is not None:
            raise ClusterError(self.lost)

    def _turn(self) -> None:
        received = self.transport.poll(self._wait_milliseconds())
        self._empty_outbox()
        for each in received:
            self._received(each)
            if self._outbox.urgent:
                self._empty_outbox()
        for _ in range(self._events.qsize()):
            stimulus = self._events.get_nowait()()
            if stimulus is not None:
                self._handle(stimulus)
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            with self._lock:
                _, _, stimulus = heappop(self._timers)
            self._handle(stimulus)
        if now >= self._next_heartbeat:
            self._next_heartbeat = now + HEARTBEAT_SECONDS
            with self._lock:
                # read under the lock, or older counters could replace a finished slice's last ones
                load = self._measured.load(self.workers)
                counters = counters_of(self.jobs)
                steps = {number: job.times.reports for number, job in self.jobs.items()}
                self._apply(machine.HeartbeatDue(now, time.time(), load, counters, steps))
        self._empty_outbox()

    def _wait_milliseconds(self) -> int:
        if self._outbox.urgent or not self._events.empty():
            return 0
        due = self._next_heartbeat
        if self._timers:
            due = min(due, self._timers[0][0])
        wait = max(0.0, due - time.monotonic())
        return min(LONGEST_WAIT_MILLISECONDS, -int(-wait * 1000 // 1))

    def _handle(self, stimulus: NodeStimulus) -> None:
        with self._lock:
            self._apply(stimulus)

    def _apply(self, stimulus: NodeStimulus) -> None:
        """The caller holds the lock."""
        for effect in self.machine.handle(stimulus):
            self._perform[type(effect)](effect)

    def _empty_outbox(self) -> None:
        """Send what waits, oldest first. The caller is the loop and does not hold the lock."""
        if not self._outbox:
            return
        with self._lock:
            taken = self._outbox.take()
        for effect in taken:
            self._send(effect)

    # --- what comes in --------------------------------------------------------------------------

    def _received(self, received: DataReceived | ControlReceived | RequestReceived) -> None:
        try:
            match received:
                case DataReceived(_, header, body):
                    self._data(FrameHeader.decode(header), body)
                case ControlReceived(sender, payload):
                    told = control.decode(payload)
                    self._handle(machine.ControlReceived(sender, told, time.monotonic()))
                case RequestReceived(token, payload):
                    self.transport.reply(token, control.encode(self._answer(payload)))
        except ProtocolError as error:
            logger.warning("node %s drops what it can't read: %s", self.settings.name, error)

    def _data(self, header: FrameHeader, body: pa.Buffer | None) -> None:
        job = self.jobs.get(header.job)
        if job is None or header.channel not in job.schemas:
            return
        try:
            batch = job.decode(header.channel, body)
        except ProtocolError as error:
            # asking for it again would bring the same
            self._handle(machine.JobBroken(header.job, str(error)))
            return
        nbytes = 0 if body is None else body.size
        self._handle(machine.FrameReceived(job.read_times.noted(header), batch, nbytes))

    def _answer(self, payload: bytes) -> control.ControlMessage:
        message = control.decode(payload)
        match message:
            case control.StatusRequest(job):
                with self._lock:
                    return control.StatusAnswer(node_status(self.machine, job))
            case control.StopRequest():
                self._handle(machine.ControlReceived(self.settings.name, message))
                return control.StatusAnswer({})
            case (
                control.SavepointRequest()
                | control.MoveRequest()
                | control.DrainRequest()
                | control.SchemeRequest()
            ):
                with self._lock:
                    refusal = self.machine.refusal(message)
                    if refusal is None:
                        self._apply(machine.ControlReceived(self.settings.name, message))
                return control.ErrorAnswer(refusal) if refusal else control.StatusAnswer({})
            case _:
                return control.ErrorAnswer(f"a client may not send {type(message).__name__}")

    def _coordination(self, event: CoordinationEvent) -> NodeStimulus | None:
        match event:
            case MembersChanged(members):
                return self._members_changed(members)
            case JobSubmitted(number, blob):
                return self._job_submitted(number, blob)
            case PlanPublished(job, version, blob):
                if job in self.jobs:
                    self.jobs[job].times.seen(version)
                try:
                    return machine.PlanSeen(decode_plan(blob))
                except ProtocolError as error:
                    return machine.JobBroken(job, str(error))
            case JobEnded(job, _):
                return machine.JobEndSeen(job)
            case ConnectionChanged(state):
                if state == "removed":
                    self.over = True
                    self._stopped.set()
                if state == "lost":
                    self.lost = f"node {self.settings.name} lost its session with ZooKeeper"
                    self._stopped.set()
                return None

    def _job_submitted(self, number: int, blob: bytes) -> NodeStimulus | None:
        """A job that this version can't read is ended as failed, by whichever node is first."""
        try:
            spec = decode_spec(blob)
        except ProtocolError as error:
            outcome = encode_outcome(JobOutcome("failed", str(error)))
            self._coordinate(lambda service: service.end_job(number, outcome))
            return None
        self.jobs[number] = HostedJob(number, spec, self.settings.folder, self.settings.verify)
        return machine.JobSeen(number, spec.graph, spec.nodes, spec.recovery)

    def _members_changed(self, members: tuple[Member, ...]) -> NodeStimulus:
        now = {member.name: member for member in members}
        for name in self._members.keys() - now.keys():
            self.transport.disconnect(name)
        for member in members:
            try:
                self.transport.connect(member)
            except ClusterError as error:
                logger.warning("node %s passes %s over: %s", self.settings.name, member.name, error)
        self._members = now
        own = [member.sequence for member in members if self._is_own(member)]
        if not own and self.settings.name in now:
            logger.warning("node %s: another process has joined under its name", self.settings.name)
        seen = tuple((member.name, member.sequence) for member in members)
        return machine.MembersSeen(seen, own[0] if own else None, time.monotonic())

    def _is_own(self, member: Member) -> bool:
        """Whether it is this node, and not one of its name that was there before."""
        endpoint = self.transport.control_endpoint
        return member.name == self.settings.name and member.control_endpoint == endpoint

    # --- effects --------------------------------------------------------------------------------

    def _deploy(self, effect: machine.Deploy) -> None:
        job = self.jobs[effect.job]

        def task() -> None:
            try:
                machines, damaged = job.deploy(effect.replicas)
                done = machine.Deployed(
                    effect.job, effect.version, tuple(machines), None, tuple(damaged)
                )
            except BaseException as error:
                # user code can raise anything, SystemExit too; the worker thread must live on
                failure = failure_text(self.settings.name, error)
                done = machine.Deployed(effect.job, effect.version, (), failure)
            self._post(lambda: done)

        self.deployers.submit(0, task)

    def _sit(self, effect: machine.Sit) -> None:
        job = self.jobs[effect.job]

        def task() -> None:
            try:
                done = job.sit(effect)
            except BaseException as error:
                # user code can raise anything, SystemExit too; the worker thread must live on
                replica = (effect.job, effect.slice, effect.generation)
                done = machine.Seated(
                    *replica, BEGINNING, 0, failure_text(self.settings.name, error)
                )
            self._post(lambda: done)

        self.deployers.submit(0, task)

    def _unseat(self, effect: machine.Unseat) -> None:
        job = self.jobs[effect.job]
        self.deployers.submit(0, lambda: job.seats.leave(effect.slice))

    def _withdraw(self, effect: machine.Withdraw) -> None:
        job = self.jobs[effect.job]
        self.deployers.submit(0, lambda: job.withdraw(effect.slice, effect.generation))

    def _undeploy(self, effect: machine.Undeploy) -> None:
        job = self.jobs.pop(effect.job, None)
        if job is not None:
            self.deployers.submit(0, job.close)

    def _work(self, effect: machine.Perform) -> None:
        job = self.jobs[effect.job]
        hosted = job.slices[effect.slice, effect.generation]
        replica = (effect.job, effect.slice, effect.generation)

        def task() -> None:
            try:
                begun = job.times.clock()
                result = job.perform(hosted, effect)
                job.times.performed(result, effect.slice, effect.generation, begun)
                self._handle(machine.WorkFinished(*replica, result, None, hosted.counters()))
            except ReplacedError as error:
                logger.warning("node %s: %s: %s", self.settings.name, effect.slice, error)
                self._handle(machine.WorkFinished(*replica, None, str(error), replaced=True))
            except SnapshotDamagedError as error:
                spoiled = machine.damaged_by(effect, error)
                self._handle(machine.WorkFinished(*replica, None, damaged=spoiled))
            except BaseException as error:
                # user code can raise anything, SystemExit too; the worker thread must live on
                failure = failure_text(self.settings.name, error)
                self._handle(machine.WorkFinished(*replica, None, failure))
            if self._outbox and not self._outbox.urgent and not len(self.workers):
                self.transport.wake()

        turn = Turn.PATIENT if effect.catches_up else Turn.SOON
        self.workers.submit(hosted.rank, task, Turn.SPARE if effect.spare else turn)

    # --- effects: snapshots ---------------------------------------------------------------------

    def _at_store(
        self, keep: Callable[[HostedJob, Any], NodeStimulus | None]
    ) -> Callable[[Any], None]:
        """What the keeper does for a job, on the thread for it."""

        def perform(effect: Any) -> None:
            job = self.jobs[effect.job]
            self._write(effect.job, lambda: keep(job, effect))

        return perform

    def _move_to_disk(self, effect: machine.MoveToDisk) -> None:
        hosted = self.jobs[effect.job].slices.get((effect.slice, effect.generation))
        if hosted is not None:
            spill = hosted.spill
            self._write(effect.job, lambda: self.keeper.to_disk(spill, effect))

    def _write(self, job: int, task: Callable[[], NodeStimulus | None]) -> None:
        """Do something that waits for a store, on the thread for it."""

        def write() -> None:
            try:
                done = task()
            except BaseException as error:
                # what a user's state does while it is written, too
                done = machine.JobBroken(job, failure_text(self.settings.name, error))
            if done is not None:
                self._handle(done)

        self.writers.submit(0, write)

    def _transmit(self, effect: machine.TransmitFrame | machine.TransmitControl) -> None:
        was_urgent = self._outbox.urgent
        self._outbox.put(effect)
        if self._outbox.urgent and not was_urgent and threading.get_ident() != self._loop_thread:
            self.transport.wake()

    def _send(self, effect: machine.TransmitFrame | machine.TransmitControl) -> None:
        """A send that is not taken is found by its receiver: as a gap, or by the next heartbeat."""
        if isinstance(effect, machine.TransmitControl):
            try:
                self.transport.send_control(effect.node, control.encode(effect.message))
            except ProtocolError as error:
                logger.warning("node %s can't send: %s", self.settings.name, error)
            return
        batch = loaded(effect.frame.body)
        data = None if batch is None else batch.serialize()
        self.transport.send_data(effect.node, stamped(effect.frame.header, self.jobs), data)

    def _wake_slice(self, effect: machine.WakeSlice) -> None:
        due = time.monotonic() + effect.seconds
        woken = machine.SliceWoken(effect.job, effect.slice, effect.generation)
        heappush(self._timers, (due, next(self._numbers), woken))
        if self._timers[0][2] is woken and threading.get_ident() != self._loop_thread:
            self.transport.wake()

    def _sources_start(self, effect: machine.SourcesStart) -> None:
        self.jobs[effect.job].begin(effect.began_at)

    def _scheme_decided(self, effect: machine.SchemeDecided) -> None:
        told = logging.getLogger(DECISIONS_LOG)
        told.info("node %s: job %s: %s", self.settings.name, effect.job, effect.decision)

    def _replicas_lack(self, effect: machine.ReplicasLack) -> None:
        logger.warning("node %s: job %s: %s", self.settings.name, effect.job, effect)

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

    def _coordinate(
        self, call: Callable[[CoordinationService], object], refused: NodeStimulus | None = None
    ) -> None:
        """Talk to the coordination service off the loop; what came of it arrives as its events, but for
        `refused`, which is said when it did not come about. Without that it is tried until it does."""
        service = self.service
        assert service is not None

        def task() -> None:
            for _ in count() if refused is None else range(COORDINATION_ATTEMPTS):
                try:
                    call(service)
                    return
                except (StalePlanError, UnknownJobError) as error:
                    # another manager has declared something newer, or the job's end, long ago
                    logger.warning("node %s: %s", self.settings.name, error)
                    break
                except ClusterError as error:
                    logger.warning("node %s: %s", self.settings.name, error)
                    if self._stopped.wait(COORDINATION_PAUSE_SECONDS):
                        return
            if refused is not None:
                self._handle(refused)

        self.callers.submit(0, task)
