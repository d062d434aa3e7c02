"""The planner: from operators and what they say of themselves to vertices, edges and disciplines.

For each operator it takes the cheapest discipline that keeps the promise of equal bytes: a commutative one
needs nothing more than the epoch; any other gets its events in (epoch, time, position) order. What an
operator needs is forced upstream: strict order makes the sources, and every stage between, carry
positions. Stateless operators get no slices of their own, they run where their input is made.

Discipline merge is taken where the user asks for it, for what it gives depends on how many slices there are.
Its edges carry no positions, so all before it must give the rows of an epoch in one sequence: sources do, and
so do operators, but for those that were asked for no order at all. Nothing that needs positions can follow.

Behind an either, the same slices of several sources bring one input, and whoever reads it first agrees with
its other replicas on whose rows count. From there on nothing differs, so nobody else has to agree. Where
merge or none is asked for there, each replica takes what it has first, and nobody behind it may have to
agree.

A union has no vertex either: who reads it reads all that make a part of it, through one edge each into the
same port.

An operator may read from one that is declared behind it; that closes a *loop*. Such an input is a back-edge,
and the reader is the loop's head, of which each loop has one. Inside a loop rows of a round may be
processed in any order only: a position would grow with every round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from streammine.model.contracts import Traits
from streammine.model.disciplines import Discipline
from streammine.model.errors import TopologyError
from streammine.model.job import (
    COMMITTER_SUFFIX,
    DEAD_LETTERS,
    Edge,
    EdgeKind,
    JobGraph,
    Loop,
    Routing,
    Vertex,
)
from streammine.model.schemes import Scheme
from streammine.model.topology.loops import DEFAULT_MAX_ROUNDS, circles


@dataclass(frozen=True)
class LogicalNode:
    """One source, operator or sink of a topology, as the planner needs to see it.

    `slices` None takes the default. `discipline` and `combine` are the user's wishes. `positioned`: its rows
    are ordered by the positions of those that they were made of. `may_die`: rows can turn out unusable here
    (sources, user code that sends bad events to the dead letters). `every_key`: the
    end of an epoch concerns all keys. `ends_input`: it has something to say when the input is over. `inputs`
    may name a node that is declared later, which makes a loop; `max_rounds` stands at a loop's head alone,
    None takes the default. `window_epochs` and `slide_epochs` as in `Vertex`.
    """

    name: str
    kind: Literal["source", "stateless", "either", "union", "stateful", "sink"]
    inputs: tuple[str, ...] = ()
    slices: int | None = None
    traits: Traits = field(default_factory=Traits)
    discipline: Discipline | None = None
    combine: bool | None = None
    broadcast: bool = False
    keyed: bool = True
    ordered: bool = False
    positioned: bool = False
    may_die: bool = False
    every_key: bool = False
    ends_input: bool = False
    max_rounds: int | None = None
    replicas: int = 1
    scheme: Scheme = Scheme.PASSIVE_REPLICATION
    replicable: bool = True
    window_epochs: int | None = None
    slide_epochs: int | None = None


DEFAULT_SLICES = 2


def plan(nodes: Sequence[LogicalNode]) -> JobGraph:
    """`nodes` in topological order, but for back-edges.

    Raises TopologyError for a wish that would break the promise, and for loops that can't be run.
    """
    by_name = {node.name: node for node in nodes}
    vertices: dict[str, Vertex] = {}
    edges: list[Edge] = []
    dying: dict[str, None] = {}
    for node in nodes:
        hosts = [_hosts(by_name, name) for name in node.inputs]
        if node.kind in ("stateless", "either", "union"):
            if node.may_die:
                dying.update((host.vertex, None) for ways in hosts for host in ways)
            continue
        if node.may_die:
            dying[node.name] = None
        upstream_slices = 0
        if node.kind == "sink":
            upstream_slices = max(vertices[host.vertex].slices for host in hosts[0])
        vertex = _vertex(node, upstream_slices, hosts)
        vertices[node.name] = vertex
        for port, ways in enumerate(hosts):
            edges.extend(_edge(node, vertex, host, port) for host in ways)
        if node.kind == "sink":
            vertices |= _committer(node.name, node.replicas, node.scheme)
            edges.append(_committer_edge(node.name))
    if dying:
        makers = [by_name[name] for name in dying]
        replicas = max(node.replicas for node in makers)
        scheme = max((node.scheme for node in makers), key=lambda each: each.rung)
        vertices[DEAD_LETTERS] = Vertex(
            DEAD_LETTERS,
            "sink",
            1,
            Discipline.EPOCH,
            "dead rows leave like any output",
            replicas,
            scheme,
        )
        edges.extend(
            Edge(name, DEAD_LETTERS, 0, (), False, "forward", False, dead=True) for name in dying
        )
        vertices |= _committer(DEAD_LETTERS, replicas, scheme)
        edges.append(_committer_edge(DEAD_LETTERS))
    loops = _loops(by_name, vertices, edges)
    _check_upstream_of_merges(by_name, vertices)
    _check_upstream_of_agreement(by_name, vertices, edges)
    _check_downstream_of_merges(by_name, vertices, edges)
    for name, maker in _that_may_differ(by_name, vertices, edges).items():
        if name in by_name:
            _require_alone(by_name[name], maker)
        # dead letters have the replicas of whose rows they are
        vertices[name] = replace(
            vertices[name], replicas=1, scheme=Scheme.PASSIVE_REPLICATION, replicable=False
        )
    return JobGraph(tuple(vertices.values()), _with_kinds(edges, loops), loops)


def _loops(
    by_name: Mapping[str, LogicalNode], vertices: Mapping[str, Vertex], edges: Sequence[Edge]
) -> tuple[Loop, ...]:
    places = {name: place for place, name in enumerate(vertices)}
    inputs = {
        name: tuple(dict.fromkeys(edge.source for edge in edges if edge.target == name))
        for name in vertices
    }
    loops: list[Loop] = []
    for group in circles(inputs):
        members = tuple(sorted(group, key=places.__getitem__))
        back = tuple(
            (edge.source, edge.target)
            for edge in edges
            if {edge.source, edge.target} <= set(members)
            and places[edge.source] >= places[edge.target]
        )
        heads = tuple(dict.fromkeys(head for _, head in back))
        if len(heads) > 1:
            raise TopologyError(
                f"operators {' and '.join(map(repr, heads))} both read from operators that they lead "
                "to: a cycle inside a cycle, which can't be run",
                part=heads[0],
            )
        (head,) = heads
        if all(source in members for source in inputs[head]):
            raise TopologyError(
                f"operator {head!r} begins a loop, so it must also read from outside of the loop",
                part=head,
            )
        _check_members(by_name, vertices, members)
        max_rounds = _most_rounds(by_name, head, edges)
        loops.append(Loop(head, members, tuple(dict.fromkeys(back)), max_rounds))
    return tuple(sorted(loops, key=lambda loop: places[loop.head]))


def _most_rounds(by_name: Mapping[str, LogicalNode], head: str, edges: Sequence[Edge]) -> int:
    """What is said of a loop's rounds where it begins: at its head, or at a union that the head reads."""
    stages = [name for edge in edges if edge.target == head for name in edge.stages]
    said = [by_name[name].max_rounds for name in (head, *stages)]
    return next((rounds for rounds in said if rounds is not None), DEFAULT_MAX_ROUNDS)


