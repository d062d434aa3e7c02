"""Rows that a loop carries are part of the head's snapshot, and come back as they were."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication import load_snapshot, verify_snapshot, write_snapshot
from streammine.model.contracts import Carried, FrozenSlice
from streammine.model.epochs import INFINITY
from streammine.model.errors import SnapshotDamagedError
from streammine.model.ids import SliceId
from tests.unit.test_replication_snapshots import Blobs, State

HEAD = SliceId("hub", 1)


def batch(values: list[int | None]) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(values, pa.int64()), "word": ["ß"] * len(values)})


ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.lists(st.none() | st.integers(0, 9), max_size=4).map(batch)),
    max_size=4,
)


@given(ROWS, st.sampled_from([7, 900, INFINITY]), st.lists(st.binary(max_size=9), max_size=2))
def test_what_is_carried_comes_back(
    rows: list[tuple[int, pa.RecordBatch]], next_epoch: int, state: list[bytes]
) -> None:
    store = Blobs()
    carried = Carried(next_epoch, tuple(rows))
    frozen = FrozenSlice(6, 6, None, state=State(state), carried=carried)
    record = write_snapshot(store, HEAD, 3, frozen, None)
    verify_snapshot(store, record)
    found = load_snapshot(store, record, HEAD)
    assert found.carried() == carried
    assert [bytes(piece) for layer in found.layers for piece in layer.pieces] == state
    assert record.nbytes == sum(map(len, store.blobs.values()))


def test_a_slice_outside_of_loops_carries_nothing_and_its_header_does_not_speak_of_it() -> None:
    store = Blobs()
    record = write_snapshot(store, HEAD, 3, FrozenSlice(6, 6, state=State([b"x"])), None)
    assert load_snapshot(store, record, HEAD).carried() is None
    assert b"carried" not in store.blobs[record.name]


def test_of_a_chain_the_newest_rows_count() -> None:
    store = Blobs()
    older = FrozenSlice(6, 6, state=State([b"x"]), carried=Carried(7, ((0, batch([1])),)))
    base = write_snapshot(store, HEAD, 3, older, None)
    newer = FrozenSlice(8, 8, state=State([b"y"], full=False), carried=Carried(9))
    record = write_snapshot(store, HEAD, 3, newer, base)
    assert load_snapshot(store, record, HEAD).carried() == Carried(9)


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:-1] + b"?"])
def test_damage_to_what_is_carried_does_not_go_unnoticed(damage: Any) -> None:
    store = Blobs()
    frozen = FrozenSlice(6, 6, carried=Carried(7, ((0, batch([1, 2])),)))
    record = write_snapshot(store, HEAD, 3, frozen, None)
    (part,) = (name for name in store.blobs if name.endswith(".bin"))
    store.blobs[part] = damage(store.blobs[part])
    with pytest.raises(SnapshotDamagedError, match=part):
        load_snapshot(store, record, HEAD).carried()
    with pytest.raises(SnapshotDamagedError, match=part):
        verify_snapshot(store, record)
