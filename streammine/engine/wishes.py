"""Users' wishes of a running cluster: why one can't be followed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streammine.engine.managed_job import JobPhase, ManagedJob
from streammine.engine.manager_stimuli import DrainAsked, MoveAsked, SchemeAsked, Wish
from streammine.engine.placement import Node, newest
from streammine.engine.scheme_wishes import scheme_refusal
from streammine.model.suggestions import listed


def wish_refusal(
    wish: Wish, jobs: Mapping[int, ManagedJob], members: Sequence[Node], live: Sequence[Node]
) -> str | None:
    """Or None. `live`: the members that were heard of lately."""
    names = [name for name, _ in members]
    if isinstance(wish, DrainAsked):
        return _drain_refusal(wish.node, names, jobs, live)
    job = jobs.get(wish.job)
    if job is None:
        return f"job {wish.job} is not running"
    if job.phase is not JobPhase.RUNNING:
        return _not_running(job)
    if job.recovery.mode == "none":
        return (
            f"job {wish.job} makes no snapshots (`snapshot: none`); start it again with "
            "`snapshot: {every: 1s}` in its topology"
        )
    match wish:
        case SchemeAsked():
            return scheme_refusal(job, wish, live)
        case MoveAsked():
            return _move_refusal(job, wish, names)
        case _:
            return None


def _not_running(job: ManagedJob) -> str:
    match job.phase:
        case JobPhase.SUBMITTED:
            return f"job {job.number} has no plan yet; try again"
        case JobPhase.DEPLOYING:
            return f"job {job.number} is still being deployed; try again"
        case _:
            return f"job {job.number} is not running"


def _drain_refusal(
    node: str, members: Sequence[str], jobs: Mapping[int, ManagedJob], live: Sequence[Node]
) -> str | None:
    if node not in members:
        return f"there is no node {node!r}; live are {', '.join(members)}"
    others = [name for name, _ in live if name != node]
    if not others:
        return f"{node} is the only node; start another one first"
    for job in jobs.values():
        if job.phase is JobPhase.RUNNING and all(map(job.drains, others)):
            return (
                f"{node} is the only node that takes slices of job {job.number}, for {listed(others)} "
                f"{'is' if len(others) == 1 else 'are'} to be emptied, too; start another one first"
            )
    return None


def _move_refusal(job: ManagedJob, wish: MoveAsked, members: Sequence[str]) -> str | None:
    assert job.plan is not None
    group = job.plan.placements.get(wish.slice)
    if group is None:
        known = ", ".join(str(each) for each in job.graph.slices)
        return f"there is no slice {wish.slice}; the job's are {known}"
    if wish.node not in members:
        return f"there is no node {wish.node!r}"
    if any(each.leaving for each in group):
        return f"{wish.slice} is on its way to {newest(group).node} already"
    if wish.node in {each.node for each in group if each.rung.queues}:
        return f"{wish.slice} is on {wish.node} already"
    if not job.known:
        return f"a new manager is still learning where job {wish.job} stands; ask again"
    if job.origins([wish.slice]) is None:
        return f"{wish.slice} can't be moved before the next checkpoint; ask again then"
    return None
