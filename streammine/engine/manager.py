"""The manager: places slices, declares plans, and ends jobs (Martin 2015, chapter 2).

Every node runs this machine; only that of the elected node acts. It declares a plan and waits until nodes
report that they have reached it; what it knows of the job's progress comes from their reports alone,
which are repeated with every heartbeat, so a new manager learns all of it within one.

A job's phases, as this machine sees them::

    SUBMITTED --publish plan 1 (deploy)--> DEPLOYING --all nodes deployed; publish plan 2 (run)--> RUNNING
    RUNNING --every slice finished--> ENDED(finished)
    any --a node reports failure, a placed node is gone--> ENDED(failed)
    any --stop is asked for--> ENDED(stopped)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from streammine.engine.placement import place
from streammine.model.control import Heartbeat, JobReport
from streammine.model.job import JobGraph, JobOutcome, Plan

FIRST_GENERATION = 1
ENDED_JOBS_KEPT = 16
"""Jobs that are over are shown by `status` until so many newer ones are."""


@dataclass(frozen=True, slots=True)
class Elected:
    """Whether this node is the manager now."""

    leading: bool


@dataclass(frozen=True, slots=True)
class NodesChanged:
    """Live nodes in the order in which they joined."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobArrived:
    """A job was submitted. `nodes` is how many it wants to spread over; all when it exceeds them."""

    job: int
    graph: JobGraph
    nodes: int


@dataclass(frozen=True, slots=True)
class PlanSeen:
    """A plan is in force, published by this manager or one before."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Reported:
    """A node's heartbeat."""

    heartbeat: Heartbeat


@dataclass(frozen=True, slots=True)
class StopAsked:
    job: int
    reason: str


@dataclass(frozen=True, slots=True)
class EndSeen:
    job: int


ManagerStimulus = Elected | NodesChanged | JobArrived | PlanSeen | Reported | StopAsked | EndSeen


@dataclass(frozen=True, slots=True)
class PublishPlan:
    plan: Plan


@dataclass(frozen=True, slots=True)
class EndJob:
    job: int
    outcome: JobOutcome


ManagerEffect = PublishPlan | EndJob


class JobPhase(StrEnum):
    SUBMITTED = "submitted"
    DEPLOYING = "deploying"
    RUNNING = "running"
    ENDED = "ended"


@dataclass
class ManagedJob:
    """What the manager knows of a job."""

    number: int
    graph: JobGraph
    nodes: int
    phase: JobPhase = JobPhase.SUBMITTED
    plan: Plan | None = None
    reports: dict[str, JobReport] = field(default_factory=dict)

    @property
    def placed(self) -> set[str]:
        """Nodes that the plan puts slices on."""
        assert self.plan is not None
        return {placement.node for group in self.plan.placements.values() for placement in group}


class ManagerMachine:
    """`handle` is the only mutator; it returns what must happen, in order."""

    def __init__(self) -> None:
        self.leading = False
        self.nodes: tuple[str, ...] = ()
        self.jobs: dict[int, ManagedJob] = {}

    def handle(self, stimulus: ManagerStimulus) -> list[ManagerEffect]:
        match stimulus:
            case Elected(leading):
                self.leading = leading
            case NodesChanged(nodes):
                self.nodes = nodes
            case JobArrived(job, graph, nodes):
                self.jobs.setdefault(job, ManagedJob(job, graph, nodes))
            case PlanSeen(plan):
                self._plan_seen(plan)
            case Reported(heartbeat):
                self._reported(heartbeat)
            case EndSeen(job):
                self._end_seen(job)
            case StopAsked(job, reason):
                return self._stop(job, reason)
        if not self.leading:
            return []
        return [effect for job in self.jobs.values() for effect in self._next(job)]

    def _plan_seen(self, plan: Plan) -> None:
        job = self.jobs.get(plan.job)
        if job is None or job.phase is JobPhase.ENDED:
            return
        if job.plan is None or plan.version >= job.plan.version:
            job.plan = plan
            job.phase = JobPhase.RUNNING if plan.phase == "run" else JobPhase.DEPLOYING

    def _end_seen(self, number: int) -> None:
        if number in self.jobs:
            self.jobs[number].phase = JobPhase.ENDED
        ended = [job.number for job in self.jobs.values() if job.phase is JobPhase.ENDED]
        for old in ended[:-ENDED_JOBS_KEPT]:
            del self.jobs[old]

    def _reported(self, heartbeat: Heartbeat) -> None:
        for report in heartbeat.jobs:
            if report.job in self.jobs:
                self.jobs[report.job].reports[heartbeat.node] = report

    def _stop(self, number: int, reason: str) -> list[ManagerEffect]:
        job = self.jobs.get(number)
        if not self.leading or job is None or job.phase is JobPhase.ENDED:
            return []
        return [self._end(job, "stopped", reason)]

    def _next(self, job: ManagedJob) -> list[ManagerEffect]:
        if job.phase is JobPhase.ENDED:
            return []
        if job.phase is JobPhase.SUBMITTED:
            return self._deploy(job)
        failed = [report.failed for _, report in sorted(job.reports.items()) if report.failed]
        if failed:
            return [self._end(job, "failed", failed[0])]
        lost = sorted(job.placed - set(self.nodes))
        if lost and self.nodes:
            return [
                self._end(
                    job,
                    "failed",
                    f"node {', '.join(lost)} is gone while it hosted slices of the job",
                )
            ]
        if job.phase is JobPhase.DEPLOYING and self._all_deployed(job):
            assert job.plan is not None
            return [
                self._publish(job, replace(job.plan, version=job.plan.version + 1, phase="run"))
            ]
        if job.phase is JobPhase.RUNNING and self._all_finished(job):
            return [self._end(job, "finished", None)]
        return []

    def _deploy(self, job: ManagedJob) -> list[ManagerEffect]:
        if not self.nodes:
            return []
        placements = place(job.graph, self.nodes[: job.nodes], FIRST_GENERATION)
        return [self._publish(job, Plan(job.number, 1, "deploy", placements))]

    def _publish(self, job: ManagedJob, plan: Plan) -> PublishPlan:
        self._plan_seen(plan)
        return PublishPlan(plan)

    def _all_deployed(self, job: ManagedJob) -> bool:
        assert job.plan is not None
        version = job.plan.version
        return all(
            (report := job.reports.get(node)) is not None
            and report.deployed
            and report.plan_version == version
            for node in job.placed
        )

    def _all_finished(self, job: ManagedJob) -> bool:
        finished = {
            report.slice
            for node_report in job.reports.values()
            for report in node_report.slices
            if report.finished
        }
        return all(str(slice_id) in finished for slice_id in job.graph.slices)

    def _end(self, job: ManagedJob, status: str, reason: str | None) -> EndJob:
        job.phase = JobPhase.ENDED
        counters = {
            report.slice: dict(report.counters)
            for node_report in job.reports.values()
            for report in node_report.slices
        }
        return EndJob(job.number, JobOutcome(status, reason, counters))
