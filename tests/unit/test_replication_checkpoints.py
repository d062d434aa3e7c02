"""Checkpoints are found again, and what nobody needs is removed, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication import (
    Term,
    collect,
    decode_checkpoint,
    encode_checkpoint,
    first_generation,
    forgotten_until,
    load_run,
    newest_checkpoints,
    next_attempt,
    publish_checkpoint,
    save_run,
    store_decisions,
    verify_snapshot,
    write_snapshot,
)
from replication.naming import (
    SnapshotName,
    checkpoint_name,
    last_decided,
    mark_name,
    snapshot_of,
)
from streammine.model.agreement import BagSet, Decision, StoredDecision
from streammine.model.contracts import FrozenSlice
from streammine.model.documents import seal_document
from streammine.model.epochs import BEGINNING
from streammine.model.errors import OutputError, SnapshotDamagedError, StateVersionError
from streammine.model.ids import SliceId
from streammine.model.recovery import Checkpoint
from streammine.model.snapshots import Restore, SnapshotRecord

A, B = SliceId("a", 0), SliceId("b", 0)


class Blobs:
    """A store in memory; `full` makes every put fail, and what begins with `refused` can't be removed."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.full = False
        self.refused: str | None = None
        self.deleted: list[str] = []

    def put(self, name: str, data: pa.Buffer | bytes) -> None:
        if self.full:
            raise OutputError(f"can't write {name}: the disk is full")
        self.blobs[name] = bytes(data)

    def get(self, name: str) -> pa.Buffer:
        if name not in self.blobs:
            raise OutputError(f"there is no {name}")
        return pa.py_buffer(self.blobs[name])

    def list(self, prefix: str) -> list[str]:
        return sorted(name for name in self.blobs if name.startswith(prefix))

    def delete(self, name: str) -> None:
        if self.refused is not None and name.startswith(self.refused):
            raise OutputError(f"can't remove {name}")
        del self.blobs[name]
        self.deleted.append(name)

    def damage(self, name: str) -> None:
        self.blobs[name] = self.blobs[name][:-1] + bytes([self.blobs[name][-1] ^ 1])


@dataclass
class State:
    full: bool

    def pieces(self) -> Iterator[pa.Buffer]:
        yield pa.py_buffer(b"state")


def snapshot(
    store: Blobs,
    slice_id: SliceId,
    epoch: int,
    previous: SnapshotRecord | None = None,
    generation: int = 1,
) -> SnapshotRecord:
    frozen = FrozenSlice(epoch, epoch, state=State(previous is None))
    return write_snapshot(store, slice_id, generation, frozen, previous)


def checkpoint(epoch: int, **records: SnapshotRecord | None) -> Checkpoint:
    return Checkpoint(
        epoch,
        {
            f"{vertex}/0": Restore(epoch, None, True, epoch - 1)
            if record is None
            else Restore(epoch, record)
            for vertex, record in records.items()
        },
    )


def published(
    store: Blobs, epoch: int, attempt: int = 0, **records: SnapshotRecord | None
) -> Checkpoint:
    made = checkpoint(epoch, **records)
    publish_checkpoint(store, made, Term(attempt))
    return made


def full_ones(store: Blobs, *epochs: int) -> list[Checkpoint]:
    return [
        published(store, epoch, a=snapshot(store, A, epoch), b=snapshot(store, B, epoch))
        for epoch in epochs
    ]


def left(store: Blobs) -> list[tuple[str, int, int]]:
    """(vertex, epoch, generation) of all snapshots of which anything is left."""
    names = {found for name in store.blobs if (found := snapshot_of(name))}
    return sorted((one.slice_id.vertex, one.epoch, one.generation) for one in names)


# --- manifests ------------------------------------------------------------------------------------


def test_a_checkpoint_reads_back_as_it_was_published() -> None:
    store = Blobs()
    base = snapshot(store, A, -20)
    made = checkpoint(-10, a=snapshot(store, A, -10, base), b=None)
    name = publish_checkpoint(store, made, Term(3))
    assert decode_checkpoint(name, store.get(name)) == made
    assert newest_checkpoints(store) == [made]


def test_the_newest_checkpoints_are_found_oldest_first() -> None:
    store = Blobs()
    made = full_ones(store, -7, 5, 10, 200)
    assert newest_checkpoints(store) == made[-2:]
    assert newest_checkpoints(store, 1) == made[-1:]
    assert newest_checkpoints(store, 9) == made
    assert newest_checkpoints(Blobs()) == []


