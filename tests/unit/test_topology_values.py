"""Durations, rates, sizes and column types, as people write them."""

import re
from datetime import timedelta

import pyarrow as pa
import pytest

from streammine.model.durations import Duration, Rate, Size
from streammine.model.topology import AggregateCall
from streammine.model.types import arrow_schema, arrow_type, type_name


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("10us", 10),
        ("10ms", 10_000),
        ("30s", 30_000_000),
        ("1.5s", 1_500_000),
        ("5m", 300_000_000),
        ("2h", 7_200_000_000),
        ("1d", 86_400_000_000),
        ("0s", 0),
        (" 3 s ", 3_000_000),
    ],
)
def test_a_duration_is_read_exactly_and_prints_a_form_that_parses_back(text, microseconds):
    duration = Duration.parse(text)
    assert duration.microseconds == microseconds
    assert Duration.parse(str(duration)) == duration


def test_a_duration_prints_in_its_largest_whole_unit():
    assert str(Duration(60_000_000)) == "1m"
    assert str(Duration(90_000_000)) == "90s"
    assert str(Duration(0)) == "0s"


def test_a_timedelta_is_a_duration():
    assert Duration.parse(timedelta(minutes=5)) == Duration(300_000_000)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (60, "write 60s"),
        ("60", "write 60s"),
        ("5min", "'min' is no unit of time"),
        ("0.0000001s", "whole microseconds"),
        ("99999999d", "at most 36500d"),
        ("-5s", "like 10ms, 30s, 5m, 2h or 1d"),
        (True, "like 10ms"),
        (timedelta(seconds=-1), "can't be negative"),
    ],
)
def test_a_wrong_duration_says_what_would_be_right(value, hint):
    with pytest.raises(ValueError, match="duration") as caught:
        Duration.parse(value)
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("text", "per_second"), [("50000/s", 50_000.0), ("600/min", 10.0), ("36 / h", 0.01)]
)
def test_a_rate_is_read_and_prints_a_form_that_parses_back(text, per_second):
    rate = Rate.parse(text)
    assert rate.per_second == per_second
    assert Rate.parse(str(rate)) == rate


@pytest.mark.parametrize(
    ("value", "hint"),
    [(50, "write 50/s"), ("50", "write 50/s"), ("5/year", "like 50000/s"), ("0/s", "never read")],
)
def test_a_wrong_rate_says_what_would_be_right(value, hint):
    with pytest.raises(ValueError, match="rate") as caught:
        Rate.parse(value)
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("value", "size_bytes"),
    [("64MB", 64_000_000), ("64MiB", 1 << 26), ("1.5kB", 1500), ("0B", 0), (7, 7), ("7", 7)],
)
def test_a_size_is_read_and_prints_a_form_that_parses_back(value, size_bytes):
    size = Size.parse(value)
    assert size.bytes == size_bytes
    assert Size.parse(str(size)) == size


@pytest.mark.parametrize("value", ["64Mb", "-1B", "0.1B", True, None])
def test_a_wrong_size_is_refused(value):
    with pytest.raises(ValueError, match="size is"):
        Size.parse(value)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("int8", pa.int8()),
        ("uint64", pa.uint64()),
        ("float32", pa.float32()),
        ("string", pa.string()),
        ("bool", pa.bool_()),
        ("date", pa.date32()),
        ("binary", pa.binary()),
        ("timestamp[us]", pa.timestamp("us")),
        ("timestamp[ms, UTC]", pa.timestamp("ms", tz="UTC")),
        ("decimal(18, 4)", pa.decimal128(18, 4)),
    ],
)
def test_type_names_and_arrow_types_are_one_to_one(name, kind):
    assert arrow_type(name) == kind
    assert type_name(kind) == name


