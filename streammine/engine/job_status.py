"""Where a job is, as a tree for clients: its slices, their replicas, and what is chosen for them."""

from __future__ import annotations

from streammine.engine.managed_job import ManagedJob
from streammine.model.epochs import BEGINNING
from streammine.model.ids import SliceId
from streammine.model.job import Placement

DECISIONS_SHOWN = 32
"""The newest."""


def job_status(job: ManagedJob) -> dict[str, object]:
    """Plain data. `chosen`: only where a controller has to choose for the slice."""
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
                "chosen": _stance(job, slice_id),
                "replicas": _replicas(job, slice_id),
            }
            for slice_id, placement, report in told
        },
        "decisions": [each.figures() for each in decisions[-DECISIONS_SHOWN:]],
    }


def _stance(job: ManagedJob, slice_id: SliceId) -> dict[str, object] | None:
    """Why the slice has its scheme, and what each would take and cost."""
    stance = None if job.control is None else job.control.controller.stances.get(slice_id)
    if stance is None:
        return None
    figures = stance.assessment.figures()
    return {"phase": stance.phase.value, "reason": stance.reason, **figures}


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
