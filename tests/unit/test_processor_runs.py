"""Runs of work that close several epochs: what is due in between, how large results may get, and operators
that take them all with one call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pytest

from streammine.engine import processor as module
from streammine.engine.bag import BagMemory
from streammine.engine.edges import OutgoingEdges, StageNode
from streammine.engine.outgoing_edge import OutgoingEdge
from streammine.engine.processor import OperatorProcessor
from streammine.engine.stimuli import Accumulate, CloseEpoch, Discard, Work, WorkResult
from streammine.model.contracts import (
    Accumulator,
    Combiner,
    DeadRows,
    EpochClose,
    IntArray,
    SequentialOperator,
    StatefulOperator,
    Traits,
)
from streammine.model.disciplines import Discipline
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import UserCodeError
from streammine.model.ids import TIME_COLUMN, SliceId
from streammine.operators.collected_rows import CollectedRows
from tests.unit.memory_spill import MemorySpill

TIMES = EpochDefinition("time", 10, "ts")


class Delayed:
    """Tells the largest number of each epoch `delay` epochs later, be there anything or not."""

    name = "delayed"
    traits = Traits()
    output = pa.schema({"n": pa.int64()})
    output_order: tuple[str, ...] = ()
    keys: tuple[tuple[str, ...], ...] = ((),)
    needs: tuple[frozenset[str] | None, ...] = (None,)
    partial_schema: pa.Schema | None = None
    partial_keys: tuple[str, ...] = ()
    state_nbytes = 0

    def __init__(self, delay: int) -> None:
        self._delay = delay
        self._held: dict[int, int] = {}

    def prepare(self) -> None:
        pass

    def combiner(self) -> Combiner:
        raise NotImplementedError

    def accumulator(self, port: int) -> CollectedRows:
        return CollectedRows()

    def close(self, epoch: EpochClose, accumulators: Sequence[Accumulator]) -> list[pa.RecordBatch]:
        (rows,) = accumulators
        assert isinstance(rows, CollectedRows)
        assert epoch.watermark == (epoch.epoch + 1) * 10
        if rows.batches:
            told = max(max(batch.column("n").to_pylist()) for batch in rows.batches)
            self._held[epoch.epoch + self._delay] = told
        number = self._held.pop(epoch.epoch, None)
        return [] if number is None else [pa.record_batch({"n": [number]})]

    @property
    def due_epoch(self) -> int | None:
        return min(self._held, default=None)


class InTime:
    """Tells of each number with its time, and of each ten microseconds later; how often it was called is
    counted. Fails on 13."""

    name = "in time"
    traits = Traits(commutative=False, mergeable=False)
    output = pa.schema({"n": pa.int64()})
    output_order: tuple[str, ...] = ()
    keys: tuple[tuple[str, ...], ...] = ((),)
    needs: tuple[frozenset[str] | None, ...] = (None,)
    state_nbytes = 0

    def __init__(self) -> None:
        self.calls = 0
        self._times: list[tuple[int, int]] = []

    def prepare(self) -> None:
        pass

    def run(
        self, epoch: EpochClose, bag: Iterator[tuple[int, pa.RecordBatch]]
    ) -> list[pa.RecordBatch]:
        return [batch for batch, _ in self.run_through(epoch, bag)]

    def run_through(
        self, epoch: EpochClose, bag: Iterator[tuple[int, pa.RecordBatch]]
    ) -> list[tuple[pa.RecordBatch, IntArray]]:
        self.calls += 1
        for _, batch in bag:
            numbers = batch.column("n").to_pylist()
            if 13 in numbers:
                raise OverflowError("13")
            times = batch.column(TIME_COLUMN).to_pylist()
            assert times == sorted(times)
            self._times += zip(times, numbers, strict=True)
            self._times += [(time + 10, -number) for time, number in self._times if number > 0]
        told = sorted({each for each in self._times if each[0] < epoch.watermark})
        self._times = [each for each in self._times if each not in told]
        if not told:
            return []
        batch = pa.record_batch({"n": [number for _, number in told]})
        return [(batch, np.array([time // 10 for time, _ in told]))]


class Together(Delayed):
    """Tells what it has to tell of all epochs in one batch; 13 is set aside, and 12 told. Fails on 99."""

    def __init__(self, delay: int) -> None:
        super().__init__(delay)
        self._untold: list[tuple[int, int]] = []
        self._dead: DeadRows | None = None

    def close(self, epoch: EpochClose, accumulators: Sequence[Accumulator]) -> list[pa.RecordBatch]:
        raise AssertionError("it tells together")

    def close_untold(self, epoch: EpochClose, accumulators: Sequence[Accumulator]) -> None:
        for batch in super().close(epoch, accumulators):
            (number,) = batch.column("n").to_pylist()
            if number == 13:
                self._dead = DeadRows(("unlucky",), ("13",), (None,), (None,))
                number = 12
            self._untold.append((epoch.epoch, number))

    @property
    def untold_nbytes(self) -> int:
        return 8 * len(self._untold)

    def tell(self) -> list[tuple[pa.RecordBatch, IntArray]]:
        untold, self._untold = self._untold, []
        numbers = [number for _, number in untold]
        if 99 in numbers:
            raise OverflowError("99")
        batch = pa.record_batch({"n": pa.array(numbers, pa.int64())})
        return [(batch, np.array([epoch for epoch, _ in untold], np.int64))]

    def take_dead(self) -> DeadRows | None:
        dead, self._dead = self._dead, None
        return dead


def processor(
    operator: StatefulOperator | SequentialOperator,
    discipline: Discipline = Discipline.EPOCH,
    stamped: bool = False,
) -> OperatorProcessor:
    plain = OutgoingEdge((8,), (), None)
    dead = OutgoingEdge((9,), (), None) if isinstance(operator, Together) else None
    return OperatorProcessor(
        SliceId("small", 0),
        operator,
        discipline,
        ((TIME_COLUMN,),),
        OutgoingEdges(SliceId("small", 0), StageNode(edges=[plain]), dead, stamped),
        BagMemory(1000, MemorySpill()),
        TIMES,
    )


def give(epoch: int, *numbers: int) -> Accumulate:
    times = pa.array([epoch * 10] * len(numbers), pa.int64())
    return Accumulate(0, 0, epoch, 0, pa.record_batch({"n": numbers, TIME_COLUMN: times}))


def close(epoch: int) -> CloseEpoch:
    return CloseEpoch(epoch, TIMES.watermark(epoch))


def told(result: WorkResult) -> list[tuple[int, list[int]]]:
    found = []
    for output in result.outputs:
        assert isinstance(output.body, pa.RecordBatch)
        assert output.channel == 8
        found.append((output.epoch, output.body.column("n").to_pylist()))
    return found


SEVERAL: list[Work] = [give(4, 1), close(4), give(5, 2), close(5), give(9, 3), close(9)]


def test_what_becomes_due_between_two_epochs_is_closed_there() -> None:
    result = processor(Delayed(2)).perform(SEVERAL, 0.0)
    assert result.closed == (4, 5, 6, 7, 9)
    assert result.due == 11
    assert told(result) == [(6, [1]), (7, [2])]


def test_what_is_due_before_the_first_of_a_run_is_left_to_the_machine() -> None:
    """It has been told of it with the run before, and would have asked for it."""
    delayed = processor(Delayed(1))
    assert delayed.perform([give(4, 1), close(4)], 0.0).due == 5
    result = delayed.perform([give(7, 2), close(5), close(7)], 0.0)
    assert (result.closed, told(result)) == ((5, 7), [(5, [1])])


def test_large_results_end_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OUTPUT_BYTES_PER_RUN", 8)
    delayed = processor(Delayed(0))
    result = delayed.perform(SEVERAL, 0.0)
    assert (result.closed, told(result)) == ((4,), [(4, [1])])
    # what came of the others has been taken in already
    result = delayed.perform([close(5), close(9)], 0.0)
    assert (result.closed, told(result)) == ((5,), [(5, [2])])
    assert told(delayed.perform([close(9)], 0.0)) == [(9, [3])]


def test_what_is_due_counts_as_what_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window may have hundreds of epochs that are due between two with rows."""
    monkeypatch.setattr(module, "EPOCHS_PER_RUN", 3)
    delayed = processor(Delayed(2))
    result = delayed.perform([*SEVERAL, close(10)], 0.0)
    assert (result.closed, result.due) == ((4, 5, 6), 7)
    # nothing behind what is left is closed
    result = delayed.perform([close(7), close(9), close(10)], 0.0)
    assert (result.closed, told(result)) == ((7, 9, 10), [(7, [2])])


