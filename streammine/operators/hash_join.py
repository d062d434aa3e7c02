"""Row pairs with equal keys: a hash join of two arrays of 64-bit words.

Rows of the smaller side are chained by the upper bits of their word's hash; the other side walks
the chains. An epoch's table fits the cache, where this takes a fraction of a general join's time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import types

from streammine.model.contracts import IntArray
from streammine.operators.kernels.columns import (
    canonical_words,
    is_bytes_type,
    validity_mask,
    word_count,
)
from streammine.operators.kernels.compilation import (
    INT32_OUT,
    INT64,
    INT64_IN,
    INT64_OUT,
    MASK_IN,
    MASK_OUT,
    KernelSet,
    helper,
    read_only,
)
from streammine.operators.kernels.group_index import GroupIndex
from streammine.operators.kernels.group_states import NO_MASK

_KERNELS = KernelSet()
load_kernels = _KERNELS.load

_ROW_LIMIT = 2**31 - 2
_SPREAD = 0x9E3779B97F4A7C15

BoolArray = npt.NDArray[np.bool_]
Links = npt.NDArray[np.int32]
Pairs = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]


@helper
def _bucket(word: np.int64, bits: int) -> np.uint64:
    return (np.uint64(word) * np.uint64(_SPREAD)) >> np.uint64(64 - bits)


@_KERNELS.kernel(INT64_IN, MASK_IN, INT64, INT32_OUT, INT32_OUT)
def _chain(
    words: npt.NDArray[np.int64],
    present: npt.NDArray[np.bool_],
    bits: int,
    heads: npt.NDArray[np.int32],
    following: npt.NDArray[np.int32],
) -> None:
    """Link the rows of each bucket; links are row + 1, and 0 ends a chain."""
    has_nulls = present.size > 0
    for row in range(words.size - 1, -1, -1):
        if has_nulls and not present[row]:
            continue
        bucket = _bucket(words[row], bits)
        following[row] = heads[bucket]
        heads[bucket] = np.int32(row + 1)


@_KERNELS.kernel(
    INT64_IN,
    MASK_IN,
    INT64_IN,
    INT64,
    read_only(types.int32),
    read_only(types.int32),
    INT64_OUT,
    INT32_OUT,
    INT32_OUT,
)
def _walk(
    probe: npt.NDArray[np.int64],
    present: npt.NDArray[np.bool_],
    built: npt.NDArray[np.int64],
    bits: int,
    heads: npt.NDArray[np.int32],
    following: npt.NDArray[np.int32],
    position: npt.NDArray[np.int64],
    probe_rows: npt.NDArray[np.int32],
    built_rows: npt.NDArray[np.int32],
) -> int:
    """Write pairs until the rows are full or all is done; return how many.

    `position` is where to go on: the probing row, and the link in its chain or -1 for its head.
    """
    has_nulls = present.size > 0
    count = 0
    link = position[1]
    for row in range(position[0], probe.size):
        word = probe[row]
        if link < 0:
            link = np.int64(0)
            if not has_nulls or present[row]:
                link = np.int64(heads[_bucket(word, bits)])
        while link > 0:
            if built[link - 1] == word:
                if count == probe_rows.size:
                    position[0] = row
                    position[1] = link
                    return count
                probe_rows[count] = row
                built_rows[count] = link - 1
                count += 1
            link = np.int64(following[link - 1])
        link = np.int64(-1)
    position[0] = probe.size
    position[1] = -1
    return count


@_KERNELS.kernel(
    INT64_IN,
    MASK_IN,
    INT64_IN,
    INT64,
    read_only(types.int32),
    read_only(types.int32),
    MASK_OUT,
)
def _find(
    probe: npt.NDArray[np.int64],
    present: npt.NDArray[np.bool_],
    built: npt.NDArray[np.int64],
    bits: int,
    heads: npt.NDArray[np.int32],
    following: npt.NDArray[np.int32],
    found: npt.NDArray[np.bool_],
) -> None:
    """Note which probing rows have an equal one."""
    has_nulls = present.size > 0
    for row in range(probe.size):
        if has_nulls and not present[row]:
            continue
        word = probe[row]
        link = np.int64(heads[_bucket(word, bits)])
        while link > 0 and built[link - 1] != word:
            link = np.int64(following[link - 1])
        found[row] = link > 0


def equal_pairs(
    left: Sequence[pa.Array], right: Sequence[pa.Array], rows_at_once: int
) -> Iterator[Pairs]:
    """Numbers of left and right rows (int32) whose key columns are equal, in no promised order.

    Up to `rows_at_once` pairs each time, so that a join that explodes stays bounded. The columns of
    both sides have the same types. A null equals nothing, NaN equals NaN, -0.0 equals 0.0.
    """
    if len(left[0]) < len(right[0]):
        for right_rows, left_rows in equal_pairs(right, left, rows_at_once):
            yield left_rows, right_rows
        return
    probe, built, bits, heads, following = _table(left, right)
    present = _present(left)
    position = np.array([0, -1], dtype=np.int64)
    while position[0] < probe.size:
        probe_rows = np.empty(rows_at_once, dtype=np.int32)
        built_rows = np.empty(rows_at_once, dtype=np.int32)
        count = _walk(
            probe, present, built, bits, heads, following, position, probe_rows, built_rows
        )
        if count:
            yield probe_rows[:count], built_rows[:count]


def has_equal(left: Sequence[pa.Array], right: Sequence[pa.Array]) -> BoolArray:
    """Whether each left row (bool[n]) has a right one whose key columns are equal, as in `equal_pairs`."""
    found = np.zeros(len(left[0]), dtype=np.bool_)
    probe, built, bits, heads, following = _table(left, right)
    _find(probe, _present(left), built, bits, heads, following, found)
    return found


def _table(
    left: Sequence[pa.Array], right: Sequence[pa.Array]
) -> tuple[IntArray, IntArray, int, Links, Links]:
    """Words of both sides; and of the right one, bits of a bucket's number, heads and links of chains."""
    assert max(len(left[0]), len(right[0])) <= _ROW_LIMIT, (len(left[0]), len(right[0]))
    load_kernels()
    probe, built = _words(left, right)
    bits = max(1, (2 * built.size - 1).bit_length())
    heads = np.zeros(1 << bits, dtype=np.int32)
    following = np.empty(built.size, dtype=np.int32)
    _chain(built, _present(right), bits, heads, following)
    return probe, built, bits, heads, following


def _words(left: Sequence[pa.Array], right: Sequence[pa.Array]) -> tuple[IntArray, IntArray]:
    """One int64 per row of each side; equal words mean equal keys."""
    key_types = [column.type for column in left]
    if len(key_types) == 1 and not is_bytes_type(key_types[0]) and word_count(key_types[0]) == 1:
        return canonical_words(left[0])[0], canonical_words(right[0])[0]
    index = GroupIndex(key_types)
    built = index.ids(right)
    return index.lookup(left), built


def _present(columns: Sequence[pa.Array]) -> BoolArray:
    """Rows (bool[n]) without a null among these columns; empty if that is all."""
    masks = [mask for column in columns if (mask := validity_mask(column)).size]
    if not masks:
        return NO_MASK
    return np.ascontiguousarray(np.logical_and.reduce(masks))
