"""Canonical order of distinct key rows, and how new keys find their places in it.

Ascending by the key columns; texts by their bytes, NaN after all numbers, nulls last.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.model.canonical import canonical_order
from streammine.model.contracts import IntArray
from streammine.operators.kernels.columns import byte_ranges, is_bytes_type, validity_mask
from streammine.operators.kernels.compilation import (
    BYTES_IN,
    INT64_IN,
    INT64_OUT,
    KernelSet,
    helper,
)

_KERNELS = KernelSet()
load_kernels = _KERNELS.load


def order_of(keys: Sequence[pa.Array]) -> IntArray:
    """Places of the rows in canonical order (int64)."""
    return canonical_order(pa.record_batch(list(keys), [str(n) for n in range(len(keys))]))


def order_with_new(keys: Sequence[pa.Array], order: IntArray) -> IntArray:
    """The order of all key rows, given that of the first `order.size` of them.

    A single text column keeps its order and takes in the new keys only; it is there that sorting
    anew would cost. Other keys are sorted anew, which is cheap for numbers.
    """
    if len(keys) > 1 or not is_bytes_type(keys[0].type):
        return order_of(keys)
    known = order.size
    new = order_of([keys[0].slice(known)]) + known
    data, offsets = byte_ranges(keys[0])
    validity = validity_mask(keys[0])
    null_id = int(np.flatnonzero(~validity)[0]) if validity.size else -1
    new = new[new != null_id]
    old = order[order != null_id]
    load_kernels()
    places = np.empty(new.size, dtype=np.int64)
    _find_places(data, offsets, old, new, places)
    merged: IntArray = np.insert(old, places, new)
    return merged if null_id < 0 else np.append(merged, null_id)


@helper
def _comes_before(
    data: npt.NDArray[np.uint8], begin: int, end: int, other_begin: int, other_end: int
) -> bool:
    length = min(end - begin, other_end - other_begin)
    for index in range(length):
        left = data[begin + index]
        right = data[other_begin + index]
        if left != right:
            return bool(left < right)
    return end - begin < other_end - other_begin


@_KERNELS.kernel(BYTES_IN, INT64_IN, INT64_IN, INT64_IN, INT64_OUT)
def _find_places(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    old: npt.NDArray[np.int64],
    new: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
) -> None:
    """For each of the sorted new ids, how many of the sorted old ones come before it.

    Each search starts where the last one ended and doubles its steps, so that few new keys cost
    little and many cost no more than a merge.
    """
    low = 0
    for number in range(new.size):
        begin = offsets[new[number]]
        end = offsets[new[number] + 1]
        step = 1
        high = low
        while high < old.size and _comes_before(
            data, offsets[old[high]], offsets[old[high] + 1], begin, end
        ):
            low = high + 1
            high += step
            step *= 2
        high = min(high, old.size)
        while low < high:
            middle = (low + high) // 2
            if _comes_before(data, offsets[old[middle]], offsets[old[middle] + 1], begin, end):
                low = middle + 1
            else:
                high = middle
        places[number] = low
