"""A change of slices' fault-tolerance schemes that a client has asked for: whether it has come about."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from streammine.model.ids import SliceId
from streammine.model.job import JobGraph, Plan
from streammine.model.schemes import Scheme
from streammine.model.suggestions import listed


@dataclass(frozen=True)
class SchemeChange:
    """`scheme` None: it is left to the job's controller from now on. A plan that is None is not known yet."""

    graph: JobGraph
    slices: Sequence[SliceId]
    scheme: Scheme | None

    def stands(self, plan: Plan | None, crowded_too: bool, nodes: Collection[str]) -> bool:
        """Whether the plan says so, and places as many replicas as it wants and `nodes` have room for, each
        on its rung; new ones are built from then on. `crowded_too`: also where some wait for room on a
        crowded node."""
        if plan is None:
            return False
        if self.scheme is None:
            return not set(self.slices) & set(plan.fixed)
        return (
            set(self.slices) <= set(plan.fixed)
            and all(plan.schemes.get(each) is self.scheme for each in self.slices)
            and all(self._is_there(plan, each, nodes) for each in self.slices)
            and (crowded_too or not self.waiting(plan))
        )

    def waiting(self, plan: Plan | None) -> tuple[str, ...]:
        """The crowded nodes whose replicas climb once there is room."""
        if plan is None or self.scheme is None:
            return ()
        waiting = {
            each.node
            for slice_id in self.slices
            for each in plan.placements.get(slice_id, ())[1:]
            if each.node in plan.crowded
            and each.rung is not self.graph.rung_of(slice_id.vertex, self.scheme)
        }
        return tuple(sorted(waiting))

    def told_of_room(self, plan: Plan | None) -> str:
        """What there is to say of replicas that wait for it, where some do."""
        nodes = self.waiting(plan)
        return (
            f": those on {listed(nodes)} wait until their node has time for them" if nodes else ""
        )

    def _is_there(self, plan: Plan, slice_id: SliceId, nodes: Collection[str]) -> bool:
        assert self.scheme is not None
        further = plan.placements.get(slice_id, ())[1:]
        if not self.scheme.deploys:
            return not further
        wanted = self.graph.replicas_under(slice_id.vertex, self.scheme)
        room = len(set(nodes) - set(plan.draining))
        return len(further) >= max(1, min(wanted, room) - 1) and all(
            each.rung is self.graph.rung_of(slice_id.vertex, self.scheme, each.node in plan.crowded)
            for each in further
        )
