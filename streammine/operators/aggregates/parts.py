"""What an aggregate keeps per group while an epoch is open: exact parts of its functions.

Several functions share a part: sum, mean and variance of one column all read one exact sum. A part
can be written as Arrow columns and added up again without loss, which is what combining before the
shuffle rests on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streammine.model.contracts import IntArray
from streammine.operators.kernels.columns import (
    fixed_values,
    is_bytes_type,
    validity_mask,
    word_count,
)
from streammine.operators.kernels.exact_sum import ExactSquares, ExactSum
from streammine.operators.kernels.extremes import Count, Extreme, StringExtreme
from streammine.operators.kernels.integer_sum import IntegerSum

WIDE_BYTES = 16
"""Bytes of an exact integer sum: two's complement, little-endian."""


class Part(Protocol):
    """State of one part for groups 0 to size - 1. Group ids are int64, one per row."""

    partial_type: pa.DataType
    """Type of what `encode` writes."""

    @property
    def nbytes(self) -> int: ...

    def resize(self, size: int) -> None: ...

    def add(self, ids: IntArray, column: pa.Array, size: int) -> None:
        """Take in raw values."""
        ...

    def add_partial(self, ids: IntArray, column: pa.Array, size: int) -> None:
        """Take in what `encode` wrote."""
        ...

    def merge(self, other: Self, ids: IntArray) -> None:
        """Take in group i of `other` as group ids[i]."""
        ...

    def encode(self) -> pa.Array:
        """The exact part of every group, in `partial_type`."""
        ...


@runtime_checkable
class Invertible(Protocol):
    """A part that partials can be taken out of again, as a sliding window needs it.

    Then the window's part follows from the one before by adding what has come and subtracting what
    has left. Parts without that, such as a minimum, are folded anew (see `sliding`).
    """

    def subtract(self, ids: IntArray, column: pa.Array) -> None:
        """Take out what `encode` wrote and `merge` or `add_partial` has taken in, each id once.

        A group of which everything was taken out is as if it had never had a value.
        """
        ...


class RowCount:
    """How many rows there were."""

    partial_type = pa.int64()

    def __init__(self) -> None:
        self._count = Count()

    @property
    def nbytes(self) -> int:
        return self._count.nbytes

    def resize(self, size: int) -> None:
        self._count.resize(size)

    def add(self, ids: IntArray, column: pa.Array, size: int) -> None:
        self._count.add(ids, size)

    def add_partial(self, ids: IntArray, column: pa.Array, size: int) -> None:
        self._count.add_counts(ids, fixed_values(column), size)

    def subtract(self, ids: IntArray, column: pa.Array) -> None:
        self._count.subtract_counts(ids, fixed_values(column))

    def merge(self, other: RowCount, ids: IntArray) -> None:
        self._count.merge(other._count, ids)

    def encode(self) -> pa.Array:
        return pa.array(self._count.finish())

    def counts(self) -> IntArray:
        return self._count.finish()


class NullCount(RowCount):
    """How many values were null; costs nothing while there are none."""

    def add(self, ids: IntArray, column: pa.Array, size: int) -> None:
        if column.null_count:
            self._count.add(ids, size, ~validity_mask(column))
        else:
            self._count.resize(size)


_EXACT_DIGITS = 15
"""Whole numbers of so many, and ten to that power, are float64s."""


def _nearest_floats(column: pa.Array) -> npt.NDArray[np.float64]:
    """The float64 nearest to each value. Arrow's cast of a decimal multiplies by a power of ten, and may give
    a neighbour."""
    kind = column.type
    if not pa.types.is_decimal(kind):
        return fixed_values(column).astype(np.float64, copy=False)
    if kind.precision <= _EXACT_DIGITS and 0 <= kind.scale <= _EXACT_DIGITS:
        # one division of exact numbers rounds once
        lowest = fixed_values(column)[:: word_count(kind)].astype(np.float64)
        return lowest / np.float64(10**kind.scale)
    return fixed_values(pc.cast(pc.cast(column, pa.string()), pa.float64()))


class FloatSum:
    """Exact sum of values as float64."""

    partial_type = pa.binary()
    _kernel: Callable[[], ExactSum | ExactSquares] = ExactSum

    def __init__(self) -> None:
        self.sums: Any = self._kernel()

    @property
    def nbytes(self) -> int:
        return int(self.sums.nbytes)

    def resize(self, size: int) -> None:
        self.sums.resize(size)

    def add(self, ids: IntArray, column: pa.Array, size: int) -> None:
        self.sums.add(ids, _nearest_floats(column), size, validity_mask(column))

    def add_partial(self, ids: IntArray, column: pa.Array, size: int) -> None:
        self.sums.add_encoded(ids, column, size)

    def subtract(self, ids: IntArray, column: pa.Array) -> None:
        self.sums.subtract_encoded(ids, column)

    def merge(self, other: FloatSum, ids: IntArray) -> None:
        self.sums.merge(other.sums, ids)

    def encode(self) -> pa.Array:
        return self.sums.encode()


class FloatSquares(FloatSum):
    """Exact sum of the squares of values as float64."""

    _kernel = ExactSquares


