"""The sending side of a slice: fused stages, combiners, and the split by target slice.

Outgoing edges share the stages they have in common: the stages form a tree whose root is the slice's own
output, so that no stage runs twice for a batch. Where an edge combines, rows end in one combiner per open
epoch and leave as partials when the epoch ends here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.engine.kept import batch_nbytes
from streammine.engine.stimuli import Output
from streammine.engine.union_order import UnionOrder
from streammine.model.contracts import (
    Combiner,
    Counters,
    DeadRows,
    Derived,
    Partitioner,
    Prepares,
    RunsUserCode,
    SetsAside,
    StatefulOperator,
    StatelessOperator,
    dead_batch,
)
from streammine.model.errors import UserCodeError
from streammine.model.ids import next_index_column
from streammine.model.job import EdgeKind
from streammine.model.stamps import epoch_of, leaving
from streammine.model.stream import visible

FRAME_BYTES = 64 << 20
"""Larger batches are cut before they leave."""


@dataclass
class OutgoingEdge:
    """One edge as its sending slice sees it. `channels[i]` leads to slice i of the target.

    With `forward_to` all rows go to that slice. `combining` is the target's operator when partials
    cross the shuffle. `carries_order`: hidden order columns travel along. `target` names the operator
    that a partitioner's mistake is told with. `kind`: at a loop's member, where the edge leads; there
    times come as stamps and leave as the channels speak (see stamps).
    """

    channels: tuple[int, ...]
    keys: tuple[str, ...]
    partitioner: Partitioner | None
    forward_to: int | None = None
    combining: StatefulOperator | None = None
    carries_order: bool = False
    target: str = ""
    kind: EdgeKind = "plain"
    combiners: dict[int, Combiner] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.located = _user_code(self.combining)

    def push(
        self, slice_index: int, epoch: int, batch: pa.RecordBatch, outputs: list[Output]
    ) -> None:
        shown = epoch
        if self.kind != "plain":
            shown, epoch = epoch_of(epoch), leaving(self.kind, epoch)
        if self.combining is not None:
            combiner = self.combiners.get(epoch)
            if combiner is None:
                combiner = self.combiners[epoch] = self.combining.combiner()
            if self.located is not None:
                self.located.locate(slice_index, shown)
            combiner.add(visible(batch))
            return
        self._send(epoch, batch if self.carries_order else visible(batch), self.keys, outputs)

    def end(
        self, open_epoch: int, outputs: list[Output], dead: list[tuple[int, str, DeadRows]]
    ) -> None:
        """Every epoch below `open_epoch` is complete here: its partials leave.

        Events that failed in a user's combiner are added to `dead`, with epoch and operator.
        """
        if not self.combiners:
            return
        open_epoch = leaving(self.kind, open_epoch) if self.kind != "plain" else open_epoch
        for epoch in sorted(epoch for epoch in self.combiners if epoch < open_epoch):
            combiner = self.combiners.pop(epoch)
            assert self.combining is not None
            self._send(epoch, combiner.partials(), self.combining.partial_keys, outputs)
            # only user code fails on single events; the check costs microseconds
            if self.located is None or not isinstance(combiner, SetsAside):
                continue
            if rows := combiner.take_dead():
                dead.append((epoch, self.combining.name, rows))

    def _send(
        self, epoch: int, batch: pa.RecordBatch, keys: tuple[str, ...], outputs: list[Output]
    ) -> None:
        if batch.num_rows == 0:
            return
        nbytes = batch_nbytes(batch)
        if nbytes > FRAME_BYTES and batch.num_rows > 1:
            half = batch.num_rows // 2
            self._send(epoch, batch.slice(0, half), keys, outputs)
            self._send(epoch, batch.slice(half), keys, outputs)
            return
        if self.forward_to is not None:
            outputs.append(_output(self.channels[self.forward_to], epoch, batch, nbytes))
        elif len(self.channels) == 1 or self.partitioner is None or not keys:
            outputs.append(_output(self.channels[0], epoch, batch, nbytes))
        elif self.partitioner.broadcast:
            outputs.extend(_output(channel, epoch, batch, nbytes) for channel in self.channels)
        else:
            columns = [batch.column(name) for name in keys]
            answer = self.partitioner.targets(columns, len(self.channels))
            targets = self._checked(answer, batch.num_rows)
            # measuring each part costs more than it tells; credit needs no exact bytes
            row_nbytes = nbytes / batch.num_rows
            for target, part in split(batch, targets, len(self.channels)):
                share = int(part.num_rows * row_nbytes) + 1
                outputs.append(_output(self.channels[target], epoch, part, share))

    def _checked(self, answer: object, rows: int) -> npt.NDArray[np.int32]:
        """A partitioner's answer, which may be a user's: rows must not get lost. Microseconds."""
        targets, slices = np.asarray(answer), len(self.channels)
        if targets.shape != (rows,) or targets.dtype.kind not in "iu":
            found = f"{targets.dtype} of shape {targets.shape}"
        elif (least := int(targets.min())) < 0 or int(targets.max()) >= slices:
            found = f"the slice {least if least < 0 else int(targets.max())}"
        else:
            return targets.astype(np.int32, copy=False)
        raise UserCodeError(
            f"operator '{self.target}': `targets` of its partitioner "
            f"{type(self.partitioner).__name__} gave {found} for {rows} rows and {slices} slices; it "
            f"must give one integer per row, from 0 to {slices - 1}"
        )


def split(
    batch: pa.RecordBatch, targets: npt.NDArray[np.int32], slices: int
) -> list[tuple[int, pa.RecordBatch]]:
    """The batch's rows by target slice, each part in the batch's order; empty parts left out."""
    # numpy sorts 16-bit integers by radix, several times as fast as wider ones
    order = np.argsort(targets.astype(np.int16), kind="stable")
    counts = np.bincount(targets, minlength=slices)
    assert len(counts) == slices, "a partitioner named a slice that does not exist"
    ordered = batch.take(pa.array(order))
    parts = []
    start = 0
    for target, count in enumerate(counts.tolist()):
        if count:
            parts.append((target, ordered.slice(start, count)))
        start += count
    return parts


def _user_code(operator: object) -> RunsUserCode | None:
    # checks against protocols cost microseconds, and most edges and stages have no operator
    return operator if operator is not None and isinstance(operator, RunsUserCode) else None


def _output(channel: int, epoch: int, batch: pa.RecordBatch, nbytes: int) -> Output:
    return Output(channel, epoch, batch.num_rows, nbytes, batch)


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
        self.located = _user_code(self.stage)


class OutgoingEdges:
    """All edges of one slice. `push` and `end` append to a list of outputs, epochs ascending."""

    def __init__(
        self,
        slice_index: int,
        root: StageNode,
        dead_edge: OutgoingEdge | None,
        stamped: bool = False,
    ) -> None:
        """`stamped`: the slice is a loop's member, its times are stamps."""
        self.stamped = stamped
        self.slice_index = slice_index
        self.root = root
        self.dead_edge = dead_edge
        self.rows_dead = 0
        self.dead_by_epoch: Counter[int] | None = None
        """How many of `rows_dead` an epoch has, where the slice asks for that; it forgets those that it
        has saved."""
        self._edges = list(_edges_below(root))

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

    def push(self, epoch: int, batch: pa.RecordBatch, outputs: list[Output]) -> None:
        if batch.num_rows:
            self._push(self.root, epoch, batch, outputs)

    def _push(
        self, node: StageNode, epoch: int, batch: pa.RecordBatch, outputs: list[Output]
    ) -> None:
        if node.stage is not None:
            node.counters.rows_in += batch.num_rows
            if node.located is not None:
                shown = epoch_of(epoch) if self.stamped else epoch
                node.located.locate(self.slice_index, shown)
            derived = node.stage.apply(visible(batch))
            if derived.dead is not None:
                self.dead(epoch, node.stage.name, derived.dead, outputs)
            if node.union_order is not None:
                batch = node.union_order.ordered(batch, derived)
            else:
                batch = _with_order(batch, derived, node.stage.one_to_many)
            node.counters.rows_out += batch.num_rows
            if batch.num_rows == 0:
                return
        for edge in node.edges:
            edge.push(self.slice_index, epoch, batch, outputs)
        for child in node.children:
            self._push(child, epoch, batch, outputs)

    def dead(self, epoch: int, origin: str, rows: DeadRows, outputs: list[Output]) -> None:
        """Rows that could not be used go to the dead-letter output; `epoch` is still open."""
        self.rows_dead += len(rows)
        if self.dead_by_epoch is not None:
            self.dead_by_epoch[epoch] += len(rows)
        if len(rows):
            assert self.dead_edge is not None, (
                f"{origin} is planned as if all rows were of use to it"
            )
            self.dead_edge.push(self.slice_index, epoch, dead_batch(origin, rows), outputs)

    def end(self, open_epoch: int, outputs: list[Output]) -> None:
        failed: list[tuple[int, str, DeadRows]] = []
        for edge in self._edges:
            edge.end(open_epoch, outputs, failed)
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
