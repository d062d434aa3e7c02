"""Functions of expressions that SQL has and Polars' SQL lacks, or has in another sense.

Each is elementwise and depends on its arguments only. Every argument is null in, null out. `docs/operators/
expressions.md` describes them all.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import polars as pl
import polars.exceptions

from streammine.operators.expressions.frames import type_text

Argument = pl.Expr | str
"""A computed column, or the text of a literal that stands in the call."""

MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
UNITS = (*MICROSECONDS, *_MONTHS)

_TRUNCATIONS = {
    "microsecond": "1us",
    "millisecond": "1ms",
    "second": "1s",
    "minute": "1m",
    "hour": "1h",
    "day": "1d",
    "week": "1w",
    "month": "1mo",
    "quarter": "1q",
    "year": "1y",
}
_MONDAY = 3
"""Days from a Monday to 1970-01-01, a Thursday."""
_SOME_TIME = datetime(2024, 2, 29, 12, 30, tzinfo=UTC)

_WHOLE_NUMBER = re.compile(r"\d{1,9}")


class CallError(ValueError):
    """A call that can't be; the text says why and what would be right."""


@dataclass(frozen=True)
class Function:
    """`parameters` says what each argument is; those in `literal` stand in the call. At least `least` are
    needed, by default all. `build` makes the expression of them."""

    parameters: tuple[str, ...]
    build: Callable[..., pl.Expr]
    literal: frozenset[int] = frozenset()
    least: int = -1

    def call(self, name: str, arguments: Sequence[Argument], types: Sequence[Any]) -> pl.Expr:
        """`types`: the Polars types of the arguments; None for a literal. Raises CallError."""
        most = len(self.parameters)
        least = most if self.least < 0 else self.least
        if not least <= len(arguments) <= most:
            counted = str(most) if least == most else f"{least} to {most}"
            raise CallError(
                f"{name} takes {counted} arguments ({', '.join(self.parameters)}), not {len(arguments)}"
            )
        for number, (argument, kind) in enumerate(zip(arguments, types, strict=True)):
            wanted = self.parameters[number]
            if number in self.literal:
                if not isinstance(argument, str):
                    raise CallError(
                        f"argument {number + 1} of {name}, {wanted}, must stand in the expression itself"
                    )
            elif not _IS_A[wanted](kind):
                raise CallError(
                    f"argument {number + 1} of {name} must be {wanted}, not {type_text(kind)}"
                )
        return self.build(*arguments)


def _is_time(kind: Any) -> bool:
    return bool(kind == pl.Date or isinstance(kind, pl.Datetime))


def _is_text(kind: Any) -> bool:
    return bool(kind == pl.String)


def _is_integer(kind: Any) -> bool:
    return bool(kind.is_integer() or kind == pl.Null)


def _is_list(kind: Any) -> bool:
    return bool(kind.base_type() == pl.List)


def _is_anything(kind: Any) -> bool:
    return True


_TEXT, _TIME, _INTEGER = "a text", "a timestamp or date", "an integer"
_LIST, _VALUE = "a list", "a value"
_IS_A: dict[str, Callable[[Any], bool]] = {
    _TEXT: _is_text,
    _TIME: _is_time,
    _INTEGER: _is_integer,
    _LIST: _is_list,
    _VALUE: _is_anything,
}


def _unit(text: str) -> str:
    if text.lower() not in UNITS:
        raise CallError(f"{text!r} is no unit of time; units: {', '.join(UNITS)}")
    return text.lower()


def _number(text: str, what: str) -> int:
    if _WHOLE_NUMBER.fullmatch(text) is None:
        raise CallError(f"{what} is a whole number, not {text!r}")
    return int(text)


def _date_trunc(unit: str, time: pl.Expr) -> pl.Expr:
    return time.dt.truncate(_TRUNCATIONS[_unit(unit)])


def _date_diff(unit: str, start: pl.Expr, end: pl.Expr) -> pl.Expr:
    return _units_since_1970(_unit(unit), end) - _units_since_1970(_unit(unit), start)


