"""The node: reconciles towards the plan, and routes between its slices, its peers and the manager.

It holds no socket and no thread: the shell (real or simulated) feeds it what happened and performs what it
asks for, in order. Whatever passes between two slices of one node is passed on by reference inside one
`handle` call; whatever leaves the node is an effect.

House rules
-----------
* A replica is named by slice and generation. What comes of one that is no longer here is dropped.
* The plan in force says which generations live at the other end of a channel; slices are told when that
  changes, and a message from any other generation finds no link.
* A node that the plan names under another membership is another node: this one starts nothing for it.
"""

from __future__ import annotations

from streammine.engine import manager_stimuli as manager
from streammine.engine import stimuli
from streammine.engine.hosted_job import HostedJob, seat_report, slice_report
from streammine.engine.manager import ManagerMachine
from streammine.engine.node_stimuli import (
    CheckpointPublished,
    CheckpointsFound,
    ControlReceived,
    Deploy,
    Deployed,
    FrameReceived,
    HeartbeatDue,
    JobBroken,
    JobEndSeen,
    JobSeen,
    MadeSure,
    MembersSeen,
    MemoryKept,
    NewReplica,
    NodeEffect,
    NodeStimulus,
    PlanRefused,
    PlanSeen,
    Seated,
    SliceWoken,
    SnapshotWritten,
    SourcesStart,
    TransmitControl,
    Undeploy,
    Withdraw,
    WorkFinished,
)
from streammine.engine.output_channel import UnwantedRange
from streammine.engine.policies import Policies
from streammine.engine.seating import SeatingNode
from streammine.engine.slice import SliceMachine
from streammine.engine.slice_settings import Phase
from streammine.model import control
from streammine.model.agreement import Heard, PlanChanged
from streammine.model.errors import InputError, OutputError
from streammine.model.frames import FrameHeader
from streammine.model.ids import SliceId
from streammine.model.job import Plan

LONGEST_FAILURE = 16_384
"""Characters of a failure that are told with every heartbeat."""


