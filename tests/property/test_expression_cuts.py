"""What an expression gives for a row does not depend on the rows beside it: the same bits wherever batches
are cut."""

from __future__ import annotations

import math
import struct
from typing import Any

import pyarrow as pa
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from streammine.model.errors import TopologyError
from streammine.operators.expressions import Expression, evaluated

SCHEMA = pa.schema([("f", pa.float64()), ("g", pa.float64()), ("i", pa.int64()), ("b", pa.bool_())])
FLOATS = st.none() | st.sampled_from(
    [0.0, -0.0, 1.0, -1.5, 3.0, 970.0, 1e300, 0.1, math.nan, math.inf]
)
ROWS = st.lists(
    st.tuples(FLOATS, FLOATS, st.sampled_from([0, 1, -7, 3, 100, None]), st.none() | st.booleans()),
    min_size=2,
    max_size=8,
)
LITERALS = st.sampled_from(["0", "0.0", "1", "3", "7.5", "-0.0", "100", "(0 - 0.0)"])
NUMBERS = st.sampled_from(["f", "g", "i"]) | LITERALS
CONDITIONS = st.sampled_from(["b", "f < g", "i = 3", "f is null", "g >= 1", "true", "false"])
TWO = st.sampled_from(
    [
        "({} + {})",
        "({} - {})",
        "({} * {})",
        "({} / {})",
        "coalesce({}, {})",
        "greatest({}, {})",
        "least({}, {})",
        "nullif({}, {})",
    ]
)
ONE = st.sampled_from(["-({})", "abs({})", "sqrt({})", "floor({})", "sign({})", "pow({}, 2)"])


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds(str.format, TWO, inner, inner),
        st.builds(str.format, ONE, inner),
        st.builds("(case when {} then {} else {} end)".format, CONDITIONS, inner, inner),
    )


EXPRESSIONS = st.recursive(NUMBERS, _larger, max_leaves=8)


def bits(array: pa.Array) -> list[Any]:
    """Floats by their bits, all NaN alike."""
    return [
        struct.pack("<d", value) if isinstance(value, float) and value == value else str(value)
        for value in array.to_pylist()
    ]


def batch_of(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.record_batch([list(column) for column in columns], schema=SCHEMA)


BOTH = [(0.0, 0.0, 0, True), (1.0, 3.0, 1, False), (0.0, -0.0, 0, True)]


@settings(max_examples=400, deadline=None)
@given(EXPRESSIONS, ROWS, st.integers(1, 3))
@example("f / 3", [(970.0, 0.0, 0, None), (0.1, 0.0, 0, None)], 1)
@example("-(case when b then 0.0 else 1.0 end)", BOTH, 1)
@example("(f - (case when b then 0.0 else 1.0 end))", BOTH, 1)
@example("(0 - (case when b then 0.0 else 1.0 end))", BOTH, 1)
@example("(1 / (case when b then -0.0 else 1.0 end))", BOTH, 1)
@example("(1 / -(case when b then 0.0 else 1.0 end))", BOTH, 1)
def test_values_do_not_depend_on_where_batches_are_cut(
    text: str, rows: list[tuple[Any, ...]], step: int
) -> None:
    try:
        expression = Expression("cut", text, SCHEMA)
    except TopologyError:
        # always null, or an integer to a negative power
        assume(False)
    whole = batch_of(rows)
    expected = bits(expression.evaluate(whole))
    cuts = [whole.slice(start, step) for start in range(0, len(rows), step)]
    assert [each for cut in cuts for each in bits(expression.evaluate(cut))] == expected
    # computed together with others, as several columns of a row are
    other = Expression("other", "f * i", SCHEMA)
    assert [
        each for cut in cuts for each in bits(evaluated([expression, other], cut)[0])
    ] == expected
