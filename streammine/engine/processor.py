"""What a slice's work is: running the reader or operator, then the outgoing edges.

Runs on worker threads, one call at a time. Pure but for the contracts handed in (a reader, a spill, a
sink's store). Committed state changes in `CloseEpoch` only; everything of an open epoch lies in
accumulators by (channel, epoch), so that one channel's share can be discarded. `Freeze` comes between two
epochs, when committed state is all there is to keep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Protocol

import numpy as np
import pyarrow as pa

from streammine.engine.bag import Bag, BagMemory
from streammine.engine.edges import OutgoingEdges
from streammine.engine.kept import loaded
from streammine.engine.order import in_strict_order
from streammine.engine.stimuli import (
    Accumulate,
    CloseEpoch,
    Discard,
    Finish,
    Freeze,
    Output,
    Read,
    Work,
    WorkResult,
)
from streammine.model.contracts import (
    Accumulator,
    Carried,
    Counters,
    Delivery,
    Discipline,
    EpochClose,
    Flushes,
    FrozenSlice,
    HoldsWindows,
    KeepsState,
    Piece,
    Position,
    RunsUserCode,
    SequentialOperator,
    SetsAside,
    SourceReader,
    StatefulOperator,
)
from streammine.model.epochs import BEGINNING, INFINITY, EpochDefinition
from streammine.model.errors import StreammineError, UserCodeError
from streammine.model.ids import (
    FILE_COLUMN,
    KEY_COLUMN_PREFIX,
    ROW_COLUMN,
    TIME_COLUMN,
    SliceId,
)
from streammine.model.stream import visible

MOST_PLACES = 4096
"""Places in a source that are remembered for the next snapshot."""

_CHANNEL = itemgetter(1)
"""Of (port, channel), by which what an open epoch holds is known."""


class Processor(Protocol):
    """Performs a slice's work. `elapsed_seconds` is time since the sources started, for pacing."""

    counters: Counters
    edges: OutgoingEdges

    def prepare(self) -> None: ...

    def perform(self, work: Sequence[Work], elapsed_seconds: float) -> WorkResult: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Place:
    """A reader's position, with the highest epoch of the rows before it and how many they are."""

    highest: int
    reader: Position
    rows_in: int

    def saved(self, rows_dead: int) -> Position:
        """What a snapshot holds. `rows_dead`: how many there are in the epochs that it covers."""
        return {"reader": self.reader, "rows_in": self.rows_in, "rows_dead": rows_dead}