def _check_members(
    by_name: Mapping[str, LogicalNode],
    vertices: Mapping[str, Vertex],
    members: tuple[str, ...],
) -> None:
    for name in members:
        hosts = [host for each in by_name[name].inputs for host in _hosts(by_name, each)]
        if any(host.either is not None for host in hosts):
            raise TopologyError(
                f"operator {name!r} is part of a loop, and can't read what is behind an either; let an "
                "operator before the loop read it",
                part=name,
            )
        if vertices[name].discipline is not Discipline.EPOCH:
            raise TopologyError(
                f"operator {name!r}: in a loop the events of a round come in any order, and "
                f"discipline {vertices[name].discipline} asks for another ({vertices[name].reason}); "
                "declare `commutative = True` if any order gives the same result",
                part=name,
            )
        if by_name[name].ends_input:
            raise TopologyError(
                f"operator {name!r} is part of a loop, which is over when the input is: it can't "
                "have `end_input`",
                part=name,
            )


def _check_upstream_of_merges(
    by_name: Mapping[str, LogicalNode], vertices: Mapping[str, Vertex]
) -> None:
    for name, vertex in vertices.items():
        if not vertex.discipline.merges_bags:
            continue
        for upstream in _upstream(by_name, name):
            found = vertices.get(upstream)
            if found is not None and found.discipline is Discipline.NONE:
                raise TopologyError(
                    f"operator {name!r}: discipline {vertex.discipline} needs the rows of an epoch in the "
                    f"same sequence each time, and operator {upstream!r}, which it gets them from, has "
                    f"discipline none; use epoch for {upstream!r}, or none for {name!r} too",
                    part=name,
                )