def test_a_damaged_manifest_is_passed_over_and_told() -> None:
    store = Blobs()
    made = full_ones(store, 10, 20, 30)
    store.damage(checkpoint_name(30, Term(0)))
    store.put("checkpoints/notes.txt", b"foreign")
    warnings: list[str] = []
    assert newest_checkpoints(store, 2, warnings.append) == made[:2]
    assert len(warnings) == 1
    assert checkpoint_name(30, Term(0)) in warnings[0]


def test_of_one_epoch_the_last_attempts_sound_manifest_counts() -> None:
    store = Blobs()
    (first,) = full_ones(store, 10)
    again = published(store, 10, 1, a=snapshot(store, A, 10, generation=65537), b=None)
    assert newest_checkpoints(store) == [again]
    store.damage(checkpoint_name(10, Term(1)))
    assert newest_checkpoints(store) == [first]


def test_every_flipped_bit_and_every_cut_of_a_manifest_is_noticed_or_harmless() -> None:
    store = Blobs()
    made = checkpoint(10, a=snapshot(store, A, 10), b=None)
    name, data = checkpoint_name(10, Term(0)), encode_checkpoint(made)
    told = []
    for place in range(len(data)):
        for bit in (1, 0x20, 0x80):
            changed = bytearray(data)
            changed[place] ^= bit
            try:
                assert decode_checkpoint(name, bytes(changed)) == made
            except SnapshotDamagedError as error:
                told.append(str(error))
    assert all(name in text for text in told)
    assert len(told) > 2.9 * len(data), "only what stands between words may change"
    for length in range(len(data)):
        with pytest.raises(SnapshotDamagedError):
            decode_checkpoint(name, data[:length])


def test_a_renamed_manifest_is_refused() -> None:
    data = encode_checkpoint(checkpoint(10, a=None))
    with pytest.raises(SnapshotDamagedError, match="renamed"):
        decode_checkpoint(checkpoint_name(11, Term(0)), data)


@pytest.mark.parametrize("wrong", [(B, 10), (A, 9)])
def test_a_manifest_with_the_wrong_snapshot_of_a_slice_is_refused(
    wrong: tuple[SliceId, int],
) -> None:
    record = snapshot(Blobs(), *wrong)
    data = encode_checkpoint(checkpoint(10, a=record))
    with pytest.raises(SnapshotDamagedError, match="is not a/0's snapshot"):
        decode_checkpoint(checkpoint_name(10, Term(0)), data)


def test_a_manifest_of_another_format_is_not_passed_over() -> None:
    store = Blobs()
    full_ones(store, 10, 20)
    document = json.loads(store.blobs[checkpoint_name(20, Term(0))])
    document.pop("checksum")
    store.put(checkpoint_name(20, Term(0)), seal_document({**document, "format": 2}))
    with pytest.raises(StateVersionError, match="format 2"):
        newest_checkpoints(store)


def test_a_snapshot_is_no_checkpoint() -> None:
    store = Blobs()
    record = snapshot(store, A, 10)
    with pytest.raises(SnapshotDamagedError, match="it is a snapshot"):
        decode_checkpoint(checkpoint_name(10, Term(0)), store.get(record.name))


# --- runs -----------------------------------------------------------------------------------------


def test_a_run_is_kept_for_its_resume() -> None:
    store = Blobs()
    save_run(store, b"\x00job\xff")
    assert load_run(store) == b"\x00job\xff"
    with pytest.raises(SnapshotDamagedError, match=r"run\.json can't be read"):
        load_run(Blobs())
    store.blobs["run.json"] = store.blobs["run.json"].replace(b"AGpv", b"AGpw")
    with pytest.raises(SnapshotDamagedError, match=r"run\.json is damaged"):
        load_run(store)


def test_each_attempt_has_generations_of_its_own() -> None:
    store = Blobs()
    assert [next_attempt(store) for _ in range(3)] == [0, 1, 2]
    assert [first_generation(attempt) for attempt in range(3)] == [1, 65537, 131073]


def test_an_attempt_that_can_not_be_claimed_does_not_start() -> None:
    store = Blobs()
    store.full = True
    with pytest.raises(OutputError):
        next_attempt(store)


# --- collecting -----------------------------------------------------------------------------------


