"""Types that Polars would mix without a word, and that an expression must not.

It makes texts of the numbers of a ``case`` whose other branch is a text, numbers of booleans that are added,
joins texts with ``+``, and drops the hours of an interval that is added to a date.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import polars as pl

from streammine.operators.polars_frames import type_text

TypeOf = Callable[[pl.Expr], pl.DataType]

_CALLED = re.compile(r"\.(sql_\w+|coalesce|max_horizontal|min_horizontal|dt\.offset_by)\(")
_ARITHMETIC = frozenset(["sql_add", "sql_sub", "sql_mul", "sql_div", "sql_int_div", "sql_rem"])
_CHOOSING = {
    "coalesce": "coalesce and ifnull",
    "max_horizontal": "greatest",
    "min_horizontal": "least",
}
_JOINED_TEXT = ".cast(String)"
"""How the operands of ``||`` end; a cast that is written is a strict one."""
_BELOW_DAYS = re.compile(r"\d(h|m(?!o)|s|ms|us|ns)")
_AS_TIMESTAMP = "write cast(... as timestamp) for the date"


def unwanted_mixture(expression: pl.Expr, type_of: TypeOf) -> str:
    """What is wrong with the types of a part of it, and what would be right; empty: nothing.

    `type_of` gives the type of a part.
    """
    parts = [expression]
    while parts:
        part = parts.pop()
        inputs = part.meta.pop()[::-1]
        if len(inputs) > 1 and (found := _mixture_of(part, inputs, type_of)):
            return found
        parts += inputs
    return ""


def _mixture_of(part: pl.Expr, inputs: Sequence[pl.Expr], type_of: TypeOf) -> str:
    first = inputs[0]
    text, start = str(part), str(first)
    called = _CALLED.match(text, len(start)) if text.startswith(start) else None
    name = called.group(1) if called is not None else ""
    if name == "dt.offset_by":
        return _cut_interval(type_of(first), str(inputs[1]))
    if name in _CHOOSING:
        return _different(_CHOOSING[name], [type_of(each) for each in inputs])
    if len(inputs) == 3:
        # pops as condition, otherwise, then, or the other way around
        branches = _branches(part, inputs)
        return _different("case and if", [type_of(each) for each in branches]) if branches else ""
    if name in _ARITHMETIC or _is_sum(part, inputs):
        if all(str(each).endswith(_JOINED_TEXT) for each in inputs):
            return ""
        return _no_arithmetic([type_of(each) for each in inputs])
    return ""


def _is_sum(part: pl.Expr, inputs: Sequence[pl.Expr]) -> bool:
    left, right = inputs
    return any(part.meta.eq(each) for each in (left + right, left - right))


def _branches(part: pl.Expr, inputs: Sequence[pl.Expr]) -> list[pl.Expr]:
    """What the choice `part` chooses from; nothing where it is another function of three."""
    for condition in inputs:
        then, otherwise = [each for each in inputs if each is not condition]
        for branches in ([then, otherwise], [otherwise, then]):
            if part.meta.eq(pl.when(condition).then(branches[0]).otherwise(branches[1])):
                return branches
    return []


def _cut_interval(time: pl.DataType, interval: str) -> str:
    if time == pl.Date and _BELOW_DAYS.search(interval):
        return f"hours and what is shorter can't be added to a date; {_AS_TIMESTAMP}"
    return ""


def _different(what: str, types: Sequence[pl.DataType]) -> str:
    kinds = {_kind(each): each for each in types if each != pl.Null}
    if len(kinds) < 2:
        return ""
    named = " and ".join(sorted(map(_name, kinds.values())))
    return f"{what} can't choose between values of {named}; make them of one type with cast"


def _no_arithmetic(types: Sequence[pl.DataType]) -> str:
    for kind in types:
        if kind == pl.String:
            return "texts can't be computed with; write a || b to join them, or cast(... as bigint)"
        if kind == pl.Boolean:
            return "booleans can't be computed with; write cast(... as bigint) for 1 and 0"
    if {each.base_type() for each in types} == {pl.Date, pl.Duration}:
        return (
            "a duration that is computed can't be added to a date, and an interval stands behind it; "
            f"{_AS_TIMESTAMP}"
        )
    return ""


def _name(kind: pl.DataType) -> str:
    # a literal's type is as narrow as can be, its values are not
    return "int64" if kind.is_integer() else type_text(kind)


def _kind(kind: pl.DataType) -> str:
    if kind.is_numeric():
        return "number"
    if kind == pl.Date or isinstance(kind, pl.Datetime):
        return "time"
    return str(kind)
