"""What snapshots hold of windows: what was appended since the one before, or all where that is not enough."""

from __future__ import annotations

import random
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import pyarrow as pa
import pytest

from streammine import History, List, Operator, Value, Window
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import SnapshotDamagedError, StateVersionError
from streammine.operators import history
from streammine.operators.frozen import decode_piece, encode_piece
from streammine.operators.plain_data import NotPlainError
from streammine.operators.sliding_window import (
    LONGEST_STRETCH,
    SHORTEST_STRETCH,
    SlidingWindow,
)
from streammine.operators.state_store import StateStore
from streammine.operators.window_change import WindowChange, are_fixed
from streammine.testing import check_operator

FIELDS = [pa.field("key", pa.int64())]
CELLS = {"short": Window(epochs=3), "long": Window(epochs=9), "record": History()}
DEFINITION = EpochDefinition("count", 10)

Saved = Sequence[tuple[bool, list[pa.Buffer]]]


def state_of(store: StateStore, key: int) -> Any:
    (state,) = store.open([(key,)])
    return state


def pieces(store: StateStore, full: bool = False) -> tuple[bool, list[pa.Buffer]]:
    frozen = store.freeze(full)
    return frozen.full, list(frozen.pieces())


def shown(store: StateStore) -> dict[Any, Any]:
    return {
        key: (list(state.short), list(state.long), list(state.record))
        for key, state in zip(store.keys(), store.states(), strict=True)
    }


def restored(snapshots: Saved) -> StateStore:
    store = StateStore(CELLS, FIELDS)
    for full, each in snapshots:
        store.restore(full, iter(each))
    return store


@pytest.mark.parametrize(
    "values",
    [[], [1, None, "x"], [(1, "x"), (2, "y")], [(), ()], [(1,), (2, 3)], [(1, (2, 3))], [[1]], [{}]],
)  # fmt: skip
@pytest.mark.parametrize("whole", [False, True])
def test_a_change_comes_back_from_plain_data(values: list[Any], whole: bool) -> None:
    change = WindowChange(whole, 7, 3, list(enumerate(values)))
    assert WindowChange.of_plain(change.plain()) == change


def test_what_can_be_changed_in_its_place_is_not_fixed() -> None:
    assert are_fixed([1, "x", None, b"", 1.5, True, (), (1, ("x", (2,)))])
    for value in ([], {}, set(), (1, []), ((1, ({},)),)):
        assert not are_fixed([1, (2,), value])


def test_a_snapshot_holds_what_was_appended_since_the_one_before() -> None:
    store = StateStore(CELLS, FIELDS)
    sizes = []
    for epoch in range(8):
        store.begin_epoch(epoch, DEFINITION)
        state = state_of(store, 1)
        for number in range(100):
            state.long.append(epoch, (number, "x" * 1_000))
        sizes.append(sum(piece.size for piece in pieces(store)[1]))
    assert max(sizes) < 1.1 * min(sizes)
    assert sum(piece.size for piece in pieces(store, full=True)[1]) > 7.5 * max(sizes)


def test_values_that_are_changed_in_their_place_are_saved() -> None:
    store = StateStore(CELLS, FIELDS)
    state_of(store, 1).long.append(1, ["a"])
    snapshots = [pieces(store)]
    ((_, value),) = state_of(store, 1).long
    value.append("b")
    state_of(store, 1).long.append(2, "c")
    snapshots.append(pieces(store))
    assert shown(restored(snapshots))[1,][1] == [(1, ["a", "b"]), (2, "c")]


def test_windows_that_change_places_are_saved_as_they_are() -> None:
    store = StateStore(CELLS, FIELDS)
    state_of(store, 1).short.append(1, "a")
    state_of(store, 1).long.append(1, "b")
    snapshots = [pieces(store)]
    state = state_of(store, 1)
    state.short, state.long = state.long, state.short
    state.short.append(2, "c")
    snapshots.append(pieces(store))
    state_of(store, 1).long = state_of(store, 1).short
    snapshots.append(pieces(store))
    state_of(store, 1).long.append(3, "d")
    snapshots.append(pieces(store))
    entries = [(1, "b"), (2, "c")]
    assert shown(restored(snapshots[:2]))[1,] == (entries, [(1, "a")], [])
    assert shown(restored(snapshots[:3]))[1,] == (entries, entries, [])
    assert shown(restored(snapshots))[1,] == ([*entries, (3, "d")], [*entries, (3, "d")], [])


