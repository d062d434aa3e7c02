"""Expressions: what they compute, what they refuse, and how they say so."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streammine.model.errors import TopologyError, UserCodeError
from streammine.operators import expressions
from streammine.operators.expressions import Expression
from streammine.operators.filter import FilterOperator
from streammine.operators.flat_map import WordSplit
from streammine.operators.map import MapOperator

BATCH = pa.record_batch(
    {
        "value": pa.array([1.5, None, float("nan")]),
        "count": pa.array([2**31 - 1, 1, None], pa.int32()),
        "small": pa.array([1, 2, 250], pa.uint8()),
        "word": pa.array(["abc", "éééé", None]),
        "date": pa.array([10, 20, 30]),
        "price": pa.array([100, 250, None], pa.decimal128(12, 0)),
        "ts": pa.array([0, 1, 2], pa.timestamp("us")),
        "plug id": pa.array([7, 8, 9]),
    }
)


def evaluated(text: str, batch: pa.RecordBatch = BATCH) -> list[Any]:
    expression = Expression("shaped", text, batch.schema)
    array = expression.evaluate(batch)
    assert array.type == expression.type
    return list(array.to_pylist())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("count * 2", [4294967294, 2, None]),
        ("small - 201", [-200, -199, 49]),
        ("length(word) - 5", [-2, -1, None]),
        ("length(word) > 3", [False, True, None]),
        ("octet_length(word)", [3, 8, None]),
        ("case when count > 1 then 'many' else 'one' end", ["many", "one", "one"]),
        ("coalesce(word, '?') || '!'", ["abc!", "éééé!", "?!"]),
        ("upper(word)", ["ABC", "ÉÉÉÉ", None]),
        ("count is null or count in (1, 5)", [False, True, True]),
        ("date + 1", [11, 21, 31]),
        ('"plug id" // 2', [3, 4, 4]),
        ("small // 0", [None, None, None]),
        ("small % 0", [None, None, None]),
        ("small / 0", [math.inf, math.inf, math.inf]),
        ("small between 2 and 9", [False, True, False]),
        ("cast(small as double)", [1.0, 2.0, 250.0]),
        ("try_cast(word as bigint)", [None, None, None]),
        ("extract(year from ts)", [1970, 1970, 1970]),
        ("word like 'a%'", [True, False, None]),
        ("1", [1, 1, 1]),
        ("small * 1.5", [1.5, 3.0, 375.0]),
        ("if(small > 1, 1, 0)", [0, 1, 1]),
    ],
)
def test_expression_computes_per_row(text: str, expected: Sequence[Any]) -> None:
    assert evaluated(text) == list(expected)


def test_int64_arithmetic_wraps_around() -> None:
    batch = pa.record_batch({"n": pa.array([2**63 - 1])})
    assert evaluated("n + 1", batch) == [-(2**63)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cast(n as utinyint) - 2", [-1, 0]),
        ("-cast(n as utinyint)", [-1, -2]),
        ("n::utinyint - 2", [-1, 0]),
        ("1 - n::utinyint * 2", [-1, -3]),
        ("cast(wide as int) + 1", [2**31, 6]),
        ("try_cast(wide as int4) * 2", [2**32 - 2, 10]),
        ("case when n = 1 then cast(127 as tinyint) end + 1", [128, None]),
        ("coalesce(try_cast(wide as smallint), 32767) + 1", [32768, 6]),
        ("cast(cast(n as utinyint) - 2 as varchar)", ["-1", "0"]),
        ("(cast(n as tinyint)) + (cast(127 as tinyint))", [128, 129]),
        ("cast(n as usmallint) + cast(65535 as usmallint)", [65536, 65537]),
    ],
)
def test_what_is_computed_with_a_narrow_cast_does_not_wrap_around(
    text: str, expected: list[Any]
) -> None:
    batch = pa.record_batch({"n": [1, 2], "wide": [2**31 - 1, 5]})
    expression = Expression("sums", text, batch.schema)
    assert expression.type == (pa.int64() if isinstance(expected[0], int) else pa.string())
    assert expression.evaluate(batch).to_pylist() == expected


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("cast(n as tinyint)", pa.int8()),
        ("((cast(n + 1 as tinyint)))", pa.int8()),
        ("n::utinyint", pa.uint8()),
        ("(n + 1)::smallint", pa.int16()),
        ("abs(n)::int", pa.int32()),
        ("cast(cast(n as smallint) as int)", pa.int32()),
        ("n::smallint::int", pa.int32()),
        ("n + n::int", pa.int64()),
    ],
)
def test_a_cast_that_is_the_whole_expression_gives_its_type(text: str, kind: pa.DataType) -> None:
    batch = pa.record_batch({"n": [1, 2]})
    expression = Expression("sums", text, batch.schema)
    assert (expression.type, expression.evaluate(batch).type) == (kind, kind)


@pytest.mark.parametrize(
    ("divisor", "by"),
    [
        ("100", 100.0),
        ("-3", -3.0),
        ("7.0", 7.0),
        ("(50 + 50)", 100.0),
        ("cast(100 as double)", 100.0),
        ("sqrt(2)", math.sqrt(2)),
    ],
)
def test_what_is_divided_by_a_constant_is_the_nearest_quotient(divisor: str, by: float) -> None:
    values = [970.0, 1.0, -7.0, 0.1, 1e300, 5e-324, 123456789.0, 0.0, math.inf, None]
    batch = pa.record_batch({"value": pa.array(values), "whole": pa.array(range(len(values)))})
    expected = [None if value is None else value / by for value in values]
    assert evaluated(f"value / {divisor}", batch) == expected
    assert evaluated(f"1 + value / {divisor} * 2", batch) == [
        None if quotient is None else 1 + quotient * 2 for quotient in expected
    ]
    assert evaluated(f"whole / {divisor}", batch) == [whole / by for whole in range(len(values))]
    assert evaluated(f"whole / {divisor}", batch.slice(0, 0)) == []


def test_constants_are_divided_once() -> None:
    assert evaluated("970 / 100") == [9.7, 9.7, 9.7]
    assert evaluated("date / 10 / 10 - date / -100") == [
        each / 10 / 10 - each / -100 for each in (10, 20, 30)
    ]


def test_a_number_with_a_point_is_a_decimal_beside_a_decimal_column() -> None:
    expression = Expression("shaped", "price * 0.5", BATCH.schema)
    assert pa.types.is_decimal(expression.type)
    assert [float(value or 0) for value in evaluated("price * 0.5")] == [50.0, 125.0, 0.0]


def test_a_plain_column_keeps_its_type_and_buffers() -> None:
    expression = Expression("shaped", "small", BATCH.schema)
    assert expression.type == pa.uint8()
    assert expression.evaluate(BATCH).buffers()[1].address == BATCH["small"].buffers()[1].address


def test_expression_reports_the_columns_it_reads() -> None:
    assert Expression("m", "count + length(word)", BATCH.schema).needs == {"count", "word"}
    assert Expression("m", "'constant'", BATCH.schema).needs == frozenset()


def test_type_is_the_same_for_no_rows_and_for_only_nulls() -> None:
    for text in ("value * 1000", "count // 2", "word || 'x'", "value > 1", "'x'"):
        expression = Expression("m", text, BATCH.schema)
        assert expression.evaluate(BATCH.slice(0, 0)).type == expression.type
        assert expression.evaluate(BATCH.slice(1, 1)).type == expression.type


@pytest.mark.parametrize(
    "text",
    [
        "sum(value)",
        "count(*)",
        "first(value)",
        "random()",
        "now()",
        "current_timestamp",
        "current_date",
        "row_number() over (order by value)",
        "lag(value)",
        "(select 1)",
        "value in (select 1)",
        "value; drop",
        "unnest(word)",
        "read_csv('x')",
        "value::",
        "*",
        "value as",
        "",
        "  ",
        "null",
        "word > 1",
        "value +",
        "value $ 2",
        "value" + " + value" * 2000,
        "(" * 500 + "value" + ")" * 500,
    ],
)
def test_what_is_not_an_elementwise_deterministic_expression_is_refused(text: str) -> None:
    with pytest.raises(TopologyError, match="operator 'shaped': expression"):
        Expression("shaped", text, BATCH.schema)


def test_unknown_column_is_named_with_the_nearest_one_and_all_there_are() -> None:
    with pytest.raises(TopologyError) as caught:
        Expression("shaped", "valeu * 2", BATCH.schema)
    message = str(caught.value)
    for part in ("'shaped'", "'valeu * 2'", "'valeu'", "did you mean 'value'", "plug id"):
        assert part in message


def test_unknown_function_is_named_with_the_nearest_one() -> None:
    with pytest.raises(TopologyError, match=r"function 'lenght'.*did you mean 'length'"):
        Expression("shaped", "lenght(word)", BATCH.schema)


def test_a_cast_that_fails_names_operator_and_expression() -> None:
    expression = Expression("shaped", "cast(word as bigint)", BATCH.schema)
    with pytest.raises(UserCodeError, match=r"'shaped': expression 'cast.word as bigint.' failed"):
        expression.evaluate(BATCH)


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 2**63 // 1_000_000 + 1])
def test_a_time_beyond_64_bits_of_microseconds_fails(number: int) -> None:
    batch = pa.record_batch({"n": [None, number]}, schema=pa.schema([("n", pa.int64())]))
    for unit in ("s", "ms")[: 2 if abs(number) > 2**60 else 1]:
        with pytest.raises(UserCodeError, match=str(number)[:12]):
            evaluated(f"from_epoch_{unit}(n)", batch)
    latest = 2**63 // 1_000_000 - 1
    times = evaluated(
        "epoch_s(from_epoch_s(n))", batch.set_column(0, "n", pa.array([latest, -latest]))
    )
    assert times == [latest, -latest]


@pytest.mark.parametrize(
    ("text", "operand", "kind"),
    [
        ("n and 1", "n", "int64"),
        ("not n", "n", "int64"),
        ("b and (n or b)", "n", "int64"),
        ("b or not word", "word", "string"),
        ("length(word) > 0 and v", "v", "double"),
        ("if(n and b, 1, 2)", "n", "int64"),
        ("case when n and b then 1 end", "n", "int64"),
        ("n between (case when b and n then 1 else 2 end) and 3", "n", "int64"),
        ("case when b then case when not n then 1 end end", "n", "int64"),
        ("not case when b then n end", "case when b then n end", "int64"),
        ("cast(b and n + 1 as int)", "n [+] 1", "int64"),
        ("coalesce(b, b and n)", "n", "int64"),
    ],
)
def test_only_booleans_are_combined_logically(text: str, operand: str, kind: str) -> None:
    schema = pa.schema(
        [("n", pa.int64()), ("b", pa.bool_()), ("v", pa.float64()), ("word", pa.string())]
    )
    expected = f"'and', 'or' and 'not' are of booleans, and {operand} is of type {kind}; compare it"
    with pytest.raises(TopologyError, match=expected):
        Expression("shaped", text, schema)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n between 1 and 3 and b", [True, False, None]),
        ("n not between 2 and 3 or not b", [True, True, None]),
        ("not not b or null", [True, None, None]),
        ("word like 'a%' and word not in ('b', 'c')", [True, False, None]),
        ("not n = 1 and not word is null", [False, True, False]),
        ("(n & 3) = 1 and b", [True, False, None]),
        ("case when b and not b then 1 when b or n = 2 then 2 end", [2, 2, None]),
        ("extract(year from date '2024-01-01') = 2024 and b", [True, False, None]),
        ("coalesce(b, false) or n is null and (b is null or b)", [True, False, True]),
    ],
)
def test_booleans_are_combined_whatever_they_are_made_of(text: str, expected: list[Any]) -> None:
    batch = pa.record_batch(
        {"n": [1, 2, None], "b": [True, False, None], "word": ["ab", "b", None]}
    )
    assert evaluated(text, batch) == expected


def test_map_gives_exactly_its_columns() -> None:
    operator = MapOperator("m", {"plug": "small", "watts": "value * 1000"}, BATCH.schema)
    derived = operator.apply(BATCH)
    assert operator.output == pa.schema([("plug", pa.uint8()), ("watts", pa.float64())])
    assert derived.batch.schema == operator.output
    assert derived.parents is None
    assert operator.needs == frozenset({"small", "value"})


def test_map_refuses_names_of_the_engine() -> None:
    with pytest.raises(TopologyError, match="__row"):
        MapOperator("m", {"__row": "small"}, BATCH.schema)


def test_filter_counts_null_as_false_and_tells_parents() -> None:
    derived = FilterOperator("f", "value > 1", BATCH.schema).apply(BATCH)
    assert derived.parents is not None
    assert derived.parents.tolist() == [0, 2]
    assert derived.batch["small"].to_pylist() == [1, 250]


def test_filter_hands_a_batch_on_when_all_rows_stay() -> None:
    derived = FilterOperator("f", "small > 0", BATCH.schema).apply(BATCH)
    assert derived.batch is BATCH
    assert derived.parents is None


def test_filter_of_no_row_gives_an_empty_batch() -> None:
    derived = FilterOperator("f", "false", BATCH.schema).apply(BATCH)
    assert derived.batch.num_rows == 0
    assert derived.batch.schema == BATCH.schema


def test_filter_needs_a_boolean() -> None:
    with pytest.raises(TopologyError, match="gives int64; a condition gives a boolean"):
        FilterOperator("f", "count + 1", BATCH.schema)


def test_words_of_a_line_with_kept_columns_and_ascending_parents() -> None:
    batch = pa.record_batch(
        {"line": pa.array(["To be  or", None, "", "BE"]), "n": pa.array([1, 2, 3, 4])}
    )
    operator = WordSplit("w", batch.schema, split="line", into="word", lower=True, keep=["n"])
    derived = operator.apply(batch)
    assert operator.one_to_many
    assert operator.needs == frozenset({"line", "n"})
    assert derived.batch.to_pydict() == {"word": ["to", "be", "or", "be"], "n": [1, 1, 1, 4]}
    assert derived.parents is not None
    assert np.array_equal(derived.parents, [0, 0, 0, 3])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"split": "lien"}, "did you mean 'line'"),
        ({"split": "n"}, "has type int64; it must be a text column"),
        ({"split": "line", "into": "n", "keep": ["n"]}, "two columns of one name"),
    ],
)
def test_flat_map_refuses_what_can_not_be_split(settings: dict[str, Any], message: str) -> None:
    schema = pa.schema([("line", pa.string()), ("n", pa.int64())])
    with pytest.raises(TopologyError, match=message):
        WordSplit("w", schema, **settings)


@pytest.mark.parametrize(
    "text",
    [
        "x / 3",
        "n / 10",
        "x / -7.0 / 3 * 2",
        "x / (1 + 2)",
        "x / cast(3 as double)",
        "x / (n / (x / 3))",
        "cast(x as real) / 3",
        "x / case when y > 0 then 3 else 7 end",
        "x / coalesce(y, 3)",
        "x / 2::double + 1",
        "pow(x, 2)",
        "pow(x, n % 5)",
        "pow(x / 3, case when y > 0 then 2.0 else 0.5 end) / 3",
        "div(x, 0.7) + mod(x, 0.7)",
        "log(abs(x), case when y > 0 then 2 else 3 end)",
    ],
)
def test_quotients_and_powers_are_the_same_wherever_a_batch_is_cut(text: str) -> None:
    random = np.random.default_rng(0)
    batch = pa.record_batch(
        {
            "x": random.standard_normal(200) * 100,
            "y": random.standard_normal(200),
            "n": random.integers(-1000, 1000, 200),
        }
    )
    expression = Expression("cut", text, batch.schema)
    whole = expression.evaluate(batch)
    for rows in (1, 2, 3):
        parts = [expression.evaluate(batch.slice(start, rows)) for start in range(0, 200, rows)]
        assert str(pa.concat_arrays(parts).to_pylist()) == str(whole.to_pylist()), rows


@pytest.mark.parametrize(
    "text", ["-x", "0 - x", "0 + x", "x + 0", "-(x) * 2", "-x % 3", "round(-x, 1)"]
)
def test_zeros_have_the_same_sign_wherever_a_batch_is_cut(text: str) -> None:
    batch = pa.record_batch({"x": [0.0, -0.0, 1.0, -0.0, 0.0]})
    expression = Expression("cut", text, batch.schema)
    parts = [expression.evaluate(batch.slice(row, 1)) for row in range(batch.num_rows)]
    assert str(pa.concat_arrays(parts).to_pylist()) == str(expression.evaluate(batch).to_pylist())
    together = [expression, Expression("cut", "x * 2", batch.schema)]
    for row, part in enumerate(parts):
        found, _ = expressions.evaluated(together, batch.slice(row, 1))
        assert str(found) == str(part)


def test_a_value_that_can_t_be_had_is_told_of_several_expressions_too() -> None:
    late = pa.record_batch({"ts": pa.array([2**63 - 1], pa.timestamp("us"))})
    text = "ts + interval '100 years'"
    together = [Expression("later", each, late.schema) for each in ("ts > ts", text)]
    with pytest.raises(UserCodeError, match=re.escape(f"operator 'later': expression {text!r}")):
        expressions.evaluated(together, late)


TIMED = pa.schema([("ts", pa.timestamp("us")), ("day", pa.date32()), ("n", pa.int64())])


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("ts > 1700000000", "timestamp '2024-02-29 12:30:00'"),
        ("1700000000 <= ts", "epoch_s"),
        ("n > 1 and not ts = n", "the number n"),
        ("case when day <> (5) then 1 end", "date '2024-02-29'"),
        ("ts not between 5 and 6", "the number 5"),
        ("n in (1, 2) or ts in (1, 2)", "column 'ts' has type timestamp"),
        ("ts > -5", "the number 5"),
        ("-5 < ts", "the number 5"),
        ("(ts) > 5 or n = 1", "the number 5"),
        ("((ts)) > (+5)", "the number 5"),
    ],
)
def test_a_time_is_not_compared_with_a_number(text: str, right: str) -> None:
    with pytest.raises(TopologyError, match=re.escape(right)):
        Expression("late", text, TIMED)


@pytest.mark.parametrize(
    "text",
    [
        "ts > timestamp '2024-02-29 12:30:00'",
        "ts + interval '1 hour' > ts and n > 5",
        "epoch_s(ts) > 5",
        "day between date '2024-02-29' and date '2024-03-01'",
        "n - 5 < n",
        "n = (ts)::bigint",
        "(ts)::bigint > 5 and n in (1, 2)",
        "epoch_s((ts)) > (5)",
        "n - 5 = epoch_s(ts)",
        "abs(n) > -5",
        "ts + interval '1 hour' * 2 > ts",
        "ts in (",
    ],
)
def test_what_only_looks_like_that_is_compared(text: str) -> None:
    if text.endswith("("):
        with pytest.raises(TopologyError, match=r"bracket|expression"):
            Expression("late", text, TIMED)
    else:
        assert Expression("late", text, TIMED).type == pa.bool_()


def test_a_quotient_is_the_nearest_float() -> None:
    values = np.random.default_rng(1).standard_normal(500)
    batch = pa.record_batch({"x": values})
    for text, right in {"x / 3": values / 3, "x / (60 * 60)": values / 3600}.items():
        found = Expression("q", text, batch.schema).evaluate(batch)
        assert (found.to_numpy() == right).all(), text


def test_what_has_no_divisor_is_told_in_its_own_words() -> None:
    with pytest.raises(TopologyError, match="unable to parse '\"x\" /' as Expr"):
        Expression("q", "x /", pa.schema([("x", pa.float64())]))
