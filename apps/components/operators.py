"""Incremental connected components: labels that spread along edges, round by round, in a loop.

A node's label is the least node number that it has heard of, at first its own. Whenever its label falls,
it tells its neighbours, and they do the same; when nothing is told any more, all nodes of a component
have the component's least number for their label, which is the component's name. Edges are only ever
added, so labels only ever fall, and what an epoch's edges don't touch is not looked at again.

Decisions of these operators:

One kind of row
    All rows that go round are messages: `node` is told by `neighbour` of the label `component`. An edge
    is two messages, each end telling the other its own number, which is never less than its label. So a
    node knows its neighbours from who has ever written to it. A message to oneself is a node's note that
    its label has changed: these leave the loop, the others lead back.
One batch per node and round
    `Labels` gets all messages of a node and round at once and answers once. So neither the order in which
    they arrive nor the number of slices can show in the rows that leave, and the cheapest discipline
    is enough. The price is `Messages`, the loop's head, which only brings two inputs together.
Silence
    A node does not tell neighbours that have just told it the same label: they know it.
The last value of an epoch
    A label may fall several times in an epoch. As it never rises, the last one is the least: a plain
    aggregate outside of the loop keeps min(component) per node and epoch.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from streammine import Mapper, Operator, Value

MESSAGE = pa.schema([("node", pa.int64()), ("neighbour", pa.int64()), ("component", pa.int64())])


class Ends(Mapper):
    """An edge (u, v) as two messages: both ends tell the other their own number."""

    output: ClassVar = MESSAGE
    needs: ClassVar = ("u", "v")

    def map_batch(self, batch: pa.RecordBatch) -> Any:
        u, v = (batch.column(name).to_numpy() for name in ("u", "v"))
        nodes = np.column_stack((u, v)).ravel()
        neighbours = np.column_stack((v, u)).ravel()
        parents = np.repeat(np.arange(batch.num_rows), 2)
        return pa.record_batch([nodes, neighbours, neighbours], schema=MESSAGE), parents


class Messages(Operator):
    """Where the loop begins: messages of new edges, and those that come round."""

    output: ClassVar = MESSAGE
    ports: ClassVar = ("edges", "told")
    commutative: ClassVar = True

    def process_edges(self, node: int, message: Any, state: Any) -> Any:
        return message

    def process_told(self, node: int, message: Any, state: Any) -> Any:
        return message


class Labels(Operator):
    """Keeps each node's label and neighbours, and tells who must know of a change."""

    output: ClassVar = MESSAGE
    state: ClassVar = {"component": Value(None), "neighbours": Value(())}
    commutative: ClassVar = True

    def process_batch(self, node: int, messages: pa.RecordBatch, state: Any) -> Any:
        told: dict[int, int] = {}
        for _, neighbour, component in zip(*messages.to_pydict().values(), strict=True):
            told[neighbour] = min(component, told.get(neighbour, component))
        before, known = state.component, state.neighbours
        state.component = min(node if before is None else before, *told.values())
        told.pop(node, None)
        state.neighbours = tuple(sorted({*known, *told}))
        changed = state.component != before
        to_tell = state.neighbours if changed else sorted({*told}.difference(known))
        receivers = [each for each in to_tell if told.get(each) != state.component]
        if changed:
            receivers.append(node)
        rows = len(receivers)
        columns = [receivers, [node] * rows, [state.component] * rows]
        return pa.record_batch(columns, schema=MESSAGE), np.zeros(rows, np.int64)
