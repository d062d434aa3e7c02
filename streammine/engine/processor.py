"""What a slice's work is: running the reader or operator, then the outgoing edges.

Runs on worker threads, one call at a time. Pure but for the contracts handed in (a reader, a spill, a
sink's store). Committed state changes in `CloseEpoch` only; everything of an open epoch lies in
accumulators by (channel, epoch), so that one channel's share can be discarded. `Freeze` comes between two
epochs, when committed state is all there is to keep.

A run of work may close several epochs. Those that become due in between are closed unasked, and once there is
enough, the rest are left: the machine asks for them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Protocol

import pyarrow as pa

from streammine.engine.bag import Bag, BagMemory
from streammine.engine.blame import Blame
from streammine.engine.edges import OutgoingEdges
from streammine.engine.kept import loaded
from streammine.engine.open_shares import OpenShares
from streammine.engine.order import in_strict_order
from streammine.engine.run_output import RunOutput
from streammine.engine.slice_settings import (
    EPOCHS_PER_RUN,
    INPUT_BYTES_PER_RUN,
    OUTPUT_BYTES_PER_RUN,
    RestoredTo,
)
from streammine.engine.span import Span
from streammine.engine.stimuli import (
    Accumulate,
    CloseEpoch,
    Discard,
    Finish,
    Freeze,
    TakeState,
    Work,
    WorkResult,
)
from streammine.model.contracts import (
    Accumulator,
    Carried,
    Commits,
    Counters,
    EpochClose,
    Flushes,
    FrozenSlice,
    GoesByTime,
    HoldsWindows,
    KeepsState,
    RunsUserCode,
    SequentialOperator,
    SetsAside,
    StatefulOperator,
    TellsTogether,
)
from streammine.model.disciplines import Discipline
from streammine.model.epochs import BEGINNING, INFINITY, EpochDefinition
from streammine.model.ids import (
    KEY_COLUMN_PREFIX,
    SliceId,
)
from streammine.model.snapshots import Restore, SnapshotRecord
from streammine.model.stream import visible

StateLoading = Callable[
    [StatefulOperator | SequentialOperator, SnapshotRecord | None, Restore],
    tuple[StatefulOperator | SequentialOperator, RestoredTo, int],
]
"""Gives an operator, with the snapshot that its state is exactly that of, the state of another one; it may be
replaced by a new operator. Tells, too, where that has led and how many bytes were read for it. Raises
SnapshotDamagedError."""

_CHANNEL = itemgetter(1)
"""Of (port, channel), by which what an open epoch holds is known."""


class Processor(Protocol):
    """Performs a slice's work. `elapsed_seconds` is time since the sources started, for pacing."""

    counters: Counters
    edges: OutgoingEdges

    def prepare(self) -> None: ...

    def perform(self, work: Sequence[Work], elapsed_seconds: float) -> WorkResult: ...

    def close(self) -> None: ...


