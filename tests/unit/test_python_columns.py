"""Plain Python values in columns: equal and of the same types when they come back, whatever they are."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammine.operators.plain_data import NotPlainError
from streammine.operators.python_columns import column_of, encoded_column, joined_columns, values_of

NAN = float("nan")
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**65), 2**65),
    st.floats(),
    st.text(),
    st.binary(),
    st.decimals(allow_nan=False),
)
OF_ONE_TYPE = st.one_of(
    *(
        st.lists(st.one_of(st.none(), kind))
        for kind in (st.booleans(), st.integers(), st.floats(), st.text())
    )
)
VALUES = st.one_of(OF_ONE_TYPE, st.lists(st.one_of(SCALARS, st.lists(SCALARS), st.tuples(SCALARS))))


def exact(value: Any) -> Any:
    """Distinguishes what == does not: types, signs of zero, bits of a float that is no number."""
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, (list, tuple)):
        return type(value), [exact(item) for item in value]
    return type(value), value


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, -(2**63), 2**63 - 1, None], pa.int64()),
        ([0.0, -0.0, NAN, None], pa.float64()),
        ([True, False], pa.bool_()),
        (["", "é", "\x00", None], pa.large_string()),
        ([1, 2**63], pa.binary()),
        ([1, True], pa.binary()),
        ([1, 1.0], pa.binary()),
        ([None, None], pa.null()),
        ([b"x", b""], pa.binary()),
        ([Decimal("1.50"), (1, [2])], pa.binary()),
        ([], pa.null()),
    ],
    ids=str,
)
def test_a_column_has_the_type_that_fits_all_of_its_values(
    values: list[Any], kind: pa.DataType
) -> None:
    column = column_of(values)
    assert column.type == kind
    assert list(map(exact, values_of(column))) == list(map(exact, values))


@given(st.lists(VALUES, min_size=1, max_size=4))
def test_values_come_back_as_they_were_however_parts_differ(parts: list[list[Any]]) -> None:
    column = joined_columns(list(map(column_of, parts)))
    everything = [value for values in parts for value in values]
    assert list(map(exact, values_of(column))) == list(map(exact, everything))


def test_what_was_captured_stays_when_its_objects_change() -> None:
    growing = [1]
    column = column_of([growing, 5])
    growing.append(2)
    assert values_of(column) == [[1], 5]


@pytest.mark.parametrize(
    "value", [object(), "\ud800", [{1: object()}]], ids=["class", "text", "list"]
)
def test_what_is_not_plain_is_refused_at_once(value: Any) -> None:
    with pytest.raises(NotPlainError):
        column_of([value])


def test_bytes_that_are_encoded_already_stay_as_they_are() -> None:
    assert encoded_column([b"x", b""]).to_pylist() == [b"x", b""]
