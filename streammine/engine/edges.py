"""The sending side of a slice: fused stages, and the edges behind them.

Outgoing edges share the stages they have in common: the stages form a tree whose root is the slice's own
output, so that no stage runs twice for a batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.engine.blame import Blame
from streammine.engine.outgoing_edge import OutgoingEdge, user_code
from streammine.engine.span import Span
from streammine.engine.stimuli import Output
from streammine.engine.union_order import UnionOrder
from streammine.model.contracts import (
    Counters,
    DeadRows,
    Derived,
    Prepares,
    RunsUserCode,
    StatelessOperator,
    dead_batch,
)
from streammine.model.ids import SliceId, next_index_column
from streammine.model.stamps import epoch_of
from streammine.model.stream import visible


@dataclass
class StageNode:
    """A point in the tree of stages: what is done to the rows that arrive there. `union_order`: how they are
    ordered behind it, where it is a union whose order somebody needs."""

    stage: StatelessOperator | None = None
    union_order: UnionOrder | None = None
    edges: list[OutgoingEdge] = field(default_factory=list)
    children: list[StageNode] = field(default_factory=list)
    counters: Counters = field(default_factory=Counters)

    def __post_init__(self) -> None:
        self.located = user_code(self.stage)


class OutgoingEdges:
    """All edges of one slice. `push` and `end` append to a list of outputs, epochs ascending."""

    def __init__(
        self,
        slice_id: SliceId,
        root: StageNode,
        dead_edge: OutgoingEdge | None,
        stamped: bool = False,
    ) -> None:
        """`stamped`: the slice is a loop's member, its times are stamps."""
        self.stamped = stamped
        self.slice_id = slice_id
        self.root = root
        self.dead_edge = dead_edge
        self.rows_dead = 0
        self.dead_by_epoch: Counter[int] | None = None
        """How many of `rows_dead` an epoch has, where the slice asks for that; it forgets those that it
        has saved."""
        self._edges = list(_edges_below(root))
        stages = len(_nodes_below(root)) > 1
        self.gain_by_spans = stages or any(each.splits for each in self._edges)
        """Whether anything is done here once per batch."""

    def prepare(self) -> None:
        """Import user code and load kernels, once, before the first batch."""
        for node in _nodes_below(self.root):
            if node.stage is not None:
                node.stage.prepare()
        for edge in self._edges:
            if edge.combining is not None:
                edge.combining.prepare()
            if edge.partitioner is not None and isinstance(edge.partitioner, Prepares):
                edge.partitioner.prepare()

    def push(self, span: Span, outputs: list[Output]) -> None:
        if span.batch.num_rows:
            self._push(self.root, span, outputs)

    def _push(self, node: StageNode, span: Span, outputs: list[Output]) -> None:
        if node.stage is not None:
            derived = self._derived(node.stage, node.located, span)
            if derived is None:
                for part in span.parts():
                    self._push(node, Span.one(*part), outputs)
                return
            before = span.batch
            node.counters.rows_in += before.num_rows
            if derived.dead is not None:
                self.dead(span.epochs[0], node.stage.name, derived.dead, outputs)
            if node.union_order is not None:
                batch = node.union_order.ordered(before, derived)
            else:
                batch = _with_order(before, derived, node.stage.one_to_many)
            node.counters.rows_out += batch.num_rows
            if batch.num_rows == 0:
                return
            span = span.derived(batch, derived)
        for edge in node.edges:
            with self._blame(span):
                edge.push(self.slice_id, span, outputs)
        for child in node.children:
            self._push(child, span, outputs)

    def _derived(
        self, stage: StatelessOperator, located: RunsUserCode | None, span: Span
    ) -> Derived | None:
        """What a stage makes of the rows; None where that has to be asked for each epoch, because of rows
        that it can't use: theirs has to be told."""
        if located is not None:
            located.locate(self.slice_id.index, self._shown(span.epochs[0]))
        if span.is_single:
            with self._blame(span):
                return stage.apply(visible(span.batch))
        try:
            derived = stage.apply(visible(span.batch))
        except Exception:
            return None
        return derived if derived.dead is None else None

    def _blame(self, span: Span) -> Blame:
        return Blame(self.slice_id, self._shown(span.epochs[0]), self._shown(span.epochs[-1]))

    def _shown(self, time: int) -> int:
        """The epoch that an error is told with."""
        return epoch_of(time) if self.stamped else time

    def dead(self, epoch: int, origin: str, rows: DeadRows, outputs: list[Output]) -> None:
        """Rows that could not be used go to the dead-letter output; `epoch` is still open."""
        self.rows_dead += len(rows)
        if self.dead_by_epoch is not None:
            self.dead_by_epoch[epoch] += len(rows)
        if len(rows):
            assert self.dead_edge is not None, (
                f"{origin} is planned as if all rows were of use to it"
            )
            self.dead_edge.push(self.slice_id, Span.one(epoch, dead_batch(origin, rows)), outputs)

    def end(self, open_epoch: int, outputs: list[Output]) -> None:
        failed: list[tuple[int, str, DeadRows]] = []
        told = self._shown(open_epoch - 1) if self.stamped else None
        for edge in self._edges:
            edge.end(self.slice_id, open_epoch, told, outputs, failed)
        for epoch, origin, rows in failed:
            self.dead(open_epoch - 1 if self.stamped else epoch, origin, rows, outputs)
        if len(outputs) > 1:
            outputs.sort(key=lambda output: output.epoch)

    @property
    def nbytes(self) -> int:
        """What open combiners hold."""
        return sum(combiner.nbytes for edge in self._edges for combiner in edge.combiners.values())

    def stage_counters(self) -> dict[str, Counters]:
        return {
            node.stage.name: node.counters
            for node in _nodes_below(self.root)
            if node.stage is not None
        }


def _nodes_below(node: StageNode) -> Sequence[StageNode]:
    nodes = [node]
    for child in node.children:
        nodes.extend(_nodes_below(child))
    return nodes


def _edges_below(node: StageNode) -> Sequence[OutgoingEdge]:
    return [edge for each in _nodes_below(node) for edge in each.edges]


def _with_order(before: pa.RecordBatch, derived: Derived, one_to_many: bool) -> pa.RecordBatch:
    """Give the derived rows their parents' hidden columns, and their index among their siblings."""
    batch = derived.batch
    hidden = [name for name in before.schema.names if name.startswith("__")]
    if not hidden:
        return batch
    parents = derived.parents
    places = None if parents is None else pa.array(parents)
    for name in hidden:
        values = before.column(name)
        batch = batch.append_column(name, values if places is None else values.take(places))
    if one_to_many:
        index = pa.array(_sibling_index(parents, batch.num_rows), pa.int32())
        batch = batch.append_column(next_index_column(hidden), index)
    return batch


def _sibling_index(parents: npt.NDArray[np.int64] | None, rows: int) -> npt.NDArray[np.int32]:
    """0, 1, 2, … within each run of equal parents."""
    if parents is None or rows == 0 or (parents[1:] != parents[:-1]).all():
        return np.zeros(rows, np.int32)
    index = np.arange(rows, dtype=np.int64)
    starts = np.flatnonzero(np.diff(parents, prepend=parents[0] - 1))
    lengths = np.diff(np.append(starts, rows))
    return (index - np.repeat(starts, lengths)).astype(np.int32)
