"""Histories: what they remember, and that a snapshot holds what was added since the one before."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from streammine import History, Operator, Value
from streammine.operators import history
from streammine.operators.history import Entries, Stretch
from streammine.operators.plain_data import NotPlainError
from streammine.operators.state_store import StateStore
from streammine.testing import check_operator

FIELDS = [pa.field("key", pa.int64())]
CELLS = {"record": History(), "total": Value(0)}


def test_entries_have_numbers_that_stay() -> None:
    # appended: a b c d;  dropped: a b
    entries = Entries()
    assert [entries.append(each) for each in "abcd"] == [0, 1, 2, 3]
    entries.drop_before(2)
    assert (entries.first, entries.end, len(entries)) == (2, 4, 2)
    assert (entries[2], entries[3], list(entries)) == ("c", "d", ["c", "d"])
    for number in (1, 4, -1):
        with pytest.raises(IndexError, match=f"2 to 3, not {number}"):
            entries[number]


def test_dropping_goes_no_further_than_the_last_entry_and_not_back() -> None:
    entries = Entries()
    entries.append("a")
    entries.drop_before(9)
    assert (entries.first, entries.end) == (1, 1)
    entries.drop_before(0)
    assert entries.append("b") == 1
    assert entries[1] == "b"


def test_nothing_can_be_had_from_no_entries() -> None:
    with pytest.raises(IndexError, match="there are no entries, not 0"):
        Entries()[0]


def test_what_is_assigned_in_the_place_of_a_history_is_told() -> None:
    store = StateStore(CELLS, FIELDS)
    (state,) = store.open([(1,)])
    state.record = [1]
    with pytest.raises(NotPlainError, match=r"'record' is a History, and a list was assigned"):
        list(store.freeze(True).pieces())


def test_what_entries_take_is_known() -> None:
    entries = Entries()
    entries.append((1, b"x" * 1000, "y" * 500))
    assert 1_500 < entries.nbytes < 2_000
    entries.drop_before(1)
    assert entries.nbytes == 0


def test_a_history_that_ever_held_anything_is_not_as_it_was_at_first() -> None:
    entries = Entries()
    entries.append("a")
    entries.drop_before(1)
    assert entries != Entries()
    assert Entries() == Entries()


def test_a_long_stretch_is_saved_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "PIECE_BYTES", 1_000)
    stretch = Stretch(3, 10, [b"x" * 400] * 5)
    parts = stretch.parts()
    assert [(part.first, part.number, len(part.entries)) for part in parts] == [
        (3, 10, 3),
        (3, 13, 2),
    ]
    assert Stretch(3, 10, []).parts() == [Stretch(3, 10, [])]


def state_of(store: StateStore, key: int) -> Any:
    (state,) = store.open([(key,)])
    return state


def shown(store: StateStore) -> dict[Any, Any]:
    return {
        key: (state.record.first, list(state.record), state.total)
        for key, state in zip(store.keys(), store.states(), strict=True)
    }


def restored(snapshots: Sequence[tuple[bool, list[pa.Buffer]]]) -> StateStore:
    store = StateStore(CELLS, FIELDS)
    for full, pieces in snapshots:
        store.restore(full, iter(pieces))
    return store


def test_a_snapshot_holds_what_was_appended_since_the_one_before() -> None:
    store = StateStore(CELLS, FIELDS)
    sizes = []
    for _ in range(5):
        for _ in range(100):
            state_of(store, 1).record.append(b"x" * 1_000)
        sizes.append(sum(piece.size for piece in store.freeze(full=False).pieces()))
    assert max(sizes) < 1.1 * min(sizes)
    assert sum(piece.size for piece in store.freeze(full=True).pieces()) > 4.5 * max(sizes)


@pytest.mark.parametrize("seed", range(25))
def test_a_chain_of_snapshots_gives_the_histories_back(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "PIECE_BYTES", 300)
    chance = random.Random(seed)
    store = StateStore(CELLS, FIELDS)
    snapshots: list[tuple[bool, list[pa.Buffer]]] = []
    for _ in range(20):
        for _ in range(chance.randrange(6)):
            state = state_of(store, chance.randrange(3))
            match chance.randrange(8):
                case 0:
                    state.clear()
                case 1:
                    state.record.drop_before(chance.randrange(state.record.end + 2))
                case _:
                    entries = chance.randrange(12)
                    for number in range(entries):
                        state.record.append((number, b"x" * chance.randrange(80)))
                    state.total += entries
        store.forget_fresh(store.states())
        if chance.random() < 0.6:
            frozen = store.freeze(full=chance.random() < 0.2)
            expected = shown(store)
            if chance.random() < 0.5:
                # processing goes on before the pieces are taken: they show what was frozen
                for key in range(3):
                    state_of(store, key).record.append("later")
                    state_of(store, key).total += 1
            pieces = list(frozen.pieces())
            snapshots = [(True, pieces)] if frozen.full else [*snapshots, (False, pieces)]
            assert shown(restored(snapshots)) == expected
            if chance.random() < 0.3:
                # goes on elsewhere, where the first snapshot is full again
                store = restored(snapshots)


class Memory(Operator):
    """Tells the value that a key had so many values ago, of the last ten."""

    output: ClassVar = {"key": "int64", "before": "int64"}
    state: ClassVar = {"values": History()}

    def process(self, key: int, event: Any, state: Any) -> Any:
        number = state.values.append(event.value)
        state.values.drop_before(number - 9)
        return key, state.values[max(state.values.first, number - event.value % 7)]


def test_an_operator_with_a_history_is_restored_midway() -> None:
    chance = random.Random(1)
    batches = [
        pa.record_batch(
            {
                "key": [chance.randrange(4) for _ in range(20)],
                "value": [chance.randrange(1000) for _ in range(20)],
            }
        )
        for _ in range(12)
    ]
    check_operator(Memory, batches, key="key")