def _check_upstream_of_agreement(
    by_name: Mapping[str, LogicalNode], vertices: Mapping[str, Vertex], edges: Sequence[Edge]
) -> None:
    """Whoever agrees knows a bag by its channel: all of a sender's replicas must send the same one."""
    choosing = {edge.target for edge in edges if edge.either}
    for name in (each for each in vertices if each in choosing):
        if not vertices[name].discipline.agrees:
            continue
        for upstream in _upstream(by_name, name):
            found = vertices.get(upstream)
            if found is None or found.discipline.agrees:
                continue
            if found.discipline is Discipline.NONE or upstream in choosing:
                raise TopologyError(
                    f"{by_name[name].kind} {name!r}: its replicas agree on the rows of an either, and those "
                    f"of operator {upstream!r}, which it gets rows from, may differ under discipline "
                    f"{found.discipline}; use consensus for {upstream!r}",
                    part=name,
                )


def _that_may_differ(
    by_name: Mapping[str, LogicalNode], vertices: Mapping[str, Vertex], edges: Sequence[Edge]
) -> dict[str, str]:
    """Vertices whose replicas may make different rows, and the operator that is not deterministic for which
    they do: the vertex itself, one that runs in it, or one that it takes from."""
    erratic = {name for name, node in by_name.items() if not node.traits.deterministic}
    runs: dict[str, str] = {}
    differ = {name: name for name in vertices if name in erratic}
    for edge in edges:
        for stage in edge.stages:
            if stage in erratic:
                runs[edge.source] = differ[edge.target] = stage
    for edge in edges:
        if edge.dead and edge.source in runs:
            differ[edge.target] = runs[edge.source]
    waiting = list(differ)
    while waiting:
        maker = waiting.pop()
        for edge in edges:
            if edge.source == maker and edge.target not in differ:
                differ[edge.target] = differ[maker]
                waiting.append(edge.target)
    return runs | differ


def _require_alone(node: LogicalNode, maker: str) -> None:
    """Of what replicas make, and what is made once more after a loss, the first to come counts: so all of it
    must be the same."""
    if node.replicas < 2:
        return
    kind = node.kind if node.kind in ("source", "sink") else "operator"
    who = "it" if maker == node.name else f"{maker!r}, which runs in it or before it,"
    raise TopologyError(
        f"{kind} {node.name!r}: its replicas may differ, for {who} says of itself that it is not "
        f"deterministic; give {node.name!r} replicas: 1 and scheme: passive-replication, or make "
        f"{maker!r} deterministic (context.random, and event times instead of a clock)",
        part=node.name,
    )


def _upstream(by_name: Mapping[str, LogicalNode], name: str) -> dict[str, None]:
    """All that leads to a node, nearest first."""
    found: dict[str, None] = {}
    waiting = list(by_name[name].inputs)
    while waiting:
        each = waiting.pop(0)
        if each not in found:
            found[each] = None
            waiting.extend(by_name[each].inputs)
    return found


def _check_downstream_of_merges(
    by_name: Mapping[str, LogicalNode], vertices: Mapping[str, Vertex], edges: Sequence[Edge]
) -> None:
    for edge in edges:
        source, target = vertices[edge.source], vertices[edge.target]
        if not (edge.carries_order and source.discipline.merges_bags):
            continue
        if not by_name[source.name].positioned:
            continue
        consumer, right = f"operator {target.name!r}", f"merge for {target.name!r} too"
        if target.kind == "sink":
            consumer, right = f"sink {target.name!r} with ordered: true", "ordered: false here"
        raise TopologyError(
            f"{consumer} needs rows with positions, and those of operator {source.name!r} have none under "
            f"discipline {source.discipline}; write strict for {source.name!r}, or {right}",
            part=target.name,
        )


def _with_kinds(edges: Sequence[Edge], loops: Sequence[Loop]) -> tuple[Edge, ...]:
    of_vertex = {name: loop for loop in loops for name in loop.members}

    def kind(edge: Edge) -> EdgeKind:
        source, target = of_vertex.get(edge.source), of_vertex.get(edge.target)
        if source is None:
            return "plain" if target is None else "entry"
        if source is not target:
            return "exit"
        return "back" if edge.target == source.head else "inside"

    return tuple(replace(edge, kind=kind(edge)) for edge in edges) if loops else tuple(edges)


@dataclass(frozen=True)
class Host:
    """A vertex that makes rows of a stream, and the stages that are applied to its output in its slices.
    `either`: the name of the either that this is one way of, if it is."""

    vertex: str
    stages: tuple[str, ...] = ()
    either: str | None = None


