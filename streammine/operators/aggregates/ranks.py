"""What follows from all values of a group: quantiles, the number of different ones, lists of them.

The quantile of share q of n values in canonical order, numbered from 0, is the one at (n - 1) q. Where
that is no whole number, it lies between two: by default on the straight line between them ("linear",
definition 7 of Hyndman & Fan, 1996, which NumPy and most databases have), else it is the ``lower``,
``higher`` or ``nearest`` one of the two, and of equally near ones the lower.

The straight line is computed exactly and rounded once to float64, so that it depends neither on the
order of the values nor on that of the operations. A NaN comes after all numbers; between an
infinity and a number lies the infinity.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.model.contracts import IntArray
from streammine.model.topology.aggregates import MOST_COLLECTED, AggregateCall, Interpolation
from streammine.operators.aggregates.definitions import (
    Aggregate,
    BeyondRangeError,
    Finish,
    PartKey,
    Parts,
)
from streammine.operators.aggregates.value_parts import ValuesPart
from streammine.operators.kernels.exact_sum import ExactSum
from streammine.operators.kernels.ordered_words import NEGATIVE_ZERO_WORD

Floats = npt.NDArray[np.float64]

_MEDIAN = Fraction(1, 2)
_LOW_MANTISSA = (1 << 26) - 1
_WHOLE_DIGIT_BITS, _WHOLE_DIGITS = 22, 3
_LARGEST_SPLIT = 2.0**990
"""Above, a part of a value times a weight below 2^24 could be more than a double holds."""


def of_values(name: str, call: AggregateCall, value_type: pa.DataType) -> Aggregate:
    """Median, quantile, count_distinct or collect, as output column `name`."""
    assert call.column is not None, call
    values = PartKey("values", call.column)
    result_type, finish = _result(call, values, value_type)
    return Aggregate(name, result_type, (values,), finish)


def _result(
    call: AggregateCall, values: PartKey, value_type: pa.DataType
) -> tuple[pa.DataType, Finish]:
    if call.function == "count_distinct":
        floating = bool(pa.types.is_floating(value_type))
        return pa.int64(), partial(_distinct, values, floating)
    if call.function == "collect":
        listed = pa.list_(value_type)
        return listed, partial(_collected, values, listed, call)
    share = _MEDIAN if call.share is None else Fraction(call.share)
    if call.interpolation == "linear":
        return pa.float64(), partial(_between, values, share, value_type)
    return value_type, partial(_one_of_two, values, share, call.interpolation)


def _part(parts: Parts, values: PartKey) -> ValuesPart:
    part = parts[values]
    assert isinstance(part, ValuesPart)
    return part


def _distinct(values: PartKey, floating: bool, parts: Parts, rows: IntArray) -> pa.Array:
    offsets, words, _ = _part(parts, values).entries()
    different = np.diff(offsets)
    if floating:
        # -0.0 and 0.0 are neighbours, and one value
        zeros = np.flatnonzero((words[:-1] == NEGATIVE_ZERO_WORD) & (words[1:] == 0))
        groups = np.searchsorted(offsets, zeros, side="right") - 1
        both = groups[zeros + 1 < offsets[groups + 1]]
        different[both] -= 1
    return pa.array(different)


def _collected(
    values: PartKey, listed: pa.DataType, call: AggregateCall, parts: Parts, rows: IntArray
) -> pa.Array:
    entries, values_of = _part(parts, values).ordered()
    lengths = entries.totals()
    beyond = np.flatnonzero(lengths > call.limit)
    if beyond.size:
        group = int(beyond[0])
        length = int(lengths[group])
        higher = f", or a higher limit: {replace(call, limit=length)}"
        raise BeyondRangeError(
            group,
            f"{call} has {length} values, more than {call.limit}; use smaller windows, or fewer "
            f"rows (where ...){higher if length <= MOST_COLLECTED else ''}",
        )
    offsets = np.zeros(lengths.size + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if offsets[-1] > np.iinfo(np.int32).max:
        raise BeyondRangeError(
            int(np.argmax(lengths)),
            f"{call} of all keys together has {offsets[-1]} values, more than a column of lists "
            "holds; use more slices or smaller windows",
        )
    flat = values_of(np.repeat(entries.words, entries.counts))
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), flat, type=listed)


def _ranks(counts: IntArray, share: Fraction) -> tuple[IntArray, IntArray]:
    """For int64[n] numbers of values: the rank at or below (count - 1) share, and what is left of it in
    units of 1 / share.denominator."""
    lower, rest = np.divmod((counts - 1) * share.numerator, share.denominator)
    return lower, rest


def _one_of_two(
    values: PartKey, share: Fraction, interpolation: Interpolation, parts: Parts, rows: IntArray
) -> pa.Array:
    entries, values_of = _part(parts, values).ordered()
    counts = entries.totals()
    groups = np.flatnonzero(counts)
    ranks, rest = _ranks(counts[groups], share)
    if interpolation == "higher":
        ranks = ranks + (rest > 0)
    elif interpolation == "nearest":
        ranks = ranks + (2 * rest > share.denominator)
    found = values_of(entries.at_ranks(groups, ranks))
    return found if groups.size == counts.size else found.take(_places(groups, counts.size))


def _places(groups: IntArray, size: int) -> pa.Array:
    """Where the result of each group stands among those of `groups`; null where there is none."""
    places = np.full(size, -1, dtype=np.int64)
    places[groups] = np.arange(groups.size)
    return pa.array(places, mask=places < 0)


def _between(
    values: PartKey, share: Fraction, value_type: pa.DataType, parts: Parts, rows: IntArray
) -> pa.Array:
    entries, values_of = _part(parts, values).ordered()
    counts = entries.totals()
    groups = np.flatnonzero(counts)
    ranks, rest = _ranks(counts[groups], share)
    words = entries.at_ranks(groups, ranks)
    next_words = entries.at_ranks(groups, ranks + (rest > 0))
    lower, upper = values_of(words), values_of(next_words)
    weights = np.where(words == next_words, 0, rest)
    if pa.types.is_decimal(value_type):
        exact = _decimal_points(lower, upper, weights, share.denominator)
    else:
        exact = _points(lower, upper, weights, share.denominator)
    found = np.zeros(counts.size, dtype=np.float64)
    found[groups] = exact
    return pa.array(found, mask=counts == 0, from_pandas=False)


def _points(lower: pa.Array, upper: pa.Array, weights: IntArray, whole: int) -> Floats:
    """(lower (whole - weight) + upper weight) / whole, each rounded once from its exact value.

    Values are cut into pieces of few bits, whose products with a weight are exact doubles; an exact
    sum of these is divided by `whole`. `weights` below `whole`, which is at most 10^7 < 2^24.
    """
    low, high = lower.to_numpy(), upper.to_numpy()
    results: Floats = low.astype(np.float64)
    inside = np.flatnonzero(weights)
    if not inside.size:
        return results
    low, high, weights = low[inside], high[inside], weights[inside]
    groups = np.arange(inside.size, dtype=np.int64)
    sums = ExactSum()
    # products beyond the doubles become infinities here, and are computed anew below
    with np.errstate(over="ignore"):
        for values, factors in ((low, whole - weights), (high, weights)):
            for piece in _pieces(values):
                sums.add(groups, piece * factors, inside.size)
    results[inside] = sums.means(np.full(inside.size, whole, dtype=np.int64))
    if pa.types.is_float64(lower.type):
        _correct_large(results, inside, low, high, weights, whole)
    return results


def _pieces(values: npt.NDArray[Any]) -> list[Floats]:
    """Doubles of at most 27 bits whose sum is the value; of an infinity or NaN, it and 0."""
    if values.dtype.kind == "f":
        wide = values.astype(np.float64)
        upper = (wide.view(np.int64) & ~_LOW_MANTISSA).view(np.float64)
        special = ~np.isfinite(wide)
        rest = np.subtract(wide, upper, out=np.zeros_like(wide), where=~special)
        return [np.where(special, wide, upper), rest]
    wide_type: np.dtype[Any] = np.dtype(np.uint64 if values.dtype == np.uint64 else np.int64)
    whole: npt.NDArray[Any] = values.astype(wide_type)
    digit = wide_type.type((1 << _WHOLE_DIGIT_BITS) - 1)
    pieces = []
    for number in range(_WHOLE_DIGITS):
        shifted = whole >> wide_type.type(number * _WHOLE_DIGIT_BITS)
        kept = shifted if number == _WHOLE_DIGITS - 1 else shifted & digit
        pieces.append(kept.astype(np.float64) * 2.0 ** (number * _WHOLE_DIGIT_BITS))
    return pieces


def _correct_large(
    results: Floats, inside: IntArray, low: Floats, high: Floats, weights: IntArray, whole: int
) -> None:
    """Compute anew, by fractions, the few where a product was beyond the doubles."""
    with np.errstate(invalid="ignore"):
        large = (np.abs(low) > _LARGEST_SPLIT) | (np.abs(high) > _LARGEST_SPLIT)
        finite = np.isfinite(low) & np.isfinite(high)
    for place in np.flatnonzero(large & finite).tolist():
        weight = int(weights[place])
        total = Fraction(float(low[place])) * (whole - weight)
        total += Fraction(float(high[place])) * weight
        results[inside[place]] = float(total / whole)


def _decimal_points(lower: pa.Array, upper: pa.Array, weights: IntArray, whole: int) -> Floats:
    """As `_points`, by fractions of whole numbers of any length."""
    ends = zip(lower.to_pylist(), upper.to_pylist(), weights.tolist(), strict=True)
    points = [
        (Fraction(low) * (whole - weight) + Fraction(high) * weight) / whole
        for low, high, weight in ends
    ]
    return np.array([float(point) for point in points], dtype=np.float64)