def _units_since_1970(unit: str, time: pl.Expr) -> pl.Expr:
    """How many units begin after 1970-01-01 and no later than the time (int64). Days and what is longer begin
    when they do in the zone of the time."""
    if unit in _MONTHS:
        months = time.dt.year().cast(pl.Int64) * 12 + time.dt.month().cast(pl.Int64) - 1
        return months // _MONTHS[unit]
    if unit in ("day", "week"):
        days = time.dt.date().cast(pl.Int32).cast(pl.Int64)
        return days if unit == "day" else (days + _MONDAY) // 7
    return time.dt.epoch("us") // MICROSECONDS[unit]


def _epoch(unit: int, time: pl.Expr) -> pl.Expr:
    return time.dt.epoch("us") // unit


def _from_epoch(unit: int, number: pl.Expr) -> pl.Expr:
    # fails beyond the times that 64 bits hold, as a cast does
    return (number.cast(pl.Int128) * unit).cast(pl.Int64).cast(pl.Datetime("us"))


def _strftime(time: pl.Expr, layout: str) -> pl.Expr:
    return time.dt.strftime(layout)


def _strptime(strict: bool, text: pl.Expr, layout: str) -> pl.Expr:
    try:
        # what a time can't be written in can't be read, but for this permissive zone
        pl.select(pl.lit(_SOME_TIME).dt.strftime(layout.replace("%#z", "%z")))
    except polars.exceptions.PolarsError:
        raise CallError(f"{layout!r} is no format of a time, such as '%Y-%m-%d %H:%M:%S'") from None
    return text.str.to_datetime(layout, time_unit="us", strict=strict)


def timestamp_of(text: pl.Expr, strict: bool) -> pl.Expr:
    """Texts such as 2024-02-29, 2024-02-29 12:30:00, 2024-02-29T12:30:00.5 and the last two with a Z."""
    plain = text.str.strip_suffix("Z")
    whole = (
        pl.when(plain.str.len_bytes() == 10)
        .then(plain + " 00:00:00")
        .when(plain.str.slice(10, 1) == "T")
        .then(plain.str.slice(0, 10) + " " + plain.str.slice(11))
        .otherwise(plain)
    )
    return whole.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us", strict=strict)


def date_of(text: pl.Expr, strict: bool) -> pl.Expr:
    """Texts such as 2024-02-29."""
    return text.str.to_date("%Y-%m-%d", strict=strict)


def _position(text: pl.Expr, part: pl.Expr) -> pl.Expr:
    # Polars counts bytes
    found = text.str.find(part, literal=True)
    before = text.cast(pl.Binary).bin.head(found).cast(pl.String).str.len_chars().cast(pl.Int64)
    there = text.is_not_null() & part.is_not_null()
    return pl.when(there).then(pl.when(found.is_null()).then(0).otherwise(before + 1))


def _contains(text: pl.Expr, part: pl.Expr) -> pl.Expr:
    return text.str.contains(part, literal=True)


def _left(text: pl.Expr, count: pl.Expr) -> pl.Expr:
    return _unless_null(count, text.str.head(_int64(count)))


def _right(text: pl.Expr, count: pl.Expr) -> pl.Expr:
    return _unless_null(count, text.str.tail(_int64(count)))


def _substr(text: pl.Expr, start: pl.Expr, count: pl.Expr | None = None) -> pl.Expr:
    """Of places counted from 1; those before the first are none of the text, and count."""
    first = _int64(start)
    offset = pl.max_horizontal(first - 1, 0)
    if count is None:
        return _unless_null(first, text.str.slice(offset))
    # a count below 0 fails here
    length = _int64(count.cast(pl.UInt64))
    inside = pl.max_horizontal(length - pl.max_horizontal(1 - first, 0), 0)
    return _unless_null(first, _unless_null(length, text.str.slice(offset, inside)))


def _split_part(text: pl.Expr, separator: pl.Expr, number: pl.Expr) -> pl.Expr:
    """An empty separator parts nothing."""
    parts = pl.when(separator == "").then(pl.concat_list(text)).otherwise(text.str.split(separator))
    place = _int64(number)
    index = pl.when(place > 0).then(place - 1).otherwise(place)
    part = parts.list.get(index, null_on_oob=True).fill_null("")
    there = text.is_not_null() & separator.is_not_null() & place.is_not_null()
    return pl.when(there).then(pl.when(place == 0).then(pl.lit("")).otherwise(part))


