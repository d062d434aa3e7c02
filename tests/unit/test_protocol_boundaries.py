"""The rules of the pure machines exactly at their limits, where one more or less would be another rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replication import Coordinator, collect
from streammine.engine.manager_stimuli import MoveAsked, Reported
from streammine.engine.slice import BYTES_WORTH_A_RUN
from streammine.engine.snapshot_chain import SnapshotChain
from streammine.engine.stimuli import (
    Output,
    Run,
    SnapshotDone,
    Start,
    ToDisk,
    WorkDone,
    WorkResult,
    WriteSnapshot,
)
from streammine.model.contracts import FrozenSlice
from streammine.model.control import DamagedSnapshot
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.recovery import Propose
from streammine.model.snapshots import SnapshotRecord
from tests.unit.managing import ON_A, ON_B, places, plan_of, planned, snapshotting, told
from tests.unit.small_job import report, told_by
from tests.unit.small_slices import operator, source
from tests.unit.test_input_channel import receiver, verdicts
from tests.unit.test_manager_moves import COUNTS, arrives, settled
from tests.unit.test_output_channel import data, end, sender, texts
from tests.unit.test_replication_checkpoints import A, Blobs, State, published, snapshot
from tests.unit.test_replication_coordinator import (
    EVERY_TEN_SECONDS,
    GRAPH,
    X,
    at,
    collecting,
    everywhere,
    frozen,
)
from tests.unit.test_snapshot_chain import written
from tests.unit.transcripts import frame_arrived


def test_a_budget_may_be_used_to_the_last_byte() -> None:
    channel = sender(budget=20)
    end(channel, -1)
    channel.credit(1, 0)
    end(channel, 0)
    for _ in range(3):
        data(channel, 1)
    assert texts(channel.sendable()) == ["end -1", "end 0", "data 1", "data 1"]


def test_data_of_the_awaited_epoch_leaves_before_its_end_is_made() -> None:
    channel = sender(budget=5)
    end(channel, 4)
    for epoch in (8, 9):
        data(channel, epoch)
    assert texts(channel.sendable()) == ["end 4", "data 8"]
    channel.credit(1, 5)
    data(channel, 5)
    assert texts(channel.sendable()) == ["data 9", "data 5"]


def test_what_comes_behind_the_awaited_end_waits_for_credit_again() -> None:
    channel = sender(budget=5)
    end(channel, 4)
    data(channel, 8)
    data(channel, 9)
    assert texts(channel.sendable()) == ["end 4", "data 8"]
    channel.credit(1, 5)
    end(channel, 5)
    data(channel, 9)
    end(channel, 9)
    assert texts(channel.sendable()) == ["data 9", "end 5"]
    assert channel.held(channel.links[1]) == 1


def test_as_much_as_the_limit_stays_in_memory() -> None:
    channel = sender(budget=100)
    data(channel, 1)
    data(channel, 2)
    assert channel.to_spill(20) == []
    assert [each.nbytes for each in channel.to_spill(19)] == [10]


def test_increments_as_large_as_their_full_snapshot_are_added_to_once_more() -> None:
    chain = SnapshotChain()
    lengths = [written(chain, epoch, 100 if epoch == 0 else 50).chain for epoch in range(4)]
    assert lengths == [1, 2, 3, 4]
    assert chain.previous is None


@pytest.mark.parametrize(("nbytes", "worth_it"), [(BYTES_WORTH_A_RUN, True), (1, False)])
def test_an_open_epochs_bytes_are_handed_over_when_they_are_worth_a_run(
    nbytes: int, worth_it: bool
) -> None:
    machine = operator(inputs=1).machine
    machine.handle(Start())
    effects = machine.handle(replace(frame_arrived("0.0 data 5"), nbytes=nbytes))
    assert any(isinstance(each, Run) for each in effects) == worth_it


def test_a_slice_is_not_moved_to_where_a_damaged_snapshot_would_begin() -> None:
    manager = settled()
    reports = [report(name, 1, 25) for name in ON_B]
    damaged = DamagedSnapshot("counts/1", 9, "counts/1/20.1", "checksum")
    version = plan_of(manager).version
    told(manager, Reported(told_by("b", version, reports, damaged=[damaged])))
    assert planned(told(manager, MoveAsked(1, COUNTS, "a", True))) == ["plan 3: run"]
    assert places(manager)["counts/1"] == "b, a: 3 from 10"


def test_a_second_replica_has_not_caught_up_with_one_that_has_not_begun() -> None:
    manager = snapshotting()
    for node, names in (("a", ON_A), ("b", ON_B)):
        reports = [report(name, 1, BEGINNING) for name in names]
        told(manager, Reported(told_by(node, 2, reports)))
    assert planned(told(manager, MoveAsked(1, COUNTS, "a", True))) == ["plan 3: run"]
    assert arrives(manager, BEGINNING) == []
    assert len(plan_of(manager).placements[COUNTS]) == 2


def test_the_end_of_the_input_is_no_epoch_to_name() -> None:
    coordinator = Coordinator(GRAPH, EVERY_TEN_SECONDS)
    coordinator.observe(0.0, {})
    assert coordinator.observe(10.0, everywhere(at(INFINITY - 1))) == []
    assert coordinator.observe(20.0, everywhere(at(INFINITY - 2))) == [Propose(INFINITY - 1)]


def test_snapshots_of_the_newest_checkpoints_epoch_stay_whoever_made_them() -> None:
    store = Blobs()
    old = published(store, 10, a=snapshot(store, A, 10))
    snapshot(store, A, 20, generation=1)
    new = published(store, 20, a=snapshot(store, A, 20, generation=2))
    assert collect(store, [old, new], set(), True).removed == ()


def test_what_the_leader_gave_of_a_closed_epoch_is_not_discarded_when_it_is_lost() -> None:
    channel = receiver()
    assert verdicts(channel, "0 data 5", "1 data 6", "2 end 5") == ["take"] * 3
    assert channel.keep_feeds(()) == [6]


def test_without_any_link_a_budget_may_be_made_ahead_to_the_last_byte() -> None:
    channel = sender(budget=20, receivers=())
    data(channel, 1)
    data(channel, 1)
    assert not channel.blocked
    data(channel, 1)
    assert channel.blocked


@pytest.mark.parametrize("full", [False, True])
def test_only_changes_are_written_on_top_of_the_snapshot_before(full: bool) -> None:
    machine = operator(inputs=1, mode="asynchronous").machine
    machine.handle(Start())
    machine.handle(frame_arrived("0.0 end 5, flagged"))
    first = FrozenSlice(5, BEGINNING, state=State(True))
    assert WriteSnapshot(first, None) in machine.handle(WorkDone(WorkResult(frozen=first)))
    record = SnapshotRecord(5, 1, "counts/0/5", "sum", 10, True, 1)
    machine.handle(SnapshotDone(record))
    machine.handle(frame_arrived("0.1 end 6, flagged"))
    second = FrozenSlice(6, BEGINNING, state=State(full))
    effects = machine.handle(WorkDone(WorkResult(frozen=second)))
    assert WriteSnapshot(second, None if full else record) in effects


def test_a_slice_keeps_its_share_in_memory_to_the_last_byte() -> None:
    machine = source(mode="asynchronous", retained_bytes=100).machine
    machine.handle(Start())
    first = machine.handle(WorkDone(WorkResult((Output(8, 1, 1, 100, "batch"),), open_epoch=2)))
    assert not any(isinstance(each, ToDisk) for each in first)
    second = machine.handle(WorkDone(WorkResult((Output(8, 2, 1, 1, "batch"),), open_epoch=3)))
    (moved,) = [each for each in second if isinstance(each, ToDisk)]
    assert [each.nbytes for each in moved.bodies] == [100]


def test_a_slice_that_has_frozen_and_gone_on_is_given_time_to_write() -> None:
    coordinator = collecting(101)
    gone_on = replace(frozen(101, written=False), accepted=BEGINNING, frontier=105)
    standings = everywhere(frozen(101)) | {X: gone_on}
    assert coordinator.observe(11.0, standings) == []
    assert coordinator.making == 101
