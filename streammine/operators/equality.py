"""Which values of two columns are equal, as keys are: null is null, NaN is NaN, -0.0 is 0.0."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streammine.model.canonical import encode_rows

Flags = npt.NDArray[np.bool_]


def unequal(left: pa.Array, right: pa.Array) -> Flags:
    """Per row (bool), whether two arrays of one type and length hold different values.

    Floats inside of lists and structs are compared by their canonical encoding, in which -0.0 is not 0.0.
    """
    if pa.types.is_nested(left.type):
        left, right = encoded_values(left), encoded_values(right)
    if pa.types.is_null(left.type):
        return np.zeros(len(left), np.bool_)
    if pa.types.is_float16(left.type):
        # Arrow compares no halves
        left, right = left.cast(pa.float32()), right.cast(pa.float32())
    differ = pc.not_equal(left, right)
    if pa.types.is_floating(left.type):
        neither = pc.and_(pc.is_nan(left), pc.is_nan(right))
        differ = pc.and_not(differ, neither)
    if differ.null_count:
        one = pc.xor(left.is_valid(), right.is_valid())
        differ = pc.coalesce(differ, one)
    flags: Flags = differ.to_numpy(zero_copy_only=False)
    return flags


def encoded_values(array: pa.Array) -> pa.Array:
    """The canonical encoding of each value, as large_binary without nulls."""
    data, offsets = encode_rows(pa.record_batch([array], ["value"]))
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(array), buffers)
