"""The manager: places slices, declares plans, and ends jobs (Martin 2015, chapter 2).

Every node runs this machine; only that of the elected node acts. It declares a plan and waits until nodes
report that they have reached it; what it knows of the job's progress comes from their reports alone,
which are repeated with every heartbeat, so a new manager learns all of it within one. Whatever has to
outlive it stands in the plan: moves (two replicas of a slice), nodes to be emptied, a savepoint, how often
losses were made up for in vain. What controllers are to remember stands in the job's store (`Remembering`).

A job's phases, as this machine sees them::

    SUBMITTED --publish plan 1 (deploy)--> DEPLOYING --all nodes deployed; publish plan (run)--> RUNNING
    RUNNING --every slice finished--> ENDED(finished)
    DEPLOYING, RUNNING --a placed node is gone, or a replica broken; publish a plan to mend it--> same
    DEPLOYING, RUNNING --that again and again, and the job gets no further--> ENDED(failed)
    RUNNING --a new replica has caught up; publish a plan without the old one--> RUNNING
    RUNNING --a checkpoint is complete and a savepoint was asked for--> ENDED(savepoint)
    any --a node reports failure--> ENDED(failed)
    any --stop is asked for--> ENDED(stopped)

House rules
-----------
* Nothing is rebuilt before the store's checkpoints are known and every living node that hosts slices
  has reported to this manager. A store that can't be read is looked at again until it can.
* A node that is a member but silent for long counts as lost; generations fence it off.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from streammine.engine.agreeing_plans import renewed_plan, with_agreeing
from streammine.engine.crowding import Crowding, queues_behind
from streammine.engine.ladder import climbed_plan, offers, reinforced_at_once, reinforced_plan
from streammine.engine.managed_job import JobPhase, ManagedJob
from streammine.engine.manager_stimuli import (
    Direct,
    DrainAsked,
    Elected,
    ManagerEffect,
    ManagerStimulus,
    MoveAsked,
    NodesChanged,
    Offer,
    Reported,
    SavepointAsked,
    SchemeAsked,
    StopAsked,
    Ticked,
    Wish,
)
from streammine.engine.node_stimuli import (
    CheckpointPublished,
    CheckpointsFound,
    CollectSnapshots,
    DeclareEnd,
    DeclarePlan,
    FindCheckpoints,
    JobEndSeen,
    JobSeen,
    KeepMemory,
    MemoryKept,
    PlanRefused,
    PlanSeen,
    PublishCheckpoint,
    ReplicasLack,
    SchemeDecided,
)
from streammine.engine.placement import Node
from streammine.engine.plans import (
    arrived_plan,
    first_plan,
    moved_plan,
    on_draining,
)
from streammine.engine.policies import Policies
from streammine.engine.rebuilding import lost_agreement, rebuilt_plan
from streammine.engine.remembering import Remembering
from streammine.engine.scheme_wishes import asked_plan
from streammine.engine.wishes import wish_refusal
from streammine.model import recovery
from streammine.model.control import Directive
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.job import JobOutcome, Plan
from streammine.model.recovery import CheckpointEffect

ENDED_JOBS_KEPT = 16
"""Jobs that are over are shown by `status` until so many newer ones are."""

SILENT_SECONDS = 15.0
PACE_DELAY_SECONDS = 0.25
"""After the manager's last look at the clock, which is as old at most: no row is overdue at the start."""

LOOK_AGAIN_SECONDS = 1.0
"""After a look at a job's store that failed."""

MOST_REBUILT = 24
"""Times in a row that losses are made up for while the job gets no further. What ends its nodes would end
the next ones, too: an event that user code can't take, or memory that is not there."""