def test_a_window_that_was_put_aside_for_a_snapshot_is_saved_whole() -> None:
    store = StateStore(CELLS, FIELDS)
    state_of(store, 1).long.append(1, "a")
    snapshots = [pieces(store)]
    state = state_of(store, 1)
    aside, state.long = state.long, SlidingWindow()
    state.long.append(2, "other")
    snapshots.append(pieces(store))
    state = state_of(store, 1)
    state.long = aside
    state.long.append(3, "b")
    snapshots.append(pieces(store))
    assert shown(restored(snapshots))[1,][1] == [(1, "a"), (3, "b")]


def test_a_copy_that_is_put_back_is_saved_whole() -> None:
    store = StateStore(CELLS, FIELDS)
    state_of(store, 1).long.append(1, "a")
    snapshots = [pieces(store)]
    state = state_of(store, 1)
    kept = deepcopy(state.long)
    state.long.append(2, "x")
    snapshots.append(pieces(store))
    state_of(store, 1).long = kept
    snapshots.append(pieces(store))
    assert shown(restored(snapshots))[1,][1] == [(1, "a")]


def test_an_increment_on_another_state_than_it_was_made_of_is_noticed() -> None:
    store = StateStore(CELLS, FIELDS)
    state_of(store, 1).long.append(1, "a")
    first = pieces(store)
    state_of(store, 1).long.append(2, "b")
    second = pieces(store)
    with pytest.raises(SnapshotDamagedError, match=r"adds to 1 entries of a window, .* hold 2"):
        restored([first, second, second])


def test_a_window_that_is_restored_piece_by_piece_lies_in_long_stretches() -> None:
    window = SlidingWindow()
    for time in range(3000):
        window.take_in(WindowChange(False, time - 1999, min(time, 1999), [(time, None)]))
        assert len(window) == min(time + 1, 2000)
    assert len(window._stretches) <= 2000 // SHORTEST_STRETCH + 2


def test_further_rows_of_a_long_history_add_nothing_to_windows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(history, "PIECE_BYTES", 300)
    store = StateStore(CELLS, FIELDS)
    snapshots = []
    for number in range(2):
        state = state_of(store, 1)
        for _ in range(10):
            state.record.append(b"x" * 100)
        state.short.append(number, number)
        snapshots.append(pieces(store))
    assert shown(restored(snapshots))[1,][0] == [(0, 0), (1, 1)]


@pytest.mark.parametrize("seed", range(40))
def test_a_chain_of_snapshots_gives_the_windows_back(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "PIECE_BYTES", 300)
    chance = random.Random(seed)
    mutable = chance.random() < 0.3
    store = StateStore(CELLS, FIELDS)
    snapshots: list[tuple[bool, list[pa.Buffer]]] = []

    def value() -> Any:
        if mutable and chance.random() < 0.2:
            return ["changeable"]
        return chance.choice([(1, "x"), chance.randrange(9), ("y",), (2, "z")])

    for epoch in range(40):
        store.begin_epoch(epoch, DEFINITION)
        touched = []
        for _ in range(chance.randrange(5)):
            state = state_of(store, chance.randrange(3))
            touched.append(state)
            match chance.randrange(10):
                case 0:
                    state.clear()
                case 1:
                    state.short.clear()
                case 2:
                    for _, each in state.long:
                        if isinstance(each, list):
                            each.append(epoch)
                case _:
                    for _ in range(chance.choice((1, 3, 40, 70))):
                        state.short.append(max(0, epoch - chance.randrange(5)), value())
                        state.long.append(epoch - chance.randrange(2), value())
                    state.record.append(b"x" * chance.randrange(200))
        store.end_epoch(epoch, DEFINITION, touched)
        store.forget_fresh(store.states())
        if chance.random() < 0.5:
            frozen = store.freeze(full=chance.random() < 0.2)
            expected = shown(store)
            if chance.random() < 0.5:
                # processing goes on before the pieces are taken: they show what was frozen
                store.begin_epoch(epoch + 1, DEFINITION)
                for key in range(3):
                    state_of(store, key).long.append(epoch, "later")
            taken = list(frozen.pieces())
            snapshots = [(True, taken)] if frozen.full else [*snapshots, (False, taken)]
            assert shown(restored(snapshots)) == expected
            if chance.random() < 0.3:
                # goes on elsewhere, where the first snapshot is full again
                store = restored(snapshots)


