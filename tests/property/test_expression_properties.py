"""Times and texts in expressions against Python's own, over hostile values."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

from hypothesis import example, given, settings

from tests.property.expression_cases import Case, Rows, assert_give, rows_for

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


WHITE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2028\u2029\u202f\u205f\u3000"
WORD = re.compile(r"[^\W\d_]+")


def after(unit: str) -> Any:
    """How much of the unit has passed since it began, in microseconds."""
    return lambda a: microseconds(a) - microseconds(begun(unit, a))


def initial_capitals(s: str) -> str:
    def lower(place: int) -> str:
        # whether a sigma is a final one depends on what stands around its word, too
        return s.lower()[len(s[:place].lower())] if s[place] == "Σ" else s[place].lower()

    def capitalized(word: re.Match[str]) -> str:
        start, end = word.span()
        return s[start].title() + "".join(map(lower, range(start + 1, end)))

    return WORD.sub(capitalized, s)


def part(s: str, separator: str, number: int) -> str:
    parts = s.split(separator) if separator else [s]
    place = number - 1 if number > 0 else len(parts) + number
    return parts[place] if number and 0 <= place < len(parts) else ""


def joined(separator: str, *texts: str | None) -> str:
    return separator.join(text for text in texts if text is not None)


def right(s: str, count: int) -> str:
    return s[max(len(s) - count, 0) :] if count >= 0 else s[-count:]


def places(s: str, start: int, count: int) -> str:
    """The characters whose places, counted from 1, are among so many from the start on."""
    return "".join(letter for place, letter in enumerate(s, 1) if start <= place < start + count)


def second_group(s: str) -> str | None:
    found = re.search("(a)([^b])", s)
    return None if found is None else found[2]


def day_read(s: str) -> dt.date | None:
    return None if re.fullmatch(r"\d{4}-\d\d-\d\d", s) is None else dt.date.fromisoformat(s)


UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
PARTS: dict[str, Any] = {
    "year": lambda t: t.year,
    "isoyear": lambda t: t.isocalendar().year,
    "quarter": lambda t: (t.month + 2) // 3,
    "month": lambda t: t.month,
    "week": lambda t: t.isocalendar().week,
    "day": lambda t: t.day,
    "doy": lambda t: t.timetuple().tm_yday,
    "dow": lambda t: t.isoweekday() % 7,
    "isodow": lambda t: t.isoweekday(),
    "decade": lambda t: t.year // 10,
    "century": lambda t: (t.year + 99) // 100,
}
SHORT_PARTS: dict[str, Any] = {
    "hour": lambda t: t.hour,
    "minute": lambda t: t.minute,
    "second": lambda t: t.second,
    "millisecond": lambda t: t.second * 1000 + t.microsecond // 1000,
    "microsecond": lambda t: t.second * 1_000_000 + t.microsecond,
}
TIMES: dict[str, Case] = {
    **{f"date_trunc('{u}', a)": Case(lambda a, u=u: begun(u, a), "a") for u in UNITS},
    **{
        f"date_trunc('{u}', d)": Case(
            lambda d, u=u: begun(u, dt.datetime.combine(d, MIDNIGHT)).date(), "d"
        )
        for u in UNITS[:5]
    },
    **{f"date_diff('{u}', a, b)": Case(lambda a, b, u=u: crossed(u, a, b), "ab") for u in UNITS},
    **{f"extract({p} from a)": Case(f, "a") for p, f in (PARTS | SHORT_PARTS).items()},
    **{f"date_part('{p}', d)": Case(f, "d") for p, f in PARTS.items()},
    **{f"{p}(a)": Case(PARTS[p], "a") for p in ("year", "month", "day")},
    **{f"{p}(a)": Case(SHORT_PARTS[p], "a") for p in ("hour", "minute", "second")},
    "date_trunc('millisecond', a)": Case(
        lambda a: a.replace(microsecond=a.microsecond // 1000 * 1000), "a"
    ),
    "date_diff('millisecond', date_trunc('week', a), a) // 2": Case(
        lambda a: after("week")(a) // 2000, "a"
    ),
    "date_diff('microsecond', date_trunc('year', a), a)": Case(after("year"), "a"),
    "date_diff('day', d, a)": Case(lambda d, a: (a.date() - d).days, "da"),
    "epoch_s(a)": Case(lambda a: microseconds(a) // 1_000_000, "a"),
    "epoch_ms(a)": Case(lambda a: microseconds(a) // 1_000, "a"),
    "epoch_us(a)": Case(microseconds, "a"),
    "epoch_s(d)": Case(lambda d: (d - EPOCH.date()).days * 86_400, "d"),
    "from_epoch_us(epoch_us(a))": Case(lambda a: a, "a"),
    "from_epoch_us(n)": Case(lambda n: EPOCH + n * MICROSECOND, "n"),
    "from_epoch_ms(n)": Case(lambda n: EPOCH + dt.timedelta(milliseconds=n), "n"),
    "from_epoch_s(n)": Case(lambda n: EPOCH + dt.timedelta(seconds=n), "n"),
    "a < b": Case(lambda a, b: a < b, "ab"),
    "a - b": Case(lambda a, b: a - b, "ab"),
    "a < timestamp '1970-01-01 00:00:00'": Case(lambda a: a < EPOCH, "a"),
    "cast(a as date)": Case(lambda a: a.date(), "a"),
    "cast(d as timestamp)": Case(lambda d: dt.datetime.combine(d, MIDNIGHT), "d"),
    "cast(cast(a as varchar) as timestamp)": Case(lambda a: a, "a"),
    "strptime(strftime(a, '%Y-%m-%d %H:%M:%S%.f'), '%Y-%m-%d %H:%M:%S%.f')": Case(lambda a: a, "a"),
    "strftime(a, '%H:%M %d.%m.%Y')": Case(
        lambda a: f"{a.hour:02}:{a.minute:02} {a.day:02}.{a.month:02}.{a.year:04}", "a"
    ),
    "try_strptime(s, '%Y')": Case(lambda s: None, "s"),
    "try_cast(s as date)": Case(day_read, "s"),
    "cast(cast(d as varchar) as date)": Case(lambda d: d, "d"),
    "greatest(a, b)": Case(
        lambda a, b: max((each for each in (a, b) if each), default=None), "ab", with_nulls=True
    ),
}
TEXTS: dict[str, Case] = {
    "strpos(s, p)": Case(position, "sp"),
    "position(p in s)": Case(position, "sp"),
    "contains(s, p)": Case(lambda s, p: p in s, "sp"),
    "starts_with(s, p)": Case(str.startswith, "sp"),
    "ends_with(s, p)": Case(str.endswith, "sp"),
    "length(s)": Case(len, "s"),
    "char_length(s)": Case(len, "s"),
    "character_length(s)": Case(len, "s"),
    "octet_length(s)": Case(lambda s: len(s.encode()), "s"),
    "bit_length(s)": Case(lambda s: 8 * len(s.encode()), "s"),
    "lower(s)": Case(str.lower, "s"),
    "upper(s)": Case(str.upper, "s"),
    "initcap(s)": Case(initial_capitals, "s"),
    "trim(s)": Case(lambda s: s.strip(WHITE), "s"),
    "ltrim(s)": Case(lambda s: s.lstrip(WHITE), "s"),
    "rtrim(s)": Case(lambda s: s.rstrip(WHITE), "s"),
    "trim(both 'ab' from s)": Case(lambda s: s.strip("ab"), "s"),
    "trim(leading 'a' from s)": Case(lambda s: s.lstrip("a"), "s"),
    "trim(trailing 'b' from s)": Case(lambda s: s.rstrip("b"), "s"),
    "lpad(s, 4, '*')": Case(lambda s: s.rjust(4, "*")[:4], "s"),
    "rpad(s, 4)": Case(lambda s: s.ljust(4)[:4], "s"),
    "reverse(s)": Case(lambda s: s[::-1], "s"),
    "left(s, 3) || right(s, 2)": Case(lambda s: s[:3] + s[-2:], "s"),
    "left(s, q)": Case(lambda s, q: s[:q], "sq"),
    "left('aéb', q)": Case(lambda q: "aéb"[:q], "q"),
    "left(s, -2)": Case(lambda s: s[:-2], "s"),
    "right(s, q)": Case(right, "sq"),
    "right('aéb', q)": Case(lambda q: right("aéb", q), "q"),
    "right(s, 6)": Case(lambda s: s[-6:], "s"),
    "right(s, -1)": Case(lambda s: s[1:], "s"),
    "substr(s, q)": Case(lambda s, q: places(s, q, 2**64), "sq"),
    "substr(s, q, 3)": Case(lambda s, q: places(s, q, 3), "sq"),
    "substr(s, 2, k)": Case(lambda s, k: places(s, 2, k), "sk"),
    "substr(s, q, k)": Case(places, "sqk"),
    "substring(s, -1, m)": Case(lambda s, m: places(s, -1, m), "sm"),
    "substring(s from 2 for 3)": Case(lambda s: s[1:4], "s"),
    "substring(s from k)": Case(lambda s, k: places(s, k, 99), "sk"),
    "substring(s for k)": Case(lambda s, k: s[:k], "sk"),
    "replace(s, 'a', 'éé')": Case(lambda s: s.replace("a", "éé"), "s"),
    "replace(s, 'a', p)": Case(lambda s, p: s.replace("a", p), "sp"),
    "replace(s, '1', '$0')": Case(lambda s: s.replace("1", "$0"), "s"),
    "replace(s, 'b', '')": Case(lambda s: s.replace("b", ""), "s"),
    "split_part(w, '-', q)": Case(lambda w, q: part(w, "-", q), "wq"),
    "split_part(w, p, q)": Case(part, "wpq"),
    "split_part(w, p, -1)": Case(lambda w, p: part(w, p, -1), "wp"),
    "split_part(w, '', m)": Case(lambda w, m: part(w, "", m), "wm"),
    "split_part(w, 'a-', 2)": Case(lambda w: part(w, "a-", 2), "w"),
    "concat(s, '|', t)": Case(lambda s, t: joined("", s, "|", t), "st", with_nulls=True),
    "concat_ws('-', s, t, p)": Case(lambda *texts: joined("-", *texts), "stp", with_nulls=True),
    "s || t": Case(lambda s, t: s + t, "st"),
    "s < t": Case(lambda s, t: s.encode() < t.encode(), "st"),
    "s = t": Case(lambda s, t: s == t, "st"),
    "s like 'a%'": Case(lambda s: s.startswith("a"), "s"),
    "s not like '_b%'": Case(lambda s: s[1:2] != "b", "s"),
    "s ilike '%É%'": Case(lambda s: "é" in s.lower(), "s"),
    "s ~ 'a|€'": Case(lambda s: "a" in s or "€" in s, "s"),
    "s !~ '^a'": Case(lambda s: not s.startswith("a"), "s"),
    "s ~* 'ab'": Case(lambda s: "ab" in s.lower(), "s"),
    "regexp_like(s, '^[ab]*$')": Case(lambda s: set(s) <= {"a", "b"}, "s"),
    "regexp_like(s, 'ÉA', 'i')": Case(lambda s: "éa" in s.lower(), "s"),
    "regexp_replace(s, '[ab]+', '<$0>')": Case(
        lambda s: re.sub("[ab]+", r"<\g<0>>", s),
        "s",
    ),
    "regexp_extract(s, '(a)([^b])', 2)": Case(second_group, "s"),
}


@settings(max_examples=200, deadline=None)
@given(rows_for(TIMES))
def test_each_function_of_times_gives_what_python_gives(rows: Rows) -> None:
    assert_give(TIMES, rows)


@settings(max_examples=200, deadline=None)
@given(rows_for(TEXTS))
@example([{**dict.fromkeys("kmpqtw"), "s": "AΣ'A"}])
def test_each_function_of_texts_gives_what_python_gives(rows: Rows) -> None:
    assert_give(TEXTS, rows)
