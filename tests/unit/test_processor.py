"""What a slice's work is: reading on from a place, accumulating, discarding, freezing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.engine import source_processor as module
from streammine.engine.bag import BagMemory
from streammine.engine.edges import OutgoingEdges, StageNode
from streammine.engine.outgoing_edge import OutgoingEdge
from streammine.engine.processor import OperatorProcessor
from streammine.engine.slice_settings import RestoredTo
from streammine.engine.source_processor import SourceProcessor
from streammine.engine.stimuli import (
    Accumulate,
    CloseEpoch,
    Discard,
    Finish,
    Freeze,
    Output,
    Read,
    TakeState,
    Work,
)
from streammine.model.contracts import (
    Accumulator,
    Combiner,
    EpochClose,
    FrozenState,
    Position,
    StatefulOperator,
    Traits,
)
from streammine.model.disciplines import Discipline
from streammine.model.epochs import BEGINNING, INFINITY, EpochDefinition
from streammine.model.errors import UserCodeError
from streammine.model.ids import SliceId
from streammine.model.snapshots import Restore, SnapshotRecord
from streammine.model.source_contracts import Delivery, Piece
from tests.unit.memory_spill import MemorySpill

EPOCH = EpochDefinition("count", 10)


def edges(channel: int = 8) -> OutgoingEdges:
    return OutgoingEdges(
        SliceId("counts", 0), StageNode(edges=[OutgoingEdge((channel,), (), None, 0)]), None
    )


def numbers(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(values, pa.int64())})


def values(outputs: Sequence[Output]) -> list[tuple[int, list[int]]]:
    found = []
    for output in outputs:
        assert isinstance(output.body, pa.RecordBatch)
        found.append((output.epoch, output.body.column("n").to_pylist()))
    return found


# --- sources -----------------------------------------------------------------------------------


class Rows:
    """A reader of rows 0, 1, … with their epochs; its positions lie on every third row."""

    total_rows = None
    step = 3

    def __init__(self, epochs: Sequence[int], position: Position | None) -> None:
        self.epochs = epochs
        self.row = 0 if position is None else position["row"]

    def read(self, rows: int, elapsed_seconds: float, given_below: int = BEGINNING) -> Delivery:
        rows = min(rows, len(self.epochs) - self.row)
        taken = range(self.row, self.row + rows)
        self.row += rows
        pieces = tuple(
            Piece(epoch, numbers(*[row for row in taken if self.epochs[row] == epoch]), rows=None)
            for epoch in sorted({self.epochs[row] for row in taken})
        )
        rest = self.epochs[self.row :]
        open_epoch = min(rest, default=INFINITY)
        return Delivery(pieces, open_epoch, rows, exhausted=not rest)

    def position(self) -> Position:
        return {"row": self.row - self.row % self.step}

    def close(self) -> None:
        self.row = len(self.epochs)


class Unreadable:
    num_rows = 1

    def read(self) -> pa.RecordBatch:
        raise ValueError("no such page")


class Half(Rows):
    """What it gives of the second epoch can't be decoded."""

    def read(self, rows: int, elapsed_seconds: float, given_below: int = BEGINNING) -> Delivery:
        pieces = (Piece(4, numbers(1)), Piece(5, Unreadable()), Piece(6, numbers(2)))
        return Delivery(pieces, INFINITY, 3, exhausted=True)


def test_what_cannot_be_decoded_is_told_with_its_epoch() -> None:
    stage: Any = None
    together = OutgoingEdges(SliceId("source", 0), StageNode(children=[StageNode(stage)]), None)
    assert together.gain_by_spans
    processor = SourceProcessor(
        SliceId("source", 0), lambda place: Half((), place), together, False, False
    )
    with pytest.raises(UserCodeError, match="slice source/0, epoch 5: ValueError: no such page"):
        processor.perform([Read(3, 1)], 0.0)


def source(
    epochs: Sequence[int], position: Position | None = None, after: int = BEGINNING
) -> SourceProcessor:
    return SourceProcessor(
        SliceId("source", 0),
        lambda place: Rows(epochs, place),
        edges(),
        carries_order=False,
        carries_time=False,
        position=position,
        restored_after=after,
        checkpointed=True,
    )


