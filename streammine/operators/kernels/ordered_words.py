"""Between values of one 64-bit word and whole numbers that order as the values do.

The order is the canonical one: -inf < ... < -0.0 < 0.0 < ... < inf < NaN, all NaNs being one, false
before true, times by their number of units. Equal words mean equal values, bit by bit but for NaNs.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.operators.kernels.columns import (
    fixed_values,
    is_bytes_type,
    validity_mask,
    word_count,
    words_to_array,
)

NEGATIVE_ZERO_WORD = -1
"""What -0.0 becomes; 0.0 becomes 0."""

_BELOW_SIGN = (1 << 63) - 1
_SIGN_BIT = -(1 << 63)


def has_ordered_words(value_type: pa.DataType) -> bool:
    """Whether values of this type, which may be a key, are one word whose order is theirs."""
    if is_bytes_type(value_type) or pa.types.is_decimal(value_type):
        return False
    return word_count(value_type) == 1


def ordered_words(array: pa.Array) -> npt.NDArray[np.int64]:
    """Return int64[n], always a copy. A null has an arbitrary word."""
    numbers = fixed_values(array)
    if pa.types.is_floating(array.type):
        wide = numbers.astype(np.float64)
        wide[np.isnan(wide)] = np.nan
        words = wide.view(np.int64)
        words ^= (words >> 63) & _BELOW_SIGN
        return words
    if numbers.dtype == np.uint64:
        return numbers.view(np.int64) ^ _SIGN_BIT
    return numbers.astype(np.int64)


def ordered_array(
    words: npt.NDArray[np.int64],
    value_type: pa.DataType,
    validity: npt.NDArray[np.bool_] | None = None,
) -> pa.Array:
    """The inverse of `ordered_words`; null where bool[n] `validity` is false."""
    if pa.types.is_floating(value_type):
        words = words ^ ((words >> 63) & _BELOW_SIGN)
    elif value_type == pa.uint64():
        words = words ^ _SIGN_BIT
    mask = np.empty(0, dtype=np.bool_) if validity is None else validity
    return words_to_array(np.ascontiguousarray(words).reshape(-1, 1), mask, value_type)


def present_rows(*columns: pa.Array) -> npt.NDArray[np.bool_] | None:
    """bool[n], true where no column is null; None where that is everywhere."""
    present: npt.NDArray[np.bool_] | None = None
    for column in columns:
        mask = validity_mask(column)
        if mask.size:
            present = mask if present is None else present & mask
    return present
