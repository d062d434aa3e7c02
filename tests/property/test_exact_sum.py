"""Exact sums against math.fsum and whole-number arithmetic, for any order and any cut."""

import contextlib
import math
import sys
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streammine.operators.kernels import (
    ExactSquares,
    ExactSum,
    exact_deviation,
    exact_sum,
    exact_variance,
)
from streammine.operators.kernels.exact_sum import nearest_root

FINITE = st.floats(allow_nan=False, allow_infinity=False)
MODERATE = st.floats(min_value=-1e6, max_value=1e6)
NEAR_LIMIT = st.sampled_from(
    [1.7976931348623157e308, -1.7976931348623157e308, 2.0**970, -(2.0**970), 2.0**969, 5e-324]
)
TINY = st.integers(-(2**53), 2**53).map(lambda number: number * 5e-324)
NUMBERS = st.one_of(FINITE, MODERATE, NEAR_LIMIT, TINY, st.integers(-9, 9).map(float))
ANY_NUMBERS = st.one_of(NUMBERS, st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 0.0]))
GROUPS = 4
ROWS = st.lists(st.tuples(st.integers(0, GROUPS - 1), ANY_NUMBERS), max_size=60)

# The first call may have to compile, which no deadline foresees.
unhurried = settings(deadline=None)


def nearest(value: Fraction) -> float:
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def expected_sum(values: list[float]) -> float:
    """What the documentation of ExactSum.rounded promises."""
    special = [value for value in values if not math.isfinite(value)]
    if special:
        return sum(special)
    exact = nearest(sum(map(Fraction, values), Fraction(0)))
    with contextlib.suppress(OverflowError):
        assert math.fsum(values) == exact
    return exact


