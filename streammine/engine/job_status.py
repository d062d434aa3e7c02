"""Where a job is, as a tree for clients: its slices, their replicas, and what is chosen for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from streammine.engine.managed_job import ManagedJob
from streammine.engine.placement import Node
from streammine.model.control import SliceReport
from streammine.model.epochs import BEGINNING
from streammine.model.ids import SliceId
from streammine.model.job import Placement
from streammine.model.schemes import Scheme, SchemeOrigin

DECISIONS_SHOWN = 32
"""The newest."""

NO_SNAPSHOTS = (
    "the job makes no snapshots (`snapshot: none`), so what no other replica holds is made again from the "
    "start of the input: the longer it has run, the longer that takes"
)

NOBODY_CHOOSES = "fixed"
"""The phase of a slice that no controller has to choose for."""


def job_status(job: ManagedJob, nodes: Sequence[Node]) -> dict[str, object]:
    """Plain data. `scheme` is what the slice is to have, as `set_by` wants it, and `stands` what it has.
    `chosen`: what each scheme would take and cost, where a job makes snapshots and the slice may have further
    replicas; else `unestimated` says why not. `lacking`: replicas that have no place on these `nodes`, which
    live."""
    told = job.in_charge() if job.plan is not None else ()
    decisions = () if job.control is None else job.control.controller.decisions
    return {
        "phase": job.phase.value,
        "slices": {
            str(slice_id): {
                "node": placement.node,
                "phase": report.phase,
                "frontier": report.frontier,
                "counters": dict(report.counters),
                "scheme": job.scheme_of(slice_id).value,
                "set_by": job.scheme_set_by(slice_id).value,
                "stands": _stands(job, slice_id).value,
                "chosen": (chosen := _stance(job, slice_id)),
                "unestimated": None if chosen else _why_unestimated(job, slice_id, report),
                "replicas": _replicas(job, slice_id),
            }
            for slice_id, placement, report in told
        },
        "lacking": [] if job.plan is None else [asdict(each) for each in job.lacking(nodes)],
        "decisions": [each.figures() for each in decisions[-DECISIONS_SHOWN:]],
    }


def _stance(job: ManagedJob, slice_id: SliceId) -> dict[str, object] | None:
    """Why the slice has its scheme, and what each would take and cost."""
    stance = None if job.control is None else job.control.controller.stances.get(slice_id)
    if stance is None:
        return None
    phase, reason = stance.phase.value, stance.reason
    match job.scheme_set_by(slice_id):
        case SchemeOrigin.TOPOLOGY:
            phase, reason = NOBODY_CHOOSES, "the topology says so"
        case SchemeOrigin.PERSON:
            phase, reason = NOBODY_CHOOSES, "a person has set it"
    return {"phase": phase, "reason": reason, **stance.assessment.figures()}


def _why_unestimated(job: ManagedJob, slice_id: SliceId, report: SliceReport) -> str:
    if job.recovery.mode == "none":
        return NO_SNAPSHOTS
    if not job.graph.vertex(slice_id.vertex).replicable:
        return "it can have no further replica, so there are no schemes to compare"
    return "it has finished" if report.finished else "nothing is measured yet"


def _stands(job: ManagedJob, slice_id: SliceId) -> Scheme:
    """The scheme that the slice really has: by the further replica that is ready for most."""
    assert job.plan is not None
    rungs = (_reached(job, slice_id, each) for each in job.plan.placements[slice_id][1:])
    return max(rungs, key=lambda each: each.rung, default=Scheme.PASSIVE_REPLICATION)


def _reached(job: ManagedJob, slice_id: SliceId, placement: Placement) -> Scheme:
    """The rung that a further replica stands on already, as far as it has told."""
    rung = placement.rung
    if rung.queues:
        report = job.report_of(slice_id, placement)
        told = Scheme.PASSIVE_REPLICATION if report is None else Scheme(report.rung)
        return min(rung, told, key=lambda each: each.rung)
    seat = job.seat_of(slice_id, placement)
    if seat is None:
        return Scheme.PASSIVE_REPLICATION
    return rung if seat.epoch != BEGINNING else Scheme.DEPLOYED


def _replicas(job: ManagedJob, slice_id: SliceId) -> list[dict[str, object]]:
    assert job.plan is not None
    group = job.plan.placements[slice_id]
    return [
        {
            "node": each.node,
            "generation": each.generation,
            "leads": each == group[0],
            "rung": each.rung.value,
            **_told_of(job, slice_id, each),
        }
        for each in group
    ]


def _told_of(job: ManagedJob, slice_id: SliceId, placement: Placement) -> dict[str, object]:
    """What a replica shows of itself, as far as it is there already."""
    report = job.report_of(slice_id, placement)
    if report is not None:
        return {
            "phase": report.phase,
            "frontier": report.frontier,
            "counters": dict(report.counters),
        }
    seat = job.seat_of(slice_id, placement)
    if seat is None:
        return {"phase": "deploying", "frontier": BEGINNING, "counters": {}}
    frontier = seat.epoch if seat.epoch == BEGINNING else seat.epoch + 1
    counters = {"state_bytes": float(seat.state_bytes)}
    return {"phase": "ready", "frontier": frontier, "counters": counters}