def test_what_only_older_checkpoints_need_goes_and_a_manifest_goes_first() -> None:
    store = Blobs()
    made = full_ones(store, 10, 20, 30)
    collected = collect(store, made[1:], set(), True)
    assert collected.damaged is None
    assert left(store) == [(v, e, 1) for v in "ab" for e in (20, 30)]
    assert newest_checkpoints(store, 9) == made[1:]
    kinds = [name.partition("/")[0] + name[-5:] for name in store.deleted]
    assert kinds == ["checkpoints.json"] + 2 * ["snapshots.json"] + 2 * ["snapshots0.bin"]
    assert list(collected.removed) == store.deleted
    assert collect(store, made[1:], set(), True).removed == ()


def test_decisions_go_once_the_checkpoint_that_covers_them_was_read_back() -> None:
    store = Blobs()
    made = full_ones(store, 10, 20, 30)[:2]
    for epoch in (5, 15, 25):
        decision = Decision(epoch - 10, BagSet(epoch, ()))
        store_decisions(store, A, 1, (StoredDecision(1, decision),))
    store.delete(made[0].slices["a/0"].record.name.replace(".json", "-000000.bin"))
    before = dict(store.blobs)
    assert collect(store, made, set(), True).damaged is not None
    assert store.blobs == before
    assert forgotten_until(store) == BEGINNING
    snapshot(store, A, 10)
    store.refused = "decisions/"
    with pytest.raises(OutputError):
        collect(store, made, set(), True)
    assert forgotten_until(store) == 10, "it is said before it is so"
    store.refused = None
    assert len(collect(store, made, set(), True).removed) == 1
    made = [*made[1:], *full_ones(store, 30)]
    assert collect(store, made, set(), True).damaged is None
    assert forgotten_until(store) == 20
    assert store.list("forgotten/") == [mark_name(20)]
    assert [last_decided(name) for name in store.list("decisions/")] == [25]


def test_no_manifest_goes_before_the_oldest_kept_checkpoint_was_read_back() -> None:
    """Though all of its snapshots stay, for later ones build on them."""
    store = Blobs()
    chain = [snapshot(store, A, 10)]
    for epoch in (20, 30):
        chain.append(snapshot(store, A, epoch, chain[-1]))
    made = [published(store, one.epoch, a=one) for one in chain]
    store.damage(chain[1].name.replace(".json", "-000000.bin"))
    assert collect(store, made[1:], set(), True).damaged is not None
    assert newest_checkpoints(store, None) == made


def test_nothing_to_keep_means_that_nothing_goes() -> None:
    store = Blobs()
    full_ones(store, 10, 20)
    before = dict(store.blobs)
    assert collect(store, [], set(), True).removed == ()
    assert store.blobs == before


def test_a_chain_stays_whole_however_old_its_base() -> None:
    store = Blobs()
    chain = [snapshot(store, A, 10)]
    for epoch in (20, 30, 40):
        chain.append(snapshot(store, A, epoch, chain[-1]))
    bases = [snapshot(store, B, epoch) for epoch in (10, 20, 30, 40)]
    made = [
        published(store, one.epoch, a=one, b=base) for one, base in zip(chain, bases, strict=True)
    ]
    assert collect(store, made[2:], set(), True).damaged is None
    assert left(store) == [("a", e, 1) for e in (10, 20, 30, 40)] + [("b", e, 1) for e in (30, 40)]
    verify_snapshot(store, chain[-1])


def test_snapshots_of_a_finished_slice_go() -> None:
    store = Blobs()
    snapshot(store, A, 10)
    made = [published(store, epoch, a=None, b=snapshot(store, B, epoch)) for epoch in (20, 30)]
    collect(store, made, set(), True)
    assert left(store) == [("b", 20, 1), ("b", 30, 1)]


def test_orphans_of_earlier_epochs_go_and_what_is_being_written_stays() -> None:
    store = Blobs()
    old_orphan = SnapshotName(A, 15, 1).part(0)
    same_epoch = SnapshotName(A, 30, 1).part(5)
    being_written = SnapshotName(A, 40, 1).part(0)
    for name in (old_orphan, same_epoch, being_written):
        store.put(name, b"state")
    given_up = snapshot(store, B, 25)
    made = full_ones(store, 20, 30)
    collect(store, made, set(), True)
    assert old_orphan not in store.blobs
    assert given_up.name not in store.blobs
    assert same_epoch in store.blobs
    assert being_written in store.blobs


def test_what_later_snapshots_build_on_stays() -> None:
    # b's snapshot 40 is not part of a checkpoint yet; it builds on 35 and 25, which were given up
    store = Blobs()
    first = snapshot(store, B, 25)
    second = snapshot(store, B, 35, first)
    third = snapshot(store, B, 40, second)
    made = full_ones(store, 20, 30)
    collect(store, made, set(), True)
    assert [epoch for vertex, epoch, _ in left(store) if vertex == "b"] == [20, 25, 30, 35, 40]
    verify_snapshot(store, third)


