"""The sending side of a slice: its outgoing edges, with the stages and combiners that run on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partitioners import Broadcast, Hash, KeyRange, partitioner_named
from streammine.assembly.stream_order import union_order
from streammine.engine.edges import OutgoingEdges, StageNode
from streammine.engine.outgoing_edge import OutgoingEdge
from streammine.model.contracts import Partitioner, SequentialOperator, StatefulOperator
from streammine.model.ids import SliceId
from streammine.model.job import Edge
from streammine.model.topology import (
    BroadcastPartition,
    HashPartition,
    KeyedFields,
    KeyRangePartition,
    Partition,
    UnionOperator,
    UserPartition,
)

if TYPE_CHECKING:
    from streammine.assembly.compiled import CompiledJob


def outgoing_edges(job: CompiledJob, slice_id: SliceId) -> tuple[OutgoingEdges, bool]:
    """The slice's outgoing edges as a tree of stages, and whether any of them needs order."""
    root = StageNode()
    dead: OutgoingEdge | None = None
    carries_order = False
    for number, edge in enumerate(job.graph.edges):
        if edge.source != slice_id.vertex:
            continue
        outgoing = _outgoing_edge(job, number, edge, slice_id)
        if edge.dead:
            dead = outgoing
            continue
        carries_order = carries_order or edge.carries_order
        _stage_node(job, root, edge).edges.append(outgoing)
    stamped = job.graph.loop(slice_id.vertex) is not None
    return OutgoingEdges(slice_id, root, dead, stamped), carries_order


def chosen_among(job: CompiledJob, slice_id: SliceId) -> tuple[int, ...]:
    """A source's channels to those who choose among it and others; () where anybody else reads it, or may set
    rows of it aside: dead letters don't depend on what is chosen."""
    edges = [each for each in job.graph.edges if each.source == slice_id.vertex and not each.dead]
    behind = {name for edge in edges for name in (*edge.stages, edge.target)}
    settings = [each for name, each in job.topology.operators.items() if name in behind]
    sets_aside = any(each.sets_aside for each in settings)
    if sets_aside or not all(each.either for each in edges):
        return ()
    outputs = job.graph.outputs[slice_id]
    return tuple(each.number for each in outputs if job.graph.edges[each.edge].either)


def _outgoing_edge(job: CompiledJob, number: int, edge: Edge, slice_id: SliceId) -> OutgoingEdge:
    channels = tuple(each.number for each in job.graph.outputs[slice_id] if each.edge == number)
    kind = job.graph.kind_at(edge.source, edge)
    if edge.routing == "forward":
        return OutgoingEdge(channels, (), None, 0, carries_order=edge.carries_order, kind=kind)
    settings = job.topology.operators[edge.target]
    assert isinstance(settings, KeyedFields)
    operator = job.bare_operator(edge.target, combined=edge.combined)
    assert isinstance(operator, StatefulOperator | SequentialOperator)
    return OutgoingEdge(
        channels,
        operator.keys[edge.port],
        _partitioner(job, settings.partition),
        combining=operator if edge.combined else None,  # type: ignore[arg-type]
        carries_order=edge.carries_order,
        target=edge.target,
        kind=kind,
    )


def _partitioner(job: CompiledJob, partition: Partition) -> Partitioner:
    match partition:
        case HashPartition():
            return Hash()
        case BroadcastPartition():
            return Broadcast()
        case KeyRangePartition():
            return KeyRange(partition.boundaries)
        case UserPartition():
            return partitioner_named(partition.path, job.base)


def _stage_node(job: CompiledJob, root: StageNode, edge: Edge) -> StageNode:
    """Where an edge begins in the tree of stages, which grows by what is missing."""
    node = root
    before = edge.source
    for name in edge.stages:
        for child in node.children:
            if child.stage is not None and child.stage.name == name:
                node = child
                break
        else:
            operator = job.bare_operator(name)
            child = StageNode(operator)  # type: ignore[arg-type]
            node.children.append(child)
            node = child
        if edge.carries_order and isinstance(job.operators[name], UnionOperator):
            node.union_order = union_order(job, name, before)
        before = name
    return node
