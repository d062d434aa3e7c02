"""The topology's graph: who reads from whom, in which order to visit them, and what leads nowhere.

Ties go by name, not by the order of the entries in a document; only where a loop begins may follow
from that (see loops).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from streammine.model.errors import TopologyError
from streammine.model.topology.loops import (
    DEFAULT_MAX_ROUNDS,
    Inputs,
    OperatorLoop,
    circles,
    cycle_text,
    cycle_without,
    head_of,
)

if TYPE_CHECKING:
    from streammine.model.topology.definition import Topology


@dataclass(frozen=True, order=True)
class Consumer:
    """A reader of a stream: the operator's or sink's name, and the port that the stream enters."""

    name: str
    port: int


@dataclass(frozen=True)
class TopologyGraph:
    """Sources, operators and sinks that lead to a sink; others are `unused` and don't run.

    `order`: names, inputs before readers, ties by name; of all inputs exactly those that lead back to
    the head of a loop stand behind their reader. `inputs`: per name, the input of each port (() for
    sources). `consumers`: per name, who reads its stream, by name and port (() for sinks). `loops`:
    those that are used, in the order of their heads.
    """

    order: tuple[str, ...]
    inputs: Mapping[str, tuple[str, ...]]
    consumers: Mapping[str, tuple[Consumer, ...]]
    unused: tuple[str, ...]
    loops: tuple[OperatorLoop, ...] = ()

    def upstream(self, name: str) -> frozenset[str]:
        """Everything that `name` gets rows from, directly or not."""
        return _reachable(name, self.inputs)

    def downstream(self, name: str) -> frozenset[str]:
        """Everything that gets rows from `name`, directly or not."""
        readers = {
            one: tuple(consumer.name for consumer in consumers)
            for one, consumers in self.consumers.items()
        }
        return _reachable(name, readers)


def operator_inputs(topology: Topology) -> dict[str, tuple[str, ...]]:
    """Per source, operator and output of a split, its inputs by port, in the order of declaration."""
    inputs: dict[str, tuple[str, ...]] = dict.fromkeys(topology.sources, ())
    operators = topology.every_operator
    return inputs | {name: operator.input_names for name, operator in operators.items()}


def topology_graph(topology: Topology) -> TopologyGraph:
    """The graph of a topology that `check` found right.

    Raises TopologyError for a loop that has no head.
    """
    between = operator_inputs(topology)
    inputs = between | {name: (sink.input,) for name, sink in topology.sinks.items()}
    used = frozenset(topology.sinks).union(*(_reachable(name, inputs) for name in topology.sinks))
    used_inputs = {name: inputs[name] for name in sorted(used)}
    consumers: dict[str, list[Consumer]] = {name: [] for name in used_inputs}
    for name, names in used_inputs.items():
        for port, one in enumerate(names):
            consumers[one].append(Consumer(name, port))
    heads = _heads(between)
    order = _sorted_by_inputs(_without_back_edges(used_inputs, heads))
    return TopologyGraph(
        order=order,
        inputs=used_inputs,
        consumers={name: tuple(sorted(readers)) for name, readers in consumers.items()},
        unused=tuple(sorted(set(inputs) - used)),
        loops=tuple(_loop(topology, head, heads[head], order) for head in order if head in heads),
    )


def _heads(inputs: Inputs) -> dict[str, tuple[str, ...]]:
    """Per head of a loop, the loop's members."""
    heads: dict[str, tuple[str, ...]] = {}
    for members in circles(inputs):
        head = head_of(members, inputs)
        if head is None:
            inner = cycle_without(members[0], members, inputs)
            raise TopologyError(f"a cycle inside a cycle: {cycle_text(inner)}")
        heads[head] = members
    return heads


def _without_back_edges(inputs: Inputs, heads: Mapping[str, tuple[str, ...]]) -> Inputs:
    return {
        name: tuple(one for one in names if one not in heads.get(name, ()))
        for name, names in inputs.items()
    }


def _loop(
    topology: Topology, head: str, members: tuple[str, ...], order: tuple[str, ...]
) -> OperatorLoop:
    operator = topology.operators[head]
    rounds = getattr(operator, "max_rounds", None)
    return OperatorLoop(
        head=head,
        members=tuple(name for name in order if name in members),
        back=tuple(name for name in dict.fromkeys(operator.input_names) if name in members),
        max_rounds=DEFAULT_MAX_ROUNDS if rounds is None else rounds,
    )


def topological_order(topology: Topology) -> list[str]:
    """Names of all that leads to a sink, inputs before their readers but for back-edges, ties by name."""
    return list(topology_graph(topology).order)


def _reachable(start: str, edges: Inputs) -> frozenset[str]:
    found: set[str] = set()
    waiting = list(edges.get(start, ()))
    while waiting:
        name = waiting.pop()
        if name not in found and name in edges:
            found.add(name)
            waiting += edges[name]
    return frozenset(found)


def _sorted_by_inputs(inputs: Inputs) -> tuple[str, ...]:
    missing = {name: len(set(names)) for name, names in inputs.items()}
    readers: dict[str, list[str]] = {name: [] for name in inputs}
    for name, names in inputs.items():
        for one in set(names):
            readers[one].append(name)
    ready = [name for name, count in missing.items() if count == 0]
    heapify(ready)
    order: list[str] = []
    while ready:
        name = heappop(ready)
        order.append(name)
        for reader in readers[name]:
            missing[reader] -= 1
            if missing[reader] == 0:
                heappush(ready, reader)
    assert len(order) == len(inputs), "a graph without cycles can be sorted"
    return tuple(order)
