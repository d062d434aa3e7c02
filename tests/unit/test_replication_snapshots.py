"""Snapshots read back as they were written, and nothing that was changed goes unnoticed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication import LoadedSnapshot, load_snapshot, verify_snapshot, write_snapshot
from replication import snapshots as module
from replication.naming import SnapshotName, snapshot_of
from streammine.assembly.environment import restored_to
from streammine.engine.slice_settings import RestoredTo
from streammine.model.contracts import FrozenSlice
from streammine.model.documents import checksum, seal_document
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.errors import OutputError, SnapshotDamagedError, StateVersionError
from streammine.model.ids import SliceId
from streammine.model.snapshots import Restore, SnapshotRecord

SLICE = SliceId("words", 3)


class Blobs:
    """A store in memory; `full` makes the put of such names fail. `order` are the names put."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.order: list[str] = []
        self.full = ""

    def put(self, name: str, data: pa.Buffer | bytes) -> None:
        if self.full and self.full in name:
            raise OutputError(f"can't write {name}: the disk is full")
        self.blobs[name] = bytes(data)
        self.order.append(name)

    def get(self, name: str) -> pa.Buffer:
        if name not in self.blobs:
            raise OutputError(f"there is no {name}")
        return pa.py_buffer(self.blobs[name])

    def list(self, prefix: str) -> list[str]:
        return sorted(name for name in self.blobs if name.startswith(prefix))

    def delete(self, name: str) -> None:
        self.blobs.pop(name, None)


@dataclass
class State:
    """Frozen state of these pieces."""

    content: list[bytes]
    full: bool = True

    def pieces(self) -> Iterator[pa.Buffer]:
        return map(pa.py_buffer, self.content)


def write(
    store: Blobs,
    epoch: int,
    *content: bytes,
    previous: SnapshotRecord | None = None,
    slice_id: SliceId = SLICE,
    generation: int = 7,
) -> SnapshotRecord:
    frozen = FrozenSlice(
        epoch,
        epoch - 1,
        epoch + 4,
        {"file": 2, "row": 9},
        5,
        State(list(content), previous is None),
    )
    return write_snapshot(store, slice_id, generation, frozen, previous)


def content_of(loaded: LoadedSnapshot) -> list[tuple[int, bool, list[bytes]]]:
    return [
        (layer.epoch, layer.full, [bytes(piece) for piece in layer.pieces])
        for layer in loaded.layers
    ]


def read_all(store: Blobs, record: SnapshotRecord) -> list[tuple[int, bool, list[bytes]]]:
    return content_of(load_snapshot(store, record, SLICE))


def test_a_snapshot_reads_back_as_it_was_frozen() -> None:
    store = Blobs()
    record = write(store, -12, b"one", b"", b"three" * 100)
    assert (record.epoch, record.generation, record.full, record.chain) == (-12, 7, True, 1)
    assert record.nbytes == sum(map(len, store.blobs.values()))
    loaded = load_snapshot(store, record, SLICE)
    assert (loaded.slice_id, loaded.generation, loaded.epoch) == (SLICE, 7, -12)
    assert (loaded.last_epoch, loaded.due) == (-13, -8)
    assert loaded.position == {"file": 2, "row": 9}
    assert [layer.state_version for layer in loaded.layers] == [5]
    assert content_of(loaded) == [(-12, True, [b"one", b"", b"three" * 100])]


def test_what_a_state_lacks_is_read_back_with_it() -> None:
    store = Blobs()
    whole = write_snapshot(store, SLICE, 1, FrozenSlice(7, 7), None)
    lacking = write_snapshot(store, SLICE, 1, FrozenSlice(8, 8, lost_until=11), None)
    assert load_snapshot(store, whole, SLICE).lost_until == BEGINNING
    assert load_snapshot(store, lacking, SLICE).lost_until == 11
    restored = restored_to(
        Restore(8, lacking, left_out_until=20), load_snapshot(store, lacking, SLICE)
    )
    assert restored == RestoredTo(8, 8, left_out_until=20, lost_until=11)


def test_a_slice_without_state_has_a_header_alone() -> None:
    store = Blobs()
    record = write_snapshot(store, SLICE, 1, FrozenSlice(4, BEGINNING), None)
    assert list(store.blobs) == [record.name]
    loaded = load_snapshot(store, record, SLICE)
    assert (loaded.last_epoch, loaded.due, loaded.position) == (BEGINNING, None, None)
    assert content_of(loaded) == [(4, True, [])]
    assert (record.full, record.chain) == (True, 1)


def test_increments_lead_back_to_the_full_snapshot() -> None:
    store = Blobs()
    base = write(store, 10, b"all")
    second = write(store, 20, b"more", previous=base)
    third = write(store, 35, b"yet", b"more", previous=second)
    assert [base.chain, second.chain, third.chain] == [1, 2, 3]
    assert [base.full, second.full, third.full] == [True, False, False]
    assert read_all(store, third) == [
        (10, True, [b"all"]),
        (20, False, [b"more"]),
        (35, False, [b"yet", b"more"]),
    ]
    verify_snapshot(store, third)


