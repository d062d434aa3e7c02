"""Key rows to ids, against a dictionary: in particular rows inside, at the edge of and outside a key box."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.operators.kernels.group_index import GroupIndex

BOX_ROWS = 300
"""So many rows of a small range make the index lay out a box."""

KEY_TYPES = [pa.int32(), pa.int64(), pa.int16(), pa.uint32(), pa.date32(), pa.timestamp("us")]


def _array(values: list[int | None], kind: pa.DataType) -> pa.Array:
    narrow = pa.int32() if pa.types.is_date32(kind) else pa.int64()
    return pa.array(values, narrow).cast(kind)


class _Reference:
    """Ids in order of first appearance."""

    def __init__(self) -> None:
        self.known: dict[tuple[Any, ...], int] = {}

    def ids(self, rows: list[tuple[Any, ...]]) -> list[int]:
        return [self.known.setdefault(row, len(self.known)) for row in rows]


@st.composite
def key_batches(
    draw: st.DrawFn,
) -> tuple[list[pa.DataType], list[list[tuple[int | None, ...]]]]:
    """Types of 1 to 3 columns; a batch of a small box, then batches that lie around its edges."""
    width = draw(st.integers(1, 3))
    kinds = draw(st.lists(st.sampled_from(KEY_TYPES), min_size=width, max_size=width))
    extents = draw(st.lists(st.integers(1, 5), min_size=width, max_size=width))
    bases = draw(st.lists(st.integers(10, 40), min_size=width, max_size=width))
    # the first null widens the keys, which ends the box
    nulls = draw(st.booleans())
    chance = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def around(margin: int, rows: int) -> list[tuple[int | None, ...]]:
        columns: list[list[int | None]] = [
            chance.integers(base - margin, base + extent + margin, rows).tolist()
            for base, extent in zip(bases, extents, strict=True)
        ]
        if nulls and margin:
            columns[-1][0] = None
        return list(zip(*columns, strict=True))

    box = around(0, BOX_ROWS)
    others = [around(draw(st.integers(1, 3)), 60) for _ in range(draw(st.integers(1, 4)))]
    return kinds, [box, box, *others, box]


@settings(deadline=None)
@given(key_batches())
def test_ids_are_those_of_a_dictionary(
    drawn: tuple[list[pa.DataType], list[list[tuple[int | None, ...]]]],
) -> None:
    kinds, batches = drawn
    index = GroupIndex(kinds)
    reference = _Reference()
    for rows in batches:
        columns = [
            _array(list(column), kind)
            for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)
        ]
        assert index.ids(columns).tolist() == reference.ids(rows)
    key_columns = index.keys()
    keys = list(zip(*(_plain(column) for column in key_columns), strict=True))
    assert keys == list(reference.known)
    some = np.arange(index.size)[::-2]
    assert index.keys_of(some) == [column.take(pa.array(some)) for column in key_columns]


TEXT_TYPES = [
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.large_binary(),
    pa.binary(2),
    pa.int64(),
]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(TEXT_TYPES), min_size=1, max_size=3),
    st.lists(st.integers(0, 2**12 - 1), max_size=40),
    st.lists(st.integers(0, 999), max_size=10),
    st.booleans(),
)
def test_some_keys_are_those_of_all(
    kinds: list[pa.DataType], numbers: list[int], places: list[int], nulls: bool
) -> None:
    index = GroupIndex(kinds)
    columns = [_texts([each >> 2 * place for each in numbers], k) for place, k in enumerate(kinds)]
    if nulls:
        columns = [pa.concat_arrays([column, pa.nulls(1, column.type)]) for column in columns]
    index.ids(columns)
    some = np.array([place % index.size for place in places] if index.size else [], np.int64)
    found = index.keys_of(some)
    for column in found:
        column.validate(full=True)
    key_columns = index.keys()
    assert found == [column.take(pa.array(some)) for column in key_columns]


def _texts(numbers: list[int], kind: pa.DataType) -> pa.Array:
    if kind == pa.int64():
        return pa.array(numbers, kind)
    if kind == pa.binary(2):
        return pa.array([(each % 9).to_bytes(2, "big") for each in numbers], kind)
    return pa.array(["é" * (each % 5) + str(each % 7) for each in numbers]).cast(kind)


def _plain(column: pa.Array) -> list[Any]:
    narrow = pa.int32() if pa.types.is_date32(column.type) else pa.int64()
    return list(column.cast(narrow).cast(pa.int64()).to_pylist())


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64()])
def test_a_row_far_outside_in_its_first_column_is_no_row_of_the_box(kind: pa.DataType) -> None:
    """Its place, were it reckoned on, would lie in the box again."""
    info = np.iinfo(np.int32 if kind == pa.int32() else np.int64)
    index = GroupIndex([kind, kind])
    first = pa.array(np.arange(BOX_ROWS) % 2, kind)
    second = pa.array(np.arange(BOX_ROWS) // 2 % 8, kind)
    known = index.ids([first, second]).max() + 1
    index.ids([first, second])
    far = pa.array([info.min, info.max, -1, 2, 1 << 29], kind)
    near = pa.array([0] * 5, kind)
    assert index.ids([far, near]).tolist() == [known + step for step in range(5)]
    other_side = index.ids([near, pa.array([info.min, info.max, -1, 8, 1 << 29], kind)])
    assert other_side.tolist() == [known + 5 + step for step in range(5)]
