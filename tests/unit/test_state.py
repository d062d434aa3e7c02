"""Keyed state: cells, changed keys, frozen changes; and plain data as bytes."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from streammine.model.errors import TopologyError
from streammine.operators.plain_data import (
    NotPlainError,
    decode,
    encode,
    encode_all_canonical,
    encode_canonical,
)
from streammine.operators.state import List, Map, Queue, StateStore, Value

CELLS = {"count": Value(0), "all": List(), "last": Queue(2), "seen": Map()}


def saved(store: StateStore) -> list[tuple[bytes, bytes | None]]:
    return [pair for piece in store.freeze().pieces(1) for pair in piece]


def test_a_new_key_has_fresh_cells_of_its_own() -> None:
    store = StateStore(CELLS)
    one, two = store.open(("a",)), store.open(("b",))
    one.all.append(1)
    one.last.extend([1, 2, 3])
    one.seen["x"] = 1
    one.count += 1
    assert (two.count, two.all, list(two.last), two.seen) == (0, [], [], {})
    assert list(one.last) == [2, 3]


def test_an_undeclared_cell_is_an_error_that_names_the_declared() -> None:
    state = StateStore(CELLS).open(())
    with pytest.raises(AttributeError, match="declared: count, all, last, seen"):
        _ = state.cuont
    with pytest.raises(AttributeError):
        state.cuont = 1  # type: ignore[attr-defined]


def test_freeze_hands_over_only_the_keys_opened_since_the_last_one() -> None:
    store = StateStore(CELLS)
    store.open(("a",)).count = 1
    store.open(("b",)).count = 2
    assert len(saved(store)) == 2
    store.open(("b",)).count = 3
    assert [decode(key) for key, _ in saved(store)] == [("b",)]
    assert saved(store) == []


def test_what_is_frozen_stays_as_it_was_while_processing_goes_on() -> None:
    store = StateStore(CELLS)
    store.open(("a",)).all.append(1)
    frozen = store.freeze()
    store.open(("a",)).all.append(2)
    ((_, data),) = [pair for piece in frozen.pieces() for pair in piece]
    assert data is not None
    assert decode(data)[1] == [1]


def test_restore_brings_back_values_and_types_and_forgotten_keys_stay_forgotten() -> None:
    store = StateStore(CELLS)
    state = store.open((1, "a"))
    state.count, state.seen["t"] = 2**70, (1, [2])
    state.last.extend([1, 2])
    store.open((2, "b")).count = 5
    changes = saved(store)
    store.open((2, "b")).clear()
    store.forget_fresh([(1, "a"), (2, "b")])
    changes += saved(store)
    other = StateStore(CELLS)
    other.restore(changes)
    assert other.dirty_keys == 0
    assert other.keys() == [(1, "a")]
    again = other.open((1, "a"))
    assert (again.count, again.seen, again.last.maxlen) == (2**70, {"t": (1, [2])}, 2)


def test_a_nan_key_is_found_again_after_restore() -> None:
    store = StateStore({"count": Value(0)})
    from streammine.operators.state import canonical_key

    store.open(canonical_key([float("nan")])).count = 7
    other = StateStore({"count": Value(0)})
    other.restore(saved(store))
    assert other.open(canonical_key([float("nan")])).count == 7


def test_state_that_is_not_plain_is_refused_when_it_is_saved() -> None:
    store = StateStore({"count": Value(None)})
    store.open(()).count = object()
    with pytest.raises(NotPlainError, match="object is not plain data"):
        saved(store)


def test_a_shared_initial_value_or_an_unusable_name_is_refused() -> None:
    with pytest.raises(TypeError, match="all keys would share it"):
        Value([])
    with pytest.raises(TopologyError, match="can't be called 'clear'"):
        StateStore({"clear": Value(0)})
    with pytest.raises(TopologyError, match="declared as 0"):
        StateStore({"count": 0})  # type: ignore[dict-item]


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