def test_who_makes_much_of_what_is_due_ends_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OUTPUT_BYTES_PER_RUN", 8)
    delayed = processor(Delayed(2))
    result = delayed.perform(SEVERAL, 0.0)
    assert (result.closed, result.due, told(result)) == ((4, 5, 6), 7, [(6, [1])])


class BehindItself(Delayed):
    """Wants an epoch closed that has been."""

    @property
    def due_epoch(self) -> int | None:
        return 3


def test_who_wants_a_closed_epoch_closed_is_found_out() -> None:
    with pytest.raises(AssertionError, match="epoch 3 is due behind 4"):
        processor(BehindItself(2)).perform(SEVERAL, 0.0)


def test_who_goes_by_time_is_given_all_epochs_at_once() -> None:
    in_time = InTime()
    result = processor(in_time, Discipline.STRICT).perform(SEVERAL, 0.0)
    assert in_time.calls == 1
    assert result.closed == (4, 5, 9)
    assert told(result) == [(4, [1]), (5, [-1, 2]), (6, [-2]), (9, [3])]


def test_together_epochs_tell_what_they_tell_one_by_one() -> None:
    one_by_one = processor(InTime(), Discipline.STRICT)
    due = [close(6)]
    apart = [told(one_by_one.perform(work, 0.0)) for work in (SEVERAL[:4], due, SEVERAL[4:])]
    together = processor(InTime(), Discipline.STRICT).perform(SEVERAL, 0.0)
    assert [each for part in apart for each in part] == told(together)


