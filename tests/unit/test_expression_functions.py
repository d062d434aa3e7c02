"""Dates, times, texts, lists and casts in expressions: what they give, and what is refused before a start."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from streammine.model.errors import TopologyError, UserCodeError
from streammine.operators.expressions import FUNCTIONS, Expression

ROOT = Path(__file__).parents[2]
UTC = dt.UTC
LEAP = dt.datetime(2024, 2, 29, 12, 34, 56, 789123)
BEFORE = dt.datetime(1969, 12, 31, 23, 59, 59, 999999)
BATCH = pa.record_batch(
    {
        "i": pa.array([5, -7, None]),
        "u64": pa.array([2**64 - 1, 1, None], pa.uint64()),
        "f": pa.array([1.5, math.nan, None]),
        "b": pa.array([True, False, None]),
        "s": pa.array(["abcab", "Éa b", None]),
        "t": pa.array(["2024-02-29 12:34:56.5", "2024-02-29T00:00:00Z", None]),
        "ts": pa.array([LEAP, BEFORE, None], pa.timestamp("us")),
        "tz": pa.array([LEAP.replace(tzinfo=UTC), None, None], pa.timestamp("ms", "UTC")),
        "d": pa.array([dt.date(2024, 2, 29), dt.date(1969, 12, 31), None]),
        "e": pa.array([dt.date(2024, 3, 4), dt.date(1970, 1, 1), None]),
        "bin": pa.array([b"\xff", b"", None]),
        "l": pa.array([[1, 2], [], None], pa.list_(pa.int64())),
    }
)


def evaluated(text: str) -> list[Any]:
    expression = Expression("shaped", text, BATCH.schema)
    array = expression.evaluate(BATCH)
    assert array.type == expression.type
    # one row at a time and none at all give the same
    single = [expression.evaluate(BATCH.slice(row, 1)) for row in range(BATCH.num_rows)]
    assert str(pa.concat_arrays(single).to_pylist()) == str(array.to_pylist())
    assert expression.evaluate(BATCH.slice(0, 0)).type == expression.type
    return list(array.to_pylist())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("date_trunc('hour', ts)", [dt.datetime(2024, 2, 29, 12), dt.datetime(1969, 12, 31, 23), None]),
        ("date_trunc('WEEK', d)", [dt.date(2024, 2, 26), dt.date(1969, 12, 29), None]),
        ("date_trunc('quarter', d)", [dt.date(2024, 1, 1), dt.date(1969, 10, 1), None]),
        ("date_diff('day', d, e)", [4, 1, None]),
        ("date_diff('week', d, e)", [1, 0, None]),
        ("date_diff('month', d, e)", [1, 1, None]),
        ("date_diff('year', e, d)", [0, -1, None]),
        ("date_diff('quarter', d, e)", [0, 1, None]),
        ("date_diff('hour', d, ts)", [12, 23, None]),
        ("date_diff('second', ts, date_trunc('minute', ts))", [-56, -59, None]),
        ("epoch_s(ts)", [1709210096, -1, None]),
        ("epoch_ms(tz)", [1709210096789, None, None]),
        ("epoch_us(d)", [1709164800000000, -86400000000, None]),
        ("from_epoch_s(i)", [dt.datetime(1970, 1, 1, 0, 0, 5), dt.datetime(1969, 12, 31, 23, 59, 53), None]),
        ("from_epoch_us(epoch_us(ts)) = ts", [True, True, None]),
        ("strftime(ts, '%H:%M:%S%.f')", ["12:34:56.789123", "23:59:59.999999", None]),
        ("strftime(d, '%Y %j %a %b %V')", ["2024 060 Thu Feb 09", "1969 365 Wed Dec 01", None]),
        ("strptime(strftime(ts, '%d.%m.%Y'), '%d.%m.%Y') = date_trunc('day', ts)", [True, True, None]),
        ("try_strptime(s, '%Y')", [None, None, None]),
        ("cast(t as timestamp)", [LEAP.replace(microsecond=500_000), dt.datetime(2024, 2, 29), None]),
        ("try_cast(s || t as timestamp)", [None, None, None]),
        ("try_cast(left(t, 10) as date) = d", [True, False, None]),
        ("cast('2024-02-29' as date) = d", [True, False, None]),
        ("cast(tz as timestamp) < timestamp '2024-03-01 00:00:00'", [True, None, None]),
        ("ts + interval '1 day' > ts", [True, True, None]),
        ("extract(isodow from d) * 100 + extract(week from d)", [409, 301, None]),
        ("strpos(s, 'b')", [2, 4, None]),
        ("strpos(s, '')", [1, 1, None]),
        ("position('z' in s)", [0, 0, None]),
        ("position('b' in upper(s) || s)", [7, 8, None]),
        ("contains(s, 'b') and not contains(s, 'c')", [False, True, None]),
        ("contains(s, left(s, 2))", [True, True, None]),
        ("lpad(s, 2) || rpad(s, 6, '*')", ["ababcab*", "ÉaÉa b**", None]),
        ("regexp_replace(s, '([ab])b', '<$1>')", ["<a>c<a>", "Éa b", None]),
        ("regexp_extract(s, '(.)b', 1)", ["a", " ", None]),
        ("regexp_extract(s, 'c.')", ["ca", None, None]),
        ("regexp_like(s, '^É')", [False, True, None]),
        ("s ~ '^a' or s !~* 'A'", [True, False, None]),
        ("split_part(s, 'b', 2)", ["ca", "", None]),
        ("concat(s, '-', i)", ["abcab-5", "Éa b--7", "-"]),
        ("trim(both 'a' from s)", ["bcab", "Éa b", None]),
        ("array_length(l) - 3", [-1, -3, None]),
        ("array_contains(l, 2)", [True, False, None]),
        ("array_contains(l, null)", [None, None, None]),
        ("right(s, 99)", ["abcab", "Éa b", None]),
        ("left(s, null)", [None, None, None]),
        ("substring(s for 2) || right(s, -3)", ["abab", "Éab", None]),
        ("greatest(f, 2.0) > 1e300", [False, True, False]),
        ("array_get(l, 1)", [1, None, None]),
        ("trunc(-f)", [-1.0, math.nan, None]),
        ("round(2.5) + round(3.5)", [6.0, 6.0, 6.0]),
        ("log(8, 2)", [3.0, 3.0, 3.0]),
        ("bit_not(i)", [-6, 6, None]),
        ("case when contains(s, 'c') then strpos(s, 'c') else length(lpad(s, 9)) end", [3, 9, None]),
    ],
)  # fmt: skip
def test_a_function_computes_per_row(text: str, expected: list[Any]) -> None:
    assert str(evaluated(text)) == str(expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("date_trunc('weak', ts)", "'weak' is no unit of time; units: microsecond"),
        ("date_trunc(s, ts)", "argument 1 of date_trunc, a unit, must stand in the expression"),
        (
            "date_trunc('day', s)",
            "argument 2 of date_trunc must be a timestamp or date, not string",
        ),
        ("date_diff('day', ts)", "date_diff takes 3 arguments"),
        ("epoch_s(i)", "argument 1 of epoch_s must be a timestamp or date, not int64"),
        ("from_epoch_s(f)", "must be an integer, not double"),
        ("contains(bin, 'a')", "must be a text, not binary"),
        ("replace(s, t, 'x')", "argument 2 of replace, a part, must stand in the expression"),
        ("replace(s, '', 'x')", "what is replaced must not be empty"),
        ("replace(s, 'a', 1)", "argument 3 of replace must be a text, not"),
        ("left(s, 1.5)", "argument 2 of left must be an integer, not double"),
        ("substring(s from 1 from 2)", "expected an expression"),
        ("array_contains(s, 'a')", "argument 1 of array_contains must be a list, not string"),
        ("array_contains(l, 'a')", "cannot check for String values in List"),
        ("greatest(f, 'a')", "greatest can't choose between values of double and string"),
        ("strftime(ts, '%Q')", "cannot format"),
        ("strptime(s, t)", "argument 2 of strptime, a format, must stand"),
        ("lpad(s, 5, 'ab')", "filled up with one character, not 'ab'"),
        ("lpad(s, 1.5)", "the length is a whole number, not '1.5'"),
        ("regexp_extract(s, '(')", "regex"),
        ("regexp_like(s, '(')", "regex"),
        ("extract(epoch from ts)", r"write epoch_s\(time\)"),
        ("extract(fortnight from ts)", "extract knows no 'fortnight'"),
        ("date_part('epoch', ts)", r"write epoch_s\(time\)"),
        ("t::timestamp", "casting from string to datetime is not supported"),
        ("ts > '2024-01-01'", "write date '2024-02-29' or timestamp"),
        ("tz > timestamp '2024-01-01 00:00:00'", "make them of one type with cast"),
        ("d + 1", "add an interval"),
        ("log(f)", r"write ln\(x\)"),
        ("u64 + i", r"cast\(column as bigint\)"),
        ("bin || bin", "invalid utf8"),
        ("cast('abc' as int)", """int32 can't hold "abc" of type text"""),
        ("cast(300 as tinyint)", "int8 can't hold 300 of type integer"),
        ("cast(s as boolean)", "casting from text to Boolean not supported; compare it"),
        ("strpos(s, 'b'", "a bracket is not closed"),
        ("strpos", "unknown column 'strpos'"),
        ("date_trunk('day', ts)", "did you mean 'date_trunc'"),
        ("strpos(" * 60 + "s" + ", 'a')" * 60, "more than 50 calls stand in each other"),
        ("array_get(l, 1) + s", "texts can't be computed with"),
        ("strptime(s, '%Q')", "'%Q' is no format of a time"),
        ("cast(l as varchar)", "cannot cast List type"),
        ("cast(i as time)", "there is no type 'time'; did you mean 'timestamp'"),
        ("cast(i as int64)", "there is no type 'int64'; write bigint;"),
        ("i::decimal128", r"write decimal\(10, 2\);"),
        ("i + 0x10", "'0x10' is no number"),
        ("i + 2nd", "'2nd' is no number"),
        ("i::decimal(50, 2)", "a decimal has 1 to 38 digits"),
        ("cast(i as decimal(2, 5))", "no more than those behind the point"),
        ("pow(i, -1)", r"make one of them a float, like pow\(x, -1.0\)"),
        ("sqrt(s)", "argument 1 of sqrt must be a number, not string"),
        ("exp(b)", "argument 1 of exp must be a number, not bool"),
        ("atan2(f, date_trunc('day', ts))", "argument 2 of atan2 must be a number, not timestamp"),
        ("l % u64", "gives values of type list.int128.; a column holds single values"),
        ("date_trunc('day', coalesce(u64, i))", "must be a timestamp or date, not int128"),
        ("least()", "least takes arguments, and has none"),
        ("sum(i) > 1", "'sum' takes many rows, and an expression one"),
        # SQL would take what stands behind for a new name, and leave it out
        ("i f", "two values stand side by side"),
        ("i > 3 f", "two values stand side by side"),
        ("s = 'a' 'b'", "two values stand side by side"),
        ("case when b then i end f", "two values stand side by side"),
        ("i as f", "there is no type 'f'"),
        # and compare a truth with 3
        ("1 < i < 3", "two comparisons stand in a row; write a < b and b < c"),
        ("i = i = i", "two comparisons stand in a row"),
        ("i == 1", "write = for =="),
        ("b && b", "write and for &&"),
    ],
)
def test_what_is_wrong_is_found_before_the_start(text: str, message: str) -> None:
    with pytest.raises(TopologyError, match=message) as caught:
        Expression("shaped", text, BATCH.schema)
    assert "operator 'shaped': expression" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "cast(s as timestamp)",
        "cast(s as date)",
        "strptime(s, '%Y-%m-%d')",
        "cast(coalesce(s, '?') as int)",
    ],
)
def test_a_text_that_does_not_fit_fails_in_the_row(text: str) -> None:
    expression = Expression("shaped", text, BATCH.schema)
    assert expression.needs == {"s"}
    with pytest.raises(
        UserCodeError, match=r"'shaped': expression .* failed: \w+ can't hold .* of type text"
    ):
        expression.evaluate(BATCH)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(i = 5) = b", [True, True, None]),
        ("i > 1 and i < 9 or not f > 1", [True, False, None]),
        ("case when i = 5 then f = 1.5 else f < 0 end = b", [True, True, None]),
        ("cast(i as decimal(38, 0))", [5, -7, None]),
        ("pow(i, -1.0)", [0.2, 1 / -7, None]),
    ],
)
def test_comparisons_and_powers_that_say_what_is_meant(text: str, expected: list[Any]) -> None:
    assert [None if value is None else float(value) for value in evaluated(text)] == expected


