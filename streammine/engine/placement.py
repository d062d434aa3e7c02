"""Placement: which node runs which slice. A pure function of graph and live nodes.

Slice i of every vertex goes to the i-th node, round robin, so that slices joined by forward channels
(a sink slice and the slice it writes for) share a node, and every vertex spreads over all nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

from streammine.model.errors import ClusterError
from streammine.model.ids import SliceId
from streammine.model.job import JobGraph, Placement


def place(
    graph: JobGraph, nodes: Sequence[str], generation: int
) -> dict[SliceId, tuple[Placement, ...]]:
    """`nodes` in the order in which they joined. Raises ClusterError when there is none."""
    if not nodes:
        raise ClusterError("no live node to place slices on")
    return {
        slice_id: (Placement(nodes[slice_id.index % len(nodes)], generation),)
        for slice_id in graph.slices
    }