def test_a_younger_replica_keeps_the_chain_that_it_goes_on_from() -> None:
    # generation 2 of a is being brought up: its next increment builds on its snapshot 12
    store = Blobs()
    gone = snapshot(store, A, 5, generation=2)
    base = snapshot(store, A, 10, generation=2)
    last = snapshot(store, A, 12, base, generation=2)
    orphan = SnapshotName(A, 11, 2).part(0)
    in_the_making = SnapshotName(A, 15, 2).part(0)
    first_of_three = SnapshotName(A, 1, 3).part(0)
    for name in (orphan, in_the_making, first_of_three):
        store.put(name, b"state")
    made = full_ones(store, 20, 30)
    collect(store, made, set(), True)
    verify_snapshot(store, last)
    assert gone.name not in store.blobs
    assert orphan not in store.blobs
    assert in_the_making in store.blobs
    assert first_of_three in store.blobs


def test_older_generations_go_with_their_epochs() -> None:
    store = Blobs()
    lost = snapshot(store, A, 15)
    made = [
        published(store, epoch, a=snapshot(store, A, epoch, generation=2), b=None)
        for epoch in (20, 30)
    ]
    late = snapshot(store, A, 35)
    collect(store, made, set(), True)
    assert lost.name not in store.blobs
    assert late.name in store.blobs, "nobody knows yet which replica the next checkpoint takes"


@pytest.mark.parametrize(("generation", "is_damage"), [(1, False), (2, True), (3, True)])
def test_who_was_replaced_and_builds_on_what_is_gone_damages_nothing(
    generation: int, is_damage: bool
) -> None:
    store = Blobs()
    base = snapshot(store, A, 15, generation=generation)
    made = [
        published(store, epoch, a=snapshot(store, A, epoch, generation=2), b=None)
        for epoch in (10, 20, 30)
    ]
    store.delete(base.name)
    late = snapshot(store, A, 35, base, generation=generation)
    done = collect(store, made[1:], set(), True)
    assert (done.damaged is not None) == is_damage
    assert late.name in store.blobs
    assert (made[0].slices["a/0"].record.name in store.blobs) == is_damage


def test_another_attempts_manifest_of_a_kept_epoch_goes_when_it_is_the_older() -> None:
    store = Blobs()
    other = published(store, 20, 1, a=snapshot(store, A, 20, generation=65537), b=None)
    made = full_ones(store, 20, 30)
    collect(store, made, set(), True)
    assert newest_checkpoints(store, 9) == made
    assert other.slices["a/0"].record is not None
    assert other.slices["a/0"].record.name in store.blobs, "it is of a younger generation"


def test_a_checkpoint_of_a_later_epoch_is_left_alone() -> None:
    store = Blobs()
    made = full_ones(store, 10, 20, 30)
    collect(store, made[:2], set(), True)
    assert newest_checkpoints(store, 9) == made


def test_nothing_goes_before_the_oldest_kept_checkpoint_was_read_back() -> None:
    sound = Blobs()
    made = full_ones(sound, 10, 20, 30, 40)
    needed = [name for name in sound.blobs if (one := snapshot_of(name)) and one.epoch == 20]
    needed.append(checkpoint_name(20, Term(0)))
    assert len(needed) == 5
    for name in needed:
        store = Blobs()
        store.blobs = dict(sound.blobs)
        store.damage(name)
        collected = collect(store, made[1:3], set(), True)
        assert collected.removed == ()
        assert collected.damaged is not None
        assert name in collected.damaged
        assert not store.deleted
        # Once it is not needed any more, it does no more harm.
        assert collect(store, made[2:], set(), True).damaged is None
        assert newest_checkpoints(store, 9) == made[2:]


