"""Keyed state: cells, changed keys, frozen changes; and plain data as bytes."""

from __future__ import annotations

import sys
import threading
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from streammine.model.epochs import EpochDefinition
from streammine.model.errors import TopologyError
from streammine.operators.frozen import decode_piece
from streammine.operators.plain_data import (
    NotPlainError,
    decode,
    encode,
    encode_all_canonical,
    encode_canonical,
)
from streammine.operators.python_columns import values_of
from streammine.operators.state import NAN, Key, List, Map, Queue, Value, Window
from streammine.operators.state_store import StateStore
from streammine.operators.user.groups import python_keys

TEXT = [pa.field("k", pa.string())]
NUMBER = [pa.field("k", pa.int64())]
CELLS = {"count": Value(0), "all": List(), "last": Queue(2), "seen": Map()}


def saved(store: StateStore, full: bool = False) -> list[pa.Buffer]:
    return list(store.freeze(full).pieces())


def opened(store: StateStore, key: Key) -> Any:
    """The state of one key."""
    return store.open([key])[0]


def shown(pieces: list[pa.Buffer]) -> dict[Any, Any]:
    """Keys with the plain contents of their cells, None where forgotten."""
    found: dict[Any, Any] = {}
    for header, batches in map(decode_piece, pieces):
        (rows,) = batches
        keys = [number for number, name in enumerate(rows.schema.names) if name.startswith("key ")]
        columns = list(map(values_of, rows.columns))
        for row in range(rows.num_rows or 1):
            cells = [column[row] for column in columns[len(keys) :]]
            key = tuple(columns[place][row] for place in keys)
            found[key] = None if header["forgotten"] else cells
    return found


def test_a_new_key_has_fresh_cells_of_its_own() -> None:
    store = StateStore(CELLS, TEXT)
    one, two = opened(store, ("a",)), opened(store, ("b",))
    one.all.append(1)
    one.last.extend([1, 2, 3])
    one.seen["x"] = 1
    one.count += 1
    assert (two.count, two.all, list(two.last), two.seen) == (0, [], [], {})
    assert list(one.last) == [2, 3]


def test_an_undeclared_cell_is_an_error_that_names_the_declared() -> None:
    state = opened(StateStore(CELLS, []), ())
    with pytest.raises(AttributeError, match="declared: count, all, last, seen"):
        _ = state.cuont
    with pytest.raises(AttributeError):
        state.cuont = 1  # type: ignore[attr-defined]


def test_freeze_hands_over_everything_first_and_then_the_keys_opened_since() -> None:
    store = StateStore(CELLS, TEXT)
    opened(store, ("a",)).count = 1
    opened(store, ("b",)).count = 2
    first = store.freeze(False)
    assert first.full
    assert set(shown(list(first.pieces()))) == {("a",), ("b",)}
    opened(store, ("b",)).count = 3
    second = store.freeze(False)
    assert not second.full
    assert set(shown(list(second.pieces()))) == {("b",)}
    assert saved(store) == []
    assert set(shown(saved(store, full=True))) == {("a",), ("b",)}


def test_what_is_frozen_stays_as_it_was_while_processing_goes_on() -> None:
    store = StateStore(CELLS, TEXT)
    opened(store, ("a",)).all.append(1)
    opened(store, ("b",)).count = 1
    frozen = store.freeze(True)
    opened(store, ("a",)).all.append(2)
    opened(store, ("b",)).clear()
    store.forget_fresh(store.open([("b",)]))
    opened(store, ("c",)).count = 1
    found = shown(list(frozen.pieces()))
    assert found[("a",)][1] == [1]
    assert found[("b",)][0] == 1
    assert set(found) == {("a",), ("b",)}


def test_a_thread_that_makes_pieces_sees_one_moment_however_the_store_goes_on() -> None:
    # Every key is changed again and again; all that a freeze shows must be of one round.
    store = StateStore({"round": Value(-1), "all": List()}, NUMBER)
    keys = [(number,) for number in range(300)]
    for number in range(12):
        for key in keys:
            state = opened(store, key)
            state.round = number
            state.all.append(number)
        frozen = store.freeze(number % 3 == 0)
        found: list[pa.Buffer] = []
        thread = threading.Thread(target=lambda: found.extend(frozen.pieces()))  # noqa: B023
        thread.start()
        for key in reversed(keys):
            state = opened(store, key)
            state.round = 1000
            state.all.append(1000)
            state.all.pop()
        thread.join()
        contents = shown(found)
        assert len(contents) == len(keys)
        assert all(value == [number, list(range(number + 1))] for value in contents.values())


