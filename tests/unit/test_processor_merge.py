"""Bags under discipline merge: whatever arrives first, they are processed channel by channel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammine.engine.bag import BagMemory
from streammine.engine.edges import OutgoingEdges, StageNode
from streammine.engine.outgoing_edge import OutgoingEdge
from streammine.engine.processor import OperatorProcessor
from streammine.engine.stimuli import Accumulate, CloseEpoch, Discard, Work
from streammine.model.contracts import Accumulator, Combiner, EpochClose, Traits
from streammine.model.disciplines import Discipline
from streammine.model.epochs import EpochDefinition
from streammine.model.ids import SliceId
from tests.unit.memory_spill import MemorySpill

EPOCH = EpochDefinition("count", 10)
PORT_OF = {3: 0, 5: 0, 6: 1, 8: 1}
"""By channel: both of port 1 are numbered behind those of port 0, as a planned graph numbers them."""


class Seen:
    """What every kind of operator here has."""

    name = "seen"
    output = pa.schema({"n": pa.int64()})
    output_order: tuple[str, ...] = ()
    keys: tuple[tuple[str, ...], ...] = ((), ())
    needs: tuple[frozenset[str] | None, ...] = (None, None)
    state_nbytes = 0

    def __init__(self, commutative: bool = False, mergeable: bool = False) -> None:
        self.traits = Traits(commutative, mergeable)

    def prepare(self) -> None:
        return None


class InTurn(Seen):
    """A SequentialOperator: what it is given leaves as it comes."""

    def run(
        self, epoch: EpochClose, bag: Iterator[tuple[int, pa.RecordBatch]]
    ) -> list[pa.RecordBatch]:
        return [batch for _, batch in bag]


class Kept:
    nbytes = 0

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)

    def merge(self, other: Kept) -> None:
        self.batches += other.batches


class Folded(Seen):
    """A StatefulOperator: what each accumulator holds leaves, port by port."""

    partial_schema: pa.Schema | None = None
    partial_keys: tuple[str, ...] = ()

    def __init__(self, commutative: bool, mergeable: bool) -> None:
        super().__init__(commutative, mergeable)
        self.made = 0

    def combiner(self) -> Combiner:
        raise NotImplementedError

    def accumulator(self, port: int) -> Kept:
        self.made += 1
        return Kept()

    def close(self, epoch: EpochClose, accumulators: Sequence[Accumulator]) -> list[pa.RecordBatch]:
        kept = [each for each in accumulators if isinstance(each, Kept)]
        return [batch for each in kept for batch in each.batches]


def processor(
    operator: InTurn | Folded, spill: MemorySpill | None = None, memory_bytes: int = 20
) -> OperatorProcessor:
    return OperatorProcessor(
        SliceId("seen", 0),
        operator,
        Discipline.MERGE,
        ((), ()),
        OutgoingEdges(
            SliceId("counts", 0), StageNode(edges=[OutgoingEdge((9,), (), None, 0)]), None
        ),
        BagMemory(memory_bytes, spill or MemorySpill()),
        EPOCH,
    )


def give(channel: int, *rows: int, epoch: int = 4) -> Accumulate:
    batch = pa.record_batch({"n": pa.array(rows, pa.int64())})
    return Accumulate(channel, PORT_OF[channel], epoch, 0, batch)


def sequence(found: OperatorProcessor, *work: Work) -> list[int]:
    outputs = found.perform(work, 0.0).outputs
    rows: list[int] = []
    for output in outputs:
        assert isinstance(output.body, pa.RecordBatch)
        rows += output.body.column("n").to_pylist()
    return rows


@pytest.mark.parametrize(
    "operator", [InTurn(), Folded(False, False), Folded(False, True), Folded(True, True)]
)
def test_bags_are_processed_in_the_order_of_their_channels(operator: InTurn | Folded) -> None:
    #   arrival:  8 6 3 5 3 6        processed:  3 3 5 6 6 8
    arrival = [give(8, 80), give(6, 60), give(3, 30), give(5, 50), give(3, 31, 32), give(6, 61)]
    found = sequence(processor(operator), *arrival, CloseEpoch(4, 0))
    assert found == [30, 31, 32, 50, 60, 61, 80]


@given(
    st.lists(st.tuples(st.sampled_from(sorted(PORT_OF)), st.integers(1, 3)), max_size=20),
    st.randoms(use_true_random=False),
    st.integers(0, 60),
)
def test_neither_arrival_nor_cuts_nor_the_disk_change_the_sequence(
    bags: list[tuple[int, int]], random: object, memory_bytes: int
) -> None:
    rows = {channel: [each for each, _ in bags].count(channel) for channel in PORT_OF}
    expected = [100 * channel + row for channel in sorted(PORT_OF) for row in range(rows[channel])]
    pending = {
        channel: [100 * channel + row for row in range(count)] for channel, count in rows.items()
    }
    arrival: list[Work] = []
    while any(pending.values()):
        channel = random.choice([each for each, left in pending.items() if left])  # type: ignore[attr-defined]
        cut = random.randint(1, len(pending[channel]))  # type: ignore[attr-defined]
        arrival.append(give(channel, *pending[channel][:cut]))
        pending[channel] = pending[channel][cut:]
    spill = MemorySpill()
    found = sequence(processor(InTurn(), spill, memory_bytes), *arrival, CloseEpoch(4, 0))
    assert found == expected
    assert not spill.batches


def test_a_bag_of_another_replica_takes_the_place_of_one_that_was_not_whole() -> None:
    found = processor(InTurn())
    sequence(found, give(3, 30), give(5, 50), give(3, 31), give(3, 40, epoch=5))
    sequence(found, Discard(3, 4), Discard(3, 5), give(3, 30, 31, 32), give(6, 60))
    assert sequence(found, CloseEpoch(4, 0)) == [30, 31, 32, 50, 60]
    assert sequence(found, give(3, 40), CloseEpoch(5, 0)) == []


def test_a_commutative_operator_has_its_accumulators_filled_as_rows_arrive() -> None:
    eager, waiting = Folded(True, True), Folded(False, True)
    for operator in (eager, waiting):
        found = processor(operator, memory_bytes=1000)
        sequence(found, give(5, 50), give(3, 30))
        assert (found.memory.used > 0) == (operator is waiting)
    assert (eager.made, waiting.made) == (2, 0)
