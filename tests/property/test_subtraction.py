"""What was added to exact sums and counts can be taken out again to the last bit."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.operators.aggregates import value_parts
from streammine.operators.aggregates.definitions import PartKey
from streammine.operators.aggregates.functions import new_part
from streammine.operators.aggregates.panes import Pane
from streammine.operators.aggregates.parts import Invertible
from tests.property.test_aggregate_properties import FLOATS

GROUPS = 4
TYPES = {
    "f": pa.float64(),
    "i": pa.int64(),
    "u": pa.uint64(),
    "d": pa.decimal128(38, 0),
    "s": pa.string(),
}
SCHEMA = pa.schema(list(TYPES.items()))
PARTS = [
    PartKey("nulls", "f"),
    PartKey("sum", "f"),
    PartKey("squares", "f"),
    PartKey("whole sum", "i"),
    PartKey("whole sum", "u"),
    PartKey("decimal sum", "d"),
    PartKey("values", "f"),
    PartKey("values", "s"),
    PartKey("rows", "f"),
]
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "f": FLOATS,
    "i": st.integers(-(2**63), 2**63 - 1),
    "u": st.integers(0, 2**64 - 1),
    "d": st.integers(-(10**38) + 1, 10**38 - 1),
    "s": st.sampled_from(["", "a", "b", "a longer text"]),
}


def panes_of(key: PartKey) -> st.SearchStrategy[tuple[PartKey, list[list[tuple[int, Any]]]]]:
    row = st.tuples(st.integers(0, GROUPS - 1), st.none() | VALUES[key.column])
    return st.tuples(st.just(key), st.lists(st.lists(row, max_size=6), min_size=1, max_size=6))


def filled(key: PartKey, rows: list[tuple[int, Any]]) -> Any:
    part = new_part(key, SCHEMA)
    part.resize(GROUPS)
    ids = np.array([group for group, _ in rows], dtype=np.int64)
    part.add(ids, pa.array([value for _, value in rows], TYPES[key.column]), GROUPS)
    return part


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(PARTS).flatmap(panes_of), st.data())
def test_what_is_left_is_what_was_never_taken_out(
    drawn: tuple[PartKey, list[list[tuple[int, Any]]]], data: st.DataObject
) -> None:
    key, panes = drawn
    texts_kept = data.draw(st.integers(0, 3))
    gone = data.draw(st.sets(st.sampled_from(range(len(panes)))))
    encoded = [filled(key, rows).encode() for rows in panes]
    ids = np.arange(GROUPS, dtype=np.int64)
    with patch.object(value_parts, "_TEXTS_ALWAYS_KEPT", texts_kept):
        part, expected = new_part(key, SCHEMA), new_part(key, SCHEMA)
    expected.resize(GROUPS)
    part.resize(GROUPS)
    assert isinstance(part, Invertible)
    for number, rows in enumerate(panes):
        merged = number % 2 == 0
        if merged:
            part.merge(filled(key, rows), ids)
        else:
            part.add_partial(ids, encoded[number], GROUPS)
        if number not in gone:
            expected.add_partial(ids, encoded[number], GROUPS)
    for number in sorted(gone, reverse=True):
        part.subtract(ids, encoded[number])
    assert repr(part.encode().to_pylist()) == repr(expected.encode().to_pylist())


@given(
    st.lists(st.sampled_from([0, 1, -1, 127, -128, 128, 2**31, -(2**31), 2**62]), max_size=5),
    st.sampled_from([pa.int64(), pa.binary(16)]),
)
def test_panes_hold_counts_and_sums_in_fewer_bytes(values: list[int], kind: pa.DataType) -> None:
    if kind == pa.int64():
        column = pa.array(values, kind)
    else:
        column = pa.array([value.to_bytes(16, "little", signed=True) for value in values], kind)
    pane = Pane.of(3, np.arange(len(values)), [column])
    assert pane.column(0, kind).equals(column)
    if values and all(-128 <= value < 128 for value in values):
        assert pane.columns[0].type == pa.int8()


def test_what_takes_sixteen_bytes_stays_as_it_is() -> None:
    column = pa.array([(2**100).to_bytes(16, "little"), (-1).to_bytes(16, "little", signed=True)])
    column = column.cast(pa.binary(16))
    pane = Pane.of(3, np.arange(2), [column])
    assert pane.column(0, pa.binary(16)).equals(column)
