"""Placement: which node runs which slice. Pure functions of graph, plan and live nodes.

Slice i of every vertex goes to the i-th node, round robin, so that slices joined by forward channels
(a sink slice and the slice it writes for) share a node, and every vertex spreads over all nodes. Receivers of
one feed begin at nodes of their own, so that no two of them are lost with a node. The other
replicas of what one node was given first are interleaved: they spread over all other nodes, so that when it
is lost each of them takes over a share. What a lost node had goes to those that have least.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from streammine.model.errors import ClusterError
from streammine.model.ids import SliceId
from streammine.model.job import JobGraph, Placement

Node = tuple[str, int]
"""A live node: its name, and its sequence number among all that joined."""


def place(graph: JobGraph, nodes: Sequence[Node]) -> dict[SliceId, tuple[Node, ...]]:
    """A node for each replica of each slice, as far as there are as many. `nodes` in the order in which
    they joined. Raises ClusterError when there is none."""
    if not nodes:
        raise ClusterError("no live node to place slices on")
    nodes = one_of_each_name(nodes)
    count = len(nodes)
    offsets = graph.receivers
    firsts = Counter[int]()
    chosen: dict[SliceId, tuple[Node, ...]] = {}
    for vertex in graph.vertices:
        for index in range(vertex.slices):
            first = (index + offsets.get(vertex.name, 0)) % count
            turn = firsts[first]
            firsts[first] += 1
            others = [
                (first + 1 + (turn + each) % (count - 1)) % count for each in range(count - 1)
            ]
            places = [first, *others][: vertex.replicas]
            chosen[SliceId(vertex.name, index)] = tuple(nodes[place] for place in places)
    return chosen


def place_again(
    slices: Iterable[SliceId],
    placements: dict[SliceId, tuple[Placement, ...]],
    nodes: Sequence[Node],
) -> dict[SliceId, Node]:
    """A node for one more replica of each slice: one that has none of it, with the fewest replicas, ties by
    joining. A slice that all nodes have a replica of is left out.

    `placements`: where all other replicas are.
    """
    load = Counter(node_of(each) for group in placements.values() for each in group)
    chosen: dict[SliceId, Node] = {}
    for slice_id in sorted(slices):
        taken = {each.node for each in placements.get(slice_id, ())}
        free = [node for node in one_of_each_name(nodes) if node[0] not in taken]
        if not free:
            continue
        node = min(free, key=lambda node: (load[node], node[1]))
        load[node] += 1
        chosen[slice_id] = node
    return chosen


def leading_first(group: Iterable[Placement]) -> tuple[Placement, ...]:
    """A slice's replicas, those that publish in front."""
    return tuple(sorted(group, key=lambda each: not each.rung.publishes))


def newest(group: Iterable[Placement]) -> Placement:
    """Of those that are linked: what only stands ready catches up with nobody."""
    linked = (each for each in group if each.rung.queues)
    return max(linked, key=lambda each: each.generation)


def one_of_each_name(nodes: Sequence[Node]) -> list[Node]:
    """Of nodes of one name the last that joined: the one before is gone, though not everybody knows."""
    return sorted(
        {name: (name, member) for name, member in nodes}.values(), key=lambda node: node[1]
    )


def node_of(placement: Placement) -> Node:
    return placement.node, placement.member
