"""Digit rows: exact sums of floating-point numbers as 32-bit digits in 64-bit lanes.

A row of int64 lanes holds the integer sum(lane[j] * 2^(32 * (base + j))) in units of the finest
bit a value can have (2^-1074 for doubles, 2^-2148 for their squares). A value adds a part below
2^32 to a few neighbouring lanes, so 2^30 values fit before carries must be moved up; and as
integer addition commutes, no order of the values can matter. This is the small superaccumulator
of Radford M. Neal, 'Fast exact summation using small and large superaccumulators' (2015), §3,
with a window of digits that grows to the exponents seen, in place of all 67 for every group.

Encoded form, the same bytes for the same multiset of values: empty for zero; one byte for a sum
that is not finite (1: +inf, 2: -inf, 4: NaN); else a sign byte (0, or 8 if negative), the
position of the lowest non-zero byte (uint16, little-endian), then the bytes of the magnitude
from that byte to the highest non-zero one.
"""

import numpy as np
import numpy.typing as npt

from streammine.operators.kernels.compilation import (
    BYTES_IN,
    BYTES_OUT,
    INT64,
    INT64_IN,
    INT64_OUT,
    MASK_IN,
    MASK_OUT,
    KernelSet,
    helper,
)
from streammine.operators.kernels.machine_words import high_product

_KERNELS = KernelSet("78512f6e")
load_kernels = _KERNELS.load

DIGIT_MASK = 0xFFFFFFFF
MANTISSA_MASK = (1 << 52) - 1
HIDDEN_BIT = 1 << 52
POSITIVE_INFINITY, NEGATIVE_INFINITY, NOT_A_NUMBER, NEGATIVE = 1, 2, 4, 8
DONE = -1
BAD_GROUP = -2
BAD_ENCODING = -3


@helper
def _special_flag(bits: np.int64) -> int:
    if bits & MANTISSA_MASK:
        return NOT_A_NUMBER
    return NEGATIVE_INFINITY if bits < 0 else POSITIVE_INFINITY


@_KERNELS.kernel(INT64_IN, INT64_IN, MASK_IN, INT64, INT64_OUT, INT64, INT64, INT64, BYTES_OUT)
def add_values(
    groups: npt.NDArray[np.int64],
    values: npt.NDArray[np.int64],
    validity: npt.NDArray[np.bool_],
    first_row: int,
    lanes: npt.NDArray[np.int64],
    size: int,
    width: int,
    base: int,
    flags: npt.NDArray[np.uint8],
) -> int:
    """Add doubles, given as their bits; return DONE, BAD_GROUP or the row outside the window."""
    has_nulls = validity.size > 0
    highest = np.uint64(width - 3)
    group_limit = np.uint64(size)
    for row in range(first_row, values.size):
        if has_nulls and not validity[row]:
            continue
        group = groups[row]
        if np.uint64(group) >= group_limit:
            return BAD_GROUP
        bits = values[row]
        exponent = (bits >> 52) & 0x7FF
        mantissa = np.uint64(bits & MANTISSA_MASK)
        if exponent == 0x7FF:
            flags[group] |= np.uint8(_special_flag(bits))
            continue
        if exponent == 0:
            if mantissa == 0:
                continue
        else:
            mantissa |= np.uint64(HIDDEN_BIT)
            exponent -= 1
        lane = (exponent >> 5) - base
        if np.uint64(lane) > highest:
            return row
        shift = np.uint64(exponent & 31)
        sign = bits >> 63
        upper = mantissa >> (np.uint64(32) - shift)
        low = np.int64((mantissa << shift) & np.uint64(DIGIT_MASK))
        middle = np.int64(upper & np.uint64(DIGIT_MASK))
        high = np.int64(upper >> np.uint64(32))
        index = group * width + lane
        lanes[index] += (low ^ sign) - sign
        lanes[index + 1] += (middle ^ sign) - sign
        lanes[index + 2] += (high ^ sign) - sign
    return DONE


