"""Placement: which node runs which slice. Pure functions of graph, plan and live nodes.

Slice i of every vertex goes to the i-th node, round robin, so that slices joined by forward channels
(a sink slice and the slice it writes for) share a node, and every vertex spreads over all nodes. Vertices
with fewer slices than there are nodes begin at different ones, so that the nodes share the stages of a
narrow job. Receivers of one feed begin at nodes of their own, so that no two of them are lost with a node.
The other replicas of what one node was given first are interleaved: they spread over all other nodes, so that
when it is lost each of them takes over a share. What a lost node had goes to those that have least, or hardly
more where it comes to lie beside those that it shares rows with: what leaves a node is dearer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from streammine.model.errors import ClusterError
from streammine.model.ids import SliceId
from streammine.model.job import JobGraph, Placement

Node = tuple[str, int]
"""A live node: its name, and its sequence number among all that joined."""

MOST_MORE = 2
"""Replicas that a node may have more than the one that has least, and still gets one for its neighbours."""

_WHOLE = 720_720
"""All that a sender sends: a number that most numbers of slices divide."""


def place(graph: JobGraph, nodes: Sequence[Node]) -> dict[SliceId, tuple[Node, ...]]:
    """A node for each replica of each slice, as far as there are as many. `nodes` in the order in which
    they joined. Raises ClusterError when there is none."""
    if not nodes:
        raise ClusterError("no live node to place slices on")
    nodes = one_of_each_name(nodes)
    count = len(nodes)
    offsets = _first_places(graph, count)
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


def _first_places(graph: JobGraph, count: int) -> dict[str, int]:
    """By vertex, which of so many nodes gets its first slice; 0 where nothing is said.

    Vertices with fewer slices than there are nodes share these: neighbours stay together, as far as each node
    gets as many slices, and a loop does. A sink goes where the first that it reads is, but not dead letters.
    """
    offsets = dict(graph.receivers)
    narrow = [
        vertex
        for vertex in graph.vertices
        if vertex.kind in ("source", "stateful") and vertex.slices < count
    ]
    slices = sum(vertex.slices for vertex in narrow)
    before = 0
    for vertex in narrow:
        loop = graph.loop(vertex.name)
        together = [vertex.name] if loop is None else loop.members
        for name in together:
            offsets.setdefault(name, before * count // slices)
        before += vertex.slices
    for edge in graph.edges:
        if edge.routing == "forward" and not edge.dead:
            offsets.setdefault(edge.target, offsets.get(edge.source, 0))
    return offsets


def place_again(
    graph: JobGraph,
    slices: Iterable[SliceId],
    placements: Mapping[SliceId, Sequence[Placement]],
    nodes: Sequence[Node],
) -> dict[SliceId, Node]:
    """A node for one more replica of each slice: one that has none of it. A slice that all nodes have a
    replica of is left out. `placements`: where all other replicas are.

    A slice that has another replica goes where the fewest are, ties by joining. So does one that has none;
    but where hardly more are it goes beside a slice that sends it all its rows or gets all of its own, of
    equals beside those that get or send a share, and to no other receiver of its feed if that can be helped.
    """
    nodes = one_of_each_name(nodes)
    places = {slice_id: [node_of(each) for each in group] for slice_id, group in placements.items()}
    load = Counter(node for group in places.values() for node in group)
    chosen: dict[SliceId, Node] = {}
    for slice_id in sorted(slices):
        own = places.setdefault(slice_id, [])
        taken = {name for name, _ in own}
        free = [node for node in nodes if node[0] not in taken]
        if not free:
            continue
        whole, shares = Counter[Node](), Counter[Node]()
        if not taken:
            whole, shares = _kept_inside(graph, slice_id, places)
            free = _without_rivals(graph, slice_id, places, free) or free
            most = min(load[node] for node in free) + MOST_MORE
            free = [node for node in free if load[node] <= most]
        node = min(free, key=lambda node: (-whole[node], load[node], -shares[node], node[1]))
        load[node] += 1
        own.append(node)
        chosen[slice_id] = node
    return chosen


def _kept_inside(
    graph: JobGraph, slice_id: SliceId, places: Mapping[SliceId, Sequence[Node]]
) -> tuple[Counter[Node], Counter[Node]]:
    """By node, what of the slice's channels would not leave it: how many over which all goes that a sender
    sends, and how much in shares of such."""
    whole, shares = Counter[Node](), Counter[Node]()
    for channel in (*graph.inputs[slice_id], *graph.outputs[slice_id]):
        other = channel.target if channel.source == slice_id else channel.source
        ways = sum(each.edge == channel.edge for each in graph.outputs[channel.source])
        if (
            graph.edges[channel.edge].dead
            or graph.vertex(channel.target.vertex).kind == "committer"
        ):
            # over these hardly anything goes
            continue
        for node in places.get(other, ()):
            whole[node] += ways == 1
            shares[node] += _WHOLE // ways
    return whole, shares


def _without_rivals(
    graph: JobGraph,
    slice_id: SliceId,
    places: Mapping[SliceId, Sequence[Node]],
    nodes: Sequence[Node],
) -> list[Node]:
    """Those of the nodes that have no slice of this number of another receiver of the same feed."""
    rivals = graph.rivals.get(slice_id.vertex, ())
    theirs = {node for name in rivals for node in places.get(SliceId(name, slice_id.index), ())}
    return [node for node in nodes if node not in theirs]


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