def test_days_begin_in_the_zone_of_a_time() -> None:
    # half past eleven in the evening in UTC, and past midnight in Berlin: a Monday in May
    late = dt.datetime(2024, 5, 5, 23, 30, tzinfo=UTC)
    batch = pa.record_batch(
        {
            "berlin": pa.array([late], pa.timestamp("us", "Europe/Berlin")),
            "utc": pa.array([late], pa.timestamp("us", "UTC")),
            "day": pa.array([dt.date(2024, 5, 5)]),
        }
    )
    for text, expected in {
        "date_diff('day', day, berlin)": 1,
        "date_diff('day', day, utc)": 0,
        "date_diff('week', day, berlin)": 1,
        "date_diff('week', day, utc)": 0,
        "date_diff('hour', utc, berlin)": 0,
        "extract(isodow from date_trunc('day', berlin))": 1,
    }.items():
        found = Expression("m", text, batch.schema).evaluate(batch).to_pylist()
        assert found == [expected], text


def test_a_call_may_be_named_like_a_column() -> None:
    batch = pa.record_batch({"strpos ( s , 'b' )": [7], "strpos(s, 'b')": [8], "s": ["ab"]})
    text = "strpos(s, 'b') + \"strpos(s, 'b')\""
    assert Expression("m", text, batch.schema).evaluate(batch).to_pylist() == [10]


def test_every_function_is_described() -> None:
    described = (ROOT / "docs/operators/expressions.md").read_text()
    missing = [name for name in sorted(FUNCTIONS) if f"`{name}" not in described]
    assert missing == []
