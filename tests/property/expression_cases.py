"""Columns of hostile values, and one way to hold many expressions against plain Python at once."""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from streammine.operators.expressions import Expression
from tests.property.operator_trials import batch_of

INT64 = (-(2**63), 2**63 - 1)
EDGES = [*INT64, INT64[0] + 1, 2**53 + 1, -(2**31), 2**31, 255, -1, 0, 1, 2, 3]
SPECIAL = [0.0, -0.0, 5e-324, 1.7e308, -1.7e308, math.inf, -math.inf, math.nan]
HALVES = [0.5, -0.5, 1.5, 2.5, -2.5, 1.0, -3.0, 9.5e18, 2.0**62, -(2.0**63)]
LETTERS = "abAB12 -_'%\t\n\0\x1f\x85\xa0éÉßΣ€Ж\u3000😀"

TIMES = st.datetimes(dt.datetime(1, 1, 8), dt.datetime(9999, 12, 20))
NEAR = st.datetimes(dt.datetime(1969, 12, 30), dt.datetime(1970, 1, 5))
FLOATS = st.sampled_from([*SPECIAL, *HALVES]) | st.floats()
INTEGERS = st.sampled_from(EDGES) | st.integers(*INT64)
TEXTS = st.text(LETTERS, max_size=8)

COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "i": (pa.int64(), INTEGERS),
    "j": (pa.int64(), INTEGERS),
    "k": (pa.int64(), st.integers(0, 6)),
    "m": (pa.int64(), st.integers(1, 6)),
    "n": (pa.int64(), st.integers(-(10**9), 10**9)),
    "q": (pa.int64(), st.integers(-6, 10) | st.sampled_from(EDGES)),
    "f": (pa.float64(), FLOATS),
    "g": (pa.float64(), FLOATS),
    "x": (pa.float64(), st.floats(-1e6, 1e6) | st.sampled_from(SPECIAL)),
    "y": (pa.float64(), st.floats(-30, 30) | st.sampled_from([0.0, -0.0])),
    "u": (pa.bool_(), st.booleans()),
    "v": (pa.bool_(), st.booleans()),
    "s": (pa.string(), TEXTS),
    "t": (pa.string(), TEXTS),
    "p": (pa.string(), st.text("abÉ ", max_size=2)),
    "w": (pa.string(), st.text("ab- ", max_size=8)),
    "digits": (pa.string(), st.from_regex(r"-?[0-9]{1,20}|[a .]{0,2}", fullmatch=True)),
    "a": (pa.timestamp("us"), TIMES | NEAR),
    "b": (pa.timestamp("us"), TIMES | NEAR),
    "d": (pa.date32(), TIMES.map(dt.datetime.date)),
    "h": (pa.list_(pa.int64()), st.lists(st.none() | st.sampled_from(EDGES), max_size=4)),
}


@dataclass(frozen=True)
class Case:
    """`compute` gets the values of the `columns`: not where one is null, which gives null, but `with_nulls`.

    `ulps`: so many floats the result may lie beside that of Python's library.
    """

    compute: Callable[..., Any]
    columns: Sequence[str]
    with_nulls: bool = False
    ulps: int = 0

    def of(self, row: Sequence[Any]) -> Any:
        if None in row and not self.with_nulls:
            return None
        found = self.compute(*row)
        # a computed -0.0 is 0.0
        return found + 0.0 if isinstance(found, float) else found


@cache
def expression(text: str, columns: tuple[str, ...]) -> tuple[Expression, pa.Schema]:
    schema = pa.schema([(name, COLUMNS[name][0]) for name in columns])
    return Expression("e", text, schema), schema


Rows = list[dict[str, Any]]


def rows_for(cases: Mapping[str, Case]) -> st.SearchStrategy[Rows]:
    """Rows with all columns that the cases read: drawing them takes longer than computing all cases."""
    names = sorted({name for case in cases.values() for name in case.columns})
    columns = {name: st.none() | COLUMNS[name][1] for name in names}
    return st.lists(st.fixed_dictionaries(columns), max_size=5)


def assert_give(cases: Mapping[str, Case], rows: Rows) -> None:
    """Each expression gives for each row what Python gives, with its type and the bits of its floats."""
    for text, case in cases.items():
        computed, schema = expression(text, tuple(case.columns))
        values = [tuple(row[name] for name in case.columns) for row in rows]
        found = computed.evaluate(batch_of(schema, values)).to_pylist()
        for row, value in zip(values, found, strict=True):
            wanted = case.of(row)
            assert _same(value, wanted, case.ulps), f"{text} of {row}: {value!r}, not {wanted!r}"


def _same(left: Any, right: Any, ulps: int) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        if ulps and math.isfinite(left) and math.isfinite(right):
            return abs(left - right) <= ulps * math.ulp(right)
        return struct.pack("<d", left) == struct.pack("<d", right)
    return type(left) is type(right) and bool(left == right)
