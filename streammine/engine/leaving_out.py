"""Gap recovery, planned: which epochs a replica that is built anew leaves out.

A lost slice of an operator that may lose (`JobGraph.may_lose`) is built from a snapshot of epoch S, as
ever: the recovery line finds it. Its senders have got further by then; where the slowest of them that lives
has ended every epoch below G, the slice goes on with G and nothing up to G - 1 is sent again. That G stands
in the plan, so all nodes, and who becomes manager next, know the same.

Nothing is left out, and all is made up for,

* where another replica of the slice goes on: it has, or takes, what was sent;
* where there is no snapshot yet: what is lost would have no beginning;
* where no sender lives, or the input of all that live is over: who is rebuilt sends everything once more, and
  after the end nobody has to be kept up with.

A checkpoint that lies among the epochs left out will not be made: the slice has gone past it, so it is
given up and another one named (`replication.checkpointing`). Further replicas of the slice begin no earlier
than G, so that all replicas of a slice have lost the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from streammine.engine.managed_job import ManagedJob
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.ids import SliceId
from streammine.model.job import Placement
from streammine.model.recovery_policy import wants_gap
from streammine.model.snapshots import Restore


def left_out(
    job: ManagedJob,
    kept: Mapping[SliceId, tuple[Placement, ...]],
    restores: Mapping[SliceId, Restore | None],
) -> dict[SliceId, Restore | None]:
    """What lost slices are built from, with the epochs that they leave out. `kept`: the replicas that
    live.
    """
    if not wants_gap(job.recovery.goal):
        return dict(restores)
    return {slice_id: _leaving_out(job, slice_id, kept, restores) for slice_id in restores}


def _leaving_out(
    job: ManagedJob,
    slice_id: SliceId,
    kept: Mapping[SliceId, tuple[Placement, ...]],
    restores: Mapping[SliceId, Restore | None],
) -> Restore | None:
    restore = restores[slice_id]
    goes_on = any(each.rung.queues for each in kept[slice_id])
    if restore is None or restore.record is None or goes_on:
        return restore
    if slice_id.vertex not in job.graph.may_lose:
        return restore
    senders = {channel.source for channel in job.graph.inputs[slice_id]} - restores.keys()
    reached = [_reached(job, each, kept[each]) for each in senders]
    # of those who are at their end everything is there
    going_on = min((epoch for epoch in reached if epoch != INFINITY), default=BEGINNING)
    if going_on <= restore.epoch + 1:
        return restore
    return replace(restore, left_out_until=going_on - 1)


def _reached(job: ManagedJob, slice_id: SliceId, group: tuple[Placement, ...]) -> int:
    """Some replica of a living slice has ended every epoch below it, as far as was told."""
    return max(_frontiers(job, slice_id, group), default=BEGINNING)


def _frontiers(job: ManagedJob, slice_id: SliceId, group: tuple[Placement, ...]) -> Iterator[int]:
    for each in group:
        report = job.report_of(slice_id, each)
        if each.rung.publishes and report is not None:
            yield report.frontier