def test_restore_brings_back_values_and_types_and_forgotten_keys_stay_forgotten() -> None:
    store = StateStore(CELLS, [*NUMBER, *TEXT])
    state = opened(store, (1, "a"))
    state.count, state.seen["t"] = 2**70, (1, [2])
    state.last.extend([1, 2])
    opened(store, (2, "b")).count = 5
    first = saved(store)
    opened(store, (2, "b")).clear()
    store.forget_fresh(store.open([(1, "a"), (2, "b")]))
    second = saved(store)
    other = StateStore(CELLS, [*NUMBER, *TEXT])
    other.restore(True, first)
    assert len(other) == 2
    other.restore(False, second)
    assert other.keys() == [(1, "a")]
    again = opened(other, (1, "a"))
    assert (again.count, again.seen, again.last.maxlen) == (2**70, {"t": (1, [2])}, 2)
    other.restore(True, [])
    assert other.keys() == []


def test_keys_that_came_and_went_between_two_freezes_leave_nothing() -> None:
    store = StateStore({"count": Value(0)}, NUMBER)
    opened(store, (-1,)).count = 1
    saved(store)
    for number in range(100):
        states = store.open([(key,) for key in range(200)])
        for state in states:
            state.count = number
            state.count = 0
        store.forget_fresh(states)
    opened(store, (-1,)).count = 2
    assert sum(len(lot.states) for lot in store._dirty) < 10_000
    assert shown(saved(store)) == {(-1,): [2]}


def test_a_saved_key_that_went_came_and_went_again_is_forgotten() -> None:
    store = StateStore({"count": Value(0)}, NUMBER)
    opened(store, (1,)).count = 1
    saved(store)
    for _ in range(2):
        opened(store, (1,)).count = 0
        store.forget_fresh(store.open([(1,)]))
    assert shown(saved(store)) == {(1,): None}
    assert saved(store) == []


def test_a_key_that_is_forgotten_and_comes_again_is_saved_as_it_is_now() -> None:
    store = StateStore({"count": Value(0)}, NUMBER)
    opened(store, (1,)).count = 1
    saved(store)
    opened(store, (1,)).count = 0
    store.forget_fresh(store.open([(1,)]))
    opened(store, (1,)).count = 5
    frozen = store.freeze(False)
    opened(store, (1,)).count = 0
    store.forget_fresh(store.open([(1,)]))
    assert shown(list(frozen.pieces())) == {(1,): [5]}
    assert shown(saved(store)) == {(1,): None}


@pytest.mark.parametrize(
    "kind",
    [pa.date32(), pa.timestamp("us"), pa.bool_(), pa.decimal128(9, 2), pa.binary(), pa.int8()],
    ids=str,
)
def test_keys_come_back_as_they_are_in_batches(kind: pa.DataType) -> None:
    column = pa.array([None, 1, 0], pa.int8())
    column = column.cast(pa.string()).cast(kind) if pa.types.is_binary(kind) else column
    if pa.types.is_temporal(kind):
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    column = column.cast(kind)
    keys = python_keys([column], 3)
    for columns in (None, [column]):
        store = StateStore({"count": Value(0)}, [pa.field("k", kind)])
        for state in store.open(keys, columns):
            state.count = 1
        other = StateStore({"count": Value(0)}, [pa.field("k", kind)])
        other.restore(True, saved(store))
        assert sorted(map(repr, other.keys())) == sorted(map(repr, keys))
        for state in store.open(keys[:2], columns and [column.slice(0, 2)]):
            state.count = 2
        other.restore(False, saved(store))
        assert [state.count for state in other.open(keys)] == [2, 2, 1]


def test_a_nan_key_is_found_again_after_restore() -> None:
    store = StateStore({"count": Value(0)}, [pa.field("k", pa.float64())])
    opened(store, (NAN,)).count = 7
    other = StateStore({"count": Value(0)}, [pa.field("k", pa.float64())])
    other.restore(True, saved(store))
    assert opened(other, (NAN,)).count == 7


