"""Strict order sorts by value, whatever the integer type, also where differences wrap around."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammine.engine.order import in_strict_order

TYPES = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
TYPES += [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]


@pytest.mark.parametrize("kind", TYPES, ids=str)
@given(data=st.data())
def test_one_integer_column_orders_rows_by_its_values(
    kind: pa.DataType, data: st.DataObject
) -> None:
    bounds = np.iinfo(kind.to_pandas_dtype())
    values = data.draw(
        st.lists(st.integers(int(bounds.min), int(bounds.max)), min_size=1, max_size=30)
    )
    cut = data.draw(st.integers(0, len(values)))
    batches = [
        pa.record_batch([pa.array(part, kind)], names=["__key0"])
        for part in (values[:cut], values[cut:])
        if part
    ]
    segments = list(in_strict_order([batches], [("__key0",)]))
    ordered = [value for _, batch in segments for value in batch.column(0).to_pylist()]
    assert ordered == sorted(values)


@pytest.mark.parametrize("nulls", [False, True], ids=["whole numbers", "nulls"])
@given(
    rows=st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=30),
    sorts=st.sampled_from([(), (0,), (0, 1), (0, 1, 2), (1,), (2,)]),
)
def test_several_columns_order_rows_from_the_first_on(
    nulls: bool, rows: list[tuple[int, int, int]], sorts: tuple[int, ...]
) -> None:
    """Also where some of the columns ascend already."""
    rows = sorted(rows, key=lambda row: [row[place] for place in sorts])
    kinds = [pa.int64(), pa.int32(), pa.int8()]
    columns = [
        pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)
    ]
    numbers = pa.array(range(len(rows)))
    if nulls:
        # which then are not sorted as numbers, and come last
        columns[1] = pa.array([each or None for each in columns[1].to_pylist()], pa.int32())
    batch = pa.record_batch([*columns, numbers], names=["a", "b", "c", "number"])
    ((_, found),) = in_strict_order([[batch]], [("a", "b", "c")])
    told = found.column("number").to_pylist()
    key = [(a, 9 if nulls and b == 0 else b, c) for a, b, c in rows]
    assert told == sorted(range(len(rows)), key=lambda number: key[number])