class SourceProcessor:
    """Reads a source slice's share and pushes it through the outgoing edges."""

    def __init__(
        self,
        slice_id: SliceId,
        open_reader: Callable[[Position | None], SourceReader],
        edges: OutgoingEdges,
        carries_order: bool,
        carries_time: bool,
        position: Position | None = None,
        restored_after: int = BEGINNING,
        checkpointed: bool = False,
    ) -> None:
        """`position` and `restored_after` are of the snapshot that the replica goes on from: rows that the
        reader repeats of epochs up to that one are passed over."""
        self.slice_id = slice_id
        self.open_reader = open_reader
        self.reader: SourceReader | None = None
        self.edges = edges
        self.carries_order = carries_order
        self.carries_time = carries_time
        self.counters = Counters()
        self._restored_after = restored_after
        self._start = position
        self._places: list[_Place] = []
        self._highest = BEGINNING
        self._checkpointed = checkpointed
        self._saved_dead = 0
        if checkpointed:
            self.edges.dead_by_epoch = Counter()
        if position is not None:
            self.counters.rows_in = position["rows_in"]
            self._saved_dead = edges.rows_dead = position["rows_dead"]

    def prepare(self) -> None:
        self.edges.prepare()

    def perform(self, work: Sequence[Work], elapsed_seconds: float) -> WorkResult:
        (item,) = work
        if isinstance(item, Finish):
            self.close()
            return WorkResult(finished=True)
        if isinstance(item, Freeze):
            return WorkResult(frozen=self._freeze(item))
        assert isinstance(item, Read)
        if self.reader is None:
            # no byte of the input is touched before the job runs
            start = self._start
            self.reader = self.open_reader(None if start is None else start["reader"])
        outputs: list[Output] = []
        last_epoch = BEGINNING
        for _ in range(item.times):
            if self._checkpointed:
                self._note_place(self.reader.position())
            delivery = self.reader.read(item.rows, elapsed_seconds, item.given_below)
            last_epoch = max(last_epoch, self._deliver(delivery, outputs))
            if delivery.exhausted or delivery.wake_after_seconds is not None:
                break
        self._count(outputs)
        return WorkResult(
            outputs=tuple(outputs),
            open_epoch=max(delivery.open_epoch, _after(self._restored_after)),
            exhausted=delivery.exhausted,
            wake_after_seconds=delivery.wake_after_seconds,
            last_epoch=last_epoch,
        )

    def _deliver(self, delivery: Delivery, outputs: list[Output]) -> int:
        """Push what was read through the edges; returns the highest epoch that is known to be."""
        known = self._restored_after
        highest = BEGINNING
        for epoch, dead in delivery.dead:
            highest = max(highest, epoch)
            if epoch > known:
                self.edges.dead(epoch, self.slice_id.vertex, dead, outputs)
        for piece in delivery.pieces:
            highest = max(highest, piece.epoch)
            if piece.epoch > known:
                with _Blame(self.slice_id, piece.epoch):
                    self.edges.push(piece.epoch, self._positioned(piece), outputs)
        with _Blame(self.slice_id, delivery.open_epoch):
            self.edges.end(delivery.open_epoch, outputs)
        self.counters.rows_in += delivery.rows_read
        self._highest = max(self._highest, highest)
        if delivery.open_epoch not in (BEGINNING, INFINITY):
            # a source may promise more than its rows say
            highest = max(highest, delivery.open_epoch - 1)
        return highest

    def _note_place(self, position: Position) -> None:
        """A place to go on from, with the highest epoch of which rows lie before it."""
        if len(self._places) >= MOST_PLACES:
            # an earlier place than the best is as right, and costs only some reading
            del self._places[1::2]
        place = _Place(self._highest, position, self.counters.rows_in)
        if self._places and self._places[-1].highest == self._highest:
            self._places[-1] = place
        else:
            self._places.append(place)

    def _freeze(self, item: Freeze) -> FrozenSlice:
        """The last place before which no row of an epoch above the snapshot's lies."""
        before = [place for place in self._places if place.highest <= item.epoch]
        position = before[-1].saved(self._dead_until(item.epoch)) if before else self._start
        self._places = self._places[max(0, len(before) - 1) :]
        return FrozenSlice(item.epoch, item.last_epoch, item.due, position)

    def _dead_until(self, epoch: int) -> int:
        """Dead rows of the epochs up to this one, whatever was read of later ones."""
        dead = self.edges.dead_by_epoch
        assert dead is not None
        for each in [each for each in dead if each <= epoch]:
            self._saved_dead += dead.pop(each)
        return self._saved_dead

    def _positioned(self, piece: Piece) -> pa.RecordBatch:
        if not self.carries_order:
            return piece.batch
        count = piece.batch.num_rows
        if piece.rows is not None:
            rows = piece.rows
        else:
            rows = np.arange(piece.row, piece.row + count, dtype=np.int64)
        files = piece.files
        if files is None:
            files = np.full(count, piece.file, np.int32)
        columns = list(piece.batch.columns)
        names = list(piece.batch.schema.names)
        if self.carries_time:
            assert piece.times is not None, "a reader of time epochs gives each row's time"
            columns.append(pa.array(piece.times, pa.int64()))
            names.append(TIME_COLUMN)
        columns += [pa.array(files, pa.int32()), pa.array(rows, pa.int64())]
        names += [FILE_COLUMN, ROW_COLUMN]
        return pa.record_batch(columns, names=names)

    def _count(self, outputs: list[Output]) -> None:
        self.counters.batches_in += 1
        self.counters.rows_out += sum(output.rows for output in outputs)
        self.counters.rows_dead = self.edges.rows_dead
        self.counters.state_bytes = self.edges.nbytes

    def close(self) -> None:
        if self.reader is not None:
            self.reader.close()
            self.reader = None


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
    ) -> None:
        self.slice_id = slice_id
        self.operator = operator
        self.discipline = discipline
        self.orders = tuple(orders)
        self.edges = edges
        self.memory = memory
        self.epoch = epoch
        self.order_columns = order_columns
        self.counters = Counters()
        # checks against protocols cost microseconds, so they are made once
        self._located = operator if isinstance(operator, RunsUserCode) else None
        self._holding = operator if isinstance(operator, HoldsWindows) else None
        self._setting_aside = operator if isinstance(operator, SetsAside) else None
        self._keeping = operator if isinstance(operator, KeepsState) else None
        self._folding = operator if isinstance(operator, StatefulOperator) else None
        self._sequential = operator if isinstance(operator, SequentialOperator) else None
        # where any order is as good as another, accumulators merged by channel are the bags in that order
        self._buffers = (
            discipline is Discipline.STRICT
            or not operator.traits.mergeable
            or (discipline.merges_bags and not operator.traits.commutative)
            or self._folding is None
        )
        self._accumulators: dict[int, dict[tuple[int, int], Accumulator]] = {}
        self._bags: dict[int, dict[tuple[int, int], Bag]] = {}

    def prepare(self) -> None:
        self.operator.prepare()
        self.edges.prepare()

    def perform(self, work: Sequence[Work], elapsed_seconds: float) -> WorkResult:
        outputs: list[Output] = []
        closed: list[int] = []
        finished = False
        frozen = None
        for item in work:
            match item:
                case Accumulate():
                    self._accumulate(item)
                case CloseEpoch(epoch, watermark):
                    with _Blame(self.slice_id, self._epoch_of(epoch)):
                        self._close_epoch(epoch, self._close_at(epoch, watermark), outputs)
                    closed.append(epoch)
                case Discard(channel, epoch):
                    self._discard(channel, epoch)
                case Freeze():
                    frozen = self._freeze(item)
                case Finish(epoch):
                    with _Blame(self.slice_id, epoch):
                        self._finish(EpochClose(epoch, INFINITY, self.epoch), outputs)
                    finished = True
                case _:
                    raise AssertionError(f"{self.slice_id} can't {item}")
        self.counters.rows_out += sum(output.rows for output in outputs)
        self.counters.rows_dead = self.edges.rows_dead
        self.counters.epochs += len(closed)
        self.counters.state_bytes = self.operator.state_nbytes
        self.counters.waiting_bytes = self.memory.used
        self.counters.spilled_bytes = self.memory.spilled
        due = self._due() if closed else None
        return WorkResult(
            tuple(outputs), closed=tuple(closed), due=due, finished=finished, frozen=frozen
        )

    def _freeze(self, item: Freeze) -> FrozenSlice:
        if self._keeping is None:
            return FrozenSlice(item.epoch, item.last_epoch, item.due, carried=_carried(item))
        with _Blame(self.slice_id, item.epoch):
            state = self._keeping.freeze(item.full)
        version = self._keeping.state_version
        carried = _carried(item)
        return FrozenSlice(item.epoch, item.last_epoch, item.due, None, version, state, carried)

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

    def restore(self, version: int, full: bool, pieces: Iterator[pa.Buffer]) -> None:
        """Take in one snapshot of a chain, the full one first."""
        assert self._keeping is not None, f"{self.slice_id} keeps no state"
        self._keeping.restore(version, full, pieces)

    def _accumulate(self, item: Accumulate) -> None:
        batch = loaded(item.body)
        assert batch is not None
        self.counters.rows_in += batch.num_rows
        self.counters.batches_in += 1
        # without order one accumulator serves all channels: it can't be taken back, and needn't be
        channel = -1 if self.discipline is Discipline.NONE else item.channel
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
        with _Blame(self.slice_id, epoch):
            accumulator.add(visible(batch))

    def _discard(self, channel: int, epoch: int) -> None:
        for held in (self._accumulators.get(epoch), self._bags.get(epoch)):
            for key in [key for key in held or () if key[1] == channel]:
                assert held is not None
                dropped = held.pop(key)
                if isinstance(dropped, Bag):
                    dropped.drop()

    def _locate(self, epoch: int) -> None:
        if self._located is not None:
            self._located.locate(self.slice_id.index, epoch)

    def _close_epoch(self, at: int, close: EpochClose, outputs: list[Output]) -> None:
        self._locate(close.epoch)
        batches: Iterable[pa.RecordBatch]
        if self._folding is not None:
            batches = self._folding.close(close, self._folded(at, self._folding))
        else:
            assert self._sequential is not None
            batches = self._sequential.run(close, self._segments(at))
        self._leave(at, batches, outputs)

    def _leave(self, epoch: int, batches: Iterable[pa.RecordBatch], outputs: list[Output]) -> None:
        """Results of an epoch go through the outgoing edges, and the epoch is over here."""
        for batch in batches:
            self.edges.push(epoch, self._ordered(batch), outputs)
        if self._setting_aside is not None and (dead := self._setting_aside.take_dead()):
            self.edges.dead(epoch, self.slice_id.vertex, dead, outputs)
        self.edges.end(epoch + 1, outputs)

    def _ordered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with hidden copies of its order columns, where anything downstream needs them."""
        if not self.order_columns:
            return batch
        hidden = [batch.column(name) for name in self.order_columns]
        names = [f"{KEY_COLUMN_PREFIX}{number}" for number in range(len(hidden))]
        return pa.record_batch([*batch.columns, *hidden], names=[*batch.schema.names, *names])

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
        for port, batch in self._segments(epoch):
            complete[port].add(visible(batch))
        return complete

    def _segments(self, epoch: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The buffered bags of the epoch: strictly ordered, or bag by bag in channel order."""
        bags = self._bags.pop(epoch, {})
        if self.discipline is Discipline.STRICT:
            ports: list[list[pa.RecordBatch]] = [[] for _ in self.orders]
            for port, channel in sorted(bags):
                ports[port].extend(bags[port, channel].take())
            yield from in_strict_order(ports, self.orders)
            return
        for port, channel in sorted(bags, key=_CHANNEL):
            for batch in bags[port, channel].take():
                yield port, batch

    def _finish(self, close: EpochClose, outputs: list[Output]) -> None:
        left = self.operator.flush(close) if isinstance(self.operator, Flushes) else ()
        self._leave(self._finishing_at(close.epoch), left, outputs)

    def close(self) -> None:
        """Whoever hosts the replica closes its spill; what it has sent may still lie there."""


class _Blame:
    """Context that names slice and epoch in whatever an operator raises that is not our own error."""

    def __init__(self, slice_id: SliceId, epoch: int) -> None:
        self.slice_id = slice_id
        self.epoch = epoch

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(
            error, (StreammineError, AssertionError)
        ):
            raise UserCodeError(
                f"operator {self.slice_id.vertex!r}, slice {self.slice_id}, epoch {self.epoch}: "
                f"{type(error).__name__}: {error}"
            ) from error


def _carried(item: Freeze) -> Carried | None:
    if item.next_epoch is None:
        return None
    rows = ((port, loaded(body)) for port, body in item.carried)
    return Carried(
        item.next_epoch, tuple((port, batch) for port, batch in rows if batch is not None)
    )


def _after(epoch: int) -> int:
    return epoch if epoch == BEGINNING else epoch + 1
