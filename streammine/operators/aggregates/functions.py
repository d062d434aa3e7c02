"""The aggregate functions: what each takes, keeps and gives.

======================================  ==================  ========================================
function                                result              of no values
======================================  ==================  ========================================
count()                                 int64, rows         0
count(column)                           int64, non-null     0
count_distinct(column)                  int64               0
sum(integer)                            int64, or an error  null
sum(float)                              float64, exact      null
sum(decimal(p, s))                      decimal(38, s)      null
mean(number)                            float64             null
variance, variance_population           float64             null; the first also of a single value
stddev, stddev_population               float64             as the variance
median(number), quantile(number, q)     float64             null
quantile(column, q, lower) and so on    the column's type   null
min, max                                the column's type   null
first, last, arg_min, arg_max           the column's type   null
collect(column)                         list of it          an empty list
======================================  ==================  ========================================

Nulls are skipped, as in SQL. A float sum is the exact sum rounded once (``math.fsum``); infinities
of both signs, or a NaN, give NaN. A mean is the sum, rounded to float64, divided by the count. A
variance is rounded once from its exact value, and so is a standard deviation, which is a number even where
the variance is beyond the doubles. Where these are a float64, decimals count as their nearest float64, and
so do integers beyond 2^53 in a variance. Quantiles are described in `ranks`. -0.0 comes before 0.0, and NaN
after all numbers; only `count_distinct` takes zeros of both signs for one value.

first and last, arg_min and arg_max give `column` of the row with the least or greatest pair (by,
column), where `by` is the event time or the column that is named; a row that has a null in one of them
does not count. So of several rows at the first time the least value is given, and of several at the last
time the greatest.

With a condition, only the rows count for which it is true. A group of which no row does has the results of
no values; a group without any rows does not exist.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streammine.model.contracts import IntArray
from streammine.model.errors import TopologyError
from streammine.model.topology.aggregates import AggregateCall
from streammine.operators.aggregates.definitions import (
    Aggregate,
    BeyondRangeError,
    PartKey,
    Parts,
)
from streammine.operators.aggregates.parts import (
    DecimalSum,
    ExtremePart,
    FloatSquares,
    FloatSum,
    NullCount,
    Part,
    RowCount,
    WholeSum,
)
from streammine.operators.aggregates.ranks import of_values
from streammine.operators.aggregates.value_parts import PairPart, ValuesPart
from streammine.operators.expressions import unknown_column
from streammine.operators.kernels.columns import is_bytes_type, word_count
from streammine.operators.kernels.exact_sum import (
    ExactSquares,
    ExactSum,
    exact_deviation,
    exact_variance,
)

_DECIMAL_LIMIT = 10**38
_EXTREME_OF_PAIR = {"first": "first", "arg_min": "first", "last": "last", "arg_max": "last"}
_BEYOND_ADVICE = "use smaller windows or sum a float64, for example value * 1e0"


def aggregate(
    operator: str, name: str, call: AggregateCall, schema: pa.Schema, time: str | None = None
) -> Aggregate:
    """Output column `name` of `operator`, which holds the results of `call`.

    `time`: the column of the event time, where there is one. Raises TopologyError for an unknown column
    or a type that the function can't take.
    """
    label = f"operator {operator!r}: aggregate {name!r}: {str(call)!r}"
    if call.column is None:
        found = Aggregate(name, pa.int64(), (), lambda _, rows: pa.array(rows))
    else:
        if call.column not in schema.names:
            raise TopologyError(f"{label}: {unknown_column(call.column, schema)}")
        found = _of_column(label, name, call, call.column, schema, time)
    return found if call.where is None else _filtered(found, call.where)


def new_part(key: PartKey, schema: pa.Schema) -> Part:
    """An empty part."""
    if key.kind == "rows":
        return RowCount()
    value_type = schema.field(key.column).type
    if key.kind in ("min", "max"):
        return ExtremePart(key.kind, value_type)
    if key.kind == "values":
        return ValuesPart(value_type)
    if key.by is not None:
        direction = "min" if key.kind == "first" else "max"
        return PairPart(direction, schema.field(key.by).type, value_type)  # type: ignore[arg-type]
    return _PART_TYPES[key.kind]()


_PART_TYPES: dict[str, Callable[[], Part]] = {
    "nulls": NullCount,
    "sum": FloatSum,
    "whole sum": WholeSum,
    "decimal sum": DecimalSum,
    "squares": FloatSquares,
}


def _filtered(whole: Aggregate, where: str) -> Aggregate:
    """The aggregate over the rows for which the condition is true."""
    filtered = {key: key._replace(where=where) for key in whole.parts}
    rows_key = PartKey("rows", "", where=where)

    def finish(parts: Parts, rows: IntArray) -> pa.Array:
        counted = parts[rows_key]
        assert isinstance(counted, RowCount)
        return whole.finish({key: parts[own] for key, own in filtered.items()}, counted.counts())

    return replace(whole, parts=(rows_key, *filtered.values()), finish=finish)


def _of_column(
    label: str, name: str, call: AggregateCall, column: str, schema: pa.Schema, time: str | None
) -> Aggregate:
    function = call.function
    value_type = schema.field(column).type
    if function == "count":
        nulls = PartKey("nulls", column)
        return Aggregate(name, pa.int64(), (nulls,), partial(_count, nulls))
    if function in _EXTREME_OF_PAIR:
        return _of_pair(label, name, call, column, schema, time)
    if function in ("min", "max"):
        _require_order(label, value_type)
        extreme = PartKey(function, column)
        return Aggregate(name, value_type, (extreme,), lambda parts, _: parts[extreme].encode())
    if function in ("count_distinct", "collect") or call.interpolation != "linear":
        _require_order(label, value_type)
        return of_values(name, call, value_type)
    numeric = pa.types.is_integer(value_type) or pa.types.is_floating(value_type)
    if not (numeric or pa.types.is_decimal(value_type)):
        advice = ""
        if function in ("median", "quantile"):
            advice = (
                f"; for one of its values write quantile({column}, {call.share or '0.5'}, lower)"
            )
        raise TopologyError(
            f"{label}: {function} takes numbers; column {column!r} has type {value_type}{advice}"
        )
    if function == "sum" and pa.types.is_decimal(value_type) and value_type.precision > 38:
        raise TopologyError(
            f"{label}: sums have at most 38 digits; column {column!r} has type {value_type}, cast it "
            f"before: cast({column} as decimal(38, {value_type.scale}))"
        )
    if function in ("median", "quantile"):
        return of_values(name, call, value_type)
    return _of_numbers(name, call, column, value_type)


def _of_numbers(name: str, call: AggregateCall, column: str, value_type: pa.DataType) -> Aggregate:
    function = call.function
    nulls = PartKey("nulls", column)
    whole = pa.types.is_integer(value_type)
    decimal = pa.types.is_decimal(value_type)
    if function.startswith(("variance", "stddev")):
        keys = (nulls, PartKey("sum", column), PartKey("squares", column))
        sample = not function.endswith("_population")
        spread = exact_variance if function.startswith("variance") else exact_deviation
        return Aggregate(name, pa.float64(), keys, partial(_spread, keys, spread, sample))
    kind = "whole sum" if whole else "decimal sum" if decimal and function == "sum" else "sum"
    exact = PartKey(kind, column)
    finish: Any
    if function == "mean":
        return Aggregate(name, pa.float64(), (nulls, exact), partial(_mean, nulls, exact))
    if decimal:
        result_type = pa.decimal128(38, value_type.scale)
        finish = partial(_decimal_sum, nulls, exact, result_type, str(call))
        return Aggregate(name, result_type, (nulls, exact), finish)
    if whole:
        finish = partial(_whole_sum, nulls, exact, str(call))
        return Aggregate(name, pa.int64(), (nulls, exact), finish)
    return Aggregate(name, pa.float64(), (nulls, exact), partial(_float_sum, nulls, exact))


def _of_pair(
    label: str, name: str, call: AggregateCall, column: str, schema: pa.Schema, time: str | None
) -> Aggregate:
    by = call.by or time
    another = f"name the column that orders the rows: {call.function}({column}, COLUMN)"
    if by is None:
        raise TopologyError(
            f"{label}: the epochs are of rows, so that there is no event time; {another}"
        )
    if by not in schema.names:
        hint = "" if call.by else f" It is the event time; keep it with map, or {another}"
        raise TopologyError(f"{label}: {unknown_column(by, schema)}{hint}")
    value_type = schema.field(column).type
    _require_order(label, value_type)
    _require_order(label, schema.field(by).type)
    pair = PartKey(_EXTREME_OF_PAIR[call.function], column, by)

    def finish(parts: Parts, rows: IntArray) -> pa.Array:
        part = parts[pair]
        assert isinstance(part, PairPart)
        return part.values()

    return Aggregate(name, value_type, (pair,), finish)


def _require_order(label: str, value_type: pa.DataType) -> None:
    if is_bytes_type(value_type):
        return
    try:
        word_count(value_type)
    except TypeError:
        raise TopologyError(f"{label}: values of type {value_type} have no order") from None


def _valid(parts: Parts, nulls: PartKey, rows: IntArray) -> IntArray:
    """How many values of each group were not null (int64)."""
    part = parts[nulls]
    assert isinstance(part, NullCount)
    return rows - part.counts()


def _count(nulls: PartKey, parts: Parts, rows: IntArray) -> pa.Array:
    return pa.array(_valid(parts, nulls, rows))


def _nullable(values: npt.NDArray[Any], missing: npt.NDArray[np.bool_]) -> pa.Array:
    return pa.array(values, mask=missing if missing.any() else None, from_pandas=False)


def _float_sum(nulls: PartKey, exact: PartKey, parts: Parts, rows: IntArray) -> pa.Array:
    part = parts[exact]
    assert isinstance(part, FloatSum)
    return _nullable(part.sums.rounded(), _valid(parts, nulls, rows) == 0)


def _whole_sum(nulls: PartKey, exact: PartKey, text: str, parts: Parts, rows: IntArray) -> pa.Array:
    part = parts[exact]
    assert isinstance(part, WholeSum)
    words, _ = part.words()
    beyond = words[:, 1] != words[:, 0] >> 63
    if beyond.any():
        group = int(np.flatnonzero(beyond)[0])
        value = part.exact(group)
        raise BeyondRangeError(
            group, f"{text} is {value}, which int64 can't hold; {_BEYOND_ADVICE}"
        )
    return _nullable(words[:, 0], _valid(parts, nulls, rows) == 0)


def _decimal_sum(
    nulls: PartKey,
    exact: PartKey,
    result_type: pa.DataType,
    text: str,
    parts: Parts,
    rows: IntArray,
) -> pa.Array:
    part = parts[exact]
    assert isinstance(part, WholeSum)
    words, beyond = part.words()
    # Only where the upper word is this large can a sum have more than 38 digits.
    upper_limit = _DECIMAL_LIMIT >> 64
    large = (words[:, 1] >= upper_limit) | (words[:, 1] <= -upper_limit)
    for group in np.flatnonzero(large | beyond).tolist():
        value = part.exact(group)
        if abs(value) >= _DECIMAL_LIMIT:
            digits = f"{value} units of its last digit"
            raise BeyondRangeError(
                group, f"{text} is {digits}, more than {result_type}; {_BEYOND_ADVICE}"
            )
    buffers = [None, pa.py_buffer(words)]
    sums = pa.Array.from_buffers(result_type, words.shape[0], buffers)
    missing = _valid(parts, nulls, rows) == 0
    return pc.if_else(pa.array(missing), None, sums) if missing.any() else sums


def _mean(nulls: PartKey, exact: PartKey, parts: Parts, rows: IntArray) -> pa.Array:
    part = parts[exact]
    if isinstance(part, WholeSum):
        words, _ = part.words()
        sums = words[:, 0].astype(np.float64)
        for group in np.flatnonzero(words[:, 1] != words[:, 0] >> 63).tolist():
            sums[group] = float(part.exact(group))
    else:
        assert isinstance(part, FloatSum)
        sums = part.sums.rounded()
    counts = _valid(parts, nulls, rows)
    return _nullable(sums / np.maximum(counts, 1), counts == 0)


def _spread(
    keys: tuple[PartKey, PartKey, PartKey],
    spread: Callable[[IntArray, ExactSum, ExactSquares, bool], npt.NDArray[np.float64]],
    sample: bool,
    parts: Parts,
    rows: IntArray,
) -> pa.Array:
    sums, squares = parts[keys[1]], parts[keys[2]]
    assert isinstance(sums, FloatSum)
    assert isinstance(squares, FloatSum)
    counts = _valid(parts, keys[0], rows)
    return _nullable(spread(counts, sums.sums, squares.sums, sample), counts <= int(sample))
