"""The aggregate functions: what each takes, keeps and gives.

==================================  ==================  ============================================
function                            result              of no values
==================================  ==================  ============================================
count()                             int64, rows         a group without rows does not exist
count(column)                       int64, non-null     0
sum(integer)                        int64, or an error  null
sum(float)                          float64, exact      null
sum(decimal(p, s))                  decimal(38, s)      null
mean(number)                        float64             null
variance, variance_population       float64             null; the first also of a single value
min, max                            the column's type   null
==================================  ==================  ============================================

Nulls are skipped, as in SQL. A float sum is the exact sum rounded once (``math.fsum``); infinities
of both signs, or a NaN, give NaN. A mean is the sum, rounded to float64, divided by the count. A
variance is rounded once from its exact value. Where a result is a float64, decimals count as their
nearest float64, and so do integers beyond 2^53 in a variance. -0.0 comes before 0.0, and NaN after
all numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streammine.model.contracts import IntArray
from streammine.model.errors import TopologyError
from streammine.model.topology.aggregates import AggregateCall
from streammine.operators.aggregates.parts import (
    DecimalSum,
    ExtremePart,
    FloatSquares,
    FloatSum,
    NullCount,
    Part,
    WholeSum,
)
from streammine.operators.expressions import unknown_column
from streammine.operators.kernels.exact_sum import exact_variance

_DECIMAL_LIMIT = 10**38


class PartKey(NamedTuple):
    """Which part: "nulls", "sum", "squares", "min" and the like, of which column."""

    kind: str
    column: str


Parts = Mapping[PartKey, Part]


@dataclass(frozen=True)
class Aggregate:
    """One output column. `finish(parts, rows)` gives its values for all groups (rows: int64)."""

    name: str
    type: pa.DataType
    parts: tuple[PartKey, ...]
    finish: Callable[[Parts, IntArray], pa.Array]


class BeyondRangeError(ArithmeticError):
    """The sum of `group` is a number that its result type can't hold."""

    def __init__(self, group: int, text: str) -> None:
        super().__init__(text)
        self.group = group


def aggregate(operator: str, name: str, call: AggregateCall, schema: pa.Schema) -> Aggregate:
    """Output column `name` of `operator`, which holds the results of `call`.

    Raises TopologyError for an unknown column or a type that the function can't take.
    """
    label = f"operator {operator!r}: aggregate {name!r}: {str(call)!r}"
    if call.column is None:
        return Aggregate(name, pa.int64(), (), lambda _, rows: pa.array(rows))
    if call.column not in schema.names:
        raise TopologyError(f"{label}: {unknown_column(call.column, schema)}")
    value_type = schema.field(call.column).type
    return _of_column(label, name, call.function, call.column, value_type)


def new_part(key: PartKey, schema: pa.Schema) -> Part:
    """An empty part."""
    if key.kind in ("min", "max"):
        return ExtremePart(key.kind, schema.field(key.column).type)
    return _PART_TYPES[key.kind]()


_PART_TYPES: dict[str, Callable[[], Part]] = {
    "nulls": NullCount,
    "sum": FloatSum,
    "whole sum": WholeSum,
    "decimal sum": DecimalSum,
    "squares": FloatSquares,
}


def _of_column(
    label: str, name: str, function: str, column: str, value_type: pa.DataType
) -> Aggregate:
    nulls = PartKey("nulls", column)
    if function == "count":
        return Aggregate(name, pa.int64(), (nulls,), partial(_count, nulls))
    if function in ("min", "max"):
        types = pa.types
        if types.is_nested(value_type) or types.is_dictionary(value_type):
            raise TopologyError(f"{label}: values of type {value_type} have no order")
        extreme = PartKey(function, column)
        return Aggregate(name, value_type, (extreme,), lambda parts, _: parts[extreme].encode())
    whole = pa.types.is_integer(value_type)
    decimal = pa.types.is_decimal(value_type)
    if not (whole or decimal or pa.types.is_floating(value_type)):
        raise TopologyError(
            f"{label}: {function} takes numbers; column {column!r} has type {value_type}"
        )
    if function.startswith("variance"):
        keys = (nulls, PartKey("sum", column), PartKey("squares", column))
        sample = function == "variance"
        return Aggregate(name, pa.float64(), keys, partial(_variance, keys, sample))
    kind = "whole sum" if whole else "decimal sum" if decimal and function == "sum" else "sum"
    exact = PartKey(kind, column)
    finish: Any
    if function == "mean":
        return Aggregate(name, pa.float64(), (nulls, exact), partial(_mean, nulls, exact))
    if decimal:
        result_type = pa.decimal128(38, value_type.scale)
        finish = partial(_decimal_sum, nulls, exact, result_type, f"{function}({column})")
        return Aggregate(name, result_type, (nulls, exact), finish)
    if whole:
        finish = partial(_whole_sum, nulls, exact, f"{function}({column})")
        return Aggregate(name, pa.int64(), (nulls, exact), finish)
    return Aggregate(name, pa.float64(), (nulls, exact), partial(_float_sum, nulls, exact))


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
        raise BeyondRangeError(group, f"{text} is {value}, which int64 can't hold")
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
            raise BeyondRangeError(group, f"{text} is {digits}, more than {result_type}")
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


def _variance(
    keys: tuple[PartKey, PartKey, PartKey], sample: bool, parts: Parts, rows: IntArray
) -> pa.Array:
    sums, squares = parts[keys[1]], parts[keys[2]]
    assert isinstance(sums, FloatSum)
    assert isinstance(squares, FloatSum)
    counts = _valid(parts, keys[0], rows)
    values = exact_variance(counts, sums.sums, squares.sums, sample)
    return _nullable(values, counts <= int(sample))