def test_entries_wait_until_their_lot_is_captured_to_the_end() -> None:
    # whoever asks whether entries wait has no lock: while a lot is being captured they do
    store = StateStore({"all": List()}, NUMBER)
    opened(store, (1,)).all.append(1)
    frozen = store.freeze(False)
    capturing, go_on = threading.Event(), threading.Event()
    plain = List.plain

    def slow(self: List, content: Any) -> Any:
        capturing.set()
        assert go_on.wait(60)
        return plain(self, content)

    found: list[pa.Buffer] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(List, "plain", slow)
        writer = threading.Thread(target=lambda: found.extend(frozen.pieces()))
        writer.start()
        assert capturing.wait(60)
        assert bool(store._frozen)
        changer = threading.Thread(target=lambda: opened(store, (1,)).all.append(2))
        changer.start()
        go_on.set()
        writer.join()
        changer.join()
    assert shown(found) == {(1,): [[1]]}
    assert shown(saved(store)) == {(1,): [[1, 2]]}


def test_state_that_is_not_plain_is_refused_when_it_is_saved_by_whoever_saves() -> None:
    store = StateStore({"count": Value(None)}, [])
    opened(store, ()).count = object()
    with pytest.raises(NotPlainError, match="object is not plain data"):
        saved(store)
    store = StateStore({"count": Value(None)}, [])
    opened(store, ()).count = object()
    frozen = store.freeze(True)
    opened(store, ())  # encodes it, and goes on
    with pytest.raises(NotPlainError, match="object is not plain data"):
        list(frozen.pieces())


def test_a_freeze_that_was_given_up_does_not_look_complete() -> None:
    store = StateStore({"count": Value(0)}, NUMBER)
    for number in range(100):
        opened(store, (number,)).count = 1
    pieces = store.freeze(True).pieces()
    store.freeze(True)
    with pytest.raises(AssertionError, match="given up"):
        list(pieces)


class TestWindow:
    """Epochs of 10 microseconds; at the end of epoch 3, time 40, 25 microseconds reach back to 15."""

    TIME = EpochDefinition("time", 10, "t")

    def test_it_drops_what_is_older_than_the_watermark_when_the_epoch_is_over(self) -> None:
        store = StateStore({"times": Window(microseconds=25), "epochs": Window(epochs=2)}, [])
        store.begin_epoch(3, self.TIME)
        state = opened(store, ())
        for time in (14, 39, 15, 30):
            state.times.append(time, str(time))
        for epoch in (1, 2, 3):
            state.epochs.append(epoch, epoch)
        assert len(state.times) == 4
        store.end_epoch(3, self.TIME, [state])
        assert list(state.times) == [(39, "39"), (15, "15"), (30, "30")]
        assert state.times.values() == ["39", "15", "30"]
        assert list(state.epochs) == [(2, 2), (3, 3)]

    def test_a_key_without_events_is_brought_up_to_date_when_it_is_opened(self) -> None:
        store = StateStore({"times": Window(microseconds=25)}, [])
        store.begin_epoch(0, self.TIME)
        opened(store, ()).times.append(9, "x")
        store.begin_epoch(3, self.TIME)
        assert len(opened(store, ()).times) == 1
        store.begin_epoch(4, self.TIME)
        assert len(opened(store, ()).times) == 0

    def test_keys_that_never_come_again_are_forgotten_and_the_next_snapshot_says_so(self) -> None:
        store = StateStore({"times": Window(microseconds=25), "count": Value(0)}, NUMBER)
        store.begin_epoch(0, self.TIME)
        for number in range(200):
            opened(store, (number,)).times.append(5, "x")
        opened(store, (-1,)).count = 1
        saved(store)
        for epoch in range(20):
            store.begin_epoch(epoch, self.TIME)
            store.end_epoch(epoch, self.TIME, [])
            store.forget_fresh([])
        assert store.keys() == [(-1,)]
        assert shown(saved(store)) == {(number,): None for number in range(200)}

    def test_one_length_and_whole_times_are_wanted(self) -> None:
        for given in ({}, {"epochs": 1, "microseconds": 1}, {"epochs": 0}, {"epochs": 1.5}):
            with pytest.raises(TypeError, match="give one length above 0"):
                Window(**given)
        with pytest.raises(TypeError, match="not float"):
            Window(epochs=1).fresh().append(1.0, "x")  # type: ignore[arg-type]


