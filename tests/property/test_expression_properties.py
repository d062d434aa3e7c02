"""Functions of times and texts in expressions against Python's own, over any values."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.operators.expressions import Expression

SCHEMA = pa.schema(
    [
        ("a", pa.timestamp("us")),
        ("b", pa.timestamp("us")),
        ("d", pa.date32()),
        ("s", pa.string()),
        ("p", pa.string()),
        ("n", pa.int64()),
    ]
)
TIMES = st.datetimes(dt.datetime(1, 1, 8), dt.datetime(9999, 12, 20))
NEAR = st.datetimes(dt.datetime(1969, 12, 30), dt.datetime(1970, 1, 5))
TEXTS = st.text("abÉ\0 €😀", max_size=8)
ROWS = st.lists(
    st.tuples(
        st.none() | TIMES | NEAR,
        st.none() | TIMES | NEAR,
        st.none() | TIMES.map(dt.datetime.date),
        st.none() | TEXTS,
        st.none() | st.text("abÉ", max_size=2),
        st.none() | st.integers(-(10**9), 10**9),
    ),
    max_size=6,
)
EPOCH = dt.datetime(1970, 1, 1)
MICROSECOND = dt.timedelta(microseconds=1)
MIDNIGHT = dt.time()


def microseconds(time: dt.datetime) -> int:
    return (time - EPOCH) // MICROSECOND


def begun(unit: str, time: dt.datetime) -> dt.datetime:
    """When the unit that the time lies in began."""
    day = dt.datetime.combine(time.date(), MIDNIGHT)
    if unit == "week":
        return day - dt.timedelta(days=time.weekday())
    if unit == "quarter":
        return day.replace(month=(time.month - 1) // 3 * 3 + 1, day=1)
    fields = ("year", "month", "day", "hour", "minute", "second", "microsecond")
    first = {"month": 1, "day": 1}
    later = fields[fields.index(unit) + 1 :]
    return time.replace(**{field: first.get(field, 0) for field in later})  # type: ignore[arg-type]


def crossed(unit: str, start: dt.datetime, end: dt.datetime) -> int:
    """How many units begin after start and up to end."""
    start, end = begun(unit, start), begun(unit, end)
    if unit in ("year", "quarter", "month"):
        months = (end.year - start.year) * 12 + end.month - start.month
        return months // {"year": 12, "quarter": 3, "month": 1}[unit]
    return (end - start) // dt.timedelta(**{f"{unit}s": 1})


def position(text: str, part: str) -> int:
    return text.find(part) + 1


UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
CASES: dict[str, tuple[Callable[..., Any], str]] = {
    **{f"date_trunc('{u}', a)": (lambda a, u=u: begun(u, a), "a") for u in UNITS},
    **{f"date_diff('{u}', a, b)": (lambda a, b, u=u: crossed(u, a, b), "ab") for u in UNITS},
    "date_diff('day', d, a)": (lambda d, a: (a.date() - d).days, "da"),
    "epoch_s(a)": (lambda a: microseconds(a) // 1_000_000, "a"),
    "epoch_ms(a)": (lambda a: microseconds(a) // 1_000, "a"),
    "from_epoch_us(epoch_us(a))": (lambda a: a, "a"),
    "from_epoch_s(n)": (lambda n: EPOCH + dt.timedelta(seconds=n), "n"),
    "cast(cast(a as varchar) as timestamp)": (lambda a: a, "a"),
    "strptime(strftime(a, '%Y-%m-%d %H:%M:%S%.f'), '%Y-%m-%d %H:%M:%S%.f')": (lambda a: a, "a"),
    "cast(cast(d as varchar) as date)": (lambda d: d, "d"),
    "extract(isodow from a) * 1000 + extract(doy from a)": (
        lambda a: a.isoweekday() * 1000 + a.timetuple().tm_yday,
        "a",
    ),
    "extract(isoyear from a) * 100 + extract(week from a)": (
        lambda a: a.isocalendar().year * 100 + a.isocalendar().week,
        "a",
    ),
    "strpos(s, p)": (position, "sp"),
    "position(p in s)": (position, "sp"),
    "contains(s, p)": (lambda s, p: p in s, "sp"),
    "length(s)": (len, "s"),
    "lpad(s, 4, '*')": (lambda s: s.rjust(4, "*")[:4], "s"),
    "rpad(s, 4)": (lambda s: s.ljust(4)[:4], "s"),
    "reverse(s)": (lambda s: s[::-1], "s"),
    "left(s, 3) || right(s, 2)": (lambda s: s[:3] + s[-2:], "s"),
    "regexp_replace(s, '[ab]+', '<$0>')": (
        lambda s: re.sub("[ab]+", r"<\g<0>>", s),
        "s",
    ),
}


@pytest.mark.parametrize("text", list(CASES))
@settings(max_examples=25, deadline=None)
@given(rows=ROWS)
def test_a_function_gives_what_python_gives(text: str, rows: list[tuple[Any, ...]]) -> None:
    reference, arguments = CASES[text]
    columns = [[row[place] for row in rows] for place in range(len(SCHEMA))]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)]
    batch = pa.record_batch(arrays, schema=SCHEMA)
    given_values = zip(*(columns[SCHEMA.get_field_index(name)] for name in arguments), strict=True)
    expected = [None if None in values else reference(*values) for values in given_values]
    assert Expression("e", text, SCHEMA).evaluate(batch).to_pylist() == expected
