"""A user's wish for another fault-tolerance scheme: what it names, and what is wrong with it."""

from __future__ import annotations

from streammine.engine.managed_job import ManagedJob
from streammine.engine.manager_stimuli import SchemeAsked
from streammine.model.ids import SliceId
from streammine.model.job import COMMITTER_SUFFIX, Plan
from streammine.model.schemes import Scheme
from streammine.model.suggestions import hint, listed


def scheme_refusal(job: ManagedJob, wish: SchemeAsked, nodes: int) -> str | None:
    """Why the wish can't be followed, or None. `nodes` are alive."""
    if wish.scheme not in Scheme.__members__.values():
        return (
            f"there is no scheme {wish.scheme!r}{hint(wish.scheme, tuple(Scheme))} "
            f"Allowed: {listed(tuple(Scheme))}"
        )
    if not named(job, wish):
        vertices = tuple(vertex.name for vertex in job.graph.vertices)
        return f"there is no operator or slice {wish.slices!r}; the job's are {listed(vertices)}"
    if Scheme(wish.scheme).deploys and nodes < 2:
        return f"{wish.scheme} needs a second node; start another one first"
    for slice_id in named(job, wish):
        if Scheme(wish.scheme).deploys and not job.graph.vertex(slice_id.vertex).replicable:
            return f"{slice_id.vertex} is a live source: clients send to one receiver"
    return None


def named(job: ManagedJob, wish: SchemeAsked) -> list[SliceId]:
    """The slices that the wish is about. A sink's committer goes with the sink."""
    names = (wish.slices, wish.slices + COMMITTER_SUFFIX)
    return [each for each in job.graph.slices if str(each) == wish.slices or each.vertex in names]


def asked_plan(job: ManagedJob, wish: SchemeAsked) -> Plan:
    """The plan that says what is wished; what follows from it comes in later ones."""
    assert job.plan is not None
    scheme = Scheme(wish.scheme)
    schemes = job.plan.schemes | dict.fromkeys(named(job, wish), scheme)
    return job.next_plan(schemes=schemes)