def test_a_shared_initial_value_or_an_unusable_name_is_refused() -> None:
    with pytest.raises(TypeError, match="all keys would share it"):
        Value([])
    with pytest.raises(TopologyError, match="can't be called 'clear'"):
        StateStore({"clear": Value(0)}, [])
    with pytest.raises(TopologyError, match="declared as 0"):
        StateStore({"count": 0}, [])  # type: ignore[dict-item]


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -1, 2**63, 2**64, -(2**90), 1.5, float("-inf"), "é", b"\x00", Decimal("1.50"),
     (1, [2, (3,)]), {"a": (1,), (1, 2): {3}}, {1, 2}, frozenset({"x"}), [], (), {}],
)  # fmt: skip
def test_plain_data_comes_back_equal_and_of_its_types(value: Any) -> None:
    again = decode(encode(value))
    assert again == value
    assert repr(type(again)) == repr(type(value))
    assert repr(again) == repr(value) or isinstance(value, (set, frozenset))


def test_canonical_encoding_does_not_depend_on_insertion_order() -> None:
    assert encode_canonical({"a": 1, "b": {1, 5}}) == encode_canonical({"b": {5, 1}, "a": 1})
    assert list(decode(encode({"b": 1, "a": 2}))) == ["b", "a"]


def test_many_values_encode_as_each_alone() -> None:
    for values in ([1, 2.5, "x", None], [1, 2**80], [(1,), {2: 3}]):
        assert encode_all_canonical(values) == [encode_canonical(value) for value in values]


def test_of_keys_given_as_columns_those_that_are_new_in_a_freeze_keep_their_own() -> None:
    store = StateStore({"count": Value(0)}, NUMBER)
    saved(store)
    opened(store, (1,)).count = 1
    for state in store.open([(1,), (2,), (3,)], [pa.array([1, 2, 3])]):
        state.count = 10 * state._key[0]
    assert shown(saved(store)) == {(1,): [10], (2,): [20], (3,): [30]}


def test_the_size_follows_what_lists_and_windows_hold() -> None:
    definition = EpochDefinition("time", 10, "ts")
    store = StateStore({"all": List(), "lately": Window(microseconds=10)}, TEXT)
    empty = store.nbytes
    one, two = store.open([("a",), ("b",)])
    one.all += range(50)
    two.lately.append(5, "x")
    store.end_epoch(0, definition, [one, two])
    store.forget_fresh([one, two])
    full = store.nbytes
    assert full > empty + 50 * sys.getsizeof(1)
    pieces = saved(store, full=True)

    one = opened(store, ("a",))
    one.all[10:] = []
    store.end_epoch(1, definition, [one])
    store.forget_fresh([one])
    smaller = store.nbytes
    assert smaller < full - 40 * sys.getsizeof(1)

    other = StateStore({"all": List(), "lately": Window(microseconds=10)}, TEXT)
    for _ in range(2):
        # a later piece may hold the same key again
        other.restore(False, pieces)
        assert other.nbytes == full
    other.restore(True, saved(store))
    for key in (("a",), ("b",)):
        opened(other, key).clear()
    other.forget_fresh([opened(other, ("a",)), opened(other, ("b",))])
    assert other.nbytes == empty


def test_the_size_follows_how_much_the_elements_take() -> None:
    definition = EpochDefinition("time", 10, "ts")
    cells = {"lately": Window(epochs=9), "all": List(), "last": Value("")}
    store = StateStore(cells, TEXT)
    states = store.open([(str(number),) for number in range(20)])
    for number, state in enumerate(states):
        state.lately.append(0, ("x" * 3_000, number))
        state.all += ["y" * 2_000, {"z": [b"z" * 1_000] * 100}]
        state.last = str(number) * 500
    store.end_epoch(0, definition, states)
    store.forget_fresh(states)
    held = 20 * (3_000 + 2_000 + 100_000 + 500)
    assert held < store.nbytes < 1.1 * held
    again = StateStore(cells, TEXT)
    again.restore(True, saved(store, full=True))
    assert again.nbytes == pytest.approx(store.nbytes, rel=0.05)
    for state in states:
        state.clear()
    store.forget_fresh(states)
    assert store.nbytes == 0


def test_the_size_leaves_out_windows_that_have_expired_unseen() -> None:
    definition = EpochDefinition("time", 10, "ts")
    store = StateStore({"lately": Window(microseconds=10)}, TEXT)
    empty = store.nbytes
    state = opened(store, ("a",))
    state.lately.append(5, "x")
    store.end_epoch(0, definition, [state])
    store.forget_fresh([state])
    assert store.nbytes > empty
    store.end_epoch(7, definition, [])
    store.drop_expired([("a",)])
    assert store.nbytes == empty
