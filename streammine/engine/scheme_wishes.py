"""A user's wish for another fault-tolerance scheme: what it names, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence

from streammine.engine.managed_job import ManagedJob
from streammine.engine.manager_stimuli import SchemeAsked
from streammine.engine.placement import Node
from streammine.model.ids import SliceId
from streammine.model.job import Plan
from streammine.model.schemes import AUTOMATIC, Scheme
from streammine.model.suggestions import hint, listed


def scheme_refusal(job: ManagedJob, wish: SchemeAsked, live: Sequence[Node]) -> str | None:
    """Why the wish can't be followed, or None. `live`: the nodes."""
    assert job.plan is not None
    known = (*Scheme, AUTOMATIC)
    if wish.scheme not in known:
        return (
            f"there is no scheme {wish.scheme!r}{hint(wish.scheme, known)} Allowed: {listed(known)}"
        )
    meant = job.graph.slices_named(wish.slices)
    if not meant:
        return job.graph.misnamed(wish.slices)
    if wish.scheme == AUTOMATIC:
        if job.recovery.goal is None:
            return f"job {job.number} says nothing of `recovery`, so nobody chooses a scheme"
        return None
    if Scheme(wish.scheme).deploys and len(job.usable_nodes(live)) < 2:
        leaving = [name for name, _ in live if name in job.plan.draining]
        beside = f" beside {listed(leaving)} (to be emptied)" if leaving else ""
        return f"{wish.scheme} needs a second node{beside}; start another one first"
    for slice_id in meant:
        if Scheme(wish.scheme).deploys and not job.graph.vertex(slice_id.vertex).replicable:
            return _why_alone(job, slice_id)
    return None


def _why_alone(job: ManagedJob, slice_id: SliceId) -> str:
    """Of a slice that can't have a second replica."""
    if job.graph.vertex(slice_id.vertex).kind == "source":
        return f"{slice_id.vertex} is a live source: clients send to one receiver"
    return (
        f"{slice_id.vertex} is not deterministic, or takes from an operator that is not, by what that "
        "says of itself: its replicas would differ"
    )


def asked_plan(job: ManagedJob, wish: SchemeAsked) -> Plan:
    """The plan that says what is wished; what follows from it comes in later ones."""
    assert job.plan is not None
    meant = job.graph.slices_named(wish.slices)
    others = [each for each in job.plan.fixed if each not in meant]
    if wish.scheme == AUTOMATIC:
        return job.next_plan(fixed=tuple(others))
    schemes = job.plan.schemes | dict.fromkeys(meant, Scheme(wish.scheme))
    return job.next_plan(schemes=schemes, fixed=tuple(sorted([*others, *meant])))
