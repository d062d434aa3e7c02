"""Which snapshots of a replica are durable, and when the next one must be full."""

from __future__ import annotations

import pytest

from streammine.engine.snapshot_chain import (
    FAILURES_IN_A_ROW,
    LONGEST_CHAIN,
    RECORDS_KEPT,
    SnapshotChain,
)
from streammine.model.snapshots import SnapshotRecord


def written(chain: SnapshotChain, epoch: int, nbytes: int = 10) -> SnapshotRecord:
    """Write the next snapshot as the chain wants it: full, or on top of the one before."""
    full = chain.begin()
    previous = chain.write()
    assert full == (previous is None)
    length = 1 if previous is None else previous.chain + 1
    record = SnapshotRecord(epoch, 1, f"{epoch}", "sum", nbytes, full, length)
    chain.done(record)
    return record


def test_the_first_snapshot_is_full_and_the_next_ones_add_to_it() -> None:
    chain = SnapshotChain()
    assert chain.previous is None
    first = written(chain, 1, nbytes=100)
    assert chain.previous == first
    second = written(chain, 2)
    assert chain.previous == second
    assert [record.chain for record in chain.records] == [1, 2]


def test_a_long_chain_begins_anew() -> None:
    chain = SnapshotChain()
    lengths = [
        written(chain, epoch, 10**6 if epoch == 0 else 1).chain
        for epoch in range(2 * LONGEST_CHAIN + 8)
    ]
    assert max(lengths) == LONGEST_CHAIN
    assert lengths[LONGEST_CHAIN] == 1


def test_increments_larger_than_their_full_snapshot_begin_anew() -> None:
    chain = SnapshotChain()
    lengths = [written(chain, epoch, 100 if epoch % 4 == 0 else 40).chain for epoch in range(8)]
    #  full 100, then 40 + 40 + 40 > 100
    assert lengths == [1, 2, 3, 4, 1, 2, 3, 4]


def test_after_a_failure_the_next_one_is_full_for_what_had_changed_is_lost() -> None:
    chain = SnapshotChain()
    written(chain, 1, nbytes=100)
    chain.begin()
    chain.write()
    chain.done(None)
    assert chain.previous is None
    assert written(chain, 3, nbytes=100).full
    assert chain.previous is not None


def test_so_many_failures_in_a_row_are_hopeless() -> None:
    chain = SnapshotChain()
    for _ in range(FAILURES_IN_A_ROW - 1):
        chain.begin()
        chain.write()
        chain.done(None)
    assert not chain.hopeless
    written(chain, 1)
    for _ in range(FAILURES_IN_A_ROW):
        assert not chain.hopeless
        chain.begin()
        chain.write()
        chain.done(None)
    assert chain.hopeless


def test_the_newest_records_are_kept() -> None:
    chain = SnapshotChain()
    for epoch in range(10):
        written(chain, epoch)
    assert [record.epoch for record in chain.records] == list(range(10 - RECORDS_KEPT, 10))


def test_one_snapshot_is_written_at_a_time() -> None:
    chain = SnapshotChain()
    chain.begin()
    chain.write()
    assert chain.writing
    with pytest.raises(AssertionError, match="at a time"):
        chain.write()


def test_when_another_replica_made_some_the_next_one_is_full() -> None:
    chain = SnapshotChain()
    written(chain, 1, nbytes=100)
    chain.leave()
    assert written(chain, 2, nbytes=100).full, "the first may have been removed"
    assert not written(chain, 3).full


def test_what_was_frozen_before_another_one_led_is_written_as_it_is() -> None:
    chain = SnapshotChain()
    first = written(chain, 1, nbytes=100)
    assert not chain.begin()
    chain.leave()
    assert chain.write() == first
    chain.done(SnapshotRecord(2, 1, "2", "sum", 10, False, 2))
    assert written(chain, 3).full