def test_all_of_the_state_needs_nothing_before_it() -> None:
    store = Blobs()
    base = write(store, 10, b"all")
    frozen = FrozenSlice(20, 19, state=State([b"all again"]))
    again = write_snapshot(store, SLICE, 7, frozen, base)
    assert (again.full, again.chain) == (True, 1)
    store.delete(base.name)
    assert read_all(store, again) == [(20, True, [b"all again"])]


def test_changes_alone_are_no_snapshot() -> None:
    frozen = FrozenSlice(20, 19, state=State([b"changes"], full=False))
    with pytest.raises(AssertionError, match="changes only"):
        write_snapshot(Blobs(), SLICE, 7, frozen, None)


def test_parts_are_put_as_soon_as_they_are_full_and_the_header_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PART_BYTES", 1000)
    store = Blobs()
    taken = 0
    seen = []

    class Watching(State):
        def pieces(self) -> Iterator[pa.Buffer]:
            nonlocal taken
            for piece in self.content:
                taken += len(piece)
                put = sum(map(len, store.blobs.values()))
                seen.append(taken - put)
                yield pa.py_buffer(piece)

    content = [bytes([i]) * 150 for i in range(60)] + [b"long" * 1000, b"end"]
    record = write_snapshot(store, SLICE, 7, FrozenSlice(1, 1, state=Watching(content)), None)
    assert max(seen[:60]) <= 1000 + 150, "no more than a part and a piece wait in memory"
    assert store.order[-1] == record.name
    parts = store.order[:-1]
    assert parts == sorted(parts)
    assert len(parts) > 10
    sizes = [len(store.blobs[name]) for name in parts]
    assert [size for size in sizes if size > 1000] == [4032], "a long piece is a part of its own"
    assert read_all(store, record) == [(1, True, content)]