@pytest.mark.parametrize(
    ("setting", "value", "closed"),
    [
        # a batch of one row has 16 bytes, and waits on disk or in memory
        ("INPUT_BYTES_PER_RUN", 32, (4, 5)),
        ("INPUT_BYTES_PER_RUN", 31, (4,)),
        ("EPOCHS_PER_RUN", 6, (4, 5, 9)),
        ("EPOCHS_PER_RUN", 5, (4, 5)),
    ],
)
@pytest.mark.parametrize("memory_bytes", [0, 1000])
def test_together_are_run_few_near_and_small_epochs(
    setting: str,
    value: int,
    closed: tuple[int, ...],
    memory_bytes: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, setting, value)
    in_time = processor(InTime(), Discipline.STRICT)
    in_time.memory.limit = memory_bytes
    result = in_time.perform(SEVERAL, 0.0)
    assert result.closed == closed
    rows = told(result)
    for epoch in (5, 6, 9):
        if epoch > closed[-1]:
            rows += told(in_time.perform([close(epoch)], 0.0))
    assert rows == [(4, [1]), (5, [-1, 2]), (6, [-2]), (9, [3])]


class Early(InTime):
    """Tells a row before its time."""

    def run_through(
        self, epoch: EpochClose, bag: Iterator[tuple[int, pa.RecordBatch]]
    ) -> list[tuple[pa.RecordBatch, IntArray]]:
        return [(batch, epochs + 7) for batch, epochs in super().run_through(epoch, bag)]


def test_rows_of_an_epoch_that_is_not_run_are_found_out() -> None:
    with pytest.raises(AssertionError, match="rows of epoch 16 too early"):
        processor(Early(), Discipline.STRICT).perform(SEVERAL, 0.0)


def test_a_single_epoch_is_run_as_such() -> None:
    in_time = processor(InTime(), Discipline.STRICT)
    result = in_time.perform([give(4, 1), close(4)], 0.0)
    assert (result.closed, told(result)) == ((4,), [(4, [1])])


