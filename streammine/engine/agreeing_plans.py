"""Who agrees with whom, in each plan: the replicas of slices whose input comes from several receivers.

A plan keeps a set of replicas under the version that listed just these before, so that what changes nothing
for them goes unnoticed. Only where one of them reports that version as spent (`Agreement.spent_plan`) the
next plan lists the same ones anew.
"""

from __future__ import annotations

from dataclasses import replace

from streammine.engine.managed_job import ManagedJob
from streammine.model.ids import SliceId
from streammine.model.job import AgreeingReplicas, Plan


def with_agreeing(job: ManagedJob, plan: Plan) -> Plan:
    """The plan, told who agrees in it. `plan.agreeing` is still that of the plan before."""
    version = job.recovery.first_generation + plan.version
    agreeing = dict(plan.agreeing)
    spent = _spent(job)
    for slice_id, group in plan.placements.items():
        if slice_id.vertex in job.graph.agreeing:
            now = tuple(sorted(each.generation for each in group if each.rung.queues))
            if slice_id not in agreeing or agreeing[slice_id].replicas != now or slice_id in spent:
                agreeing[slice_id] = AgreeingReplicas(version, now)
    return replace(plan, agreeing=agreeing)


def renewed_plan(job: ManagedJob) -> Plan | None:
    """A plan for nothing but to list replicas anew, where some have spent what lists them."""
    return job.next_plan() if _spent(job) else None


def _spent(job: ManagedJob) -> set[SliceId]:
    if job.plan is None:
        return set()
    return {
        slice_id
        for slice_id, listed in job.plan.agreeing.items()
        for each in job.plan.placements[slice_id]
        if (report := job.report_of(slice_id, each)) and report.spent_plan == listed.version
    }