@_KERNELS.kernel(INT64_IN, INT64_IN, MASK_IN, INT64, INT64_OUT, INT64, INT64, INT64, BYTES_OUT)
def add_squares(
    groups: npt.NDArray[np.int64],
    values: npt.NDArray[np.int64],
    validity: npt.NDArray[np.bool_],
    first_row: int,
    lanes: npt.NDArray[np.int64],
    size: int,
    width: int,
    base: int,
    flags: npt.NDArray[np.uint8],
) -> int:
    """Add the exact squares (106 bits in five lanes) of doubles; returns as add_values does."""
    has_nulls = validity.size > 0
    highest = np.uint64(width - 5)
    group_limit = np.uint64(size)
    digit = np.uint64(DIGIT_MASK)
    half = np.uint64(32)
    for row in range(first_row, values.size):
        if has_nulls and not validity[row]:
            continue
        group = groups[row]
        if np.uint64(group) >= group_limit:
            return BAD_GROUP
        bits = values[row]
        exponent = (bits >> 52) & 0x7FF
        mantissa = np.uint64(bits & MANTISSA_MASK)
        if exponent == 0x7FF:
            # The square of -inf is +inf.
            flags[group] |= np.uint8(NOT_A_NUMBER if mantissa else POSITIVE_INFINITY)
            continue
        if exponent == 0:
            if mantissa == 0:
                continue
        else:
            mantissa |= np.uint64(HIDDEN_BIT)
            exponent -= 1
        lane = (exponent >> 4) - base
        if np.uint64(lane) > highest:
            return row
        shift = np.uint64((2 * exponent) & 31)
        low = mantissa * mantissa
        high = high_product(mantissa, mantissa)
        back = half - shift
        index = group * width + lane
        lanes[index] += np.int64((low << shift) & digit)
        lanes[index + 1] += np.int64((low >> back) & digit)
        middle = low >> half
        lanes[index + 2] += np.int64((middle >> back) | ((high << shift) & digit))
        lanes[index + 3] += np.int64((high >> back) & digit)
        lanes[index + 4] += np.int64((high >> half) >> back)
    return DONE


@_KERNELS.kernel(INT64_IN, INT64)
def exponent_range(values: npt.NDArray[np.int64], first_row: int) -> tuple[np.int64, np.int64]:
    """Lowest and highest bit position of the finite non-zero values from first_row on."""
    lowest, highest = np.int64(2047), np.int64(-1)
    for row in range(first_row, values.size):
        bits = values[row]
        exponent = (bits >> 52) & 0x7FF
        if exponent == 0x7FF or (bits << 1) == 0:
            continue
        position = max(exponent - 1, np.int64(0))
        lowest = min(lowest, position)
        highest = max(highest, position)
    return lowest, highest


@_KERNELS.kernel(INT64_OUT, INT64, INT64)
def normalise(lanes: npt.NDArray[np.int64], size: int, width: int) -> np.int64:
    """Move carries up, so that all lanes but the signed top one are digits.

    Returns the largest magnitude of a top lane. The digits are then unique to the sum.
    """
    largest = np.int64(0)
    for group in range(size):
        carry = np.int64(0)
        for index in range(group * width, group * width + width - 1):
            total = lanes[index] + carry
            lanes[index] = total & DIGIT_MASK
            carry = total >> 32
        top = lanes[group * width + width - 1] + carry
        lanes[group * width + width - 1] = top
        largest = max(largest, abs(top))
    return largest


@_KERNELS.kernel(INT64_OUT, INT64, INT64_IN, INT64, INT64, INT64_IN)
def add_lanes(
    target: npt.NDArray[np.int64],
    target_width: int,
    source: npt.NDArray[np.int64],
    source_width: int,
    shift: int,
    groups: npt.NDArray[np.int64],
) -> None:
    """Add source row i to target row groups[i], its lanes moved up by shift lanes."""
    for row in range(groups.size):
        target_first = groups[row] * target_width + shift
        for lane in range(source_width):
            target[target_first + lane] += source[row * source_width + lane]


@helper
def magnitude_digits(
    lanes: npt.NDArray[np.int64], first: int, width: int, digits: npt.NDArray[np.int64]
) -> bool:
    """Write the digits of the absolute value of a normalised row; return whether it was negative.

    Needs |top lane| < 2^32.
    """
    negative = lanes[first + width - 1] < 0
    if not negative:
        for lane in range(width):
            digits[lane] = lanes[first + lane]
        return False
    carry = np.int64(0)
    for lane in range(width):
        total = carry - lanes[first + lane]
        digits[lane] = total & DIGIT_MASK if lane < width - 1 else total
        carry = total >> 32
    return True