def test_each_snapshot_of_a_chain_is_read_back_once() -> None:
    store = Blobs()
    chain = [snapshot(store, A, 10)]
    for epoch in (20, 30, 40, 50):
        chain.append(snapshot(store, A, epoch, chain[-1]))
    made = [published(store, one.epoch, a=one) for one in chain]
    verified: set[str] = set()
    assert collect(store, made[:2], verified, True).removed == ()
    assert verified == set(), "nothing was to go"
    orphan = SnapshotName(A, 5, 1).header
    store.put(orphan, b"published, and not needed")
    assert collect(store, made[:2], verified, True).removed == (orphan,)
    assert verified == {chain[0].name}
    assert collect(store, made[1:3], verified, True).removed == (checkpoint_name(10, Term(0)),)
    assert verified == {one.name for one in chain[:2]}
    store.damage(SnapshotName(A, 10, 1).part(0))
    store.put(orphan, b"and once more")
    assert collect(store, made[2:4], verified, True).damaged is None
    assert verified == {one.name for one in chain[:3]}
    store.damage(SnapshotName(A, 40, 1).part(0))
    store.put(orphan, b"and once more")
    damaged = collect(store, made[3:], verified, True).damaged
    assert SnapshotName(A, 40, 1).part(0) in str(damaged)
    assert verified == {one.name for one in chain[:3]}


def test_what_was_verified_and_is_not_needed_any_more_is_forgotten() -> None:
    store = Blobs()
    made = full_ones(store, 10, 20, 30)
    verified: set[str] = set()
    collect(store, made[1:], verified, True)
    assert verified == {record(each) for each in made[1].slices.values()}


def record(restore: Restore) -> str:
    assert restore.record is not None
    return restore.record.name


def test_a_missing_manifest_of_the_oldest_kept_checkpoint_is_noticed() -> None:
    store = Blobs()
    made = full_ones(store, 10, 20, 30)
    store.delete(checkpoint_name(20, Term(0)))
    assert "epoch 20 has no manifest" in str(collect(store, made[1:], set(), True).damaged)
    assert len(left(store)) == 6


def test_a_new_base_does_not_replace_the_old_one_before_it_is_verified() -> None:
    store = Blobs()
    base = snapshot(store, A, 10)
    grown = snapshot(store, A, 20, base)
    rebased = snapshot(store, A, 30)
    grown_again = snapshot(store, A, 40, rebased)
    made = [published(store, one.epoch, a=one) for one in (base, grown, rebased, grown_again)]
    store.damage(SnapshotName(A, 30, 1).part(0))
    assert SnapshotName(A, 30, 1).part(0) in str(collect(store, made[2:], set(), True).damaged)
    verify_snapshot(store, grown)
    assert newest_checkpoints(store, 9) == made


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, int, int, bool, bool]]:
    """(vertex, epoch, generation, full if possible, published) of snapshots as they came about."""
    found = []
    for vertex in "ab":
        generation = 1
        for epoch in range(1, 9):
            generation += draw(st.integers(0, 4)) == 0
            for one in (generation, generation + 1):
                if one == generation or draw(st.integers(0, 3)) == 0:
                    found.append((vertex, epoch, one, draw(st.booleans()), draw(st.booleans())))
    return found


@given(histories(), st.integers(1, 8), st.integers(1, 8))
def test_whatever_happened_the_kept_checkpoints_and_all_later_work_stay_readable(
    history: list[tuple[str, int, int, bool, bool]], one_epoch: int, other_epoch: int
) -> None:
    store = Blobs()
    last: dict[tuple[str, int], SnapshotRecord] = {}
    records: dict[tuple[str, int], SnapshotRecord] = {}
    everything: list[tuple[str, SnapshotRecord]] = []
    for vertex, epoch, generation, full, is_published in history:
        slice_id = SliceId(vertex, 0)
        previous = None if full else last.get((vertex, generation))
        if not is_published:
            store.put(SnapshotName(slice_id, epoch, generation).part(0), b"state")
            last.pop((vertex, generation), None)
            continue
        record = snapshot(store, slice_id, epoch, previous, generation)
        last[vertex, generation] = record
        records.setdefault((vertex, epoch), record)
        everything.append((vertex, record))
    epochs = sorted({one_epoch, other_epoch})
    keep = [published(store, e, a=records.get(("a", e)), b=records.get(("b", e))) for e in epochs]
    before = set(store.blobs)
    collected = collect(store, keep, set(), True)
    assert collected.damaged is None
    assert before - set(store.blobs) == set(collected.removed)
    assert newest_checkpoints(store) == keep
    for kept in keep:
        for restore in kept.slices.values():
            if restore.record is not None:
                verify_snapshot(store, restore.record)
    newest = {name[0]: one.record for name, one in keep[-1].slices.items()}
    for vertex, record in everything:
        kept_record = newest[vertex]
        younger = kept_record is not None and record.generation > kept_record.generation
        goes_on = younger and last.get((vertex, record.generation)) == record
        if record.epoch >= epochs[-1] or goes_on:
            verify_snapshot(store, record)
    assert collect(store, keep, set(), True).removed == ()
