"""The topology's graph: who reads from whom, in which order to visit them, and what leads nowhere.

Nothing here depends on the order of the entries in a document: ties go by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from streammine.model.errors import TopologyError

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

    `order`: names, inputs before readers, ties by name. `inputs`: per name, the input of each port
    (() for sources). `consumers`: per name, who reads its stream, by name and port (() for sinks).
    """

    order: tuple[str, ...]
    inputs: Mapping[str, tuple[str, ...]]
    consumers: Mapping[str, tuple[Consumer, ...]]
    unused: tuple[str, ...]

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


def all_inputs(topology: Topology) -> dict[str, tuple[str, ...]]:
    """Per name, its inputs by port; of everything that the topology holds."""
    inputs: dict[str, tuple[str, ...]] = dict.fromkeys(topology.sources, ())
    inputs |= {name: operator.input_names for name, operator in topology.operators.items()}
    inputs |= {name: (sink.input,) for name, sink in topology.sinks.items()}
    return inputs


def topology_graph(topology: Topology) -> TopologyGraph:
    """The graph of a topology that `check` found right. Raises TopologyError for a cycle."""
    inputs = all_inputs(topology)
    found = cycle(inputs)
    if found:
        raise TopologyError(cycle_text(found))
    used = frozenset(topology.sinks).union(*(_reachable(name, inputs) for name in topology.sinks))
    used_inputs = {name: inputs[name] for name in sorted(used)}
    consumers: dict[str, list[Consumer]] = {name: [] for name in used_inputs}
    for name, names in used_inputs.items():
        for port, one in enumerate(names):
            consumers[one].append(Consumer(name, port))
    return TopologyGraph(
        order=_sorted_by_inputs(used_inputs),
        inputs=used_inputs,
        consumers={name: tuple(sorted(readers)) for name, readers in consumers.items()},
        unused=tuple(sorted(set(inputs) - used)),
    )


def topological_order(topology: Topology) -> list[str]:
    """Names of all that leads to a sink, inputs before their readers, ties by name."""
    return list(topology_graph(topology).order)


def cycle(inputs: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The names around one cycle, in the direction the rows flow; () when there is none.

    Inputs that don't exist are passed over.
    """
    finished: set[str] = set()
    for start in sorted(inputs):
        trail: list[str] = []
        waiting: list[tuple[str, int]] = [(start, 0)]
        while waiting:
            name, depth = waiting.pop()
            for left in trail[depth:]:
                finished.add(left)
            del trail[depth:]
            if name in trail:
                return _from_lowest(tuple(reversed(trail[trail.index(name) :])))
            if name in finished or name not in inputs:
                continue
            trail.append(name)
            waiting += [(one, len(trail)) for one in sorted(set(inputs[name]), reverse=True)]
        finished.update(trail)
    return ()


def cycle_text(names: tuple[str, ...]) -> str:
    """What is wrong with a cycle."""
    around = " → ".join([*names, names[0]])
    return (
        f"the operators form a cycle: {around}; loops are not available yet, "
        "let one of them read from elsewhere"
    )


def _from_lowest(names: tuple[str, ...]) -> tuple[str, ...]:
    start = names.index(min(names))
    return names[start:] + names[:start]


def _reachable(start: str, edges: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    found: set[str] = set()
    waiting = list(edges.get(start, ()))
    while waiting:
        name = waiting.pop()
        if name not in found and name in edges:
            found.add(name)
            waiting += edges[name]
    return frozenset(found)


def _sorted_by_inputs(inputs: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
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
