"""Operators that stand ready: what they are brought to, what they are used for, and when they are closed."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pytest

from streammine import Topology
from streammine.assembly import BuiltSlice, CompiledJob, Environment, Seats, write_snapshot
from streammine.assembly.environment import loaded_snapshot
from streammine.assembly.step_times import StepTimes
from streammine.engine.node_stimuli import NewReplica, Seated, Sit
from streammine.engine.processor import OperatorProcessor
from streammine.engine.stimuli import Accumulate, CloseEpoch, Freeze, TakeState, Work, WorkResult
from streammine.model.control import StepReport
from streammine.model.epochs import BEGINNING
from streammine.model.errors import SnapshotDamagedError
from streammine.model.ids import SliceId
from streammine.model.snapshots import Restore, SnapshotRecord
from tests.simulation.workloads import Chain, chained
from tests.unit.memory_spill import MemorySpill
from tests.unit.memory_store import MemoryStore

SCHEMA = pa.schema({"key": pa.int64(), "value": pa.int64()})
CHAIN = SliceId("chain", 0)
JOB = 1


class Prepared(Chain):
    """Counts how often it was made ready."""

    times = 0

    def prepare(self) -> None:
        type(self).times += 1


class ClosingSpill(MemorySpill):
    closed = 0

    def close(self) -> None:
        self.closed += 1


@dataclass
class House:
    """A node's share of a job, with a store of snapshots."""

    store: MemoryStore = field(default_factory=MemoryStore)
    spills: list[ClosingSpill] = field(default_factory=list)
    seats: Seats = field(default_factory=lambda: Seats(StepTimes(lambda: 0.0)))

    def __post_init__(self) -> None:
        Prepared.times = 0
        topology = (
            Topology(name="chained", epoch={"count": 5})
            .source("rows", files="rows.parquet", prepare="none")
            .operator("chain", input="rows", key="key", operator=Prepared, discipline="merge")
            .sink("result", input="chain", format="console")
        )
        self.compiled = CompiledJob(topology, {"rows": SCHEMA}, ".", lambda name: Prepared)

    def environment(self) -> Environment:
        def spill() -> ClosingSpill:
            self.spills.append(ClosingSpill())
            return self.spills[-1]

        return Environment(
            open_reader=lambda *_: pytest.fail("no source runs here"),
            open_store=lambda _: MemoryStore(),
            targets={},
            open_spill=spill,
            snapshot_mode="asynchronous",
            snapshots=self.store,
        )

    def built(
        self, restore: Restore | None = None, generation: int = 1, seat: BuiltSlice | None = None
    ) -> BuiltSlice:
        replica = NewReplica(CHAIN, generation, restore)
        built = self.compiled.slice(JOB, replica, self.environment(), seat)
        built.prepare()
        return built

    def sit(self, restore: Restore | None = None) -> Seated:
        return self.seats.sit(self.compiled, Sit(JOB, CHAIN, 2, restore), self.environment())

    def given(self) -> BuiltSlice:
        built = self.seats.give(CHAIN)
        assert built is not None
        return built

    def snapshots(self, *epochs: int) -> list[Restore]:
        """What a replica writes that takes a row of value e in each epoch e; the first is full."""
        built = self.built()
        previous: SnapshotRecord | None = None
        found: list[Restore] = []
        for epoch in range(1, max(epochs) + 1):
            done = performed(built, *epoch_of(epoch))
            if epoch in epochs:
                done = performed(built, Freeze(epoch, previous is None, epoch, None))
                assert done.frozen is not None
                previous = write_snapshot(self.store, CHAIN, 1, done.frozen, previous)
                found.append(Restore(epoch, previous))
        return found


def epoch_of(epoch: int) -> tuple[Work, ...]:
    """One row of key 1, and the epoch's end."""
    batch = pa.record_batch({"key": [1], "value": [epoch]}, SCHEMA)
    return Accumulate(0, 0, epoch, 0, batch), CloseEpoch(epoch, epoch)


def performed(built: BuiltSlice, *work: Work) -> WorkResult:
    return built.processor.perform(work, 0.0)