def test_a_schema_keeps_the_order_of_its_columns():
    schema = arrow_schema({"b": "int64", "a": "timestamp[ns,tz=UTC]"})
    assert schema.names == ["b", "a"]
    assert schema.field("a").type == pa.timestamp("ns", tz="UTC")


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("int", "write int64"),
        ("Double", "write float64"),
        ("timestamp", "write timestamp[us]"),
        ("int46", "did you mean 'int64'"),
        ("strng", "did you mean 'string'"),
        ("decimal(40, 2)", "precision is 1 to 38"),
        ("timestamp[us, CET]", "timestamp[us, UTC]"),
        ("list", "Types: int8"),
    ],
)
def test_a_wrong_type_name_says_what_would_be_right(name, right):
    with pytest.raises(ValueError, match="is no") as caught:
        arrow_type(name)
    assert right in str(caught.value)


def test_an_arrow_type_without_a_name_is_refused():
    with pytest.raises(ValueError, match="can't be used"):
        type_name(pa.list_(pa.int64()))


@pytest.mark.parametrize(
    ("text", "function", "column"),
    [
        ("count()", "count", None),
        ("count(*)", "count", None),
        ("count(x)", "count", "x"),
        ("SUM( value )", "sum", "value"),
        ('max("a ""b"" c")', "max", 'a "b" c'),
    ],
)
def test_an_aggregate_is_read_and_prints_a_form_that_parses_back(text, function, column):
    call = AggregateCall.parse(text)
    assert call == AggregateCall(function, column)
    assert AggregateCall.parse(str(call)) == call


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("quantile( x ,0.950 )", "quantile(x, 0.95)"),
        ("quantile(x, 1, LOWER)", "quantile(x, 1, lower)"),
        ("quantile(x, .5, linear)", "quantile(x, 0.5)"),
        ("quantile(x, 0.0000001)", "quantile(x, 0.0000001)"),
        ("quantile(x, 1e-3)", "quantile(x, 0.001)"),
        ("first(x)", "first(x)"),
        ('Last("a, b", "c)")', 'last("a, b", "c)")'),
        ("arg_max(a, b)", "arg_max(a, b)"),
        ("collect(x, 7)", "collect(x, 7)"),
        ("collect(x, 100000)", "collect(x)"),
        ("count()  WHERE  x > (1) ", "count() where x > (1)"),
        ("sum(x) where t = 'where )' ", "sum(x) where t = 'where )'"),
    ],
)
def test_arguments_and_conditions_are_read_and_written(text, written):
    call = AggregateCall.parse(text)
    assert str(call) == written
    assert AggregateCall.parse(written) == call


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("quantile(x)", "quantile takes 2 to 3 arguments, like quantile(value, 0.95), not 1"),
        ("quantile(x, 95)", "a share from 0 to 1, not '95'; write 0.95"),
        ("quantile(x, 1.5)", "a share from 0 to 1, not '1.5'"),
        ("quantile(x, -1)", "a share from 0 to 1, not '-1'"),
        ("quantile(x, y)", "a share from 0 to 1, not 'y'"),
        ("quantile(x, 0.12345678)", "more than 7 digits"),
        ("quantile(x, 0.5, middle)", "linear, lower, higher, nearest, not 'middle'"),
        ("median(x, 0.5)", "median takes one argument, like median(value), not 2"),
        ("arg_min(x)", "arg_min takes 2 arguments, like arg_min(plug_id, value), not 1"),
        ("first(x, 3)", "takes the column that orders the rows, not '3'"),
        ("first(3)", "first takes a column first, not '3'"),
        ("first()", "first needs a column, like first(value)"),
        ("collect(x, 0)", "from 1 to 10000000, not '0'"),
        ("collect(x, many)", "from 1 to 10000000, not 'many'"),
        ("count(distinct x)", "write count_distinct(column)"),
        ("sum(x", "has no closing bracket"),
        ("sum(x) > 3", "behind sum(x) stands '> 3'; a condition on its rows is written"),
        ("sum(x) filter (where x > 3)", "sum(x) where value > 3"),
        ("sum(x) where", "behind sum(x) stands 'where'"),
        ("std(x)", "write stddev."),
        ("percentile(x, 0.5)", "write quantile."),
        ("array_agg(x)", "write collect."),
    ],
)
def test_a_wrong_call_is_answered_with_the_right_one(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        AggregateCall.parse(text)