@pytest.mark.parametrize(
    ("work", "epochs"),
    [(SEVERAL[:2], "epoch 3"), (SEVERAL, "epochs 3 to 9")],
    ids=["alone", "together"],
)
def test_an_error_says_in_which_epochs_it_was(work: list[Work], epochs: str) -> None:
    bad = [give(3, 13), close(3), *(work if "to" in epochs else [])]
    with pytest.raises(UserCodeError, match=f"slice small/0, {epochs}: OverflowError: 13"):
        processor(InTime(), Discipline.STRICT).perform(bad, 0.0)


def test_who_tells_together_is_asked_once_for_all_epochs_of_a_run() -> None:
    result = processor(Together(2)).perform(SEVERAL, 0.0)
    apart = processor(Delayed(2)).perform(SEVERAL, 0.0)
    assert (result.closed, result.due) == (apart.closed, apart.due)
    assert told(result) == told(apart) == [(6, [1]), (7, [2])]
    first, second = (output.body for output in result.outputs)
    assert isinstance(first, pa.RecordBatch)
    assert isinstance(second, pa.RecordBatch)
    # parts of one batch
    assert second.column("n").offset == first.column("n").offset + 1


def test_results_that_are_not_told_yet_end_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OUTPUT_BYTES_PER_RUN", 16)
    result = processor(Together(0)).perform(SEVERAL, 0.0)
    assert (result.closed, told(result)) == ((4, 5), [(4, [1]), (5, [2])])


def test_what_was_made_before_rows_are_set_aside_is_told_before() -> None:
    work: list[Work] = [give(3, 7), close(3), give(4, 13), close(4), *SEVERAL[2:4]]
    result = processor(Together(0)).perform(work, 0.0)
    left = [(output.epoch, output.channel) for output in result.outputs]
    assert left == [(3, 8), (4, 8), (4, 9), (5, 8)]


def test_no_results_are_told_of_epochs_without_any() -> None:
    assert processor(Together(0)).perform([close(3), close(4)], 0.0).outputs == ()


def test_an_error_while_results_are_told_says_of_which_epochs() -> None:
    bad = [give(3, 99), close(3), *SEVERAL]
    with pytest.raises(UserCodeError, match="slice small/0, epochs 3 to 9: OverflowError: 99"):
        processor(Together(0)).perform(bad, 0.0)


def test_in_a_loop_results_are_told_round_by_round() -> None:
    with pytest.raises(AssertionError, match="it tells together"):
        processor(Together(0), stamped=True).perform(SEVERAL, 0.0)


class Noting(Delayed):
    """Keeps what it is told of lost epochs."""

    def __init__(self) -> None:
        super().__init__(0)
        self.lost: dict[int, tuple[tuple[int, int], ...]] = {}

    def close(self, epoch: EpochClose, accumulators: Sequence[Accumulator]) -> list[pa.RecordBatch]:
        self.lost[epoch.epoch] = epoch.lost
        return super().close(epoch, accumulators)


def test_lost_epochs_are_told_with_the_epoch_of_a_run_that_they_came_with() -> None:
    noting = Noting()
    lost = CloseEpoch(8, TIMES.watermark(8), lost=((6, 6), (8, 8)))
    result = processor(noting).perform([*SEVERAL[:4], lost, *SEVERAL[4:]], 0.0)
    assert result.closed == (4, 5, 8, 9)
    assert noting.lost == {4: (), 5: (), 8: ((6, 6), (8, 8)), 9: ()}
    assert told(result) == [(4, [1]), (5, [2]), (9, [3])]


def test_what_is_discarded_within_a_run_is_of_no_epoch_behind() -> None:
    """A replica that has taken over sends anew what its channel had sent of open epochs."""
    other = Accumulate(1, 0, 5, 0, give(5, 6).body)
    work: list[Work] = [give(4, 1), give(5, 2), other, close(4), Discard(0, 5), close(5)]
    assert told(processor(Delayed(0)).perform(work, 0.0)) == [(4, [1]), (5, [6])]
    work = [give(4, 1), other, close(4), Discard(1, 5), give(5, 2), close(5)]
    assert told(processor(Delayed(0)).perform(work, 0.0)) == [(4, [1]), (5, [2])]