def mixed(built: BuiltSlice, epoch: int) -> int:
    """What comes out of the next epoch: the state is mixed into it."""
    (output,) = performed(built, *epoch_of(epoch)).outputs
    assert isinstance(output.body, pa.RecordBatch)
    return output.body.column("mixed")[0].as_py()


def expected(last: int) -> int:
    value = 7
    for epoch in range(1, last + 1):
        value = chained(value, epoch)
    return value


def held(built: BuiltSlice) -> SnapshotRecord | None:
    assert isinstance(built.processor, OperatorProcessor)
    return built.processor.held


def damage(house: House, restore: Restore) -> None:
    assert restore.record is not None
    house.store.blobs[restore.record.name] = b"?" + house.store.blobs[restore.record.name][1:]


# --- on a seat --------------------------------------------------------------------------------------


def test_a_deployed_operator_is_ready_and_holds_nothing() -> None:
    house = House()
    assert house.sit() == Seated(JOB, CHAIN, 2, BEGINNING, house.sit().state_bytes)
    assert Prepared.times == 1


def test_it_is_brought_from_snapshot_to_snapshot_and_goes_on_from_the_last() -> None:
    house = House()
    first, second = house.snapshots(2, 4)
    house.sit()
    assert house.sit(first).epoch == 2
    assert house.sit(second).epoch == 4
    seat = house.given()
    assert held(seat) == second.record
    assert mixed(house.built(second, 3, seat), 5) == expected(5)


def test_what_it_is_promoted_to_is_what_the_plan_says_whatever_it_holds() -> None:
    house = House()
    first, second = house.snapshots(2, 4)
    house.sit(second)
    seat = house.given()
    built = house.built(first, 3, seat)
    assert built.processor is seat.processor
    assert mixed(built, 3) == expected(3)


def test_it_is_made_ready_once() -> None:
    house = House()
    (state,) = house.snapshots(2)
    before = Prepared.times
    house.sit(state)
    house.built(state, 3, house.given())
    assert Prepared.times == before + 1


def test_increments_are_added_to_what_is_held() -> None:
    house = House()
    first, second = house.snapshots(2, 4)
    house.sit(first)
    before = Prepared.times
    house.sit(second)
    assert Prepared.times == before, "no operator was built anew"
    assert second.record is not None
    assert not second.record.full


def test_without_a_snapshot_to_begin_from_it_is_not_used() -> None:
    house = House()
    (state,) = house.snapshots(2)
    house.sit(state)
    seat = house.given()
    built = house.built(None, 3, seat)
    assert built.processor is not seat.processor
    assert mixed(built, 1) == expected(1)
    assert [each.closed for each in house.spills].count(1) == 1


# --- damage -----------------------------------------------------------------------------------------


def test_of_a_damaged_snapshot_the_manager_is_told_and_nothing_stays() -> None:
    house = House()
    first, second = house.snapshots(2, 4)
    damage(house, second)
    house.sit(first)
    told = house.sit(second)
    assert told.damaged is not None
    assert second.record is not None
    assert (told.damaged.name, told.damaged.slice) == (second.record.name, "chain/0")
    assert house.seats.give(CHAIN) is None
    assert house.spills[-1].closed == 1


def test_a_seat_is_closed_where_the_replica_can_not_be_restored() -> None:
    house = House()
    (state,) = house.snapshots(2)
    house.sit()
    seat = house.given()
    damage(house, state)
    with pytest.raises(SnapshotDamagedError):
        house.built(state, 3, seat)
    assert isinstance(seat.spill, ClosingSpill)
    assert seat.spill.closed == 1


def test_a_job_that_ends_leaves_no_seat_behind() -> None:
    house = House()
    house.sit()
    house.seats.close()
    house.seats.close()
    assert [each.closed for each in house.spills] == [1]
    assert house.seats.give(CHAIN) is None


# --- replicas that take state in --------------------------------------------------------------------