def read_all(processor: SourceProcessor, rows: int) -> dict[int, list[int]]:
    bags: dict[int, list[int]] = {}
    while True:
        result = processor.perform([Read(rows, 2)], 0.0)
        for epoch, found in values(result.outputs):
            bags.setdefault(epoch, []).extend(found)
        if result.exhausted:
            return {epoch: sorted(bag) for epoch, bag in bags.items()}


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=40),
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(0, 20),
    st.data(),
)
def test_a_source_goes_on_behind_a_snapshot_with_every_later_bag_whole(
    jitter: list[int], rows: int, other_rows: int, reads: int, data: st.DataObject
) -> None:
    epochs = [place // 3 + early for place, early in enumerate(jitter)]
    expected = read_all(source(epochs), 7)
    first = source(epochs)
    for _ in range(reads):
        if first.perform([Read(rows, 1)], 0.0).exhausted:
            break
    after = data.draw(st.integers(-1, max(epochs)))
    frozen = first.perform([Freeze(after, True, after, None)], 0.0).frozen
    assert frozen is not None
    assert (frozen.epoch, frozen.last_epoch, frozen.state) == (after, after, None)
    again = source(epochs, frozen.position, after)
    resumed = read_all(again, other_rows)
    assert resumed == {epoch: bag for epoch, bag in expected.items() if epoch > after}


def test_rows_are_counted_once_however_often_a_source_is_restored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Rows, "step", 1)
    epochs = [row // 4 for row in range(40)]
    first = source(epochs)
    for _ in range(4):
        first.perform([Read(5, 1)], 0.0)
    frozen = first.perform([Freeze(2, True, 4, None)], 0.0).frozen
    assert frozen is not None
    again = source(epochs, frozen.position, 2)
    read_all(again, 5)
    assert again.counters.rows_in == 40


def test_places_are_bounded_and_the_oldest_is_never_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_PLACES", 8)
    epochs = list(range(100))
    first = source(epochs)
    for _ in range(60):
        first.perform([Read(1, 1)], 0.0)
    for after in (0, 20, 50):
        frozen = first.perform([Freeze(after, True, after, None)], 0.0).frozen
        assert frozen is not None
        resumed = read_all(source(epochs, frozen.position, after), 10)
        assert sorted(resumed) == list(range(after + 1, 100))


def test_no_byte_is_read_before_the_first_read_nor_after_the_end() -> None:
    opened: list[Position | None] = []

    def opening(place: Position | None) -> Rows:
        opened.append(place)
        return Rows([0, 1], place)

    processor = SourceProcessor(SliceId("source", 0), opening, edges(), False, False)
    processor.prepare()
    assert opened == []
    processor.perform([Read(5)], 0.0)
    assert opened == [None]
    assert processor.perform([Finish(2)], 0.0).finished
    assert processor.reader is None


def test_of_each_epoch_the_row_that_has_been_due_for_longest_is_known() -> None:
    class Paced(Rows):
        def read(self, rows: int, elapsed_seconds: float, given_below: int = BEGINNING) -> Delivery:
            found = super().read(rows, elapsed_seconds, given_below)
            waiting = (replace(each, waited_seconds=3.0 - self.row / 10) for each in found.pieces)
            return replace(found, pieces=tuple(waiting))

    opened = SliceId("source", 0), lambda place: Paced([0, 0, 1, 2], place), edges()
    processor = SourceProcessor(*opened, carries_order=False, carries_time=False)
    processor.perform([Read(1, 3)], 0.0)
    assert processor.waited_seconds == pytest.approx({0: 2.9, 1: 2.7})
    processor.perform([Read(1, 1)], 0.0)
    assert processor.waited_seconds == pytest.approx({2: 2.6})


# --- operators ---------------------------------------------------------------------------------


class Sum:
    nbytes = 8

    def __init__(self) -> None:
        self.total = 0
        self.batches = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self.total += int(np.sum(batch.column("n").to_numpy()))
        self.batches += 1

    def merge(self, other: Sum) -> None:
        self.total += other.total
        self.batches += other.batches


class Latest:
    """The sum of each epoch; nothing is kept from one epoch to the next."""

    name = "total"
    output = pa.schema({"n": pa.int64()})
    output_order: tuple[str, ...] = ()
    keys: tuple[tuple[str, ...], ...] = ((),)
    needs: tuple[frozenset[str] | None, ...] = (None,)
    partial_schema: pa.Schema | None = None
    partial_keys: tuple[str, ...] = ()
    state_nbytes = 8

    def __init__(self, mergeable: bool = True) -> None:
        self.traits = Traits(mergeable=mergeable)

    def prepare(self) -> None:
        return None

    def combiner(self) -> Combiner:
        raise NotImplementedError

    def accumulator(self, port: int) -> Sum:
        return Sum()

    def close(self, epoch: EpochClose, accumulators: Sequence[Accumulator]) -> list[pa.RecordBatch]:
        (accumulator,) = accumulators
        assert isinstance(accumulator, Sum)
        return [numbers(self.kept(accumulator.total))]

    def kept(self, total: int) -> int:
        return total


class Broken(Latest):
    def kept(self, total: int) -> int:
        raise ValueError("boom")


class Total(Latest):
    """State: the sum of all numbers so far, which leaves with each epoch."""

    state_version = 3

    def __init__(self, mergeable: bool = True) -> None:
        super().__init__(mergeable)
        self.total = 0
        self.full_wanted: list[bool] = []

    def kept(self, total: int) -> int:
        self.total += total
        return self.total

    def freeze(self, full: bool) -> FrozenState:
        self.full_wanted.append(full)
        return Held(self.total)

    def restore(self, version: int, full: bool, pieces: Iterator[pa.Buffer]) -> None:
        assert (version, full) == (self.state_version, True)
        self.total = int(b"".join(bytes(piece) for piece in pieces))


class Held:
    full = True

    def __init__(self, total: int) -> None:
        self.total = total

    def pieces(self) -> Iterator[pa.Buffer]:
        yield pa.py_buffer(str(self.total).encode())


def total(
    mergeable: bool = True,
    memory_bytes: int = 1000,
    spill: MemorySpill | None = None,
    operator: StatefulOperator | None = None,
    discipline: Discipline = Discipline.EPOCH,
) -> OperatorProcessor:
    return OperatorProcessor(
        SliceId("total", 0),
        operator or Total(mergeable),
        discipline,
        ((),),
        edges(),
        BagMemory(memory_bytes, spill or MemorySpill()),
        EPOCH,
    )


def give(channel: int, epoch: int, *rows: int) -> Accumulate:
    return Accumulate(channel, 0, epoch, 0, numbers(*rows))


def performed(processor: OperatorProcessor, *work: Work) -> list[tuple[int, list[int]]]:
    return values(processor.perform(work, 0.0).outputs)


@pytest.mark.parametrize("mergeable", [True, False])
def test_what_is_discarded_of_one_channel_and_epoch_leaves_the_rest_alone(mergeable: bool) -> None:
    processor = total(mergeable)
    performed(processor, give(0, 5, 1), give(1, 5, 10), give(0, 6, 100), give(0, 5, 2))
    performed(processor, Discard(0, 5), Discard(0, 5), Discard(3, 5), Discard(0, 9))
    assert performed(processor, give(0, 5, 4), CloseEpoch(5, 0)) == [(5, [14])]
    assert performed(processor, CloseEpoch(6, 0)) == [(6, [114])]


def test_a_discarded_bag_gives_its_memory_and_its_place_on_disk_back() -> None:
    spill = MemorySpill()
    processor = total(mergeable=False, memory_bytes=10, spill=spill)
    performed(processor, give(0, 5, 1), give(0, 5, 2), give(1, 5, 3))
    assert (processor.memory.used, len(spill.batches)) == (8, 2)
    performed(processor, Discard(0, 5))
    assert (processor.memory.used, len(spill.batches)) == (0, 1)
    assert performed(processor, CloseEpoch(5, 0)) == [(5, [3])]
    assert len(spill.batches) == 0


def test_open_epochs_are_not_part_of_what_is_frozen() -> None:
    processor = total()
    performed(processor, give(0, 5, 7), CloseEpoch(5, 0), give(0, 6, 1000))
    result = processor.perform([Freeze(5, True, 6, 9)], 0.0)
    frozen = result.frozen
    assert frozen is not None
    assert (frozen.epoch, frozen.last_epoch, frozen.due, frozen.state_version) == (5, 6, 9, 3)
    assert frozen.position is None
    assert frozen.state is not None
    other = total()
    record = SnapshotRecord(5, 1, "counts/0/5", "sum", 10)
    layer = (frozen.state_version, frozen.state.full, frozen.state.pieces())
    other.restore(record, [layer])
    assert other.held == record
    again = [performed(each, give(0, 7, 1), CloseEpoch(7, 0)) for each in (processor, other)]
    assert again == [[(7, [8])]] * 2


def test_an_increment_is_asked_for_where_the_machine_says_so() -> None:
    processor = total()
    for full in (True, False):
        processor.perform([Freeze(5, full, 5, None)], 0.0)
    assert isinstance(processor.operator, Total)
    assert processor.operator.full_wanted == [True, False]


def test_an_operator_without_state_has_nothing_to_freeze() -> None:
    processor = total(operator=Latest())
    frozen = processor.perform([Freeze(5, True, 5, 7)], 0.0).frozen
    assert frozen is not None
    assert (frozen.state, frozen.due) == (None, 7)


def test_an_error_names_slice_and_epoch() -> None:
    processor = total(operator=Broken())
    with pytest.raises(UserCodeError, match=r"slice total/0, epoch 5: ValueError: boom"):
        performed(processor, give(0, 5, 1), CloseEpoch(5, 0))


def test_what_is_discarded_does_not_count_and_nothing_of_a_closed_epoch_is_taken_out() -> None:
    processor = total()
    performed(processor, give(0, 5, 1, 2), give(1, 5, 10), give(0, 5, 3), give(0, 6, 100))
    assert counted(processor) == (5, 4)
    performed(processor, Discard(0, 5))
    assert counted(processor) == (2, 2)
    performed(processor, Discard(0, 5), give(0, 5, 1, 2, 3), CloseEpoch(5, 0))
    assert counted(processor) == (5, 3)
    performed(processor, Discard(0, 5), Discard(0, 6), give(0, 6, 100, 200), CloseEpoch(6, 0))
    assert counted(processor) == (6, 3)


def test_without_order_what_was_given_stays_and_counts() -> None:
    processor = total(discipline=Discipline.NONE)
    performed(processor, give(0, 5, 1, 2), Discard(0, 5), give(0, 5, 1, 2))
    assert counted(processor) == (4, 2)
    assert performed(processor, CloseEpoch(5, 0)) == [(5, [6])]


@pytest.mark.parametrize("mergeable", [True, False])
def test_of_a_snapshot_that_is_taken_in_only_rows_of_later_epochs_count(mergeable: bool) -> None:
    processor = total(mergeable)
    record = SnapshotRecord(7, 1, "total/0/7", "sum", 10)
    processor._load_state = lambda operator, held, restore: (operator, RestoredTo(7, 8), 10)
    performed(processor, give(0, 5, 1, 2), CloseEpoch(5, 0), give(0, 6, 3), give(0, 8, 4, 5))
    assert (*counted(processor), processor.counters.counted_after) == (5, 3, BEGINNING)
    performed(processor, TakeState(Restore(7, record)))
    assert (*counted(processor), processor.counters.counted_after) == (2, 2, 7)
    performed(processor, Discard(0, 8), give(0, 8, 6), CloseEpoch(8, 0), give(1, 9, 7, 8))
    assert counted(processor) == (3, 3)


def counted(processor: OperatorProcessor) -> tuple[int, int]:
    return processor.counters.rows_in, processor.counters.batches_in
