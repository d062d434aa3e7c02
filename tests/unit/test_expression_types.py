"""Types that an expression does not mix, and what an error tells of the row that it stands in."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from streammine.model.errors import TopologyError, UserCodeError
from streammine.operators.expressions import Expression
from streammine.operators.expressions.mixtures import unwanted_mixture

BATCH = pa.record_batch(
    {
        "n": pa.array([1, None, -7]),
        "x": pa.array([1.5, 0.0, None]),
        "s": pa.array(["a, b", "7", None]),
        "b": pa.array([True, None, False]),
        "d": pa.array([dt.date(2024, 2, 29), None, dt.date(1969, 1, 1)]),
        "t": pa.array([dt.datetime(2024, 2, 29, 12), None, None], pa.timestamp("us")),
        "m": pa.array([Decimal("1.50"), None, Decimal("0.00")], pa.decimal128(10, 2)),
    }
)
LATE = pa.record_batch({"ts": pa.array([0, 2**63 - 1], pa.timestamp("us")), "s": ["1", "x"]})


def evaluated(text: str, batch: pa.RecordBatch = BATCH) -> list[Any]:
    return list(Expression("shaped", text, batch.schema).evaluate(batch).to_pylist())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("d + interval '1 hour'", "hours and what is shorter can't be added to a date"),
        ("d - interval '90 minutes'", "hours and what is shorter"),
        ("d + interval '1 month 2 seconds'", "hours and what is shorter"),
        ("d + interval '24 hours'", "hours and what is shorter"),
        ("date '2024-01-01' + interval '1 day' + interval '1 hour'", "hours and what is shorter"),
        ("(DATE '2024-01-01') - interval '5 ms'", "hours and what is shorter"),
        ("date_trunc('day', t) > d + interval '1 us'", "hours and what is shorter"),
        ("interval '1 hour' + d", "an interval stands behind it"),
        ("d + (t - t)", "a duration that is computed can't be added to a date"),
        (
            "case when b then n else s end",
            "case and if can't choose between values of int64 and string",
        ),
        ("case n when 1 then 'x' else 2 end", "values of int64 and string"),
        ("case when b then 1 when n > 0 then x else t end", "values of double and timestamp"),
        ("n + length(case when b then s else true end)", "values of bool and string"),
        ("if(b, n, s)", "values of int64 and string"),
        ("coalesce(n, s)", "coalesce and ifnull can't choose between values of int64 and string"),
        ("coalesce(n, 2, b)", "values of bool and int64"),
        ("ifnull(d, s)", "values of date32"),
        ("greatest(b, 1)", "greatest can't choose between values of bool and int64"),
        ("least(n, s)", "least can't choose"),
        ("s + s", "write a || b to join them"),
        ("'1' * 2", "texts can't be computed with"),
        ("left(s, 1) - 1", "texts can't be computed with"),
        ("cast(n as varchar) + cast(n as varchar)", "texts can't be computed with"),
        ("strpos(s, s + 'x')", "texts can't be computed with"),
        ("-s", "texts can't be computed with"),
        ("b + 1", "booleans can't be computed with"),
        ("(n = 1) % 2", "booleans can't be computed with"),
        ("true // b", "booleans can't be computed with"),
        ("-b", "booleans can't be computed with"),
        ("n + 9223372036854775808", "is no int64: the largest is 9223372036854775807"),
        ("n << 1", "write x * pow(2, y) for <<"),
        ("n >> 1", "write x // pow(2, y) for >>"),
        ("s ~ '('", "not a pattern: unclosed group"),
        ("regexp_replace(s, '[', 'x')", "not a pattern: unclosed character class"),
    ],
)
def test_what_would_mix_types_without_a_word_is_refused(text: str, message: str) -> None:
    with pytest.raises(TopologyError) as refused:
        Expression("shaped", text, BATCH.schema)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("d + interval '1 month'", [dt.date(2024, 3, 29), None, dt.date(1969, 2, 1)]),
        ("d - interval '2 weeks'", [dt.date(2024, 2, 15), None, dt.date(1968, 12, 18)]),
        ("date '2024-02-29' + interval '1 year'", [dt.date(2025, 2, 28)] * 3),
        (
            "cast(d as timestamp) + interval '1 hour'",
            [dt.datetime(2024, 2, 29, 1), None, dt.datetime(1969, 1, 1, 1)],
        ),
        ("t + interval '90 minutes'", [dt.datetime(2024, 2, 29, 13, 30), None, None]),
        ("t - t", [dt.timedelta(), None, None]),
        ("coalesce(t, d)", [dt.datetime(2024, 2, 29, 12), None, dt.datetime(1969, 1, 1)]),
        ("case when b then n else x end", [1.0, 0.0, None]),
        ("case when b then null else 'x' end", [None, "x", "x"]),
        ("case when n = 1 then 'one' end", ["one", None, None]),
        ("coalesce(n, x, 3)", [1.0, 0.0, -7.0]),
        ("nullif(n, 1)", [None, None, -7]),
        ("s || n || 'x'", ["a, b1x", None, None]),
        ("concat(s, n)", ["a, b1", "7", "-7"]),
        ("concat(s, n, '!', b)", ["a, b1!true", "7!", "-7!false"]),
        ("coalesce(n, n, n, 5)", [1, 5, -7]),
        ("cast(b as bigint) + 1", [2, None, 1]),
        (
            "m + 99999999999999999999",
            [Decimal("100000000000000000000.50"), None, Decimal(10**20 - 1)],
        ),
        ("-9223372036854775807 - 1", [-(2**63)] * 3),
    ],
)
def test_what_is_of_one_kind_is_computed(text: str, expected: list[Any]) -> None:
    assert evaluated(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cast(s as bigint)", "int64 can't hold \"a, b\" of type text, where s is 'a, b'"),
        ("cast(n * 300 as tinyint)", "int8 can't hold 300 of type int64, where n is 1"),
        ("cast(n as ubigint)", "uint64 can't hold -7 of type int64, where n is -7"),
        ("x // 0", "int64 can't hold inf of type float64, where x is 1.5"),
        ("m % m", "where m is 0.00"),
        ("strptime(s || n, '%Y')", "where s is 'a, b', n is 1"),
    ],
)
def test_a_failure_tells_the_first_row_that_fails(text: str, message: str) -> None:
    with pytest.raises(UserCodeError) as failed:
        evaluated(text)
    assert message in str(failed.value)


@pytest.mark.parametrize("bad", [0, 1, 499, 998, 999])
def test_the_row_is_found_in_a_batch_of_any_length(bad: int) -> None:
    texts = [str(row) for row in range(1000)]
    texts[bad] = "é" * 100
    for batch in (pa.record_batch({"s": texts}), pa.record_batch({"s": [*texts, "later"]})):
        with pytest.raises(UserCodeError) as failed:
            evaluated("cast(s as bigint)", batch)
        assert str(failed.value).endswith(f"where s is '{'é' * 59}…; try_cast gives null there")


def test_types_are_asked_for_only_where_they_do_not_follow() -> None:
    """Polars takes long for the type of a long sum."""
    asked: list[str] = []

    def type_of(part: pl.Expr) -> pl.DataType:
        asked.append(str(part))
        return pl.Int64()

    chosen = " + ".join(["n", "x * 2"] * 100)
    assert unwanted_mixture(pl.sql_expr(f"coalesce({chosen}, n)"), type_of) == ""
    assert sorted(asked) == ['col("n")', 'col("x")', "dyn int: 2"]
    asked.clear()
    assert unwanted_mixture(pl.sql_expr(" || ".join(["s"] * 50)), type_of) == ""
    assert asked == ['col("s")']


@pytest.mark.parametrize("operator", [" and ", " or "])
def test_chains_of_conditions_are_booleans_without_being_asked_for(operator: str) -> None:
    asked: list[str] = []

    def type_of(part: pl.Expr) -> pl.DataType:
        asked.append(str(part))
        return pl.Boolean() if " > " in asked[-1] else pl.Int64()

    chain = operator.join(f"n > {each % 3}" for each in range(50))
    assert unwanted_mixture(pl.sql_expr(chain), type_of) == ""
    assert len(asked) == len({*asked}) <= 7


@pytest.mark.parametrize(
    ("operand", "operator"),
    [("s", " || "), ("n", " + "), ("n", " - "), ("b", " and "), ("n", "::")],
)
def test_an_expression_has_at_most_so_many_operations(operand: str, operator: str) -> None:
    chain = [operand] + ["bigint" if operator == "::" else operand] * 200
    assert len(evaluated(operator.join(chain))) == 3
    with pytest.raises(TopologyError, match="it has 201 operations; 200 are the limit"):
        evaluated(operator.join([*chain, chain[-1]]))


def test_a_time_that_python_does_not_have_is_told_of() -> None:
    with pytest.raises(
        UserCodeError, match=r'int64 can\'t hold "x" of type text, where ts is .+, s is \'x\''
    ):
        evaluated("epoch_us(ts) + cast(s as bigint)", LATE)
