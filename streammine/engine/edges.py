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
    MayAskForEpoch,
    Prepares,
    StatelessOperator,
    dead_batch,
)
from streammine.model.ids import HIDDEN_PREFIX, SliceId, next_index_column
from streammine.model.stamps import epoch_of
from streammine.model.stream import visible

MOST_SPANS_APART = 64
"""A stage that can't be given several epochs at once is tried with them again after so many spans at most."""


@dataclass
class StageNode:
    """A point in the tree of stages: what is done to the rows that arrive there. `union_order`: how they are
    ordered behind it, where it is a union whose order somebody needs. `epoch_by_epoch`: it is never given
    rows of several epochs at once. `spans_apart`: nor is it for so many spans, after some that it could not
    be given at once."""

    stage: StatelessOperator | None = None
    union_order: UnionOrder | None = None
    edges: list[OutgoingEdge] = field(default_factory=list)
    children: list[StageNode] = field(default_factory=list)
    counters: Counters = field(default_factory=Counters)
    epoch_by_epoch: bool = field(init=False)
    spans_apart: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.located = user_code(self.stage)
        self.asking = self.located if isinstance(self.located, MayAskForEpoch) else None
        # what is tried on a span may be done once more, for each epoch
        self.epoch_by_epoch = self.stage is not None and not self.stage.deterministic
        self._apart_next = 1

    def taken_apart(self) -> None:
        """A span had to be done once more, epoch by epoch: the more often in a row, the longer it is not
        tried again."""
        self.spans_apart = self._apart_next
        self._apart_next = min(2 * self._apart_next, MOST_SPANS_APART)

    def taken_at_once(self) -> None:
        """A span was done."""
        self._apart_next = 1


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
        self._splits = any(each.splits for each in self._edges)

    @property
    def gain_by_spans(self) -> bool:
        """Whether anything is done here once per batch, be it of one epoch or of several."""
        return self._splits or not all(child.epoch_by_epoch for child in self.root.children)

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
            derived = self._derived(node, node.stage, span)
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
            self._leave(edge, span, outputs)
        for child in node.children:
            self._push(child, span, outputs)

    def _derived(self, node: StageNode, stage: StatelessOperator, span: Span) -> Derived | None:
        """What a stage makes of the rows; None where it has to be given each epoch's for themselves: because
        it wants to know the epoch, or because of rows that it can't use, whose epoch has to be told."""
        if not span.is_single and (node.epoch_by_epoch or node.spans_apart):
            node.spans_apart = max(0, node.spans_apart - 1)
            return None
        epoch = self._shown(span.epochs[0])
        if node.located is not None:
            node.located.locate(self.slice_id.index, epoch)
        if span.is_single:
            with Blame(self.slice_id, epoch):
                derived = stage.apply(visible(span.batch))
            node.epoch_by_epoch |= node.asking is not None and node.asking.asked_for_epoch
            return derived
        try:
            derived = stage.apply(visible(span.batch))
        except AssertionError:
            raise
        except Exception:
            # the same once more says in which epoch it is
            node.taken_apart()
            return None
        if node.asking is not None and node.asking.asked_for_epoch:
            node.epoch_by_epoch = True
            return None
        if derived.dead is not None:
            node.taken_apart()
            return None
        node.taken_at_once()
        return derived

    def _leave(self, edge: OutgoingEdge, span: Span, outputs: list[Output]) -> None:
        """Rows go to an edge; where it fails on those of several epochs, as a user's partitioner may, once
        more epoch by epoch, to say in which of them it does."""
        if edge.combining is None and not span.is_single:
            before = len(outputs)
            try:
                edge.push(self.slice_id, span, outputs)
            except AssertionError:
                raise
            except Exception:
                del outputs[before:]
            else:
                return
        for epoch, batch in span.parts():
            with Blame(self.slice_id, self._shown(epoch)):
                edge.push(self.slice_id, Span.one(epoch, batch), outputs)

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
        for edge in self._edges:
            edge.end(self.slice_id, open_epoch, outputs, failed)
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
    hidden = [name for name in before.schema.names if name.startswith(HIDDEN_PREFIX)]
    if not hidden:
        return batch
    parents = derived.parents
    # all at once costs less than one after the other
    order = before.select(hidden)
    if parents is not None:
        order = order.take(pa.array(parents))
    for name, values in zip(hidden, order.columns, strict=True):
        batch = batch.append_column(name, values)
    if one_to_many:
        index = pa.array(_sibling_index(parents, batch.num_rows))
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
