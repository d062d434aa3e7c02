"""From exact digits to the nearest double: sums, means, variances and standard deviations.

Everything is computed with whole numbers and rounded once, half to even, so each result is the
double nearest to the exact value. A quotient is a long division whose remainder decides only
whether the digits below the rounding point are all zero. So is a square root, bit by bit.
"""

import numpy as np
import numpy.typing as npt

from streammine.operators.kernels.compilation import (
    BOOLEAN,
    BYTES_IN,
    FLOAT64_OUT,
    INT64,
    INT64_IN,
    MASK_IN,
    KernelSet,
    helper,
)

_KERNELS = KernelSet()
load_kernels = _KERNELS.load

FINEST_BIT = 1074
"""Position of 2^-1074, the finest bit of a double, in units of 2^-2148."""

COUNT_LIMIT = 1 << 32
"""Counts from here on have more than one digit; the division kernels do not take them."""

_DIGIT_MASK = 0xFFFFFFFF
_INFINITY_BITS = 0x7FF << 52
_POSITIVE_INFINITY, _NEGATIVE_INFINITY = 1, 2
_MEAN_EXTENSION = 3
_VARIANCE_EXTENSION = 5
_DEVIATION_EXTENSION = 7
"""Digits of a quotient below its dividend's. A variance is at least a unit over 2^64, so 7 leave the pairs of
bits that a root of _ROOT_BITS is made of."""

_ROOT_BITS = 56


@helper
def _digit(digits: npt.NDArray[np.int64], index: int) -> np.uint64:
    if 0 <= index < digits.size:
        return np.uint64(digits[index])
    return np.uint64(0)


@helper
def _nearest(digits: npt.NDArray[np.int64], base: int, finest_bit: int, rest: bool) -> np.float64:
    """The double nearest to digits * 2^(32 * base) units, plus a rest below one unit if any.

    `finest_bit` is the position of 2^-1074 in the units.
    """
    top = digits.size - 1
    while top >= 0 and digits[top] == 0:
        top -= 1
    if top < 0:
        return np.float64(0.0)
    length = 0
    while digits[top] >> length != 0:
        length += 1
    # Positions count from the lowest bit of digit 0.
    finest = finest_bit - 32 * base
    lowest = max(32 * top + length - 53, finest)
    exponent = lowest - finest
    if exponent >= 2046:
        return np.float64(np.inf)
    index = lowest >> 5
    shift = np.uint64(lowest & 31)
    mantissa = _digit(digits, index) >> shift
    mantissa |= _digit(digits, index + 1) << (np.uint64(32) - shift)
    if shift > 0:
        mantissa |= _digit(digits, index + 2) << (np.uint64(64) - shift)
    half_index = (lowest - 1) >> 5
    half_bit = np.uint64(1) << np.uint64((lowest - 1) & 31)
    half_digit = _digit(digits, half_index)
    if half_digit & half_bit:
        odd = (mantissa & np.uint64(1)) != 0
        below = rest or (half_digit & (half_bit - np.uint64(1))) != 0
        lower = min(half_index, digits.size) - 1
        while not below and lower >= 0:
            below = digits[lower] != 0
            lower -= 1
        if below or odd:
            mantissa += np.uint64(1)
    # For a normal number the hidden bit raises the exponent field by one; for a subnormal one
    # the exponent is 0. A carry out of the mantissa raises it too, and is right both times.
    bits = np.int64(mantissa) + (np.int64(exponent) << 52)
    if bits >= _INFINITY_BITS:
        return np.float64(np.inf)
    return np.int64(bits).view(np.float64)


@helper
def _special(flags: int) -> np.float64:
    if flags == _POSITIVE_INFINITY:
        return np.float64(np.inf)
    if flags == _NEGATIVE_INFINITY:
        return np.float64(-np.inf)
    return np.float64(np.nan)