class WholeSum:
    """Exact sum of integers, in 128 bits."""

    partial_type = pa.binary(WIDE_BYTES)

    def __init__(self) -> None:
        self._sums = IntegerSum()

    @property
    def nbytes(self) -> int:
        return self._sums.nbytes

    def resize(self, size: int) -> None:
        self._sums.resize(size)

    def add(self, ids: IntArray, column: pa.Array, size: int) -> None:
        if column.type == pa.uint64():
            self._sums.add_encoded(ids, _unsigned(fixed_values(column), column), size)
            return
        values = fixed_values(column).astype(np.int64, copy=False)
        self._sums.add(ids, values, size, validity_mask(column))

    def add_partial(self, ids: IntArray, column: pa.Array, size: int) -> None:
        self._sums.add_encoded(ids, column, size)

    def subtract(self, ids: IntArray, column: pa.Array) -> None:
        self._sums.subtract_encoded(ids, column)

    def merge(self, other: WholeSum, ids: IntArray) -> None:
        self._sums.merge(other._sums, ids)

    def encode(self) -> pa.Array:
        return self._sums.encode()

    def words(self) -> tuple[IntArray, npt.NDArray[np.bool_]]:
        """int64[groups, 2], lower and upper word of each sum, and which sums need more than those.

        128 bits are always enough for sums of 64-bit integers.
        """
        words = _words(self._sums)
        return words, np.zeros(words.shape[0], dtype=np.bool_)

    def exact(self, group: int) -> int:
        """The sum of one group; slow, for rare cases."""
        return self._sums.exact(group)


class DecimalSum(WholeSum):
    """Exact sum of decimals in units of their last digit.

    The upper and lower words of the 128-bit values are summed apart, so that no order of the values
    can leave the range on the way.
    """

    partial_type = pa.binary(2 * WIDE_BYTES)

    def __init__(self) -> None:
        super().__init__()
        self._upper = IntegerSum()

    @property
    def nbytes(self) -> int:
        return self._sums.nbytes + self._upper.nbytes

    def resize(self, size: int) -> None:
        self._sums.resize(size)
        self._upper.resize(size)

    def add(self, ids: IntArray, column: pa.Array, size: int) -> None:
        if column.type.bit_width != 8 * WIDE_BYTES:
            column = pc.cast(column, pa.decimal128(column.type.precision, column.type.scale))
        words = fixed_values(column).reshape(-1, 2)
        lower = np.ascontiguousarray(words[:, 0]).view(np.uint64)
        self._sums.add_encoded(ids, _unsigned(lower, column), size)
        self._upper.add(ids, words[:, 1], size, validity_mask(column))

    def add_partial(self, ids: IntArray, column: pa.Array, size: int) -> None:
        lower, upper = _halves(column)
        self._sums.add_encoded(ids, lower, size)
        self._upper.add_encoded(ids, upper, size)

    def subtract(self, ids: IntArray, column: pa.Array) -> None:
        lower, upper = _halves(column)
        self._sums.subtract_encoded(ids, lower)
        self._upper.subtract_encoded(ids, upper)

    def merge(self, other: WholeSum, ids: IntArray) -> None:
        assert isinstance(other, DecimalSum)
        super().merge(other, ids)
        self._upper.merge(other._upper, ids)

    def encode(self) -> pa.Array:
        words = np.hstack([_words(self._sums), _words(self._upper)])
        return pa.Array.from_buffers(self.partial_type, len(words), [None, pa.py_buffer(words)])

    def words(self) -> tuple[IntArray, npt.NDArray[np.bool_]]:
        lower, upper = _words(self._sums), _words(self._upper)
        words = lower.copy()
        words[:, 1] += upper[:, 0]
        wrapped = (lower[:, 1] ^ words[:, 1]) & (upper[:, 0] ^ words[:, 1]) < 0
        return words, wrapped | (upper[:, 1] != upper[:, 0] >> 63)

    def exact(self, group: int) -> int:
        return self._sums.exact(group) + (self._upper.exact(group) << 64)


class ExtremePart:
    """Least or greatest value of a column, in its own type."""

    def __init__(self, direction: str, value_type: pa.DataType) -> None:
        self.partial_type = value_type
        slow = is_bytes_type(value_type) or pa.types.is_decimal(value_type)
        self._kernel: Any = (StringExtreme if slow else Extreme)(direction, value_type)  # type: ignore[arg-type]

    @property
    def nbytes(self) -> int:
        return int(self._kernel.nbytes)

    def resize(self, size: int) -> None:
        self._kernel.resize(size)

    def add(self, ids: IntArray, column: pa.Array, size: int) -> None:
        self._kernel.add(ids, column, size)

    def add_partial(self, ids: IntArray, column: pa.Array, size: int) -> None:
        self._kernel.add(ids, column, size)

    def merge(self, other: ExtremePart, ids: IntArray) -> None:
        self._kernel.merge(other._kernel, ids)

    def encode(self) -> pa.Array:
        return self._kernel.finish()


def _words(sums: IntegerSum) -> IntArray:
    """int64[groups, 2]: lower and upper word of each sum."""
    buffer = sums.encode().buffers()[1]
    return np.frombuffer(buffer, dtype=np.int64).reshape(-1, 2)


def _halves(column: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The sums of the lower words and of the upper ones, which an encoded DecimalSum consists of."""
    first = column.offset * 2 * WIDE_BYTES
    words = np.frombuffer(column.buffers()[1], np.int64, 4 * len(column), first)
    words = words.reshape(-1, 4)
    return _wide_array(words[:, :2]), _wide_array(words[:, 2:])


def _wide_array(words: npt.NDArray[Any]) -> pa.Array:
    """128-bit integers of 64-bit words[n, 2], lower first."""
    data = pa.py_buffer(np.ascontiguousarray(words))
    return pa.Array.from_buffers(pa.binary(WIDE_BYTES), len(words), [None, data])


def _unsigned(values: npt.NDArray[np.uint64], column: pa.Array) -> pa.Array:
    """Unsigned values as 128-bit integers, 0 where `column` is null."""
    words = np.zeros((len(values), 2), dtype=np.uint64)
    words[:, 0] = values
    mask = validity_mask(column)
    if mask.size:
        words[~mask] = 0
    return _wide_array(words)
