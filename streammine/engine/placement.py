"""Placement: which node runs which slice. Pure functions of graph, plan and live nodes.

Slice i of every vertex goes to the i-th node, round robin, so that slices joined by forward channels
(a sink slice and the slice it writes for) share a node, and every vertex spreads over all nodes. What a lost
node had goes to those that have least.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from streammine.model.errors import ClusterError
from streammine.model.ids import SliceId
from streammine.model.job import JobGraph, Placement

Node = tuple[str, int]
"""A live node: its name, and its sequence number among all that joined."""


def place(graph: JobGraph, nodes: Sequence[Node]) -> dict[SliceId, Node]:
    """`nodes` in the order in which they joined. Raises ClusterError when there is none."""
    if not nodes:
        raise ClusterError("no live node to place slices on")
    return {slice_id: nodes[slice_id.index % len(nodes)] for slice_id in graph.slices}


def place_again(
    slices: Iterable[SliceId],
    placements: dict[SliceId, tuple[Placement, ...]],
    nodes: Sequence[Node],
) -> dict[SliceId, Node]:
    """Nodes for slices that have none, each on the node with the fewest replicas, ties by joining.

    `placements`: where all other replicas are.
    """
    assert nodes, "somebody must be left to place slices on"
    load = Counter((each.node, each.member) for group in placements.values() for each in group)
    chosen: dict[SliceId, Node] = {}
    for slice_id in sorted(slices):
        node = min(nodes, key=lambda node: (load[node], node[1]))
        load[node] += 1
        chosen[slice_id] = node
    return chosen