class NodeMachine(SeatingNode):
    """One node's protocol. `handle` is the only mutator."""

    def __init__(self, name: str, policies: Policies) -> None:
        super().__init__(name)
        self.manager_name: str | None = None
        self.manager = ManagerMachine(policies)
        self.heartbeats: dict[str, control.Heartbeat] = {}
        self.nodes: tuple[str, ...] = ()
        self._load: dict[str, float] = {}

    def handle(self, stimulus: NodeStimulus) -> list[NodeEffect]:
        effects: list[NodeEffect] = []
        match stimulus:
            case MembersSeen():
                self._members(stimulus, effects)
            case JobSeen():
                self._job_seen(stimulus, effects)
            case PlanSeen(plan):
                self._plan(plan, effects)
            case PlanRefused() | CheckpointPublished() | CheckpointsFound() | MemoryKept():
                self._manage(stimulus, effects)
            case JobEndSeen(job):
                self._manage(stimulus, effects)
                if self.jobs.pop(job, None) is not None:
                    effects.append(Undeploy(job))
            case Deployed():
                self._deployed(stimulus, effects)
            case Seated():
                self._seated(stimulus, effects)
            case FrameReceived(header, body, nbytes):
                self._frame(header, body, nbytes)
            case ControlReceived(sender, control.Heartbeat(node) as told, now_seconds) if (
                node == sender
            ):
                self._heard(told, now_seconds, effects)
            case ControlReceived(sender, message):
                self._control(sender, message, effects)
            case WorkFinished():
                self._work_finished(stimulus, effects)
            case SnapshotWritten():
                self._snapshot_written(stimulus)
            case MadeSure():
                self._made_sure(stimulus)
            case JobBroken(job, failure):
                if job in self.jobs:
                    self._fail(self.jobs[job], failure, effects)
            case SliceWoken(job, slice_id, generation):
                self._to_replica(job, slice_id, generation, stimuli.Woken())
            case HeartbeatDue():
                self._heartbeat_due(stimulus, effects)
        self._drain(effects)
        self._spread_news(effects)
        return effects

    # --- membership and management --------------------------------------------------------------

    def _members(self, stimulus: MembersSeen, effects: list[NodeEffect]) -> None:
        self.nodes = tuple(name for name, _ in stimulus.nodes)
        self.heartbeats = {
            name: heartbeat for name, heartbeat in self.heartbeats.items() if name in self.nodes
        }
        self.member = stimulus.own
        first = self.nodes[0] if self.nodes else None
        changed = first != self.manager_name
        self.manager_name = first
        leading = stimulus.own is not None and stimulus.nodes[0] == (self.name, stimulus.own)
        self._manage(manager.Elected(leading, stimulus.own or 0), effects)
        self._manage(manager.NodesChanged(stimulus.nodes, stimulus.now_seconds), effects)
        for job in self.jobs.values():
            # which of the plan's places are this node's may have become known only now
            if job.plan is not None:
                self._reconcile(job, effects)
        if changed:
            self._report(effects)

    def _job_seen(self, seen: JobSeen, effects: list[NodeEffect]) -> None:
        if seen.job not in self.jobs:
            self.jobs[seen.job] = HostedJob(
                seen.job, seen.graph, seen.recovery, seen.graph.channels
            )
        self._manage(seen, effects)

    def _manage(self, stimulus: manager.ManagerStimulus, effects: list[NodeEffect]) -> None:
        for effect in self.manager.handle(stimulus):
            match effect:
                case manager.Direct(directive):
                    for node in self.nodes:
                        self._tell(node, directive, effects)
                case manager.Offer(node, offers):
                    self._tell(node, offers, effects)
                case _:
                    effects.append(effect)

    def _report(self, effects: list[NodeEffect]) -> None:
        """Tell the manager where this node is."""
        if self.manager_name is None or self.member is None:
            return
        heartbeat = control.Heartbeat(
            self.name,
            self.member,
            self._load,
            tuple(self._job_report(job) for job in self.jobs.values()),
        )
        if self.manager_name == self.name:
            self._heard(heartbeat, None, effects)
        else:
            effects.append(TransmitControl(self.manager_name, heartbeat))

    def _heard(
        self, heartbeat: control.Heartbeat, now_seconds: float | None, effects: list[NodeEffect]
    ) -> None:
        self.heartbeats[heartbeat.node] = heartbeat
        self._manage(manager.Reported(heartbeat, now_seconds), effects)

    def _job_report(self, job: HostedJob) -> control.JobReport:
        return control.JobReport(
            job.number,
            job.deployed,
            job.deployed > 0,
            job.failed,
            tuple(
                slice_report(machine, job.counters.get(slice_id, {}))
                for slice_id, machine in job.slices.items()
            ),
            tuple(job.damaged.values()),
            tuple(seat_report(*each) for each in job.seats.items()),
            job.steps,
        )

    def _heartbeat_due(self, stimulus: HeartbeatDue, effects: list[NodeEffect]) -> None:
        self._load = stimulus.load
        self._take_counters(stimulus.counters)
        self._try_again(effects)
        for number, steps in stimulus.steps.items():
            if number in self.jobs:
                self.jobs[number].steps = steps
        self._manage(manager.Ticked(stimulus.now_seconds, stimulus.clock_seconds), effects)
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
        self._manage(PlanSeen(plan), effects)
        job = self.jobs.get(plan.job)
        if job is None or (job.plan is not None and plan.version <= job.plan.version):
            return
        job.follow(plan)
        self._withdraw(job, effects)
        for machine in job.slices.values():
            self._rewire(job, machine)
        self._reconcile(job, effects)

    def _withdraw(self, job: HostedJob, effects: list[NodeEffect]) -> None:
        """Replicas that the plan no longer lists here are gone."""
        for slice_id, machine in list(job.slices.items()):
            mine = self._mine(job, slice_id)
            listed = mine is not None and mine.generation == machine.generation
            if mine is None or not listed or not mine.rung.queues:
                self._forget(job, slice_id, machine.generation, effects)
        job.damaged = {
            (slice_id, generation): each
            for (slice_id, generation), each in job.damaged.items()
            if (slice_id, generation) in job.nodes
        }

    def _rewire(self, job: HostedJob, machine: SliceMachine) -> None:
        """Tell a replica whether it leads, and which generations live at the other ends, where that has
        changed."""
        slice_id = machine.slice_id
        led = stimuli.Led(job.led_by(machine), job.stands_behind(machine))
        if led != stimuli.Led(machine.leads, machine.spare):
            self._local.append((job.number, slice_id, led))
        mine = self._mine(job, slice_id)
        if mine is not None and mine.rung is not machine.wanted_rung:
            self._local.append((job.number, slice_id, stimuli.Stand(mine.rung)))
        rewired = job.rewired(slice_id)
        if rewired is not None:
            self._local.append((job.number, slice_id, rewired))
        agreeing = job.newly_agreeing(slice_id)
        if agreeing is not None:
            self._local.append((job.number, slice_id, stimuli.Agreeing(PlanChanged(agreeing))))

    def _reconcile(self, job: HostedJob, effects: list[NodeEffect]) -> None:
        plan = job.plan
        assert plan is not None
        if job.deploying is not None or job.failed is not None:
            return
        wanted = tuple(
            NewReplica(
                slice_id,
                mine.generation,
                mine.restore,
                job.links(slice_id, mine),
                job.beside(slice_id, mine),
            )
            for slice_id in plan.placements
            if (mine := self._mine(job, slice_id)) is not None
            and mine.rung.queues
            and slice_id not in job.slices
            and (slice_id, mine.generation) not in job.damaged
        )
        for replica in wanted:
            # its operator goes over to the replica
            job.seats.pop(replica.slice, None)
        if wanted:
            job.deploying = plan.version
            effects.append(Deploy(job.number, plan.version, wanted))
            return
        self._seat(job, effects)
        job.deployed = plan.version
        if plan.phase == "run":
            if not job.started:
                job.started = True
                effects.append(SourcesStart(job.number, plan.began_at))
            for slice_id, machine in job.slices.items():
                if machine.phase is Phase.DEPLOYED:
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
        for damaged in stimulus.damaged:
            job.damaged[SliceId.parse(damaged.slice), damaged.generation] = damaged
        for machine in stimulus.slices:
            job.slices[machine.slice_id] = machine
        # the plan may have moved on meanwhile
        self._withdraw(job, effects)
        for machine in stimulus.slices:
            if machine.slice_id in job.slices:
                self._local.append((job.number, machine.slice_id, job.directed))
                self._rewire(job, machine)
        self._drain(effects)
        self._reconcile(job, effects)

    def _fail(self, job: HostedJob, failure: str, effects: list[NodeEffect]) -> None:
        if job.failed is None:
            job.failed = failure[:LONGEST_FAILURE]
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
            case control.Credits(job, links):
                for link in links:
                    self._at_source(job, link[0], stimuli.CreditArrived(*link))
            case control.Unwanted(job, ranges):
                for channel, source, receiver, *epochs in ranges:
                    told = stimuli.UnwantedTold(channel, source, receiver, UnwantedRange(*epochs))
                    self._at_source(job, channel, told)
            case control.Subscribe(job, channel):
                subscribed = stimuli.Subscribed(
                    channel, message.sender, message.receiver, message.from_epoch, message.frontier
                )
                if self._may_live(job, channel, message.receiver):
                    self._at_source(job, channel, subscribed)
            case control.ResendRequest(job, channel):
                asked = stimuli.ResendAsked(
                    channel, message.sender, message.receiver, message.sequence
                )
                self._at_source(job, channel, asked)
            case control.Announcements(job, links):
                for link in links:
                    self._at_target(job, link[0], stimuli.Announced(*link))
            case control.StandingTold() | control.PulseTold() | control.DecisionsTold():
                self._told_by_replica(message)
            case control.Directive() if sender == self.manager_name:
                self._directive(message)
            case control.StateOffers() if sender == self.manager_name:
                self._offered(message, effects)
            case control.StopRequest(job, reason):
                self._manage(manager.StopAsked(job, reason), effects)
            case (
                control.SavepointRequest()
                | control.MoveRequest()
                | control.DrainRequest()
                | control.SchemeRequest()
            ):
                self._manage(manager.wish_of(message), effects)
            case _:
                return

    def refusal(self, message: manager.WishMessage) -> str | None:
        """Why a client's wish can't be followed, or None."""
        return self.manager.refusal(manager.wish_of(message))

    def _directive(self, message: control.Directive) -> None:
        job = self.jobs.get(message.job)
        if job is None or (job.plan is not None and message.plan_version < job.plan.version):
            # replicas of the newer plan may begin behind what the older one had no use for
            return
        # what a plan allows to forget that does not stand yet, a replica of this one may still ask for
        follows = job.plan is not None and message.plan_version == job.plan.version
        retain_after = message.retain_after if follows else job.directed.retain_after
        directed = stimuli.Directed(message.proposed, message.making, retain_after)
        if directed == job.directed:
            return
        job.directed = directed
        for slice_id in job.slices:
            self._local.append((job.number, slice_id, directed))

    def _may_live(self, number: int, channel: int, receiver: int) -> bool:
        """Whether a receiver's generation is in the plan, or in one that is still to come."""
        job = self.jobs.get(number)
        if job is None or job.plan is None or not 0 <= channel < len(job.channels):
            return False
        known = [each.generation for each in job.placed(job.channels[channel].target)]
        newest = job.graph.newest_generation(job.plan.version, job.recovery.first_generation)
        return receiver in known or receiver > newest

    def _to_replica(
        self, number: int, slice_id: SliceId, generation: int, stimulus: stimuli.Stimulus
    ) -> None:
        job = self.jobs.get(number)
        if job is not None and job.replica(slice_id, generation) is not None:
            self._local.append((number, slice_id, stimulus))

    def _work_finished(self, done: WorkFinished, effects: list[NodeEffect]) -> None:
        job = self.jobs.get(done.job)
        if job is None or job.replica(done.slice, done.generation) is None:
            return
        if done.replaced:
            # it does nothing more until the plan that withdraws it comes
            return
        if done.failure is not None:
            self._fail(job, done.failure, effects)
            return
        if done.damaged is not None:
            self._lost(job, done.damaged, effects)
            return
        assert done.result is not None
        job.counters[done.slice] = done.counters
        self._local.append((done.job, done.slice, stimuli.WorkDone(done.result)))

    def _lost(
        self, job: HostedJob, damaged: control.DamagedSnapshot, effects: list[NodeEffect]
    ) -> None:
        """A replica's state is spoiled: it is no more, and the manager makes up for it."""
        slice_id = SliceId.parse(damaged.slice)
        job.damaged[slice_id, damaged.generation] = damaged
        self._forget(job, slice_id, damaged.generation, effects)
        self._report(effects)

    def _forget(
        self, job: HostedJob, slice_id: SliceId, generation: int, effects: list[NodeEffect]
    ) -> None:
        job.forget(slice_id)
        effects.append(Withdraw(job.number, slice_id, generation))

    def _snapshot_written(self, done: SnapshotWritten) -> None:
        self._to_replica(done.job, done.slice, done.generation, stimuli.SnapshotDone(done.record))

    def _told_by_replica(self, told: control.AgreementTold) -> None:
        heard = stimuli.Agreeing(Heard(told.message))
        self._to_replica(told.job, told.slice, told.receiver, heard)

    def _made_sure(self, done: MadeSure) -> None:
        wish = done.wish
        if done.answer is None:
            self._unsure.add(wish)
            return
        self._making.discard(wish)
        heard = stimuli.Agreeing(done.answer)
        self._to_replica(wish.job, wish.slice, wish.generation, heard)

    def _try_again(self, effects: list[NodeEffect]) -> None:
        """What could not be made sure, for those that are still here."""
        unsure, self._unsure = self._unsure, set()
        for each in unsure:
            job = self.jobs.get(each.job)
            if job is not None and job.replica(each.slice, each.generation) is not None:
                effects.append(each)
            else:
                self._making.discard(each)

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
                    self._slice_effect(job, machine, effect, effects)
            except (InputError, OutputError) as error:
                self._fail(job, str(error), effects)
            except Exception as error:
                # its state is lost, so the job can't go on; other jobs of the node can
                failure = f"slice {slice_id}: {error!r} after\n{machine.story()}"
                self._fail(job, failure, effects)