def test_a_replica_that_has_worked_takes_state_in_and_goes_on_behind_it() -> None:
    house = House()
    (state,) = house.snapshots(4)
    built = house.built(generation=2)
    performed(built, *epoch_of(1))
    performed(built, *epoch_of(3)[:1], *epoch_of(5)[:1])
    done = performed(built, TakeState(state))
    assert done.taken is not None
    assert (done.taken.epoch, done.closed, done.outputs) == (4, (), ())
    assert isinstance(built.processor, OperatorProcessor)
    assert set(built.processor._bags) == {5}
    (output,) = performed(built, CloseEpoch(5, 5)).outputs
    assert isinstance(output.body, pa.RecordBatch)
    assert output.body.column("mixed").to_pylist() == [expected(5)]


def test_what_was_gathered_of_epochs_that_the_state_covers_is_given_back() -> None:
    house = House()
    topology = (
        Topology(name="counted", epoch={"count": 5})
        .source("rows", files="rows.parquet", prepare="none")
        .operator(
            "chain", input="rows", key="key", aggregate={"rows": "count()"}, combine=False, slices=1
        )
        .sink("result", input="chain", format="console")
    )
    house.compiled = CompiledJob(topology, {"rows": SCHEMA}, ".", lambda name: Prepared)
    (state,) = house.snapshots(4)
    built = house.built(generation=2)
    performed(built, *(epoch_of(each)[0] for each in (3, 5)))
    performed(built, TakeState(state))
    assert isinstance(built.processor, OperatorProcessor)
    assert set(built.processor._accumulators) == {5}


def test_once_it_works_it_holds_no_snapshot_s_state_any_more() -> None:
    house = House()
    first, second = house.snapshots(2, 4)
    built = house.built(first, 2)
    assert held(built) == first.record
    performed(built, *epoch_of(9))
    assert held(built) is None
    performed(built, TakeState(second))
    assert held(built) == second.record
    assert mixed(built, 5) == expected(5)


def test_state_that_can_not_be_read_is_an_error_that_names_it() -> None:
    house = House()
    (state,) = house.snapshots(2)
    damage(house, state)
    assert state.record is not None
    with pytest.raises(SnapshotDamagedError, match=state.record.name):
        performed(house.built(generation=2), TakeState(state))


def test_a_checksum_of_another_snapshot_is_noticed() -> None:
    house = House()
    (state,) = house.snapshots(2)
    assert state.record is not None
    wrong = replace(state, record=replace(state.record, checksum="0" * 16))
    with pytest.raises(SnapshotDamagedError):
        performed(house.built(generation=2), TakeState(wrong))


def test_what_a_deployed_operator_takes_in_when_it_is_needed_was_loaded() -> None:
    # else the controller would know of no load, and take how long snapshots are written for it
    house = House()
    times = StepTimes(itertools.count().__next__)
    _, restore = house.snapshots(2, 3)
    loaded = loaded_snapshot(CHAIN, restore, house.environment())
    assert loaded is not None
    assert len(loaded.layers) == 2, "both are read"
    house.sit()
    replica = NewReplica(CHAIN, 5, restore)
    built = times.built(house.compiled, JOB, replica, house.environment(), house.given())
    assert mixed(built, 4) == expected(4)
    assert times.reports == (StepReport("load", "chain/0", 5, 1, loaded.nbytes),)
    # a state that was there already takes no time worth knowing
    house.sit(restore)
    times.built(
        house.compiled, JOB, replace(replica, generation=6), house.environment(), house.given()
    )
    assert len(times.reports) == 1


def test_every_snapshot_of_a_chain_that_a_replica_takes_in_counts() -> None:
    house = House()
    _, restore = house.snapshots(2, 3)
    loaded = loaded_snapshot(CHAIN, restore, house.environment())
    assert loaded is not None
    full, increment = (each.nbytes for each in loaded.layers)
    done = performed(house.built(generation=2), TakeState(restore))
    assert done.taken_bytes == full + increment


def test_of_a_chain_whose_beginning_is_held_the_increment_counts() -> None:
    house = House()
    times = StepTimes(itertools.count().__next__)
    house.seats = Seats(times)
    first, second = house.snapshots(2, 3)
    house.sit(first)
    house.sit(second)
    loaded = loaded_snapshot(CHAIN, second, house.environment())
    assert loaded is not None
    assert times.reports[-1].nbytes == loaded.layers[-1].nbytes < loaded.nbytes