class ManagerMachine:
    """`handle` is the only mutator; it returns what must happen, in order."""

    def __init__(self, policies: Policies) -> None:
        self.policies = policies
        self.leading = False
        self.member = 0
        self.nodes: tuple[Node, ...] = ()
        self.jobs: dict[int, ManagedJob] = {}
        self.now_seconds = 0.0
        self.clock_seconds: float | None = None
        self._heard: dict[Node, float] = {}
        self._crowding = Crowding()

    def handle(self, stimulus: ManagerStimulus) -> list[ManagerEffect]:
        effects: list[ManagerEffect] = []
        match stimulus:
            case Elected(leading, member):
                self.member = member
                self._elected(leading)
            case NodesChanged():
                self._nodes_changed(stimulus)
            case JobSeen():
                self._arrived(stimulus)
            case PlanSeen(plan):
                self._plan_seen(plan)
                self._stands(plan)
            case PlanRefused(job, version, series):
                self._plan_refused(job, version, series)
            case Reported():
                self._reported(stimulus)
            case Ticked(now_seconds, clock_seconds):
                if self.now_seconds == 0.0:
                    # whoever was heard of before the clock was known has been heard of now
                    self._heard = dict.fromkeys(self._heard, now_seconds)
                lived, self.now_seconds = self.live, now_seconds
                self.clock_seconds = clock_seconds
                self._lost(lived, self.live, now_seconds)
            case CheckpointsFound():
                self._found(stimulus)
            case MemoryKept(job, memory, error):
                if job in self.jobs:
                    self.jobs[job].remembering.written(self.now_seconds, memory, error)
            case CheckpointPublished(job, epoch, error):
                self._published(job, epoch, error, effects)
            case JobEndSeen(job):
                self._end_seen(job)
            case StopAsked(job, reason):
                self._stop(job, reason, effects)
            case SavepointAsked(job):
                self._savepoint(job, effects)
            case MoveAsked():
                self._move(stimulus, effects)
            case SchemeAsked():
                self._change_scheme(stimulus, effects)
            case DrainAsked(node):
                self._drain(node, effects)
        if self.leading:
            for managed in self.jobs.values():
                self._next(managed, effects)
            if isinstance(stimulus, Ticked):
                self._choose_schemes(stimulus.clock_seconds, effects)
                self._remember(effects)
                self._repeat(effects)
        return effects

    def refusal(self, stimulus: Wish) -> str | None:
        """Why a client's wish can't be followed, or None."""
        if not self.leading:
            return "this node is not the manager now; ask again"
        return wish_refusal(stimulus, self.jobs, self.nodes, self.live)

    # --- what is seen ---------------------------------------------------------------------------

    def _elected(self, leading: bool) -> None:
        if leading and not self.leading:
            # what an earlier term has heard may be old, and its checkpoints gone
            for job in self.jobs.values():
                job.forget_reports()
                job.coordinator = self.policies.coordinator(job.graph, job.recovery)
                job.control = self.policies.control(job.graph, job.recovery)
                job.remembering = Remembering()
            self._heard = dict.fromkeys(self.nodes, self.now_seconds)
        self.leading = leading

    def _nodes_changed(self, stimulus: NodesChanged) -> None:
        self._lost(self.nodes, stimulus.nodes, stimulus.now_seconds or self.now_seconds)
        self.nodes = nodes = stimulus.nodes
        self._heard = {node: self._heard.get(node, self.now_seconds) for node in nodes}
        self._crowding.keep({name for name, _ in nodes})

    def _lost(self, before: Sequence[Node], now: Sequence[Node], now_seconds: float) -> None:
        gone = sorted(set(before) - set(now))
        for job in self.jobs.values():
            job.lost(now_seconds, gone)

    def _arrived(self, arrived: JobSeen) -> None:
        if arrived.job not in self.jobs:
            coordinator = self.policies.coordinator(arrived.graph, arrived.recovery)
            self.jobs[arrived.job] = ManagedJob(
                arrived.job,
                arrived.graph,
                arrived.nodes,
                arrived.recovery,
                coordinator,
                self.policies.line,
                control=self.policies.control(arrived.graph, arrived.recovery),
            )

    def _plan_seen(self, plan: Plan) -> None:
        job = self.jobs.get(plan.job)
        if job is None or job.phase is JobPhase.ENDED:
            return
        if job.plan is None or plan.version >= job.plan.version:
            is_first = job.plan is None
            job.plan = plan
            job.phase = JobPhase.RUNNING if plan.phase == "run" else JobPhase.DEPLOYING
            if is_first or not self.leading:
                self._adopt_crowded([job] if self.leading else self.jobs.values())

    def _adopt_crowded(self, jobs: Iterable[ManagedJob]) -> None:
        """Go on with what another manager found out. Of jobs without further replicas nobody keeps it up."""
        found = set(self._crowding.crowded) if self.leading else set()
        for job in jobs:
            if job.plan is not None and job.phase is not JobPhase.ENDED and job.replicated:
                found |= set(job.plan.crowded)
        self._crowding.adopt(tuple(found))

    def _stands(self, plan: Plan) -> None:
        """The coordination service holds this plan."""
        job = self.jobs.get(plan.job)
        if job is not None and (job.standing is None or plan.version > job.standing.version):
            job.standing = plan

    def _plan_refused(self, number: int, version: int, series: int) -> None:
        """Go back to what stands; what follows from it is decided anew, in another series: nothing of the one
        that was refused can stand any more."""
        job = self.jobs.get(number)
        if job is None or job.plan is None or job.phase is JobPhase.ENDED or series != job.series:
            return
        if version <= job.plan.version:
            job.series += 1
            job.plan, job.phase = None, JobPhase.SUBMITTED
            if job.standing is not None:
                self._plan_seen(job.standing)
                # nobody has followed what the plan that is none allowed to forget
                job.retain_after = min(job.retain_after, job.lowest_needed())

    def _end_seen(self, number: int) -> None:
        if number in self.jobs:
            self.jobs[number].phase = JobPhase.ENDED
            self.jobs[number].publishing = None
        ended = [job.number for job in self.jobs.values() if job.phase is JobPhase.ENDED]
        for old in ended[:-ENDED_JOBS_KEPT]:
            del self.jobs[old]

    def _reported(self, stimulus: Reported) -> None:
        heartbeat, now_seconds = stimulus.heartbeat, stimulus.now_seconds or self.now_seconds
        node = (heartbeat.node, heartbeat.member)
        if node not in self.nodes:
            # it is gone, or not known to be there yet: it will say so again
            return
        self._heard[node] = self.now_seconds
        for report in heartbeat.jobs:
            job = self.jobs.get(report.job)
            if job is None:
                continue
            job.heard(node, report)
            if job.control is not None:
                job.control.heard(now_seconds, node, heartbeat.load, report)
        queues = queues_behind(self.jobs, heartbeat)
        self._crowding.heard(heartbeat.node, self.now_seconds, heartbeat.load, queues)

    def _found(self, found: CheckpointsFound) -> None:
        job = self.jobs.get(found.job)
        if job is None:
            return
        job.looks -= 1
        if job.looks or not job.asked:
            # an earlier term's look, older than what that term went on to publish
            return
        if found.checkpoints is None:
            job.asked = False
            job.look_at_seconds = self.now_seconds + LOOK_AGAIN_SECONDS
            return
        if found.memory is not None and job.control is not None and not job.ready:
            job.control.controller.recall(found.memory)
            job.remembering = Remembering(found.memory)
        job.found(found.checkpoints, found.forgotten)

    def _published(
        self, number: int, epoch: int, error: str | None, effects: list[ManagerEffect]
    ) -> None:
        job = self.jobs.get(number)
        if not self.leading or job is None or job.publishing != epoch:
            # another term's, or the job is over
            return
        job.publishing = None
        self._follow(job, job.coordinator.published(epoch, error), effects)
        if error is None and job.plan is not None and job.plan.savepoint:
            effects.append(self._end(job, "savepoint", None))

    @property
    def live(self) -> tuple[Node, ...]:
        """Members that have been heard of lately."""
        silent_before = self.now_seconds - SILENT_SECONDS
        return tuple(node for node in self.nodes if self._heard.get(node, 0.0) >= silent_before)

    # --- what is asked for ----------------------------------------------------------------------

    def _stop(self, number: int, reason: str, effects: list[ManagerEffect]) -> None:
        job = self.jobs.get(number)
        if self.leading and job is not None and job.phase is not JobPhase.ENDED:
            effects.append(self._end(job, "stopped", reason))

    def _savepoint(self, number: int, effects: list[ManagerEffect]) -> None:
        if self.refusal(SavepointAsked(number)) is None:
            job = self.jobs[number]
            self._publish(job, job.next_plan(savepoint=True), effects)

    def _move(self, wish: MoveAsked, effects: list[ManagerEffect]) -> None:
        if self.refusal(wish) is None:
            job = self.jobs[wish.job]
            target = [node for node in self.nodes if node[0] == wish.node]
            assert job.plan is not None
            leaving = {wish.slice: job.plan.placements[wish.slice][0]}
            self._publish(job, moved_plan(job, leaving, target, wish.live), effects)

    def _change_scheme(self, wish: SchemeAsked, effects: list[ManagerEffect]) -> None:
        if self.refusal(wish) is None:
            job = self.jobs[wish.job]
            self._publish(job, asked_plan(job, wish), effects)

    def _drain(self, node: str, effects: list[ManagerEffect]) -> None:
        if self.refusal(DrainAsked(node)) is not None:
            return
        for job in self.jobs.values():
            if job.plan is not None and job.phase is JobPhase.RUNNING:
                draining = tuple(dict.fromkeys((*job.plan.draining, node)))
                self._publish(job, job.next_plan(draining=draining), effects)

    # --- what follows ---------------------------------------------------------------------------

    def _next(self, job: ManagedJob, effects: list[ManagerEffect]) -> None:
        if job.phase is JobPhase.ENDED:
            return
        if job.recovery.mode == "none":
            job.ready = True
        elif not job.asked and self.now_seconds >= job.look_at_seconds:
            job.asked = True
            job.looks += 1
            job.look = replace(job.look, damaged=frozenset(job.damaged))
            effects.append(FindCheckpoints(job.number, self.member, memory=not job.ready))
        if job.phase is JobPhase.SUBMITTED:
            if self.nodes:
                self._publish(job, first_plan(job, self.nodes), effects)
            return
        for node in sorted(job.placed & job.reports.keys()):
            if failure := job.reports[node].failed:
                effects.append(self._end(job, "failed", failure))
                return
        if self._make_up(job, effects):
            return
        job.note_whole(self.now_seconds)
        if (lacking := job.lacking(self.live)) != job.lacked:
            job.lacked = lacking
            effects.append(ReplicasLack(job.number, lacking))
        if job.phase is JobPhase.DEPLOYING:
            if job.all_deployed() and self.clock_seconds is not None:
                began_at = self.clock_seconds + PACE_DELAY_SECONDS
                self._publish(job, job.next_plan(phase="run", began_at=began_at), effects)
            return
        if job.all_finished():
            effects.append(self._end(job, "finished", None))
            return
        self._move_on(job, effects)
        self._checkpoint(job, effects)

    def _make_up(self, job: ManagedJob, effects: list[ManagerEffect]) -> bool:
        """Rebuild what is lost. True where something is, whether it can be rebuilt now or not."""
        assert job.plan is not None
        live = self.live
        if job.placed <= set(live) and not job.broken:
            return False
        if not live or not job.ready or job.unreported(live):
            return not job.placed <= set(live)
        plan = rebuilt_plan(job, live, self.now_seconds)
        if plan is None:
            return False
        if self._looks_further_back(job, plan):
            return True
        lost = lost_agreement(job, plan)
        if lost is not None:
            effects.append(self._end(job, "failed", lost))
            return True
        # damaged snapshots may lead back behind what complete checkpoints have covered
        job.retain_after = min([job.retain_after, *job.begins_after(plan).values()])
        if plan.rebuilt > MOST_REBUILT:
            after = "its beginning" if plan.reached == BEGINNING else f"epoch {plan.reached}"
            effects.append(
                self._end(
                    job,
                    "failed",
                    f"nodes died {MOST_REBUILT + 1} times in a row without the job getting beyond {after}; "
                    "how they ended was shown as it happened, or stands in their logs",
                )
            )
            return True
        self._publish(job, reinforced_at_once(job, plan, live), effects)
        return True

    def _looks_further_back(self, job: ManagedJob, plan: Plan) -> bool:
        """Whether damage leads the plan back behind the checkpoints that are kept, and the store may have
        others: those before the oldest kept one are removed only when that one was read back."""
        kept = job.coordinator.complete
        lowest = min(job.begins_after(plan).values(), default=INFINITY)
        if not job.damaged or not kept or lowest >= kept[0].epoch:
            return False
        if not job.look_is_current and not job.looks:
            job.asked = False
        # who looks anew waits for what is found
        return not job.asked or job.looks > 0

    def _move_on(self, job: ManagedJob, effects: list[ManagerEffect]) -> None:
        """Go on with moves and drains that stand in the plan, and with replicas that are missing."""
        assert job.plan is not None
        arrived = arrived_plan(job)
        if arrived is not None:
            self._publish(job, arrived, effects)
        usable = [node for node in self.live if node[0] not in job.plan.draining]
        there = on_draining(job)
        linked = [each for each, old in there.items() if old.rung.queues]
        if there and usable and job.origins(linked) is not None:
            live = job.recovery.mode != "none"
            self._publish(job, moved_plan(job, there, usable, live), effects)
        if self._crowding.crowded != job.plan.crowded and job.replicated:
            self._publish(job, job.next_plan(crowded=self._crowding.crowded), effects)
        for further in (climbed_plan(job), reinforced_plan(job, self.live), renewed_plan(job)):
            if further is not None:
                self._publish(job, further, effects)
                return

    def _checkpoint(self, job: ManagedJob, effects: list[ManagerEffect]) -> None:
        if job.ready and job.recovery.mode != "none":
            observed = job.coordinator.observe(self.now_seconds, job.standings())
            self._follow(job, observed, effects)

    def _follow(
        self, job: ManagedJob, wishes: list[CheckpointEffect], effects: list[ManagerEffect]
    ) -> None:
        for wish in wishes:
            match wish:
                case recovery.Propose():
                    # the directive below says it
                    continue
                case recovery.PruneTo(retain_after):
                    retain_after = min(retain_after, job.lowest_needed())
                    job.retain_after = max(job.retain_after, retain_after)
                case recovery.PublishCheckpoint(checkpoint):
                    job.publishing = checkpoint.epoch
                    effects.append(PublishCheckpoint(job.number, checkpoint, self.member))
                case recovery.CollectSnapshots(keep):
                    effects.append(
                        CollectSnapshots(job.number, keep, job.all_followed(keep[0].epoch))
                    )
        assert job.plan is not None
        coordinator = job.coordinator
        directive = Directive(
            job.number,
            coordinator.proposed,
            coordinator.making,
            job.retain_after,
            job.plan.version,
        )
        if directive != job.directive:
            job.directive = directive
            effects.append(Direct(directive))

    def _choose_schemes(self, clock_seconds: float, effects: list[ManagerEffect]) -> None:
        """Ask each job's controller, while nothing else has to be mended."""
        live = self.live
        for job in self.jobs.values():
            if job.control is None or job.plan is None or job.phase is not JobPhase.RUNNING:
                continue
            if job.plan.savepoint or not job.known or not job.placed <= set(live):
                continue
            decisions = job.control.look(
                self.now_seconds, job, job.usable_nodes(live), clock_seconds
            )
            effects += [SchemeDecided(job.number, each) for each in decisions]
            plan = job.control.plan(job)
            if plan is not None:
                self._publish(job, plan, effects)

    def _remember(self, effects: list[ManagerEffect]) -> None:
        for job in self.jobs.values():
            if job.control is None or not job.ready or job.phase is JobPhase.ENDED:
                continue
            memory = job.control.controller.memory
            if job.remembering.due(self.now_seconds, memory):
                effects.append(KeepMemory(job.number, memory, self.member))

    def _repeat(self, effects: list[ManagerEffect]) -> None:
        for job in self.jobs.values():
            if job.directive is not None and job.phase is JobPhase.RUNNING:
                effects.append(Direct(job.directive))
                effects += [Offer(node, found) for node, found in offers(job).items()]

    def _publish(self, job: ManagedJob, plan: Plan, effects: list[ManagerEffect]) -> None:
        plan = with_agreeing(job, plan)
        self._plan_seen(plan)
        effects.append(DeclarePlan(plan, job.series))

    def _end(self, job: ManagedJob, status: str, reason: str | None) -> DeclareEnd:
        job.phase = JobPhase.ENDED
        job.publishing = None
        told = job.in_charge() if job.plan is not None else ()
        counters = {str(slice_id): dict(report.counters) for slice_id, _, report in told}
        return DeclareEnd(job.number, JobOutcome(status, reason, counters))
