"""The plans of a job but for those that make up for losses: its first, moves, and further replicas.

Each function looks at what the manager knows of the job and gives a whole plan. When it is declared,
`manager` decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from streammine.engine.managed_job import ManagedJob
from streammine.engine.placement import Node, one_of_each_name, place, place_again
from streammine.model.epochs import BEGINNING
from streammine.model.ids import SliceId
from streammine.model.job import Placement, Plan


def first_plan(job: ManagedJob, nodes: Sequence[Node]) -> Plan:
    """Everything placed anew; restored where the job is resumed."""
    chosen = place(job.graph, one_of_each_name(nodes)[: job.nodes])
    generation = job.recovery.first_generation
    placements = {
        slice_id: tuple(
            Placement(name, generation + turn, member, job.recovery.resume.get(str(slice_id)))
            for turn, (name, member) in enumerate(places)
        )
        for slice_id, places in chosen.items()
    }
    return Plan(job.number, 1, "deploy", placements)


def moved_plan(
    job: ManagedJob, leaving: Mapping[SliceId, Placement], nodes: Sequence[Node], live: bool
) -> Plan:
    """Another replica on a node of `nodes` for each that is to leave; that one goes at once unless
    `live`. One whose slice stands on all of `nodes` leaves it to the others, unless it is the last."""
    assert job.plan is not None
    placements = dict(job.plan.placements)
    staying = {
        slice_id: tuple(each for each in group if each != leaving.get(slice_id))
        for slice_id, group in placements.items()
    }
    generation = job.next_generation
    origins = job.origins(list(leaving))
    assert origins is not None, "whoever moves a slice asks first whether it can be moved"
    places = place_again(leaving, staying, nodes)
    for slice_id, old in leaving.items():
        new: tuple[Placement, ...] = ()
        if slice_id in places:
            name, member = places[slice_id]
            new = (Placement(name, generation, member, origins[slice_id]),)
        going = replace(old, leaving=True)
        group = tuple(going if each == old else each for each in placements[slice_id])
        if new or staying[slice_id]:
            placements[slice_id] = (*(group if live else staying[slice_id]), *new)
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
    staying = [each for each in group if not each.leaving]
    new = job.report_of(slice_id, staying[-1])
    return tuple(
        each
        for each in group
        if not each.leaving
        or new is None
        or (old := job.report_of(slice_id, each)) is None
        or not new.frontier >= old.frontier > BEGINNING
    )


def reinforced_plan(job: ManagedJob, nodes: Sequence[Node]) -> Plan | None:
    """One more replica of each slice that has fewer than it is to have, where that is possible."""
    assert job.plan is not None
    placements = dict(job.plan.placements)
    missing = [
        slice_id
        for slice_id, group in placements.items()
        if len(group) < job.graph.vertex(slice_id.vertex).replicas
    ]
    places = place_again(missing, placements, job.usable_nodes(nodes)) if missing else {}
    origins = job.origins(list(places)) if places else None
    if origins is None:
        return None
    for slice_id, (name, member) in places.items():
        new = Placement(name, job.next_generation, member, origins[slice_id])
        placements[slice_id] = (*placements[slice_id], new)
    return job.next_plan(placements=placements)
