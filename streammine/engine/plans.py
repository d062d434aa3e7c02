"""The plans of a job but for those that make up for losses: its first, moves, and further replicas.

Each function looks at what the manager knows of the job and gives a whole plan. When it is declared,
`manager` decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from streammine.engine.ladder import promoted
from streammine.engine.managed_job import ManagedJob
from streammine.engine.placement import (
    Node,
    leading_first,
    newest,
    one_of_each_name,
    place,
    place_again,
)
from streammine.model.epochs import BEGINNING
from streammine.model.ids import SliceId
from streammine.model.job import Placement, Plan
from streammine.model.schemes import Scheme


def first_plan(job: ManagedJob, nodes: Sequence[Node]) -> Plan:
    """Everything placed anew; restored where the job is resumed."""
    chosen = place(job.graph, one_of_each_name(nodes)[: job.nodes])
    placements = {
        slice_id: tuple(
            _first_placement(job, slice_id, turn, node) for turn, node in enumerate(places)
        )
        for slice_id, places in chosen.items()
    }
    return Plan(job.number, 1, "deploy", placements)


def _first_placement(job: ManagedJob, slice_id: SliceId, turn: int, node: Node) -> Placement:
    """The `turn`-th replica of a slice begins the job with all others."""
    rung = job.rung_of(slice_id) if turn else Scheme.ACTIVE_REPLICATION
    restore = job.recovery.resume.get(str(slice_id)) if rung.queues else None
    return Placement(node[0], job.recovery.first_generation + turn, node[1], restore, rung=rung)


def moved_plan(
    job: ManagedJob, leaving: Mapping[SliceId, Placement], nodes: Sequence[Node], live: bool
) -> Plan:
    """Another replica on a node of `nodes` for each that is to leave; that one goes at once unless `live`.
    An operator that stands ready there is used. Where all of `nodes` have a replica already, one of them
    takes its place when it has caught up."""
    assert job.plan is not None
    placements = dict(job.plan.placements)
    staying = {
        slice_id: tuple(each for each in group if each != leaving.get(slice_id))
        for slice_id, group in placements.items()
    }
    origins = job.origins([each for each, old in leaving.items() if old.rung.queues])
    assert origins is not None, "whoever moves a slice asks first whether it can be moved"
    linked = {
        slice_id: tuple(each for each in group if each.rung.queues)
        for slice_id, group in staying.items()
    }
    places = place_again(
        job.graph, leaving, staying | {each: linked[each] for each in leaving}, nodes
    )
    for slice_id, old in leaving.items():
        lingers = live and old.rung.queues
        # who leads goes on doing so: only one that leaves itself hands it over
        group = [
            replace(each, leaving=True) if each == old else each
            for each in placements[slice_id]
            if lingers or each != old
        ]
        if slice_id not in places:
            goes_on = lingers and linked[slice_id]
            placements[slice_id] = (
                leading_first(group) if goes_on else promoted(job, slice_id, staying[slice_id])
            )
            continue
        name, member = places[slice_id]
        new = Placement(name, job.next_generation, member, origins.get(slice_id), rung=old.rung)
        stay = (each for each in group if each.leaving or each.node != name)
        placements[slice_id] = leading_first((*stay, new))
    return job.next_plan(placements=placements)


def on_draining(job: ManagedJob) -> dict[SliceId, Placement]:
    """Replicas that are to leave their nodes, of slices of which none is leaving already."""
    assert job.plan is not None
    return {
        slice_id: each
        for slice_id, group in job.plan.placements.items()
        for each in group
        if each.node in job.plan.draining and not any(other.leaving for other in group)
    }


def arrived_plan(job: ManagedJob) -> Plan | None:
    """The plan without the replicas that were to leave once others have caught up with them."""
    assert job.plan is not None
    placements = {
        slice_id: _without_leaving(job, slice_id, group)
        for slice_id, group in job.plan.placements.items()
    }
    if placements == job.plan.placements:
        return None
    return job.next_plan(placements=placements)


def _without_leaving(
    job: ManagedJob, slice_id: SliceId, group: tuple[Placement, ...]
) -> tuple[Placement, ...]:
    if not any(each.leaving for each in group):
        return leading_first(group)
    new = job.report_of(slice_id, newest(each for each in group if not each.leaving))
    kept = leading_first(
        each
        for each in group
        if not each.leaving
        or new is None
        or (old := job.report_of(slice_id, each)) is None
        or not new.received >= old.received > BEGINNING
    )
    return kept if len(kept) == len(group) else promoted(job, slice_id, kept)