@_KERNELS.kernel(INT64_IN, INT64, INT64, INT64_OUT, MASK_OUT)
def write_magnitudes(
    lanes: npt.NDArray[np.int64],
    size: int,
    width: int,
    magnitudes: npt.NDArray[np.int64],
    negative: npt.NDArray[np.bool_],
) -> None:
    """Write the digits of the absolute values of normalised rows, and their signs."""
    for group in range(size):
        first = group * width
        negative[group] = magnitude_digits(lanes, first, width, magnitudes[first : first + width])


@_KERNELS.kernel(INT64_IN, INT64, INT64, INT64, INT64, BYTES_IN, INT64_OUT, BYTES_OUT)
def encode_rows(
    lanes: npt.NDArray[np.int64],
    first_row: int,
    end_row: int,
    width: int,
    base: int,
    flags: npt.NDArray[np.uint8],
    lengths: npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
) -> np.int64:
    """Encode some normalised rows; return the number of bytes, 3 + 4 * width at most for each.

    `lengths` of the rows are filled in where they stand, `data` from its start.
    """
    digits = np.empty(width, dtype=np.int64)
    at = np.int64(0)
    for group in range(first_row, end_row):
        begin = at
        if flags[group] != 0:
            data[at] = flags[group]
            at += 1
            lengths[group] = 1
            continue
        negative = magnitude_digits(lanes, group * width, width, digits)
        first, last = 0, width - 1
        while first < width and digits[first] == 0:
            first += 1
        if first == width:
            lengths[group] = 0
            continue
        while digits[last] == 0:
            last -= 1
        skipped, word = 0, digits[first]
        while word & 0xFF == 0:
            word >>= 8
            skipped += 1
        position = 4 * (base + first) + skipped
        data[at] = NEGATIVE if negative else 0
        data[at + 1] = position & 0xFF
        data[at + 2] = position >> 8
        at += 3
        for digit in range(first, last):
            word = digits[digit] >> (8 * skipped)
            for _ in range(skipped, 4):
                data[at] = word & 0xFF
                word >>= 8
                at += 1
            skipped = 0
        word = digits[last] >> (8 * skipped)
        while word != 0:
            data[at] = word & 0xFF
            word >>= 8
            at += 1
        lengths[group] = at - begin
    return at


@_KERNELS.kernel(BYTES_IN, INT64_IN, MASK_IN, INT64)
def encoded_range(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    validity: npt.NDArray[np.bool_],
    byte_limit: int,
) -> tuple[np.int64, np.int64, np.int64]:
    """Lowest and highest byte position of encoded sums, and the first malformed row or -1."""
    lowest, highest = np.int64(byte_limit), np.int64(-1)
    for row in range(offsets.size - 1):
        if validity.size > 0 and not validity[row]:
            continue
        begin, end = offsets[row], offsets[row + 1]
        length = end - begin
        if length == 0:
            continue
        if length == 1:
            if data[begin] not in (POSITIVE_INFINITY, NEGATIVE_INFINITY, NOT_A_NUMBER):
                return lowest, highest, np.int64(row)
            continue
        position = np.int64(0)
        if length > 3:
            position = np.int64(data[begin + 1]) | (np.int64(data[begin + 2]) << 8)
        malformed = length < 4 or (data[begin] != 0 and data[begin] != NEGATIVE)
        if malformed or position + length - 3 > byte_limit:
            return lowest, highest, np.int64(row)
        if data[begin + 3] == 0 or data[end - 1] == 0:
            return lowest, highest, np.int64(row)
        lowest = min(lowest, position)
        highest = max(highest, position + length - 4)
    return lowest, highest, np.int64(-1)


@_KERNELS.kernel(INT64_IN, BYTES_IN, INT64_IN, MASK_IN, INT64, INT64_OUT, INT64, INT64)
def add_encodings(
    groups: npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    validity: npt.NDArray[np.bool_],
    times: int,
    lanes: npt.NDArray[np.int64],
    width: int,
    base: int,
) -> None:
    """Add well-formed encoded sums, whose digits lie in the window, to their groups, `times` (1 or -1).

    Those that are not finite are left out.
    """
    for row in range(groups.size):
        if validity.size > 0 and not validity[row]:
            continue
        begin, end = offsets[row], offsets[row + 1]
        if end - begin < 2:
            continue
        position = np.int64(data[begin + 1]) | (np.int64(data[begin + 2]) << 8)
        sign = np.int64(-times if data[begin] == NEGATIVE else times)
        first = groups[row] * width - base
        for index in range(begin + 3, end):
            part = np.int64(data[index]) << (8 * (position & 3))
            lanes[first + (position >> 2)] += sign * part
            position += 1
