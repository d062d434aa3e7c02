"""One outgoing edge of a slice: combiners, and the split by target slice.

Where an edge combines, rows end in one combiner per open epoch and leave as partials when the epoch ends
here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.engine.blame import Blame
from streammine.engine.span import Span
from streammine.engine.stimuli import Output
from streammine.model.batch_size import batch_nbytes
from streammine.model.contracts import (
    Combiner,
    DeadRows,
    IntArray,
    Partitioner,
    RunsUserCode,
    SetsAside,
    StatefulOperator,
)
from streammine.model.errors import UserCodeError
from streammine.model.ids import SliceId
from streammine.model.job import EdgeKind
from streammine.model.stamps import epoch_of, leaving, made_in
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
        self.located = user_code(self.combining)

    @property
    def splits(self) -> bool:
        """Whether it is worked out of each row where it goes."""
        partitioner = self.partitioner
        if self.combining is not None or self.forward_to is not None or not self.keys:
            return False
        return len(self.channels) > 1 and partitioner is not None and not partitioner.broadcast

    def push(self, slice_id: SliceId, span: Span, outputs: list[Output]) -> None:
        """Rows of open epochs leave; or come into a combiner, which those of one epoch alone may do."""
        if self.combining is not None:
            (epoch,) = span.epochs
            self._combine(slice_id, epoch, span.batch)
            return
        if self.kind != "plain":
            times = tuple(leaving(self.kind, epoch) for epoch in span.epochs)
            span = Span(span.batch, times, span.bounds)
        if not self.carries_order:
            span = span.showing(visible(span.batch))
        self._send(span, self.keys, outputs)

    def _combine(self, slice_id: SliceId, epoch: int, batch: pa.RecordBatch) -> None:
        shown = epoch
        if self.kind != "plain":
            shown, epoch = epoch_of(epoch), leaving(self.kind, epoch)
        combiner = self.combiners.get(epoch)
        if combiner is None:
            assert self.combining is not None
            combiner = self.combiners[epoch] = self.combining.combiner()
        if self.located is not None:
            self.located.locate(slice_id.index, shown)
        combiner.add(visible(batch))

    def end(
        self,
        slice_id: SliceId,
        open_epoch: int,
        outputs: list[Output],
        dead: list[tuple[int, str, DeadRows]],
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
            made = epoch if self.kind == "plain" else made_in(self.kind, epoch)
            with Blame(slice_id, made):
                partials = Span.one(epoch, combiner.partials())
                self._send(partials, self.combining.partial_keys, outputs)
            # only user code fails on single events; the check costs microseconds
            if self.located is None or not isinstance(combiner, SetsAside):
                continue
            if rows := combiner.take_dead():
                dead.append((epoch, self.combining.name, rows))

    def _send(self, span: Span, keys: tuple[str, ...], outputs: list[Output]) -> None:
        batch = span.batch
        if batch.num_rows == 0:
            return
        nbytes = batch_nbytes(batch)
        if nbytes > FRAME_BYTES and batch.num_rows > 1:
            for part in _smaller(span):
                self._send(part, keys, outputs)
        elif self.forward_to is not None:
            _put(self.channels[self.forward_to], span, nbytes, outputs)
        elif len(self.channels) == 1 or self.partitioner is None or not keys:
            _put(self.channels[0], span, nbytes, outputs)
        elif self.partitioner.broadcast:
            for channel in self.channels:
                _put(channel, span, nbytes, outputs)
        else:
            columns = [batch.column(name) for name in keys]
            answer = self.partitioner.targets(columns, len(self.channels))
            targets = self._checked(answer, batch.num_rows)
            # measuring each part costs more than it tells; credit needs no exact bytes
            row_nbytes = nbytes / batch.num_rows
            for target, epoch, part in split(span, targets, len(self.channels)):
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


def user_code(operator: object) -> RunsUserCode | None:
    """The operator, where its errors should say where they happened; most edges and stages have none."""
    # checks against protocols cost microseconds
    return operator if operator is not None and isinstance(operator, RunsUserCode) else None


def split(
    span: Span, targets: npt.NDArray[np.int32], slices: int
) -> list[tuple[int, int, pa.RecordBatch]]:
    """The rows by target slice and epoch, each part in the span's order; empty parts left out."""
    epochs = len(span.epochs)
    groups: IntArray = targets.astype(np.int64)
    if not span.is_single:
        groups = groups * epochs + span.numbers()
    # numpy sorts 16-bit integers by radix, several times as fast as wider ones
    narrow = np.int16 if slices * epochs <= np.iinfo(np.int16).max else np.int64
    order = np.argsort(groups.astype(narrow), kind="stable")
    counts = np.bincount(groups, minlength=slices * epochs)
    assert len(counts) == slices * epochs, "a partitioner named a slice that does not exist"
    ordered = span.batch.take(pa.array(order))
    parts = []
    start = 0
    for group in np.flatnonzero(counts).tolist():
        count = int(counts[group])
        target, number = divmod(group, epochs)
        parts.append((target, span.epochs[number], ordered.slice(start, count)))
        start += count
    return parts


def _smaller(span: Span) -> list[Span]:
    """Parts of a span: its epochs, or the halves of its only one."""
    if not span.is_single:
        return [Span.one(*part) for part in span.parts()]
    (epoch,), batch = span.epochs, span.batch
    half = batch.num_rows // 2
    return [Span.one(epoch, batch.slice(0, half)), Span.one(epoch, batch.slice(half))]


def _put(channel: int, span: Span, nbytes: int, outputs: list[Output]) -> None:
    """All rows leave by one channel, each epoch's for itself."""
    if span.is_single:
        outputs.append(_output(channel, span.epochs[0], span.batch, nbytes))
        return
    row_nbytes = nbytes / span.batch.num_rows
    for epoch, part in span.parts():
        outputs.append(_output(channel, epoch, part, int(part.num_rows * row_nbytes) + 1))


def _output(channel: int, epoch: int, batch: pa.RecordBatch, nbytes: int) -> Output:
    return Output(channel, epoch, batch.num_rows, nbytes, batch)
