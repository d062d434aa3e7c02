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
