"""Exact, order-free sums of doubles and of their squares, per group."""

import math
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.operators.kernels import digit_kernels, digit_rounding
from streammine.operators.kernels.columns import byte_ranges, validity_mask
from streammine.operators.kernels.group_states import (
    NO_MASK,
    check_lengths,
    checked_groups,
    extended,
)
from streammine.operators.kernels.special_counts import SpecialCounts

_PENDING_LIMIT = 1 << 30
_TOP_LIMIT = 1 << 31
_ENCODED_AT_ONCE = 64 << 20
"""Bytes of memory for rows of the greatest length, until it is known how long they are."""

_NOWHERE = 1 << 20
"""A window base that no value reaches, so that the first values place the window."""


class _DigitRows:
    """One exact number per group; what is common to sums and sums of squares.

    Not for concurrent use: reading moves carries up, which changes the representation, though
    not the numbers.
    """

    _ADD_KERNEL: Any
    _LANES_PER_VALUE: int
    _POSITION_SCALE: int
    _FINEST_BIT: int
    _DIGIT_LIMIT: int

    def __init__(self) -> None:
        digit_kernels.load_kernels()
        digit_rounding.load_kernels()
        self._size = 0
        self._width = self._LANES_PER_VALUE
        self._base = 0
        self._placed = False
        self._pending = 0
        self._lanes = np.zeros(0, dtype=np.int64)
        self._flags = np.zeros(0, dtype=np.uint8)
        self._specials = SpecialCounts()

    @property
    def size(self) -> int:
        """Number of groups."""
        return self._size

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._lanes.nbytes + self._flags.nbytes + self._specials.nbytes

    def add(
        self,
        group_ids: npt.NDArray[np.int64],
        values: npt.NDArray[np.float64],
        size: int,
        validity: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        """Add values to their groups.

        Args:
            group_ids: int64[n], each in [0, size).
            values: float64[n].
            size: number of groups from now on, at least as many as before.
            validity: bool[n], false where the value is null and to be skipped; None for no nulls.

        Raises:
            TypeError: values are not float64. ValueError: lengths differ.
            IndexError: a group id is not in [0, size); the sums are then unusable.
        """
        if values.dtype != np.float64:
            raise TypeError(f"exact sums take float64 values, not {values.dtype}; cast them")
        mask = NO_MASK if validity is None else validity
        check_lengths(group_ids, values.size, mask)
        self.resize(size)
        for first in range(0, values.size, _PENDING_LIMIT):
            part = slice(first, first + _PENDING_LIMIT)
            self._add_part(
                np.ascontiguousarray(group_ids[part]),
                np.ascontiguousarray(values[part]).view(np.int64),
                np.ascontiguousarray(mask[part]),
            )

    def resize(self, size: int) -> None:
        """Set the number of groups; new ones are zero. Raises ValueError if there were more."""
        if size < self._size:
            raise ValueError(f"{size} groups asked for, there are {self._size} already")
        if size > self._flags.size:
            self._flags = extended(self._flags, size, 0)
            self._lanes = extended(self._lanes, self._flags.size * self._width, 0)
        self._size = size

    def merge(self, other: Self, id_map: npt.NDArray[np.int64]) -> None:
        """Add group i of other to group id_map[i] (int64[other.size], each in [0, size)).

        The other may be read afterwards, but not be added to. Raises ValueError or IndexError for a
        map that does not fit.
        """
        assert type(other) is type(self), (type(other), type(self))
        groups = checked_groups(id_map, other.size, self._size)
        flags = other._settled_flags()
        self._add_specials(groups, flags)
        if other._size == 0 or not other._placed:
            return
        if flags.any():
            # as in its encoded form: what can be subtracted is what was added
            lanes = other._lanes[: other._size * other._width].reshape(-1, other._width)
            lanes[flags != 0] = 0
        other._normalise()
        self._cover(other._base, other._base + other._width - 1)
        self._expect(other._size)
        digit_kernels.add_lanes(
            self._lanes,
            self._width,
            other._lanes,
            other._width,
            other._base - self._base,
            groups,
        )

    def rounded(self) -> npt.NDArray[np.float64]:
        """Return float64[size], the exact values rounded once, half to even.

        Equal to math.fsum bit for bit where that gives a number. Zero is always 0.0, also for
        no values and for values that are all -0.0. NaN if any value was NaN or both infinities
        occurred; an infinity if only it occurred, or if the exact sum is beyond the doubles.
        """
        results = np.empty(self._size, dtype=np.float64)
        digits, negative = self._magnitudes()
        flags = self._settled_flags()
        digit_rounding.round_rows(
            digits, negative, flags, self._width, self._base, self._FINEST_BIT, results
        )
        return results

    def means(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return float64[size], the exact values over int64[size] counts, rounded once.

        NaN for a count of 0.
        """
        assert counts.size == self._size, (counts.size, self._size)
        assert not (counts < 0).any(), counts
        results = np.empty(self._size, dtype=np.float64)
        digits, negative = self._magnitudes()
        flags = self._settled_flags()
        small = np.where(counts < digit_rounding.COUNT_LIMIT, counts, 0)
        digit_rounding.round_means(
            digits, negative, flags, self._width, self._base, self._FINEST_BIT, small, results
        )
        unit = 1074 + self._FINEST_BIT
        for group in np.flatnonzero((small != counts) & (flags == 0)).tolist():
            results[group] = nearest_ratio(self.exact(group), int(counts[group]) << unit)
        return results

    def exact(self, group: int) -> int:
        """Return the finite part of one group as a whole number of units; slow, for rare cases."""
        self._normalise()
        first = group * self._width
        lanes = self._lanes[first : first + self._width].tolist()
        return sum(lane << (32 * (self._base + index)) for index, lane in enumerate(lanes))

    def encode(self) -> pa.Array:
        """Return binary[size]: each group's exact value, the same bytes for equal multisets.

        The layout stands in `digit_kernels`. Typically 8 to 12 bytes per group.
        """
        self._normalise()
        flags = self._settled_flags()
        lengths = np.empty(self._size, dtype=np.int64)
        longest = 3 + 4 * self._width
        step = max(1, _ENCODED_AT_ONCE // longest)
        parts = [np.empty(0, dtype=np.uint8)]
        for first in range(0, self._size, step):
            end = min(first + step, self._size)
            data = np.empty((end - first) * longest, dtype=np.uint8)
            nbytes = digit_kernels.encode_rows(
                self._lanes, first, end, self._width, self._base, flags, lengths, data
            )
            parts.append(data[:nbytes])
        whole = parts[-1] if len(parts) <= 2 else np.concatenate(parts)
        if whole.size > np.iinfo(np.int32).max:
            raise OverflowError(
                f"{whole.size} bytes of exact sums do not fit one binary array; use more slices"
            )
        offsets = np.zeros(self._size + 1, dtype=np.int32)
        np.cumsum(lengths, out=offsets[1:])
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(whole)]
        return pa.Array.from_buffers(pa.binary(), self._size, buffers)

    def add_encoded(
        self, group_ids: npt.NDArray[np.int64], array: pa.Array, size: int | None = None
    ) -> None:
        """Add exact values from `encode` (a null counts as nothing) to their groups.

        `size` is the number of groups from now on, by default as before. Raises ValueError for
        bytes that `encode` cannot have written, before anything is added; IndexError for a
        group id not in range.
        """
        self.resize(self._size if size is None else size)
        groups, flags = self._add_encoded(group_ids, array, 1)
        self._add_specials(groups, flags)

    def subtract_encoded(self, group_ids: npt.NDArray[np.int64], array: pa.Array) -> None:
        """Take exact values from `encode` out of their groups again, each at most once in a call.

        They must have been merged in, or added as they were encoded, before. Nothing is left of
        them, not even where they were not finite. Raises as `add_encoded` does.
        """
        groups, flags = self._add_encoded(group_ids, array, -1)
        special = np.flatnonzero(flags)
        if special.size:
            groups = groups[special]
            self._specials.subtract(groups, flags[special])
            self._flags[groups] = self._specials.flags(groups)

    def _add_encoded(
        self, group_ids: npt.NDArray[np.int64], array: pa.Array, times: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
        """Add what is finite, 1 or -1 times; gives the groups and the flags of what is not (or 0)."""
        data, offsets = byte_ranges(array)
        mask = validity_mask(array)
        groups = checked_groups(group_ids, len(array), self._size)
        lowest, highest, malformed = digit_kernels.encoded_range(
            data, offsets, mask, 4 * self._DIGIT_LIMIT
        )
        if malformed >= 0:
            raise ValueError(f"row {malformed} is not an encoded exact sum: {array[malformed]}")
        if highest >= 0:
            self._cover(int(lowest) >> 2, int(highest) >> 2)
        self._expect(len(array))
        digit_kernels.add_encodings(
            groups, data, offsets, mask, times, self._lanes, self._width, self._base
        )
        flags = np.zeros(len(array), dtype=np.uint8)
        special = np.flatnonzero(np.diff(offsets) == 1)
        if mask.size:
            special = special[mask[special]]
        flags[special] = data[offsets[special]]
        return groups, flags

    def _add_part(
        self,
        group_ids: npt.NDArray[np.int64],
        bits: npt.NDArray[np.int64],
        mask: npt.NDArray[np.bool_],
    ) -> None:
        self._expect(bits.size)
        row = 0
        while True:
            row = self._ADD_KERNEL(
                group_ids,
                bits,
                mask,
                row,
                self._lanes,
                self._size,
                self._width,
                self._base if self._placed else _NOWHERE,
                self._flags,
            )
            if row == digit_kernels.DONE:
                return
            if row == digit_kernels.BAD_GROUP:
                raise IndexError(
                    f"a group id lies outside [0, {self._size}): ids run from "
                    f"{group_ids.min()} to {group_ids.max()}"
                )
            low, high = map(int, digit_kernels.exponent_range(bits, row))
            self._cover(
                (low * self._POSITION_SCALE) >> 5,
                ((high * self._POSITION_SCALE) >> 5) + self._LANES_PER_VALUE - 1,
            )

    def _expect(self, additions: int) -> None:
        """Make sure that so many more parts fit the lanes."""
        if self._pending + additions > _PENDING_LIMIT:
            self._normalise()
        self._pending += additions

    def _cover(self, low: int, high: int) -> None:
        """Grow the window of digits to hold those from low to high."""
        high = max(high, low + self._LANES_PER_VALUE - 1)
        if not self._placed:
            base, width = low, high - low + 1
        else:
            base = min(self._base, low)
            width = max(self._base + self._width, high + 1) - base
        if width != self._width:
            lanes = np.zeros((self._flags.size, width), dtype=np.int64)
            if self._placed:
                first = self._base - base
                old = self._lanes[: self._size * self._width].reshape(-1, self._width)
                lanes[: self._size, first : first + self._width] = old
            self._lanes = lanes.reshape(-1)
        self._placed = True
        self._base, self._width = base, width

    def _normalise(self) -> None:
        largest = digit_kernels.normalise(self._lanes, self._size, self._width)
        if largest >= _TOP_LIMIT:
            self._cover(self._base, self._base + self._width)
            digit_kernels.normalise(self._lanes, self._size, self._width)
        self._pending = 0

    def _magnitudes(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Return digits int64[size * width] of the absolute values, and bool[size] signs."""
        self._normalise()
        digits = np.empty(self._size * self._width, dtype=np.int64)
        negative = np.empty(self._size, dtype=np.bool_)
        digit_kernels.write_magnitudes(self._lanes, self._size, self._width, digits, negative)
        return digits, negative

    def _settled_flags(self) -> npt.NDArray[np.uint8]:
        """Return uint8[size]: 0, or the one flag that tells the result."""
        flags = self._flags[: self._size].copy()
        both = digit_kernels.POSITIVE_INFINITY | digit_kernels.NEGATIVE_INFINITY
        flags[(flags & both == both) | (flags >= digit_kernels.NOT_A_NUMBER)] = (
            digit_kernels.NOT_A_NUMBER
        )
        return flags

    def _add_specials(self, groups: npt.NDArray[np.int64], flags: npt.NDArray[np.uint8]) -> None:
        """Note which partials were not finite: each has one flag, or 0."""
        special = np.flatnonzero(flags)
        if special.size:
            groups, flags = groups[special], flags[special]
            self._specials.add(groups, flags)
            np.bitwise_or.at(self._flags, groups, flags)


class ExactSum(_DigitRows):
    """Sum of float64 values per group, exact until it is read."""

    _ADD_KERNEL = staticmethod(digit_kernels.add_values)
    _LANES_PER_VALUE = 3
    _POSITION_SCALE = 1
    _FINEST_BIT = 0
    _DIGIT_LIMIT = 68


class ExactSquares(_DigitRows):
    """Sum of the squares of float64 values per group, exact until it is read."""

    _ADD_KERNEL = staticmethod(digit_kernels.add_squares)
    _LANES_PER_VALUE = 5
    _POSITION_SCALE = 2
    _FINEST_BIT = digit_rounding.FINEST_BIT
    _DIGIT_LIMIT = 134


def exact_variance(
    counts: npt.NDArray[np.int64], sums: ExactSum, squares: ExactSquares, sample: bool
) -> npt.NDArray[np.float64]:
    """Return float64[groups], the variance correctly rounded from its exact value.

    Args:
        counts: int64[groups], the number of values in each group.
        sums, squares: over the same values and groups.
        sample: divide by n - 1 instead of n.

    NaN where the divisor is 0 or a value was not finite; an infinity where the exact variance
    is beyond the doubles.
    """
    return _spread(counts, sums, squares, sample, root=False)


def exact_deviation(
    counts: npt.NDArray[np.int64], sums: ExactSum, squares: ExactSquares, sample: bool
) -> npt.NDArray[np.float64]:
    """Return float64[groups], the root of the exact variance, correctly rounded; see `exact_variance`.

    It may be a number where the variance itself is too large or too small for a double.
    """
    return _spread(counts, sums, squares, sample, root=True)


def _spread(
    counts: npt.NDArray[np.int64], sums: ExactSum, squares: ExactSquares, sample: bool, root: bool
) -> npt.NDArray[np.float64]:
    size = sums.size
    assert squares.size == size == counts.size, (squares.size, size, counts.size)
    assert not (counts < 0).any(), counts
    results = np.empty(size, dtype=np.float64)
    small = np.where(counts < digit_rounding.COUNT_LIMIT, counts, 0)
    sum_digits, _ = sums._magnitudes()
    square_digits, _ = squares._magnitudes()
    flags = sums._settled_flags() | squares._settled_flags()
    digit_rounding.round_variances(
        sum_digits,
        sums._width,
        sums._base,
        square_digits,
        squares._width,
        squares._base,
        flags,
        small,
        sample,
        root,
        results,
    )
    nearest = nearest_root if root else nearest_ratio
    for group in np.flatnonzero((small != counts) & (flags == 0)).tolist():
        count = int(counts[group])
        numerator = count * squares.exact(group) - sums.exact(group) ** 2
        results[group] = nearest(numerator, (count * (count - sample)) << 2148)
    return results


def nearest_ratio(numerator: int, denominator: int) -> float:
    """The double nearest to a ratio of whole numbers, ±inf beyond them."""
    try:
        return numerator / denominator
    except OverflowError:
        return float("inf") if numerator > 0 else float("-inf")


def nearest_root(numerator: int, denominator: int) -> float:
    """The double nearest to the square root of a ratio of whole numbers, which is not negative."""
    if numerator == 0:
        return 0.0
    # So that the root has some 64 bits, two of the ratio for one of the root.
    shift = max(0, 64 - (numerator.bit_length() - denominator.bit_length()) // 2)
    ratio, rest = divmod(numerator << 2 * shift, denominator)
    root = math.isqrt(ratio)
    inexact = rest != 0 or root * root != ratio
    return nearest_ratio(2 * root + inexact, 1 << (shift + 1))
