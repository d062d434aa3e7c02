"""Exact sums of int64 values per group, in 128 bits."""

from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.operators.kernels.columns import validity_mask
from streammine.operators.kernels.compilation import (
    INT64,
    INT64_IN,
    INT64_OUT,
    MASK_IN,
    KernelSet,
)
from streammine.operators.kernels.group_states import (
    NO_MASK,
    check_lengths,
    checked_groups,
    extended,
)

_KERNELS = KernelSet()
load_kernels = _KERNELS.load

_ENCODED_BYTES = 16


@_KERNELS.kernel(INT64_IN, INT64_IN, MASK_IN, INT64, INT64_OUT)
def _add_integers(
    groups: npt.NDArray[np.int64],
    values: npt.NDArray[np.int64],
    validity: npt.NDArray[np.bool_],
    size: int,
    words: npt.NDArray[np.int64],
) -> bool:
    """Add to 128-bit numbers of two words, lower first; return whether all groups were valid."""
    has_nulls = validity.size > 0
    limit = np.uint64(size)
    for row in range(values.size):
        if has_nulls and not validity[row]:
            continue
        group = groups[row]
        if np.uint64(group) >= limit:
            return False
        value = values[row]
        lower = np.uint64(words[2 * group]) + np.uint64(value)
        words[2 * group] = np.int64(lower)
        words[2 * group + 1] += (value >> 63) + np.int64(lower < np.uint64(value))
    return True


@_KERNELS.kernel(INT64_IN, INT64_IN, MASK_IN, INT64_OUT)
def _add_wide(
    groups: npt.NDArray[np.int64],
    values: npt.NDArray[np.int64],
    validity: npt.NDArray[np.bool_],
    words: npt.NDArray[np.int64],
) -> int:
    """Add 128-bit values[2 * n]; return -1, or the row whose sum leaves 128 bits."""
    for row in range(groups.size):
        if validity.size > 0 and not validity[row]:
            continue
        group = groups[row]
        lower = np.uint64(words[2 * group]) + np.uint64(values[2 * row])
        carry = np.int64(lower < np.uint64(values[2 * row]))
        old, added = words[2 * group + 1], values[2 * row + 1]
        upper = old + added + carry
        if (old ^ upper) & (added ^ upper) < 0:
            return row
        words[2 * group] = np.int64(lower)
        words[2 * group + 1] = upper
    return -1


@_KERNELS.kernel(INT64_IN, INT64_IN, INT64_OUT)
def _subtract_wide(
    groups: npt.NDArray[np.int64],
    values: npt.NDArray[np.int64],
    words: npt.NDArray[np.int64],
) -> None:
    """Take 128-bit values[2 * n], which were added before, out of their groups."""
    for row in range(groups.size):
        group = groups[row]
        lower = np.uint64(words[2 * group])
        borrow = np.int64(lower < np.uint64(values[2 * row]))
        words[2 * group] = np.int64(lower - np.uint64(values[2 * row]))
        words[2 * group + 1] -= values[2 * row + 1] + borrow


class IntegerSum:
    """Sum of int64 values per group; it may pass beyond int64 on the way, not at the end."""

    def __init__(self) -> None:
        load_kernels()
        self._size = 0
        self._words = np.zeros(0, dtype=np.int64)

    @property
    def size(self) -> int:
        """Number of groups."""
        return self._size

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._words.nbytes

    def add(
        self,
        group_ids: npt.NDArray[np.int64],
        values: npt.NDArray[np.int64],
        size: int,
        validity: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        """Add int64[n] values to int64[n] groups, each in [0, size); validity false is skipped.

        Raises TypeError for another dtype, ValueError for lengths that differ, IndexError for a
        group id out of range; after the latter the sums are unusable.
        """
        if values.dtype != np.int64:
            raise TypeError(f"integer sums take int64 values, not {values.dtype}; cast them")
        mask = NO_MASK if validity is None else validity
        check_lengths(group_ids, values.size, mask)
        self.resize(size)
        if not _add_integers(
            np.ascontiguousarray(group_ids),
            np.ascontiguousarray(values),
            np.ascontiguousarray(mask),
            size,
            self._words,
        ):
            checked_groups(group_ids, values.size, size)

    def resize(self, size: int) -> None:
        """Set the number of groups; new ones are zero. Raises ValueError if there were more."""
        if size < self._size:
            raise ValueError(f"{size} groups asked for, there are {self._size} already")
        self._words = extended(self._words, 2 * size, 0)
        self._size = size

    def merge(self, other: Self, id_map: npt.NDArray[np.int64]) -> None:
        """Add group i of other to group id_map[i]. Raises as `add_encoded`."""
        self._add_words(id_map, other._words[: 2 * other._size], NO_MASK)

    def finish(self) -> npt.NDArray[np.int64]:
        """Return int64[size]. Raises OverflowError, naming the first group beyond int64."""
        words = self._words[: 2 * self._size].reshape(-1, 2)
        beyond = np.flatnonzero(words[:, 1] != words[:, 0] >> 63)
        if beyond.size > 0:
            group = int(beyond[0])
            raise OverflowError(
                f"the sum of group {group} is {self.exact(group)} and does not fit int64; "
                "sum float64 or smaller numbers"
            )
        return words[:, 0].copy()

    def exact(self, group: int) -> int:
        """Return the sum of one group as a Python integer."""
        lower, upper = self._words[2 * group : 2 * group + 2].tolist()
        return int(upper << 64) + int(lower & (2**64 - 1))

    def encode(self) -> pa.Array:
        """Return fixed_size_binary(16)[size]: the 128-bit sums, two's complement little-endian."""
        words = self._words[: 2 * self._size].copy()
        return pa.Array.from_buffers(
            pa.binary(_ENCODED_BYTES), self._size, [None, pa.py_buffer(words)]
        )

    def add_encoded(
        self, group_ids: npt.NDArray[np.int64], array: pa.Array, size: int | None = None
    ) -> None:
        """Add sums from `encode` (null: nothing) to their groups; `size` as in `add`.

        Raises TypeError for another Arrow type, IndexError for a group id out of range,
        OverflowError if a sum leaves 128 bits, which no number of real values can do.
        """
        words = _encoded_words(array)
        self.resize(self._size if size is None else size)
        self._add_words(group_ids, words, validity_mask(array))

    def subtract_encoded(self, group_ids: npt.NDArray[np.int64], array: pa.Array) -> None:
        """Take sums from `encode`, none of them null, out of the groups that they were added to.

        Raises as `add_encoded` does, but no OverflowError.
        """
        words = _encoded_words(array)
        _subtract_wide(checked_groups(group_ids, len(array), self._size), words, self._words)

    def _add_words(
        self,
        group_ids: npt.NDArray[np.int64],
        words: npt.NDArray[np.int64],
        mask: npt.NDArray[np.bool_],
    ) -> None:
        groups = checked_groups(group_ids, words.size // 2, self._size)
        row = _add_wide(groups, words, mask, self._words)
        if row >= 0:
            raise OverflowError(f"adding encoded sum {row} leaves 128 bits")


def _encoded_words(array: pa.Array) -> npt.NDArray[np.int64]:
    """int64[2 * n]: the words of encoded sums, lower first."""
    if array.type != pa.binary(_ENCODED_BYTES):
        raise TypeError(f"encoded integer sums have 16 bytes each, these are {array.type}")
    if len(array) == 0:
        return np.empty(0, dtype=np.int64)
    first = array.offset * _ENCODED_BYTES
    return np.frombuffer(array.buffers()[1], dtype=np.int64, count=2 * len(array), offset=first)