def same_bits(left: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> bool:
    nan = np.isnan(left) & np.isnan(right)
    return bool((nan | (left.view(np.int64) == right.view(np.int64))).all())


def columns(
    rows: list[tuple[int, float]],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    return (
        np.array([group for group, _ in rows], dtype=np.int64),
        np.array([value for _, value in rows], dtype=np.float64),
    )


def sums_of(rows: list[tuple[int, float]], kind: type = ExactSum) -> ExactSum:
    sums: ExactSum = kind()
    sums.add(*columns(rows), GROUPS)
    return sums


@unhurried
@given(ROWS)
def test_the_rounded_sum_is_fsum_of_the_values(rows: list[tuple[int, float]]) -> None:
    wanted = [expected_sum([v for g, v in rows if g == group]) for group in range(GROUPS)]
    assert same_bits(sums_of(rows).rounded(), np.array(wanted))


@unhurried
@given(st.lists(st.tuples(st.integers(0, GROUPS - 1), NUMBERS), max_size=40))
def test_the_rounded_sum_of_squares_is_the_nearest_double(rows: list[tuple[int, float]]) -> None:
    wanted = [
        nearest(sum((Fraction(v) ** 2 for g, v in rows if g == group), Fraction(0)))
        for group in range(GROUPS)
    ]
    assert same_bits(sums_of(rows, ExactSquares).rounded(), np.array(wanted))


@unhurried
@given(ROWS, st.randoms(use_true_random=False), st.sampled_from([ExactSum, ExactSquares]))
def test_any_order_and_any_cut_give_the_same_bytes(
    rows: list[tuple[int, float]], random: object, kind: type
) -> None:
    #  all rows at once             ->  bytes
    #  shuffled, batch by batch     ->  the same bytes
    #  shuffled, split in two states, one merged, one encoded and added  ->  the same bytes
    whole = sums_of(rows, kind).encode()
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    batched = kind()
    batched.resize(GROUPS)
    for first in range(0, len(shuffled), 3):
        batched.add(*columns(shuffled[first : first + 3]), GROUPS)
        batched.encode()
    assert batched.encode() == whole

    half = len(rows) // 2
    merged, sent = sums_of(shuffled[:half], kind), sums_of(shuffled[half:], kind)
    target = kind()
    target.resize(GROUPS)
    mirror = np.arange(GROUPS)[::-1]
    target.merge(merged, mirror)
    target.add_encoded(mirror, sent.encode())
    assert target.encode() == whole.take(pa.array(mirror))


@unhurried
@given(ROWS)
def test_an_encoded_sum_restores_to_the_same_bytes(rows: list[tuple[int, float]]) -> None:
    encoded = sums_of(rows).encode()
    restored = ExactSum()
    restored.add_encoded(np.arange(GROUPS), encoded, GROUPS)
    assert restored.encode() == encoded
    assert same_bits(restored.rounded(), sums_of(rows).rounded())


@unhurried
@given(ROWS, st.lists(st.booleans(), min_size=60, max_size=60))
def test_nulls_are_skipped(rows: list[tuple[int, float]], present: list[bool]) -> None:
    mask = np.array(present[: len(rows)], dtype=np.bool_)
    sums = ExactSum()
    sums.add(*columns(rows), GROUPS, mask)
    kept = [row for row, valid in zip(rows, mask.tolist(), strict=True) if valid]
    assert sums.encode() == sums_of(kept).encode()


@unhurried
@given(
    st.lists(st.tuples(st.integers(0, GROUPS - 1), st.one_of(MODERATE, NUMBERS)), max_size=40),
    st.booleans(),
)
def test_the_variance_is_the_double_nearest_to_the_exact_one(
    rows: list[tuple[int, float]], sample: bool
) -> None:
    groups, _ = columns(rows)
    counts = np.bincount(groups, minlength=GROUPS).astype(np.int64)
    squares = ExactSquares()
    squares.add(*columns(rows), GROUPS)
    wanted = []
    for group in range(GROUPS):
        values = [Fraction(v) for g, v in rows if g == group]
        divisor = len(values) - sample
        if divisor <= 0:
            wanted.append(math.nan)
            continue
        mean = sum(values, Fraction(0)) / len(values)
        deviation = sum(((value - mean) ** 2 for value in values), Fraction(0))
        wanted.append(nearest(deviation / divisor))
    assert same_bits(exact_variance(counts, sums_of(rows), squares, sample), np.array(wanted))


def is_nearest_root(value: float, exact: Fraction) -> bool:
    """Whether no double is nearer to the root of `exact`."""
    low = Fraction(math.nextafter(value, -math.inf)) if value else Fraction(0)
    following = math.nextafter(value, math.inf)
    # behind the largest double comes the power of two that would be the next one
    high = Fraction(2**1024) if math.isinf(following) else Fraction(following)
    below, above = (low + Fraction(value)) / 2, (Fraction(value) + high) / 2
    return below**2 <= exact <= above**2


@unhurried
@given(
    st.lists(
        st.tuples(
            st.integers(0, GROUPS - 1),
            st.one_of(MODERATE, NUMBERS, st.floats(-1e-300, 1e-300)),
        ),
        max_size=40,
    ),
    st.booleans(),
)
@example([(1, sys.float_info.max), (1, -sys.float_info.max)], False)
def test_the_deviation_is_the_double_nearest_to_the_root_of_the_exact_variance(
    rows: list[tuple[int, float]], sample: bool
) -> None:
    groups, _ = columns(rows)
    counts = np.bincount(groups, minlength=GROUPS).astype(np.int64)
    squares = ExactSquares()
    squares.add(*columns(rows), GROUPS)
    found = exact_deviation(counts, sums_of(rows), squares, sample)
    for group in range(GROUPS):
        values = [Fraction(v) for g, v in rows if g == group]
        divisor = len(values) - sample
        if divisor <= 0:
            assert math.isnan(found[group])
            continue
        mean = sum(values, Fraction(0)) / len(values)
        variance = sum(((value - mean) ** 2 for value in values), Fraction(0)) / divisor
        assert is_nearest_root(float(found[group]), variance)
        root = nearest_root(variance.numerator, variance.denominator)
        assert same_bits(found[group : group + 1], np.array([root]))


@unhurried
@given(st.lists(st.tuples(st.integers(0, GROUPS - 1), NUMBERS), max_size=40))
def test_the_mean_is_the_double_nearest_to_the_exact_one(rows: list[tuple[int, float]]) -> None:
    groups, _ = columns(rows)
    counts = np.bincount(groups, minlength=GROUPS).astype(np.int64)
    wanted = []
    for group in range(GROUPS):
        values = [Fraction(v) for g, v in rows if g == group]
        total = sum(values, Fraction(0))
        if not values:
            wanted.append(math.nan)
        elif total < 0:
            wanted.append(-nearest(-total / len(values)))
        else:
            wanted.append(nearest(total / len(values)))
    assert same_bits(sums_of(rows).means(counts), np.array(wanted))


@unhurried
@given(st.lists(MODERATE, min_size=1, max_size=10), st.integers(2**32, 2**60))
def test_counts_of_more_than_one_digit_take_the_slow_path_to_the_same_value(
    values: list[float], count: int
) -> None:
    rows = [(0, value) for value in values]
    counts = np.zeros(GROUPS, dtype=np.int64)
    counts[0] = count
    squares = ExactSquares()
    squares.add(*columns(rows), GROUPS)
    total = sum(map(Fraction, values), Fraction(0))
    square_total = sum((Fraction(value) ** 2 for value in values), Fraction(0))
    variance = (count * square_total - total**2) / count**2
    assert exact_variance(counts, sums_of(rows), squares, False)[0] == nearest(variance)
    deviation = float(exact_deviation(counts, sums_of(rows), squares, False)[0])
    assert is_nearest_root(deviation, variance)
    assert sums_of(rows).means(counts)[0] == nearest(total / count)


@unhurried
@given(ROWS, st.integers(1, 60), st.sampled_from([ExactSum, ExactSquares]))
def test_the_encoding_does_not_depend_on_how_many_rows_are_encoded_at_once(
    rows: list[tuple[int, float]], at_once: int, kind: type[ExactSum] | type[ExactSquares]
) -> None:
    groups, values = columns(rows)
    sums = kind()
    sums.add(groups, values, 2 * GROUPS)
    whole = sums.encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact_sum, "_ENCODED_AT_ONCE", at_once)
        assert sums.encode() == whole