class OperatorProcessor:
    """Runs a stateful, sequential, sink or committer operator."""

    def __init__(
        self,
        slice_id: SliceId,
        operator: StatefulOperator | SequentialOperator,
        discipline: Discipline,
        orders: Sequence[tuple[str, ...]],
        edges: OutgoingEdges,
        memory: BagMemory,
        epoch: EpochDefinition,
        order_columns: tuple[str, ...] = (),
        load_state: StateLoading | None = None,
        restored_after: int = BEGINNING,
    ) -> None:
        self.slice_id = slice_id
        self.discipline = discipline
        self.orders = tuple(orders)
        self.edges = edges
        self.memory = memory
        self.epoch = epoch
        self.order_columns = order_columns
        self.counters = Counters(counted_after=restored_after)
        self.held: SnapshotRecord | None = None
        """The snapshot that the state is exactly that of."""
        self._load_state = load_state
        self._use(operator)
        self._accumulators: dict[int, dict[tuple[int, int], Accumulator]] = {}
        self._bags: dict[int, dict[tuple[int, int], Bag]] = {}
        self._open_rows, self._open_batches = OpenShares(), OpenShares()

    def _use(self, operator: StatefulOperator | SequentialOperator) -> None:
        self.operator = operator
        # checks against protocols cost microseconds, so they are made once
        self._located = operator if isinstance(operator, RunsUserCode) else None
        self._holding = operator if isinstance(operator, HoldsWindows) else None
        self._setting_aside = operator if isinstance(operator, SetsAside) else None
        self._keeping = operator if isinstance(operator, KeepsState) else None
        self._committing = operator if isinstance(operator, Commits) else None
        self._folding = operator if isinstance(operator, StatefulOperator) else None
        self._sequential = operator if isinstance(operator, SequentialOperator) else None
        strict = self.discipline is Discipline.STRICT
        self._by_time = operator if strict and isinstance(operator, GoesByTime) else None
        self._telling = operator if isinstance(operator, TellsTogether) else None
        if self.edges.stamped:
            # a loop's times are not the epochs that such an operator tells
            self._telling = None
        user_code = self._located is not None or self._setting_aside is not None
        assert self._by_time is None or not user_code, "what it does is told with one epoch"
        self._merges_ports = getattr(operator, "merges_ports", False)
        # where any order is as good as another, accumulators merged by channel are the bags in that order
        self._buffers = (
            self.discipline is Discipline.STRICT
            or not operator.traits.mergeable
            or (self.discipline.merges_bags and not operator.traits.commutative)
            or self._folding is None
        )

    def prepare(self) -> None:
        self.operator.prepare()
        self.edges.prepare()

    def perform(self, work: Sequence[Work], elapsed_seconds: float) -> WorkResult:
        leaving = RunOutput(self.edges)
        closing: list[CloseEpoch] = []
        closed: list[int] = []
        enough = finished = False
        frozen = None
        taken, taken_bytes = None, 0
        for item in work:
            match item:
                case Accumulate():
                    self._accumulate(item)
                case CloseEpoch() if self._by_time is not None:
                    closing.append(item)
                case CloseEpoch():
                    enough = enough or not self._close(item, closed, leaving)
                case Discard(channel, epoch):
                    self._discard(channel, epoch)
                case Freeze():
                    frozen = self._freeze(item)
                case TakeState(restore):
                    taken, taken_bytes = self._take_state(restore)
                case Finish(epoch):
                    with Blame(self.slice_id, epoch):
                        self._finish(EpochClose(epoch, INFINITY, self.epoch), leaving)
                    finished = True
                case _:
                    raise AssertionError(f"{self.slice_id} can't {item}")
        if closing:
            self._close_through(closing, closed, leaving)
        if closed:
            with Blame(self.slice_id, self._epoch_of(closed[0]), self._epoch_of(closed[-1])):
                self._tell(leaving)
            leaving.end(closed[-1] + 1)
            self._open_rows.close(closed[-1])
            self._open_batches.close(closed[-1])
        outputs = leaving.outputs
        self.counters.rows_out += sum(output.rows for output in outputs)
        self.counters.rows_dead = self.edges.rows_dead
        self.counters.epochs += len(closed)
        self.counters.state_bytes = self.operator.state_nbytes
        self.counters.buffered_bytes = self.memory.used
        self.counters.spilled_bytes = self.memory.spilled
        if self._committing is not None:
            self.counters.extra["epochs_lost"] = self._committing.epochs_lost
        due = self._due() if closed else None
        return WorkResult(
            tuple(outputs),
            closed=tuple(closed),
            due=due,
            finished=finished,
            frozen=frozen,
            taken=taken,
            taken_bytes=taken_bytes,
        )

    def restore(
        self, record: SnapshotRecord, layers: Iterable[tuple[int, bool, Iterator[pa.Buffer]]]
    ) -> None:
        """Take in a snapshot before anything else. `layers`: version, full and pieces of each in its chain,
        the full one first."""
        assert self._keeping is not None, f"{self.slice_id} keeps no state"
        for version, full, pieces in layers:
            self._keeping.restore(version, full, pieces)
        self.held = record

    def _take_state(self, restore: Restore) -> tuple[RestoredTo, int]:
        assert self._load_state is not None
        assert self._telling is None or not self._telling.untold_nbytes, "results would be lost"
        operator, taken, nbytes = self._load_state(self.operator, self.held, restore)
        if operator is not self.operator:
            self._use(operator)
        self.held = restore.record
        for epoch in [each for each in self._accumulators if each <= taken.epoch]:
            del self._accumulators[epoch]
        for epoch in [each for each in self._bags if each <= taken.epoch]:
            for bag in self._bags.pop(epoch).values():
                bag.drop()
        self._count_after(taken.epoch)
        return taken, nbytes

    def _count_after(self, epoch: int) -> None:
        """What was counted of epochs up to this one has led to nothing: their rows are in the state."""
        self.counters.batches_in -= self._open_batches.close(epoch)
        self._open_rows.close(epoch)
        self.counters.rows_in = self._open_rows.total
        self.counters.counted_after = epoch

    def _freeze(self, item: Freeze) -> FrozenSlice:
        if self._keeping is None:
            return FrozenSlice(
                item.epoch,
                item.last_epoch,
                item.due,
                carried=_carried(item),
                lost_until=item.lost_until,
            )
        with Blame(self.slice_id, item.epoch):
            state = self._keeping.freeze(item.full)
        version = self._keeping.state_version
        carried = _carried(item)
        return FrozenSlice(
            item.epoch, item.last_epoch, item.due, None, version, state, carried, item.lost_until
        )

    # --- times: a loop's members have others ----------------------------------------------------

    def _epoch_of(self, at: int) -> int:
        """The epoch that the times of work name."""
        return at

    def _close_at(self, at: int, watermark: int) -> EpochClose:
        return EpochClose(at, watermark, self.epoch)

    def _due(self) -> int | None:
        return None if self._holding is None else self._holding.due_epoch

    def _finishing_at(self, epoch: int) -> int:
        """The time by which what leaves at the end, in an epoch of its own, goes through the edges."""
        return epoch

    def _accumulate(self, item: Accumulate) -> None:
        batch = loaded(item.body)
        assert batch is not None
        # without order one accumulator serves all channels: it can't be taken back, and needn't be
        channel = -1 if self.discipline is Discipline.NONE else item.channel
        self._count(item.epoch, channel, batch.num_rows)
        key = (item.port, channel)
        if self._buffers:
            bags = self._bags.setdefault(item.epoch, {})
            if key not in bags:
                bags[key] = Bag(self.memory)
            bags[key].add(batch)
            return
        accumulators = self._accumulators.setdefault(item.epoch, {})
        accumulator = accumulators.get(key)
        if accumulator is None:
            assert self._folding is not None
            accumulator = accumulators[key] = self._folding.accumulator(item.port)
        epoch = self._epoch_of(item.epoch)
        self._locate(epoch)
        with Blame(self.slice_id, epoch):
            accumulator.add(visible(batch))

    def _count(self, epoch: int, channel: int, rows: int) -> None:
        self.counters.rows_in += rows
        self.counters.batches_in += 1
        self._open_rows.add(epoch, channel, rows)
        self._open_batches.add(epoch, channel, 1)

    def _discard(self, channel: int, epoch: int) -> None:
        self.counters.rows_in -= self._open_rows.take_out(epoch, channel)
        self.counters.batches_in -= self._open_batches.take_out(epoch, channel)
        for held in (self._accumulators.get(epoch), self._bags.get(epoch)):
            for key in [key for key in held or () if key[1] == channel]:
                assert held is not None
                dropped = held.pop(key)
                if isinstance(dropped, Bag):
                    dropped.drop()

    def _locate(self, epoch: int) -> None:
        if self._located is not None:
            self._located.locate(self.slice_id.index, epoch)

    def _close_through(
        self, items: Sequence[CloseEpoch], closed: list[int], leaving: RunOutput
    ) -> None:
        """Close the first epoch, and with one call those behind it while they are near and small, be there
        others due between them."""
        first = items[0]
        epochs = [first.epoch]
        nbytes = self._bag_nbytes(first.epoch)
        for item in items[1:]:
            nbytes += self._bag_nbytes(item.epoch)
            if item.epoch >= first.epoch + EPOCHS_PER_RUN or nbytes > INPUT_BYTES_PER_RUN:
                break
            epochs.append(item.epoch)
        if len(epochs) == 1:
            self._close_one(first, closed, leaving)
            return
        last = items[len(epochs) - 1]
        assert self._by_time is not None
        assert not any(item.lost for item in items), f"{self.slice_id} is no committer"
        self.held = None
        close = self._close_at(last.epoch, last.watermark)
        with Blame(self.slice_id, first.epoch, last.epoch):
            for batch, of_rows in self._by_time.run_through(close, self._segments(epochs)):
                span = Span.by_row(self._ordered(batch), of_rows)
                assert span.epochs[0] >= first.epoch, f"rows of the closed epoch {span.epochs[0]}"
                assert span.epochs[-1] <= last.epoch, f"rows of epoch {span.epochs[-1]} too early"
                leaving.push_span(span)
        closed += epochs

    def _bag_nbytes(self, epoch: int) -> int:
        return sum(bag.nbytes for bag in self._bags.get(epoch, {}).values())

    def _close(self, item: CloseEpoch, closed: list[int], leaving: RunOutput) -> bool:
        """Close an epoch; behind others of its run of work, those first that have become due before it.
        Returns whether it was closed: not once the run has closed, or has made, enough."""
        while closed:
            untold = 0 if self._telling is None else self._telling.untold_nbytes
            if len(closed) >= EPOCHS_PER_RUN or leaving.nbytes + untold >= OUTPUT_BYTES_PER_RUN:
                return False
            due = self._due()
            if due is None or due >= item.epoch:
                break
            assert due > closed[-1], f"{self.slice_id}: epoch {due} is due behind {closed[-1]}"
            self._close_one(CloseEpoch(due, self.epoch.watermark(due)), closed, leaving)
        self._close_one(item, closed, leaving)
        return True

    def _close_one(self, item: CloseEpoch, closed: list[int], leaving: RunOutput) -> None:
        close = self._close_at(item.epoch, item.watermark)
        with Blame(self.slice_id, close.epoch):
            self._close_epoch(
                item.epoch, replace(close, lost=item.lost) if item.lost else close, leaving
            )
        closed.append(item.epoch)

    def _close_epoch(self, at: int, close: EpochClose, leaving: RunOutput) -> None:
        self.held = None
        self._locate(close.epoch)
        batches: Iterable[pa.RecordBatch] = ()
        if self._folding is not None:
            accumulators = self._folded(at, self._folding)
            if self._telling is None:
                batches = self._folding.close(close, accumulators)
            else:
                self._telling.close_untold(close, accumulators)
        else:
            assert self._sequential is not None
            batches = self._sequential.run(close, self._segments([at]))
        self._leave(at, batches, leaving)

    def _leave(self, epoch: int, batches: Iterable[pa.RecordBatch], leaving: RunOutput) -> None:
        """Results of an epoch go to the outgoing edges."""
        for batch in batches:
            leaving.push(epoch, self._ordered(batch))
        if self._setting_aside is not None and (dead := self._setting_aside.take_dead()):
            self._tell(leaving)
            leaving.dead(epoch, self.slice_id.vertex, dead)

    def _tell(self, leaving: RunOutput) -> None:
        """Results that the operator has not told yet go to the outgoing edges."""
        if self._telling is not None:
            for batch, of_rows in self._telling.tell():
                if batch.num_rows:
                    leaving.push_span(Span.by_row(self._ordered(batch), of_rows))

    def _ordered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with hidden copies of its order columns, where anything downstream needs them."""
        if not self.order_columns:
            return batch
        for number, name in enumerate(self.order_columns):
            batch = batch.append_column(f"{KEY_COLUMN_PREFIX}{number}", batch.column(name))
        return batch

    def _folded(self, epoch: int, operator: StatefulOperator) -> list[Accumulator]:
        """One accumulator per port: merged in channel order, or filled in the promised order."""
        folded: list[Accumulator | None] = [None] * len(operator.keys)
        held = self._accumulators.pop(epoch, {})
        for port, channel in sorted(held):
            into = folded[port]
            if into is None:
                folded[port] = held[port, channel]
            else:
                into.merge(held[port, channel])
        complete = [
            operator.accumulator(port) if accumulator is None else accumulator
            for port, accumulator in enumerate(folded)
        ]
        for port, batch in self._segments([epoch]):
            complete[port].add(visible(batch))
        return complete

    def _segments(self, epochs: Sequence[int]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The buffered bags of some epochs: strictly ordered; or of one, bag by bag in channel order."""
        held = [self._bags.pop(epoch, {}) for epoch in epochs]
        if self.discipline is Discipline.STRICT:
            ports: list[list[pa.RecordBatch]] = [[] for _ in self.orders]
            for bags in held:
                for port, channel in sorted(bags):
                    ports[port].extend(bags[port, channel].take())
            yield from in_strict_order(ports, self.orders, interleaved=not self._merges_ports)
            return
        (bags,) = held
        for port, channel in sorted(bags, key=_CHANNEL):
            for batch in bags[port, channel].take():
                yield port, batch

    def _finish(self, close: EpochClose, leaving: RunOutput) -> None:
        left = self.operator.flush(close) if isinstance(self.operator, Flushes) else ()
        at = self._finishing_at(close.epoch)
        self._leave(at, left, leaving)
        leaving.end(at + 1)

    def close(self) -> None:
        """Whoever hosts the replica closes its spill; what it has sent may still lie there."""


def _carried(item: Freeze) -> Carried | None:
    if item.next_epoch is None:
        return None
    rows = ((port, loaded(body)) for port, body in item.carried)
    return Carried(
        item.next_epoch, tuple((port, batch) for port, batch in rows if batch is not None)
    )