def _hosts(
    by_name: Mapping[str, LogicalNode], name: str, behind: tuple[str, ...] = ()
) -> tuple[Host, ...]:
    """The vertex that makes stream `name`; of an either those that can make it, of a union those that all
    make a part of it. `behind`: what the stream is looked up for."""
    node = by_name[name]
    if node.kind == "either":
        return tuple(Host(each, (name,), name) for each in node.inputs)
    if node.kind not in ("stateless", "union"):
        return (Host(name),)
    if name in behind:
        around = behind[behind.index(name) :]
        raise TopologyError(
            f"the operators {', '.join(sorted(around))} form a cycle, and none of them keeps state",
            part=name,
        )
    return tuple(
        replace(host, stages=(*host.stages, name))
        for each in node.inputs
        for host in _hosts(by_name, each, (*behind, name))
    )


def _vertex(
    node: LogicalNode, upstream_slices: int, hosts: Sequence[tuple[Host, ...]] = ()
) -> Vertex:
    """`upstream_slices`: the most that any vertex has which feeds a sink; `hosts`: by port, who makes what
    comes in."""
    if node.kind == "source":
        return Vertex(
            node.name,
            "source",
            node.slices or DEFAULT_SLICES,
            Discipline.EPOCH,
            "a source hands out epochs in order",
            node.replicas,
            node.scheme,
            node.replicable,
        )
    discipline, reason = _discipline(node)
    for ways in hosts:
        for either in dict.fromkeys(host.either for host in ways if host.either is not None):
            receivers = " or ".join(host.vertex for host in ways if host.either == either)
            if discipline.agrees:
                reason += (
                    f"; replicas agree on whose rows count in each epoch, those of {receivers}"
                )
            else:
                reason += (
                    f"; each replica takes those of {receivers} that it has first: they may differ"
                )
    if node.kind == "sink":
        slices = 1 if node.ordered else min(node.slices or upstream_slices, upstream_slices)
    elif node.every_key:
        reason += "; one slice, since the end of an epoch concerns every key (every_key)"
        slices = 1
    else:
        slices = (node.slices or DEFAULT_SLICES) if node.keyed else 1
    return Vertex(
        node.name,
        "sink" if node.kind == "sink" else "stateful",
        slices,
        discipline,
        reason,
        node.replicas,
        node.scheme,
        window_epochs=node.window_epochs,
        slide_epochs=node.slide_epochs,
    )


def _discipline(node: LogicalNode) -> tuple[Discipline, str]:
    wish = node.discipline
    if node.kind == "sink":
        if node.ordered:
            return Discipline.STRICT, "ordered: rows are written in (epoch, time, position) order"
        return Discipline.EPOCH, "rows of an epoch may be written in any order"
    if wish is Discipline.NONE:
        return wish, "asked for: processed on arrival, no guarantee"
    if wish is Discipline.STRICT:
        return wish, "asked for: every event in (epoch, time, position) order"
    if wish is not None and wish.merges_bags:
        return wish, _reason_of_merge(node)
    if node.traits.commutative:
        return Discipline.EPOCH, "commutative: no order inside an epoch can change its bytes"
    if wish is Discipline.EPOCH:
        raise TopologyError(
            f"operator {node.name!r}: discipline epoch needs a commutative operator, and this one "
            "is not declared commutative; use strict (or merge, where the numbers of slices never change), "
            "or declare `commutative = True` if any order of an epoch's events gives the same result",
            part=node.name,
        )
    return Discipline.STRICT, "not commutative: the order of events may change its result"


def _reason_of_merge(node: LogicalNode) -> str:
    reason = "asked for: an epoch's bags in the order of their channels"
    if node.traits.commutative:
        return f"{reason}, though it is commutative and any order gives its bytes"
    return (
        f"{reason}; the same bytes as long as it and what leads to it keep their numbers of slices, "
        "where strict gives the same for any"
    )


def _edge(node: LogicalNode, vertex: Vertex, host: Host, port: int) -> Edge:
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
        source=host.vertex,
        target=node.name,
        port=port,
        stages=host.stages,
        combined=combined and routing == "partition",
        routing=routing,
        carries_order=strict,
        # a commutative operator knows bags by what is in them
        sequenced=vertex.discipline.merges_bags and not node.traits.commutative,
        either=host.either is not None,
    )


def _committer(sink: str, replicas: int, scheme: Scheme) -> dict[str, Vertex]:
    name = sink + COMMITTER_SUFFIX
    return {
        name: Vertex(
            name,
            "committer",
            1,
            Discipline.EPOCH,
            "one slice commits for all sink slices",
            replicas,
            scheme,
        )
    }


def _committer_edge(sink: str) -> Edge:
    return Edge(sink, sink + COMMITTER_SUFFIX, 0, (), False, "forward", False)
