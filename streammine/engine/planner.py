"""The planner: from operators and what they say of themselves to vertices, edges and disciplines.

For each operator it takes the cheapest discipline that keeps the promise of equal bytes: a commutative one
needs nothing more than the epoch; any other gets its events in (epoch, time, position) order. What an
operator needs is forced upstream: strict order makes the sources, and every stage between, carry
positions. Stateless operators get no slices of their own, they run where their input is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from streammine.model.contracts import Discipline, Traits
from streammine.model.errors import TopologyError
from streammine.model.job import Edge, JobGraph, Routing, Vertex

COMMITTER_SUFFIX = ".committer"
DEAD_LETTERS = ".dead-letters"
"""Vertex that takes the rows that could not be used."""


@dataclass(frozen=True)
class LogicalNode:
    """One source, operator or sink of a topology, as the planner needs to see it.

    `slices` None takes the default. `discipline` and `combine` are the user's wishes. `may_die`: rows can
    turn out unusable here (sources, user code that sends bad events to the dead letters). `every_key`: the
    end of an epoch concerns all keys. `inputs` may name a node that is declared later, which makes a loop;
    `max_rounds` stands at a loop's head alone, None takes the default.
    """

    name: str
    kind: Literal["source", "stateless", "stateful", "sink"]
    inputs: tuple[str, ...] = ()
    slices: int | None = None
    traits: Traits = field(default_factory=Traits)
    discipline: Discipline | None = None
    combine: bool | None = None
    broadcast: bool = False
    keyed: bool = True
    ordered: bool = False
    may_die: bool = False
    every_key: bool = False
    max_rounds: int | None = None


DEFAULT_SLICES = 2


def plan(nodes: Sequence[LogicalNode]) -> JobGraph:
    """`nodes` in topological order. Raises TopologyError for a wish that would break the promise."""
    by_name = {node.name: node for node in nodes}
    vertices: dict[str, Vertex] = {}
    edges: list[Edge] = []
    dying: dict[str, None] = {}
    for node in nodes:
        hosts = [_host(by_name, name) for name in node.inputs]
        if node.kind == "stateless":
            if node.may_die:
                dying.update((host, None) for host, _ in hosts)
            continue
        if node.may_die:
            dying[node.name] = None
        vertex = _vertex(node, [vertices[host] for host, _ in hosts])
        vertices[node.name] = vertex
        for port, (host, stages) in enumerate(hosts):
            edges.append(_edge(node, vertex, host, stages, port))
        if node.kind == "sink":
            vertices |= _committer(node.name)
            edges.append(_committer_edge(node.name))
    if dying:
        vertices[DEAD_LETTERS] = Vertex(
            DEAD_LETTERS, "sink", 1, Discipline.EPOCH, "dead rows leave like any output"
        )
        edges.extend(
            Edge(name, DEAD_LETTERS, 0, (), False, "forward", False, dead=True) for name in dying
        )
        vertices |= _committer(DEAD_LETTERS)
        edges.append(_committer_edge(DEAD_LETTERS))
    return JobGraph(tuple(vertices.values()), tuple(edges))


def _host(by_name: dict[str, LogicalNode], name: str) -> tuple[str, tuple[str, ...]]:
    """The vertex that makes stream `name`, and the stages applied to its output on the way."""
    stages: list[str] = []
    while by_name[name].kind == "stateless":
        stages.append(name)
        (name,) = by_name[name].inputs
    return name, tuple(reversed(stages))


def _vertex(node: LogicalNode, hosts: list[Vertex]) -> Vertex:
    if node.kind == "source":
        return Vertex(
            node.name,
            "source",
            node.slices or DEFAULT_SLICES,
            Discipline.EPOCH,
            "a source hands out epochs in order",
        )
    discipline, reason = _discipline(node)
    if node.kind == "sink":
        slices = 1 if node.ordered else min(node.slices or hosts[0].slices, hosts[0].slices)
        return Vertex(node.name, "sink", slices, discipline, reason)
    if node.every_key:
        reason += "; one slice, since the end of an epoch concerns every key (every_key)"
        return Vertex(node.name, "stateful", 1, discipline, reason)
    slices = (node.slices or DEFAULT_SLICES) if node.keyed else 1
    return Vertex(node.name, "stateful", slices, discipline, reason)


def _discipline(node: LogicalNode) -> tuple[Discipline, str]:
    wish = node.discipline
    if wish in (Discipline.MERGE, Discipline.CONSENSUS):
        raise TopologyError(
            f"operator {node.name!r}: discipline {wish} is not available yet; "
            "choose none, epoch or strict, or leave it out"
        )
    if node.kind == "sink":
        if node.ordered:
            return Discipline.STRICT, "ordered: rows are written in (epoch, time, position) order"
        return Discipline.EPOCH, "rows of an epoch may be written in any order"
    if wish is Discipline.NONE:
        return wish, "asked for: processed on arrival, no guarantee"
    if wish is Discipline.STRICT:
        return wish, "asked for: every event in (epoch, time, position) order"
    if node.traits.commutative:
        return Discipline.EPOCH, "commutative: no order inside an epoch can change its bytes"
    if wish is Discipline.EPOCH:
        raise TopologyError(
            f"operator {node.name!r}: discipline epoch needs a commutative operator, and this one "
            "is not declared commutative; use strict, or declare `commutative = True` if any order "
            "of an epoch's events gives the same result"
        )
    return Discipline.STRICT, "not commutative: the order of events may change its result"


def _edge(node: LogicalNode, vertex: Vertex, host: str, stages: tuple[str, ...], port: int) -> Edge:
    strict = vertex.discipline is Discipline.STRICT
    combined = (
        node.kind == "stateful"
        and node.traits.combinable
        and node.traits.commutative
        and not strict
        and node.combine is not False
    )
    routing: Routing = "partition"
    if node.kind == "sink":
        routing = "forward"
    elif node.broadcast:
        routing = "broadcast"
    return Edge(
        source=host,
        target=node.name,
        port=port,
        stages=stages,
        combined=combined and routing == "partition",
        routing=routing,
        carries_order=strict,
    )


def _committer(sink: str) -> dict[str, Vertex]:
    name = sink + COMMITTER_SUFFIX
    return {
        name: Vertex(
            name, "committer", 1, Discipline.EPOCH, "one slice commits for all sink slices"
        )
    }


def _committer_edge(sink: str) -> Edge:
    return Edge(sink, sink + COMMITTER_SUFFIX, 0, (), False, "forward", False)
