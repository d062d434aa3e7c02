"""The plan that makes up for losses: what is gone, what is built from which snapshot, and where.

What ends its nodes again and again would end those that come after them, too. So a plan counts how often
losses were made up for in a row while the job got no further.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from streammine.engine.ladder import promoted
from streammine.engine.leaving_out import left_out
from streammine.engine.managed_job import ManagedJob
from streammine.engine.placement import Node, node_of, place_again
from streammine.model.epochs import BEGINNING
from streammine.model.ids import SliceId
from streammine.model.job import Placement, Plan
from streammine.model.recovery import LineStanding
from streammine.model.snapshots import Restore

CALM_SECONDS = 600.0
"""Once all that a plan wants has been there for so long, a loss is no sequel of those before."""


def rebuilt_plan(job: ManagedJob, nodes: Sequence[Node], now_seconds: float) -> Plan | None:
    """A plan in which every replica that was lost, or can't be built, is made up for.

    `nodes`: the live ones. None where nothing is lost, or nobody is left.
    """
    assert job.plan is not None
    live = set(nodes)
    broken = set(_broken(job))
    kept = {
        slice_id: tuple(
            each
            for each in group
            if node_of(each) in live and (slice_id, each.generation) not in broken
        )
        for slice_id, group in job.plan.placements.items()
    }
    if kept == job.plan.placements:
        return None
    kept = {
        slice_id: promoted(job, slice_id, _staying(job, slice_id, group))
        for slice_id, group in kept.items()
    }
    restores = _restores(job, kept)
    usable = job.usable_nodes(nodes) or list(nodes)
    if restores and not usable:
        return None
    kept |= _rebuilt(job, kept, restores, usable)
    if not restores:
        return job.next_plan(placements=kept)
    reached = max(_reached(job), job.plan.reached)
    rebuilt = job.plan.rebuilt
    if reached > job.plan.reached or _has_been_calm(job, now_seconds):
        rebuilt = 0
    if _loses_anew(job, live):
        rebuilt += 1
    return job.next_plan(placements=kept, rebuilt=rebuilt, reached=reached)


def _rebuilt(
    job: ManagedJob,
    kept: dict[SliceId, tuple[Placement, ...]],
    restores: dict[SliceId, Restore | None],
    usable: Sequence[Node],
) -> dict[SliceId, tuple[Placement, ...]]:
    """New replicas, each where its operator stands ready, if it does anywhere."""
    seats: dict[SliceId, tuple[Placement, ...]] = {}
    for slice_id in restores:
        standing = [each for each in kept[slice_id] if not each.rung.queues]
        seats[slice_id] = tuple(sorted(standing, key=lambda each: each.rung.rung, reverse=True))
    homeless = [each for each in restores if not seats[each]]
    places = place_again(job.graph, homeless, kept | seats, usable)
    rebuilt: dict[SliceId, tuple[Placement, ...]] = {}
    for slice_id, restore in restores.items():
        ready = seats[slice_id]
        name, member = node_of(ready[0]) if ready else places[slice_id]
        new = Placement(name, job.next_generation, member, restore)
        rebuilt[slice_id] = (new, *ready[1:])
    return rebuilt


def _staying(
    job: ManagedJob, slice_id: SliceId, group: tuple[Placement, ...]
) -> tuple[Placement, ...]:
    """Nobody leaves before all who are to stay are there."""
    wanted = job.wanted_replicas(slice_id)
    if sum(not each.leaving for each in group) >= wanted:
        return group
    return tuple(replace(each, leaving=False) for each in group)


def _broken(job: ManagedJob) -> Iterator[tuple[SliceId, int]]:
    """Replicas that could not be restored from the snapshot that they were given, or can't go on."""
    assert job.plan is not None
    for slice_id, group in job.plan.placements.items():
        for each in group:
            key = slice_id, each.generation
            report = job.report_of(slice_id, each)
            if key in job.broken and (report is None or report.outrun):
                yield key


def _restores(
    job: ManagedJob, kept: dict[SliceId, tuple[Placement, ...]]
) -> dict[SliceId, Restore | None]:
    """What each slice that must be rebuilt is restored from, None for nothing."""
    usable = {slice_id: job.usable(slice_id) for slice_id in job.graph.slices}
    standings = {
        slice_id: job.line_standing(slice_id, kept[slice_id], usable[slice_id])
        for slice_id in job.graph.slices
    }
    line = job.line(job.graph, standings)
    if any(epoch < job.forgotten for epoch in line.values()):
        line = job.line(job.graph, _without_stragglers(standings, job.forgotten))
    restores = {slice_id: usable[slice_id].get(epoch) for slice_id, epoch in sorted(line.items())}
    return left_out(job, kept, restores)


def lost_agreement(job: ManagedJob, plan: Plan) -> str | None:
    """Why a plan can't be followed: replicas would agree anew on what others went on from; None where not."""
    forgotten = job.look.removed_until if job.look_is_current else job.forgotten
    for slice_id, epoch in job.begins_after(plan).items():
        if slice_id.vertex in job.graph.agreeing and epoch < forgotten:
            names = ", ".join(sorted(job.damaged)[:3])
            why = f"snapshots are damaged ({names})" if names else "no snapshot is late enough"
            return (
                f"{slice_id} can't be restored: {why}, and what its replicas agreed on up to epoch "
                f"{forgotten} is kept no more; check the store's disk, and run the job anew"
            )
    return None


def _without_stragglers(
    standings: Mapping[SliceId, LineStanding], forgotten: int
) -> dict[SliceId, LineStanding]:
    """Who lives, but lacks an epoch up to that one, is rebuilt like those that are lost.

    It is a replica that was far behind another one, and nobody begins the job anew for it.
    """
    return {
        slice_id: replace(each, alive=False) if each.lacks_from <= forgotten else each
        for slice_id, each in standings.items()
    }


def _loses_anew(job: ManagedJob, live: set[Node]) -> bool:
    """Whether nodes were lost that the plan in force had reached, or that came to make up for others.

    Else they were lost together with those that the plan makes up for (or only snapshots are damaged).
    """
    assert job.plan is not None
    lost = job.placed - live
    if not lost:
        return False
    version = job.plan.version
    if any(report.plan_version == version for report in job.reports.values()):
        return True
    older = {
        node_of(each)
        for group in job.plan.placements.values()
        for each in group
        if each.generation < job.generation_in(version)
    }
    return not lost <= older


def _has_been_calm(job: ManagedJob, now_seconds: float) -> bool:
    """Nothing was lost for so long that what is lost now has another cause."""
    assert job.plan is not None
    if job.whole is None or job.whole[0] != job.plan.placements:
        return False
    return now_seconds - job.whole[1] >= CALM_SECONDS


def _reached(job: ManagedJob) -> int:
    """The last epoch that everybody has behind him, as far as is known."""
    assert job.plan is not None
    complete = job.coordinator.complete
    newest = complete[-1].epoch if complete else BEGINNING
    last = [each for each in job.graph.slices if not job.graph.outputs[each]]
    told = {slice_id: report for slice_id, _, report in job.in_charge()}
    if not last or not told.keys() >= set(last):
        return newest
    return max(newest, min(told[each].frontier for each in last) - 1)