@helper
def _divide(digits: npt.NDArray[np.int64], divisor: int) -> bool:
    """Divide digits in place by a divisor below 2^32; return whether there is a remainder."""
    remainder = np.uint64(0)
    for index in range(digits.size - 1, -1, -1):
        part = (remainder << np.uint64(32)) | np.uint64(digits[index])
        digits[index] = np.int64(part // np.uint64(divisor))
        remainder = part % np.uint64(divisor)
    return remainder != np.uint64(0)  # type: ignore[no-any-return]


@_KERNELS.kernel(INT64_IN, MASK_IN, BYTES_IN, INT64, INT64, INT64, FLOAT64_OUT)
def round_rows(
    digits: npt.NDArray[np.int64],
    negative: npt.NDArray[np.bool_],
    flags: npt.NDArray[np.uint8],
    width: int,
    base: int,
    finest_bit: int,
    results: npt.NDArray[np.float64],
) -> None:
    """Round each row of digits[n * width]."""
    for group in range(results.size):
        if flags[group] != 0:
            results[group] = _special(flags[group])
            continue
        row = digits[group * width : (group + 1) * width]
        value = _nearest(row, base, finest_bit, False)
        results[group] = -value if negative[group] else value


@_KERNELS.kernel(INT64_IN, MASK_IN, BYTES_IN, INT64, INT64, INT64, INT64_IN, FLOAT64_OUT)
def round_means(
    digits: npt.NDArray[np.int64],
    negative: npt.NDArray[np.bool_],
    flags: npt.NDArray[np.uint8],
    width: int,
    base: int,
    finest_bit: int,
    counts: npt.NDArray[np.int64],
    results: npt.NDArray[np.float64],
) -> None:
    """Round each row divided by its count (below 2^32); NaN for a count of 0."""
    quotient = np.empty(width + _MEAN_EXTENSION, dtype=np.int64)
    for group in range(results.size):
        if flags[group] != 0 or counts[group] == 0:
            results[group] = _special(flags[group])
            continue
        quotient[:_MEAN_EXTENSION] = 0
        quotient[_MEAN_EXTENSION:] = digits[group * width : (group + 1) * width]
        rest = _divide(quotient, counts[group])
        value = _nearest(quotient, base - _MEAN_EXTENSION, finest_bit, rest)
        results[group] = -value if negative[group] else value


@helper
def _subtract_square(
    scaled: npt.NDArray[np.int64], digits: npt.NDArray[np.int64], first: int
) -> None:
    """Subtract digits^2, whose lowest digit is at `first`, from scaled, in place."""
    square = np.zeros(2 * digits.size, dtype=np.uint64)
    half = np.uint64(32)
    mask = np.uint64(_DIGIT_MASK)
    for left in range(digits.size):
        if digits[left] == 0:
            continue
        carry = np.uint64(0)
        for right in range(digits.size):
            part = np.uint64(digits[left]) * np.uint64(digits[right])
            part += square[left + right] + carry
            square[left + right] = part & mask
            carry = part >> half
        square[left + digits.size] = carry
    borrow = np.int64(0)
    for index in range(first, scaled.size):
        difference = scaled[index] + borrow
        if index - first < square.size:
            difference -= np.int64(square[index - first])
        scaled[index] = difference & _DIGIT_MASK
        borrow = difference >> 32


@helper
def _root(digits: npt.NDArray[np.int64], base: int, rest: bool) -> np.float64:
    """The double nearest to the root of digits * 2^(32 * base) units of 2^-2148, plus a rest below one.

    The schoolbook root: two bits of the number give one of the root. What is left after _ROOT_BITS
    of them only decides on which side of a rounding point the root lies.
    """
    pair = 16 * digits.size - 1
    while pair >= 0 and (digits[pair >> 4] >> (2 * (pair & 15))) & 3 == 0:
        pair -= 1
    if pair < 0:
        return np.float64(0.0)
    root = np.int64(0)
    left = np.int64(0)
    for _ in range(_ROOT_BITS):
        bits = np.int64(0)
        if pair >= 0:
            bits = (digits[pair >> 4] >> (2 * (pair & 15))) & 3
        left = (left << 2) | bits
        trial = (root << 2) | 1
        root <<= 1
        if left >= trial:
            left -= trial
            root |= 1
        pair -= 1
    position = pair + 1 + 16 * base
    below = rest or left != 0
    while not below and pair >= 0:
        below = (digits[pair >> 4] >> (2 * (pair & 15))) & 3 != 0
        pair -= 1
    # `position` is where the root's lowest bit stands, in units of 2^-1074.
    shift = position & 31
    lower = (root & _DIGIT_MASK) << shift
    upper = ((root >> 32) << shift) + (lower >> 32)
    root_digits = np.empty(3, dtype=np.int64)
    root_digits[0] = lower & _DIGIT_MASK
    root_digits[1] = upper & _DIGIT_MASK
    root_digits[2] = upper >> 32
    return _nearest(root_digits, position >> 5, 0, below)


@helper
def _divide_variance(
    row: npt.NDArray[np.int64],
    first_row: int,
    squares: npt.NDArray[np.int64],
    first_square: int,
    count: int,
    divisor: int,
    scaled: npt.NDArray[np.int64],
) -> bool:
    """Fill `scaled` with (count * squares - row^2) / (count * divisor); return if there is a remainder.

    The lowest digit of row^2 is at `first_row`, that of the squares at `first_square`.
    """
    scaled[:] = 0
    carry = np.uint64(0)
    for lane in range(squares.size):
        part = np.uint64(squares[lane]) * np.uint64(count) + carry
        scaled[first_square + lane] = np.int64(part & np.uint64(_DIGIT_MASK))
        carry = part >> np.uint64(32)
    scaled[first_square + squares.size] = np.int64(carry)
    _subtract_square(scaled, row, first_row)
    rest = _divide(scaled, count)
    if _divide(scaled, divisor):
        rest = True
    return rest


@_KERNELS.kernel(
    INT64_IN,
    INT64,
    INT64,
    INT64_IN,
    INT64,
    INT64,
    BYTES_IN,
    INT64_IN,
    BOOLEAN,
    BOOLEAN,
    FLOAT64_OUT,
)
def round_variances(
    sums: npt.NDArray[np.int64],
    sum_width: int,
    sum_base: int,
    squares: npt.NDArray[np.int64],
    square_width: int,
    square_base: int,
    flags: npt.NDArray[np.uint8],
    counts: npt.NDArray[np.int64],
    sample: bool,
    root: bool,
    results: npt.NDArray[np.float64],
) -> None:
    """Round (n * sum of squares - sum^2) / (n * (n - 1 if sample else n)), or its root; n below 2^32.

    The unit of a sum is 2^-1074, so that of its square is the unit of the squares, 2^-2148.
    NaN where a value was not finite or the divisor is 0.
    """
    base = min(2 * sum_base, square_base)
    top = max(2 * (sum_base + sum_width), square_base + square_width + 1)
    extension = _DEVIATION_EXTENSION if root else _VARIANCE_EXTENSION
    first_square = square_base - base + extension
    first_sum = 2 * sum_base - base + extension
    scaled = np.empty(top - base + extension, dtype=np.int64)
    for group in range(results.size):
        count = counts[group]
        divisor = count - 1 if sample else count
        if flags[group] != 0 or divisor <= 0:
            results[group] = np.nan
            continue
        rest = _divide_variance(
            sums[group * sum_width : (group + 1) * sum_width],
            first_sum,
            squares[group * square_width : (group + 1) * square_width],
            first_square,
            count,
            divisor,
            scaled,
        )
        if root:
            results[group] = _root(scaled, base - extension, rest)
        else:
            results[group] = _nearest(scaled, base - extension, FINEST_BIT, rest)
