"""Who agrees with whom, in each plan: the replicas of slices whose input comes from several receivers.

A plan keeps a set of replicas under the version that first listed just these, so that what changes nothing
for them goes unnoticed.
"""

from __future__ import annotations

from dataclasses import replace

from streammine.engine.managed_job import ManagedJob
from streammine.model.job import AgreeingReplicas, Plan


def with_agreeing(job: ManagedJob, plan: Plan) -> Plan:
    """The plan, told who agrees in it. `plan.agreeing` is still that of the plan before."""
    version = job.recovery.first_generation + plan.version
    agreeing = dict(plan.agreeing)
    for slice_id, group in plan.placements.items():
        if slice_id.vertex in job.graph.agreeing:
            now = tuple(sorted(each.generation for each in group if each.rung.queues))
            if slice_id not in agreeing or agreeing[slice_id].replicas != now:
                agreeing[slice_id] = AgreeingReplicas(version, now)
    return replace(plan, agreeing=agreeing)
