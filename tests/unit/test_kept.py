"""Batches that are kept until they are needed, in memory or on disk."""

from __future__ import annotations

import pyarrow as pa
import pytest

from streammine.engine.kept import Kept, Spilled, loaded
from tests.unit.memory_spill import MemorySpill

BATCH = pa.record_batch({"n": [1, 2]})


def test_a_batch_is_found_wherever_it_lies() -> None:
    spill = MemorySpill()
    kept = Kept(BATCH, 16)
    assert loaded(kept) is BATCH
    kept.to_disk(spill)
    assert isinstance(kept.body, Spilled)
    assert loaded(kept) == BATCH
    assert loaded(kept.body) == BATCH
    assert loaded(BATCH) is BATCH
    assert (loaded(None), loaded(Kept(None, 0))) == (None, None)


def test_what_is_on_disk_already_or_has_no_batch_stays_as_it_is() -> None:
    spill = MemorySpill()
    kept, empty = Kept(BATCH, 16), Kept(None, 0)
    for _ in range(2):
        kept.to_disk(spill)
        empty.to_disk(spill)
    assert len(spill.batches) == 1


def test_the_place_is_free_when_nobody_refers_to_it_any_more() -> None:
    # a frame under way may outlive the log entry that it was made of
    spill = MemorySpill()
    kept = Kept(BATCH, 16)
    kept.to_disk(spill)
    under_way = kept.body
    del kept
    assert loaded(under_way) == BATCH
    del under_way
    assert spill.batches == {}


def test_who_has_a_batch_in_hand_is_not_disturbed_by_its_going_to_disk() -> None:
    kept = Kept(BATCH, 16)
    sent = kept.body
    kept.to_disk(MemorySpill())
    assert sent is BATCH


def test_a_batch_that_could_not_be_written_stays_in_memory() -> None:
    class Full(MemorySpill):
        def put(self, batch: pa.RecordBatch) -> int:
            raise OSError("no space")

    kept = Kept(BATCH, 16)
    with pytest.raises(OSError, match="no space"):
        kept.to_disk(Full())
    assert loaded(kept) is BATCH


def test_anything_else_is_no_body() -> None:
    with pytest.raises(AssertionError, match="is no body"):
        loaded("text")
