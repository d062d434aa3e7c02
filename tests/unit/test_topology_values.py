"""Durations, rates, sizes and column types, as people write them."""

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