_FAR = 2**62
"""Beyond the length of any text, and far enough from the ends of int64."""


def _int64(number: pl.Expr) -> pl.Expr:
    return number.cast(pl.Int128).clip(-_FAR, _FAR).cast(pl.Int64)


def _unless_null(condition: pl.Expr, value: pl.Expr) -> pl.Expr:
    return pl.when(condition.is_not_null()).then(value)


def _array_contains(values: pl.Expr, value: pl.Expr) -> pl.Expr:
    return _unless_null(value, values.list.contains(value))


def greatest(values: Sequence[pl.Expr], floats: Sequence[pl.Expr]) -> pl.Expr:
    """The greatest that is not null; a NaN among the `floats` is greater than every number."""
    nan = pl.any_horizontal([each.is_nan() for each in floats])
    return pl.when(nan).then(math.nan).otherwise(pl.max_horizontal(values))


def _replace(text: pl.Expr, part: str, other: pl.Expr) -> pl.Expr:
    if not part:
        raise CallError("what is replaced must not be empty")
    return _unless_null(other, text.str.replace_all(part, other, literal=True))


def _pad(left: bool, text: pl.Expr, length: str, fill: str = " ") -> pl.Expr:
    count = _number(length, "the length")
    if len(fill) != 1:
        raise CallError(f"it is filled up with one character, not {fill!r}")
    padded = text.str.pad_start(count, fill) if left else text.str.pad_end(count, fill)
    return padded.str.head(count)


def _regexp_replace(text: pl.Expr, pattern: str, replacement: str) -> pl.Expr:
    return text.str.replace_all(pattern, replacement)


def _regexp_extract(text: pl.Expr, pattern: str, group: str = "0") -> pl.Expr:
    return text.str.extract(pattern, _number(group, "the group"))


OWN_FUNCTIONS: dict[str, Function] = {
    "date_trunc": Function(("a unit", _TIME), _date_trunc, frozenset({0})),
    "date_diff": Function(("a unit", _TIME, _TIME), _date_diff, frozenset({0})),
    "epoch_s": Function((_TIME,), partial(_epoch, MICROSECONDS["second"])),
    "epoch_ms": Function((_TIME,), partial(_epoch, MICROSECONDS["millisecond"])),
    "epoch_us": Function((_TIME,), partial(_epoch, 1)),
    "from_epoch_s": Function((_INTEGER,), partial(_from_epoch, MICROSECONDS["second"])),
    "from_epoch_ms": Function((_INTEGER,), partial(_from_epoch, MICROSECONDS["millisecond"])),
    "from_epoch_us": Function((_INTEGER,), partial(_from_epoch, 1)),
    "strftime": Function((_TIME, "a format"), _strftime, frozenset({1})),
    "strptime": Function((_TEXT, "a format"), partial(_strptime, True), frozenset({1})),
    "try_strptime": Function((_TEXT, "a format"), partial(_strptime, False), frozenset({1})),
    "strpos": Function((_TEXT, _TEXT), _position),
    "contains": Function((_TEXT, _TEXT), _contains),
    "left": Function((_TEXT, _INTEGER), _left),
    "right": Function((_TEXT, _INTEGER), _right),
    "substr": Function((_TEXT, _INTEGER, _INTEGER), _substr, least=2),
    "substring": Function((_TEXT, _INTEGER, _INTEGER), _substr, least=2),
    "split_part": Function((_TEXT, _TEXT, _INTEGER), _split_part),
    "replace": Function((_TEXT, "a part", _TEXT), _replace, frozenset({1})),
    "array_contains": Function((_LIST, _VALUE), _array_contains),
    "lpad": Function(
        (_TEXT, "a length", "a fill character"), partial(_pad, True), frozenset({1, 2}), 2
    ),
    "rpad": Function(
        (_TEXT, "a length", "a fill character"), partial(_pad, False), frozenset({1, 2}), 2
    ),
    "regexp_replace": Function(
        (_TEXT, "a pattern", "a replacement"), _regexp_replace, frozenset({1, 2})
    ),
    "regexp_extract": Function(
        (_TEXT, "a pattern", "a group"), _regexp_extract, frozenset({1, 2}), 2
    ),
}