@pytest.mark.parametrize("failing", ["-000000.bin", "-000001.bin", ".json"])
def test_what_could_not_be_written_whole_is_not_published(
    monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    monkeypatch.setattr(module, "PART_BYTES", 100)
    store = Blobs()
    store.full = failing
    with pytest.raises(OutputError, match="disk is full"):
        write(store, 3, b"x" * 90, b"y" * 90)
    assert not [name for name in store.blobs if name.endswith(".json")]


@given(st.lists(st.binary(max_size=200), max_size=12), st.integers(1, 300))
def test_any_pieces_come_back_in_any_cut(content: list[bytes], part_bytes: int) -> None:
    store = Blobs()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PART_BYTES", part_bytes)
        record = write(store, 0, *content)
    assert read_all(store, record) == [(0, True, content)]


def three_layers(monkeypatch: pytest.MonkeyPatch) -> tuple[Blobs, SnapshotRecord]:
    monkeypatch.setattr(module, "PART_BYTES", 128)
    store = Blobs()
    base = write(store, 10, b"a" * 70, b"b" * 100)
    second = write(store, 20, b"c" * 65, previous=base)
    return store, write(store, 30, b"d", b"e" * 64, previous=second)


def test_every_flipped_bit_is_noticed_and_its_blob_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, record = three_layers(monkeypatch)
    for name, data in list(store.blobs.items()):
        for place in range(len(data)):
            for bit in (1, 0x20, 0x80):
                changed = bytearray(data)
                changed[place] ^= bit
                store.blobs[name] = bytes(changed)
                with pytest.raises(SnapshotDamagedError) as caught:
                    verify_snapshot(store, record)
                assert name in str(caught.value)
        with pytest.raises(SnapshotDamagedError, match=name):
            read_all(store, record)
        store.blobs[name] = data
    verify_snapshot(store, record)


def test_every_cut_and_every_appended_byte_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    store, record = three_layers(monkeypatch)
    for name, data in list(store.blobs.items()):
        for changed in [*(data[:length] for length in range(len(data))), data + b"\0"]:
            store.blobs[name] = changed
            with pytest.raises(SnapshotDamagedError, match=name):
                verify_snapshot(store, record)
        with pytest.raises(SnapshotDamagedError, match=name):
            read_all(store, record)
        store.blobs[name] = data


def test_every_missing_blob_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    store, record = three_layers(monkeypatch)
    assert len(store.blobs) == 7
    for name, data in list(store.blobs.items()):
        del store.blobs[name]
        with pytest.raises(SnapshotDamagedError, match=f"{name} can't be read"):
            verify_snapshot(store, record)
        with pytest.raises(SnapshotDamagedError, match=name):
            read_all(store, record)
        store.blobs[name] = data


def test_exchanged_blobs_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    store, record = three_layers(monkeypatch)
    names = list(store.blobs)
    for one in names:
        for other in names:
            if one == other:
                continue
            kept = store.blobs[one]
            store.blobs[one] = store.blobs[other]
            with pytest.raises(SnapshotDamagedError, match=one):
                verify_snapshot(store, record)
            store.blobs[one] = kept


def test_a_renamed_header_is_refused_even_with_its_checksum() -> None:
    store = Blobs()
    record = write(store, 10, b"state")
    renamed = SnapshotName(SliceId("words", 4), 10, 7).header
    store.put(renamed, store.blobs[record.name])
    with pytest.raises(SnapshotDamagedError, match=r"somebody renamed it"):
        load_snapshot(store, replace(record, name=renamed), SLICE)


@pytest.mark.parametrize(
    "change", [{"epoch": 11}, {"generation": 8}, {"full": False}, {"chain": 2}]
)
def test_a_record_of_something_else_is_refused(change: dict[str, Any]) -> None:
    store = Blobs()
    record = write(store, 10, b"state")
    with pytest.raises(SnapshotDamagedError, match="is not the snapshot that"):
        load_snapshot(store, replace(record, **change), SLICE)


def test_another_slices_snapshot_is_refused() -> None:
    store = Blobs()
    record = write(store, 10, b"state", slice_id=SliceId("words", 4))
    with pytest.raises(SnapshotDamagedError, match=r"is words/4's snapshot, not words/3's"):
        load_snapshot(store, record, SLICE)


def test_an_increment_on_another_slices_snapshot_is_refused() -> None:
    store = Blobs()
    base = write(store, 10, b"state", slice_id=SliceId("other", 0))
    record = write(store, 20, b"changes", previous=base)
    with pytest.raises(SnapshotDamagedError, match="not the same slice's snapshot before it"):
        load_snapshot(store, record, SLICE)


@pytest.mark.parametrize("epoch", [20, 30])
def test_an_increment_on_a_later_snapshot_is_refused(epoch: int) -> None:
    store = Blobs()
    base = write(store, epoch, b"state", generation=6)
    record = write(store, 20, b"changes", previous=base)
    with pytest.raises(SnapshotDamagedError, match="snapshot before it"):
        load_snapshot(store, record, SLICE)


def test_a_part_of_another_snapshot_is_refused() -> None:
    store = Blobs()
    record = write(store, 10, b"state")
    document = json.loads(store.blobs[record.name])
    document.pop("checksum")
    document["parts"][0]["name"] = SnapshotName(SLICE, 9, 7).part(0)
    data = seal_document(document)
    store.put(record.name, data)
    with pytest.raises(SnapshotDamagedError, match="is no part of it"):
        load_snapshot(store, replace(record, checksum=checksum(data)), SLICE)


def test_a_part_that_can_not_hold_its_pieces_is_refused() -> None:
    store = Blobs()
    record = write(store, 10, b"state")
    document = json.loads(store.blobs[record.name])
    document.pop("checksum")
    document["parts"][0]["pieces"] = [5, 64]
    data = seal_document(document)
    store.put(record.name, data)
    with pytest.raises(SnapshotDamagedError, match="can't hold its pieces"):
        load_snapshot(store, replace(record, checksum=checksum(data)), SLICE)


def test_a_long_piece_at_the_start_is_the_first_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART_BYTES", 100)
    store = Blobs()
    record = write(store, 3, b"x" * 900)
    assert store.order == [SnapshotName(SLICE, 3, 7).part(0), record.name]
    assert len(store.blobs[store.order[0]]) == 960


def test_another_format_is_told_apart_from_damage() -> None:
    store = Blobs()
    record = write(store, 10, b"state")
    document = json.loads(store.blobs[record.name])
    document.pop("checksum")
    data = seal_document({**document, "format": 99, "parts": "in another form"})
    store.put(record.name, data)
    with pytest.raises(StateVersionError, match=r"format 99; .* reads format 1"):
        load_snapshot(store, replace(record, checksum=checksum(data)), SLICE)
    with pytest.raises(SnapshotDamagedError):
        load_snapshot(store, record, SLICE)


EPOCHS = st.integers(BEGINNING, INFINITY)
SLICES = st.builds(SliceId, st.text(min_size=1, max_size=20), st.integers(0, 999_999))


@given(SLICES, EPOCHS, st.integers(0, 10**8 - 1))
def test_names_tell_what_they_name(slice_id: SliceId, epoch: int, generation: int) -> None:
    name = SnapshotName(slice_id, epoch, generation)
    assert snapshot_of(name.header) == name
    assert snapshot_of(name.part(3)) == name
    assert name.header.count("/") == 3
    assert not any(folder.startswith(".") for folder in name.header.split("/"))


@given(EPOCHS, EPOCHS)
def test_names_sort_as_epochs_do(one: int, other: int) -> None:
    first, second = SnapshotName(SLICE, one, 1).header, SnapshotName(SLICE, other, 1).header
    assert (first < second) == (one < other)


@pytest.mark.parametrize(
    "name", ["", "snapshots/a/000001/x.json", "snapshots/a/000001/.p0.tmp", "part-r000002-x"]
)
def test_foreign_names_are_nobodys(name: str) -> None:
    assert snapshot_of(name) is None
