"""The interval join: pairs of rows with equal keys whose event times lie near each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.model.contracts import (
    Accumulator,
    Combiner,
    DeadRows,
    EpochClose,
    IntArray,
    Traits,
)
from streammine.model.epochs import EpochDefinition
from streammine.model.topology.join_kinds import JoinKind
from streammine.operators import kept_rows
from streammine.operators.collected_rows import CollectedRows
from streammine.operators.event_time import EventTime
from streammine.operators.frozen import (
    Handover,
    check_version,
    decode_piece,
    encode_piece,
    row_pieces,
)
from streammine.operators.joined_columns import JoinedColumns, Keys, whole
from streammine.operators.kept_rows import KeptRows
from streammine.operators.kernels.warming import warm_up
from streammine.operators.key_numbers import KeyNumbers, present_keys
from streammine.operators.set_aside import SetAside

_LEFT, _RIGHT = 0, 1


@dataclass(frozen=True)
class _Arrived:
    """The usable rows of one side and epoch, with times (int64 microseconds) and key numbers (int64);
    and apart those with a null in their key, which equal nothing."""

    rows: pa.RecordBatch
    times: IntArray
    groups: IntArray
    keyless: pa.RecordBatch

    def only(self, wanted: npt.NDArray[np.bool_]) -> _Arrived:
        rows = self.rows.filter(pa.array(wanted))
        return _Arrived(rows, self.times[wanted], self.groups[wanted], self.keyless)


class IntervalJoin:
    """Pairs of rows with equal keys where the left time is more than the right one by `lowest` to
    `highest` microseconds, both inclusive (a StatefulOperator that HoldsWindows, KeepsState, SetsAside).

    A pair leaves in the epoch of the row whose epoch is later. A row without a partner leaves in the
    epoch of the last event time that a partner could have had, or in its own if that is later or its
    key has a null; a left row of a semi join in the epoch of the first pair that it would be in. So rows
    are kept until the watermark passes their last partner's time. Rows whose time lies before their epoch,
    or that have none, are set aside: a partner may be forgotten.
    """

    traits = Traits(commutative=True, mergeable=True, combinable=False, deterministic=True)
    partial_schema: pa.Schema | None = None
    partial_keys: tuple[str, ...] = ()
    state_version = 1

    def __init__(
        self,
        name: str,
        schemas: tuple[pa.Schema, pa.Schema],
        on: Keys,
        times: tuple[EventTime, EventTime],
        bounds: tuple[int, int],
        epoch: EpochDefinition,
        *,
        kind: JoinKind = JoinKind.INNER,
        suffix: str = "_right",
        ordered: bool = False,
    ) -> None:
        """`bounds`: lowest and highest. `on` may be empty: then all rows may meet. Raises TopologyError."""
        self.name = name
        self.keys: tuple[tuple[str, ...], ...] = on
        self._columns = JoinedColumns(name, schemas, on, kind, suffix)
        needed = None if kind.pairs else frozenset((*on[1], times[1].column))
        self.needs: tuple[frozenset[str] | None, ...] = (None, needed)
        self._kind = kind
        self._ordered = ordered
        read = pa.schema([field for field in schemas[1] if needed is None or field.name in needed])
        self._schemas = (schemas[0], read)
        self._times = times
        self._lowest, self._highest = bounds
        self._epoch = epoch
        self.output = self._columns.schema
        self.output_order: tuple[str, ...] = tuple(self.output.names)
        self._numbers = KeyNumbers([schemas[0].field(key).type for key in on[0]])
        self._kept = self._none_kept()
        self._frozen_ends: tuple[int, int] | None = None
        self._unusable = SetAside()

    def prepare(self) -> None:
        """Load the kernels, so that the first epoch does not wait for them."""
        warm_up()
        kept_rows.load_kernels()

    def combiner(self) -> Combiner:
        raise AssertionError("a join has no combiner: its traits say so")

    def accumulator(self, port: int) -> CollectedRows:
        assert port in (_LEFT, _RIGHT), f"a join has ports 0 and 1, not {port}"
        return CollectedRows()

    def close(
        self, epoch: EpochClose, accumulators: Sequence[Accumulator]
    ) -> Iterator[pa.RecordBatch]:
        """Join the epoch's rows with those that are kept. The state changes as the result is taken."""
        sides: list[list[pa.RecordBatch]] = []
        for side in accumulators:
            assert isinstance(side, CollectedRows)
            sides.append(side.batches)
        batches = self._joined(epoch, sides)
        return self._columns.in_order(batches) if self._ordered else batches

    @property
    def due_epoch(self) -> int | None:
        """The epoch in which the next row without a partner leaves."""
        times = [
            time
            for side, leaves in zip(self._kept, self._leaves_alone, strict=True)
            if leaves and (time := side.next_leaving()) is not None
        ]
        return min(times) // self._epoch.length if times else None

    @property
    def state_nbytes(self) -> int:
        return self._numbers.nbytes + sum(side.nbytes for side in self._kept)

    def take_dead(self) -> DeadRows | None:
        """See contracts.SetsAside."""
        return self._unusable.take()

    def freeze(self, full: bool) -> Handover:
        """See contracts.KeepsState: how many rows were dropped, those that came since, and who is alone."""
        full = full or self._frozen_ends is None
        ends = (0, 0) if full or self._frozen_ends is None else self._frozen_ends
        added = [
            side.since(max(0, end - side.dropped))
            for side, end in zip(self._kept, ends, strict=True)
        ]
        alone = [side.alone.copy() for side in self._kept]
        left, right = self._kept
        self._frozen_ends = (left.dropped + len(left), right.dropped + len(right))
        return Handover(full, _pieces([side.dropped for side in self._kept], added, alone))

    def restore(self, version: int, full: bool, pieces: Iterator[pa.Buffer]) -> None:
        """See contracts.KeepsState."""
        check_version(self.name, version, self.state_version)
        first, _ = decode_piece(next(pieces))
        if full:
            self._numbers = self._numbers.fresh()
            self._kept = self._none_kept()
        for side, dropped in zip(self._kept, first["dropped"], strict=True):
            side.drop_first(min(len(side), dropped - side.dropped))
            side.dropped = dropped
        filled = [0, 0]
        for piece in pieces:
            header, batches = decode_piece(piece)
            port = header["port"]
            side = self._kept[port]
            for batch in batches:
                if not header["alone"]:
                    times, _ = self._times[port].of(batch)
                    self._keep(port, batch, times, self._group(port, batch), None)
                    continue
                until = filled[port] + batch.num_rows
                side.alone[filled[port] : until] = batch.column(0).to_numpy(zero_copy_only=False)
                filled[port] = until
        self._numbers.settle()

    @property
    def _leaves_alone(self) -> tuple[bool, bool]:
        return (self._kind.left_alone, self._kind.right_alone)

    def _none_kept(self) -> tuple[KeptRows, KeptRows]:
        notes_left = self._kind.left_alone or not self._kind.pairs
        return (
            KeptRows(self._schemas[_LEFT], -self._lowest, notes_left),
            KeptRows(self._schemas[_RIGHT], self._highest, self._kind.right_alone),
        )

    def _joined(
        self, epoch: EpochClose, sides: Sequence[list[pa.RecordBatch]]
    ) -> Iterator[pa.RecordBatch]:
        left, right = (self._arrived(port, batches, epoch) for port, batches in enumerate(sides))
        number, columns = epoch.epoch, self._columns
        yield from (
            self._pairs(number, left, right)
            if self._kind.pairs
            else self._selected(number, left, right)
        )
        if self._kind.left_alone:
            yield from columns.left_alone(number, left.keyless, np.arange(left.keyless.num_rows))
        if self._kind.right_alone:
            yield from columns.right_alone(number, right.keyless, np.arange(right.keyless.num_rows))
        if not epoch.last:
            return
        kept_left, kept_right = self._kept
        if self._kind.left_alone:
            rows = kept_left.leaving(epoch.watermark)
            yield from columns.left_alone(number, kept_left.rows, rows)
        if self._kind.right_alone:
            rows = kept_right.leaving(epoch.watermark)
            yield from columns.right_alone(number, kept_right.rows, rows)
        for port in (_LEFT, _RIGHT):
            self._drop(port, epoch.watermark)
        self._renumber()

    def _pairs(self, epoch: int, left: _Arrived, right: _Arrived) -> Iterator[pa.RecordBatch]:
        """New left rows with right ones that are kept, then new right rows with all left ones."""
        kept_left, kept_right = self._kept
        left_alone = np.full(len(left.times) if kept_left.notes_alone else 0, True)
        right_alone = np.full(len(right.times) if kept_right.notes_alone else 0, True)
        partners = kept_right.partners(
            left.groups, left.times, (-self._highest, -self._lowest), left_alone, once=False
        )
        for rows, kept in partners:
            yield self._columns.pairs(epoch, left.rows, rows, kept_right.rows, kept)
        self._keep(_LEFT, left.rows, left.times, left.groups, left_alone)
        partners = kept_left.partners(
            right.groups, right.times, (self._lowest, self._highest), right_alone, once=False
        )
        for rows, kept in partners:
            yield self._columns.pairs(epoch, kept_left.rows, kept, right.rows, rows)
        self._keep(_RIGHT, right.rows, right.times, right.groups, right_alone)

    def _selected(self, epoch: int, left: _Arrived, right: _Arrived) -> Iterator[pa.RecordBatch]:
        """Of a semi join the left rows whose first partner comes in this epoch; of an anti join none."""
        kept_left, kept_right = self._kept
        leave = self._kind is JoinKind.SEMI
        alone = np.full(len(left.times), True)
        partners = kept_right.partners(
            left.groups, left.times, (-self._highest, -self._lowest), alone, once=True
        )
        for rows, _ in partners:
            if leave:
                yield from self._columns.left_alone(epoch, left.rows, rows)
        rest = left.only(alone)
        self._keep(_LEFT, rest.rows, rest.times, rest.groups, None)
        nobody = np.empty(0, np.bool_)
        partners = kept_left.partners(
            right.groups, right.times, (self._lowest, self._highest), nobody, once=True
        )
        for _, kept in partners:
            if leave:
                yield from self._columns.left_alone(epoch, kept_left.rows, kept)
        self._keep(_RIGHT, right.rows, right.times, right.groups, None)

    def _keep(
        self,
        port: int,
        rows: pa.RecordBatch,
        times: IntArray,
        groups: IntArray,
        alone: npt.NDArray[np.bool_] | None,
    ) -> None:
        side = self._kept[port]
        side.add(rows, times, groups, self._numbers.size, alone if side.notes_alone else None)

    def _drop(self, port: int, watermark: int) -> None:
        """Drop rows of a side that nothing can be near enough to any more, all or most of them."""
        side = self._kept[port]
        side.drop(watermark)
        needed = side.in_the_way(watermark)
        if needed is None:
            return
        rows = whole(side.rows.take(pa.array(needed)).to_batches(), self._schemas[port])
        times = side.times[needed]
        alone = side.alone[needed] if side.notes_alone else None
        side.drop_first(len(side))
        self._keep(port, rows, times, self._group(port, rows), alone)

    def _arrived(self, port: int, batches: list[pa.RecordBatch], epoch: EpochClose) -> _Arrived:
        """The rows of an epoch that can be used; the others are set aside."""
        schema = self._schemas[port]
        batch = whole([batch.select(schema.names) for batch in batches], schema)
        times, timed = self._times[port].of(batch)
        column = self._times[port].column
        if len(timed) < batch.num_rows:
            untimed = np.setdiff1d(np.arange(batch.num_rows), timed, assume_unique=True)
            reason = f"its event time, column {column!r}, is missing or out of range"
            self._unusable.add(reason, batch, untimed)
        start, _ = epoch.definition.window(epoch.epoch)
        late = times < start
        if late.any():
            reason = f"late: its event time, column {column!r}, lies before its epoch"
            self._unusable.add(reason, batch, timed[late])
            times, timed = times[~late], timed[~late]
        if len(timed) < batch.num_rows:
            batch = batch.take(pa.array(timed))
        present = present_keys([batch.column(key) for key in self.keys[port]])
        keyless = batch.slice(batch.num_rows)
        if present is not None:
            keyless = batch.filter(pa.array(~present))
            batch, times = batch.filter(pa.array(present)), times[present]
        return _Arrived(batch, times, self._group(port, batch), keyless)

    def _group(self, port: int, batch: pa.RecordBatch) -> IntArray:
        columns = [batch.column(key) for key in self.keys[port]]
        return self._numbers.of(columns, batch.num_rows)

    def _renumber(self) -> None:
        """Forget keys that no kept row has, once they may be the greater part."""
        if not self._numbers.outgrown:
            return
        self._numbers = self._numbers.fresh()
        for port, side in enumerate(self._kept):
            groups = [self._group(port, chunk) for chunk in side.since(0)]
            together = np.concatenate([np.empty(0, np.int64), *groups])
            side.renumber(together, self._numbers.size)
        self._numbers.settle()


def _pieces(
    dropped: list[int],
    added: Sequence[list[pa.RecordBatch]],
    alone: Sequence[npt.NDArray[np.bool_]],
) -> Iterator[pa.Buffer]:
    yield encode_piece({"dropped": dropped})
    for port, batches in enumerate(added):
        yield from row_pieces({"port": port, "alone": False}, batches)
    for port, flags in enumerate(alone):
        if len(flags):
            column = pa.record_batch([pa.array(flags)], names=["alone"])
            yield from row_pieces({"port": port, "alone": True}, [column])