def test_long_windows_are_restored_in_stretches_as_they_were_appended() -> None:
    window = SlidingWindow()
    window.take_in(
        WindowChange(True, None, 0, [(time, time) for time in range(3 * LONGEST_STRETCH)])
    )
    window.append(1, "late")
    window.drop_before(LONGEST_STRETCH + 1)
    assert len(window) == len(list(window)) == 2 * LONGEST_STRETCH - 1
    window.append(3 * LONGEST_STRETCH, "last")
    assert window.values()[-2:] == [3 * LONGEST_STRETCH - 1, "last"]


def test_what_is_assigned_in_the_place_of_a_window_is_told() -> None:
    store = StateStore(CELLS, FIELDS)
    state_of(store, 1).short = [(1, "x")]
    with pytest.raises(NotPlainError, match=r"'short' is a Window, .* state.short.append\(time, v"):
        list(store.freeze(True).pieces())


def test_a_window_that_was_something_else_is_refused() -> None:
    for one, other in ((Window(epochs=2), List()), (List(), Window(epochs=2))):
        store = StateStore({"lately": one}, FIELDS)
        state_of(store, 1)
        full, taken = pieces(store)
        with pytest.raises(
            StateVersionError, match=r"lately \(a Window\).* raise its state_version"
        ):
            StateStore({"lately": other}, FIELDS, "trends").restore(full, iter(taken))


class Lately(Operator):
    output = {"n": "int64"}  # noqa: RUF012
    state = {"lately": Window(epochs=5), "count": Value(0)}  # noqa: RUF012

    def process(self, key: Any, event: Any, state: Any) -> Any:
        state.lately.append(self.context.epoch, (event.value,))
        return sum(value for (value,) in state.lately.values())


def test_migrate_sees_whole_windows_whatever_the_snapshots_hold() -> None:
    store = StateStore(Lately.state, FIELDS)
    seen: list[Any] = []

    def migrate(contents: Any) -> Any:
        seen.append(contents["lately"])
        return {"values": contents["lately"]}

    snapshots = []
    for epoch in range(8):
        store.begin_epoch(epoch, DEFINITION)
        state_of(store, 1).lately.append(epoch, (epoch, "x"))
        snapshots.append(pieces(store))
    other = StateStore({"values": List()}, FIELDS)
    for full, taken in snapshots:
        other.restore(full, iter(taken), migrate)
    assert seen[-1] == [[epoch, (epoch, "x")] for epoch in range(2, 8)]
    assert state_of(other, 1).values == seen[-1]


def test_what_migrate_changes_in_its_place_it_sees_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "PIECE_BYTES", 300)
    store = StateStore(CELLS, FIELDS)
    state = state_of(store, 1)
    state.short.append(1, ["a"])
    for _ in range(10):
        state.record.append(b"x" * 100)

    def migrate(contents: Any) -> Any:
        for _, value in contents["short"]:
            value.append("new")
        return contents

    other = StateStore(CELLS, FIELDS)
    other.restore(True, iter(pieces(store)[1]), migrate)
    assert shown(other)[1,][0] == [(1, ["a", "new"])]
    assert len(shown(other)[1,][2]) == 10


def test_snapshots_without_windows_of_earlier_releases_are_read() -> None:
    store = StateStore({"count": Value(0)}, FIELDS)
    state_of(store, 1).count = 7
    _, (piece,) = pieces(store)
    header, batches = decode_piece(piece)
    del header["windows"]
    other = StateStore({"count": Value(0)}, FIELDS)
    other.restore(True, iter([encode_piece(header, batches[0])]))
    assert state_of(other, 1).count == 7


def test_an_operator_with_a_window_is_restored_midway() -> None:
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
    check_operator(Lately, batches, key="key")
