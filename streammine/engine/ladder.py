"""The ladder: on which rung the further replicas of each slice stand, and how they change it (DESIGN §5).

A scheme is what a slice is to have; the *rung* is where one replica stands (see `JobGraph.rung_of`). The
first replica of a slice always stands on top.

Below the rung of hot standby nothing is linked: the operator has a *seat* on its node, and a replica that is
built there later takes it over. What is linked may climb and, as long as it has not published, step back at
any epoch boundary; what has published, or is to give up its links, is made anew as another generation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from streammine.engine.managed_job import ManagedJob
from streammine.engine.placement import Node, place_again
from streammine.model.control import StateOffer, StateOffers
from streammine.model.epochs import BEGINNING
from streammine.model.ids import SliceId
from streammine.model.job import Placement, Plan
from streammine.model.schemes import Scheme


def reinforced_plan(job: ManagedJob, nodes: Sequence[Node]) -> Plan | None:
    """One more replica of each slice that has fewer than it is to have; None where that is not possible, or
    nothing is missing."""
    return _reinforced(job, job.next_plan(), nodes)


def reinforced_at_once(job: ManagedJob, planned: Plan, nodes: Sequence[Node]) -> Plan:
    """A plan that makes up for a loss, with what `reinforced_plan` would add afterwards.

    Each plan costs those who agree a round trip to the store. But what is rebuilt is not to wait for what is
    built beside it on its node, and beside a node that is emptied what is missing is what moves away from it.
    """
    if job.begins_after(planned) or planned.draining:
        return planned
    return _reinforced(job, planned, nodes) or planned


def _reinforced(job: ManagedJob, planned: Plan, nodes: Sequence[Node]) -> Plan | None:
    placements = dict(planned.placements)
    missing = [
        slice_id
        for slice_id, group in placements.items()
        if len(group) < job.wanted_replicas(slice_id)
    ]
    places = {}
    if missing:
        places = place_again(job.graph, missing, placements, job.usable_nodes(nodes))
    rungs = {slice_id: job.rung_of(slice_id, name) for slice_id, (name, _) in places.items()}
    linked = [each for each in places if rungs[each].queues]
    origins = job.origins(linked, planned) if places else None
    if origins is None:
        return None
    generation = job.generation_in(planned.version)
    for slice_id, (name, member) in places.items():
        new = Placement(name, generation, member, origins.get(slice_id), rung=rungs[slice_id])
        placements[slice_id] = (*placements[slice_id], new)
    return replace(planned, placements=placements)


def climbed_plan(job: ManagedJob) -> Plan | None:
    """Every further replica stands where its slice's scheme wants it, as far as that is possible now."""
    assert job.plan is not None
    placements = {
        slice_id: group[: job.wanted_replicas(slice_id)] if _settled(group) else group
        for slice_id, group in job.plan.placements.items()
    }
    moving = {
        slice_id: each
        for slice_id, group in placements.items()
        for each in group[1:]
        if _settled(group) and each.rung is not job.rung_of(slice_id, each.node)
    }
    rungs = {slice_id: job.rung_of(slice_id, each.node) for slice_id, each in moving.items()}
    anew = [each for each in moving if _begins_anew(moving[each].rung, rungs[each])]
    origins = job.origins(anew) if anew else {}
    for slice_id, old in moving.items():
        rung = rungs[slice_id]
        new = replace(old, rung=rung)
        if slice_id in anew:
            if origins is None:
                continue
            new = replace(new, generation=job.next_generation, restore=origins[slice_id])
        elif old.rung.queues and not rung.queues:
            new = replace(new, generation=job.next_generation, restore=None)
        group = placements[slice_id]
        placements[slice_id] = tuple(new if each == old else each for each in group)
    return None if placements == job.plan.placements else job.next_plan(placements=placements)


def _settled(group: Sequence[Placement]) -> bool:
    """Nobody of the slice is on its way to another node."""
    return not any(each.leaving for each in group)


def _begins_anew(old: Scheme, new: Scheme) -> bool:
    """Whether it needs links of its own from now on: it had none, or has spoken on those it has."""
    return new.queues and (not old.queues or (old.publishes and not new.publishes))


def offers(job: ManagedJob) -> dict[str, StateOffers]:
    """By node, the states of the newest complete checkpoint that those who stand by there have not got."""
    assert job.plan is not None
    complete = job.coordinator.complete
    if not complete or not job.known:
        return {}
    newest = complete[-1]
    listed = {
        (one, each.generation) for one, group in job.plan.placements.items() for each in group
    }
    job.offered = {key: epoch for key, epoch in job.offered.items() if key in listed}
    found: dict[str, list[StateOffer]] = {}
    for slice_id, group in job.plan.placements.items():
        restore = newest.slices[str(slice_id)]
        if restore.record is None or restore.record.name in job.damaged:
            continue
        for each in group:
            if _lacks_state(job, slice_id, each, newest.epoch):
                offer = StateOffer(str(slice_id), each.generation, restore)
                found.setdefault(each.node, []).append(offer)
                job.offered[slice_id, each.generation] = newest.epoch
    return {
        node: StateOffers(job.number, job.plan.version, tuple(each)) for node, each in found.items()
    }


def _lacks_state(job: ManagedJob, slice_id: SliceId, placement: Placement, epoch: int) -> bool:
    rung = placement.rung
    if not rung.holds_state or rung.processes:
        return False
    if not rung.queues:
        return job.seat_epoch(slice_id, placement) < epoch
    report = job.report_of(slice_id, placement)
    return report is not None and report.retained_after < epoch and job.all_received(epoch)


def promoted(
    job: ManagedJob, slice_id: SliceId, group: Sequence[Placement]
) -> tuple[Placement, ...]:
    """What is left of a slice's replicas, with one that publishes in front, if any can."""
    linked = [each for each in group if each.rung.queues]
    if not linked:
        return tuple(group)
    publishing = [each for each in linked if each.rung.publishes]
    first = (publishing or sorted(linked, key=lambda each: _readiness(job, slice_id, each)))[0]
    others = tuple(each for each in group if each is not first)
    return (replace(first, rung=Scheme.ACTIVE_REPLICATION), *others)


def _readiness(job: ManagedJob, slice_id: SliceId, placement: Placement) -> tuple[int, int]:
    """Lowest for whoever stands highest, and has come furthest."""
    report = job.report_of(slice_id, placement)
    reached = BEGINNING if report is None else report.frontier
    return -placement.rung.rung, -reached
