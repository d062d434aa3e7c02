"""Types that Polars would mix without a word, and that an expression must not.

It makes texts of the numbers of a ``case`` whose other branch is a text, numbers of booleans that are added,
joins texts with ``+``, and drops the hours of an interval that is added to a date.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from streammine.operators.expressions.frames import type_text

TypeOf = Callable[[pl.Expr], pl.DataType]

_CALLED = re.compile(r"\.(sql_\w+|coalesce|max_horizontal|min_horizontal|dt\.offset_by)\(")
_ARITHMETIC = frozenset(["sql_add", "sql_sub", "sql_mul", "sql_div", "sql_int_div", "sql_rem"])
_CHOOSING = {
    "coalesce": "coalesce and ifnull",
    "max_horizontal": "greatest",
    "min_horizontal": "least",
}
_CASE = "case and if"
_BRANCHES = 2
"""Its first inputs; the condition is the third."""
_JOINED_TEXT = ".cast(String)"
"""How the operands of ``||`` end; a cast that is written is a strict one."""
_PLAIN_KINDS: dict[Any, str] = {
    pl.Null: "null",
    pl.String: "text",
    pl.Boolean: "boolean",
    pl.Date: "date",
    pl.Datetime: "timestamp",
    pl.Duration: "duration",
}
_TIMES = frozenset(["date", "timestamp"])
_BELOW_DAYS = re.compile(r"\d(h|m(?!o)|s|ms|us|ns)")
_AS_TIMESTAMP = "write cast(... as timestamp) for the date"


def unwanted_mixture(expression: pl.Expr, type_of: TypeOf) -> str:
    """What is wrong with the types of a part of it, and what would be right; empty: nothing.

    `type_of` gives the type of a part. That takes long for a large one, so it is asked of those only whose
    kind does not follow from their inputs.
    """
    parts = [expression]
    inputs_of: list[range] = []
    for part in parts:
        inputs = part.meta.pop()[::-1]
        inputs_of.append(range(len(parts), len(parts) + len(inputs)))
        parts += inputs
    kinds = [""] * len(parts)
    known: dict[str, str] = {}
    for place in reversed(range(len(parts))):
        part = parts[place]
        inputs = [parts[each] for each in inputs_of[place]]
        of_inputs = [kinds[each] for each in inputs_of[place]]
        what = _operation(part, inputs)
        if what == "offset":
            if of_inputs[0] == "date" and _BELOW_DAYS.search(str(inputs[1])):
                return f"hours and what is shorter can't be added to a date; {_AS_TIMESTAMP}"
            kinds[place] = of_inputs[0]
        elif what == "arithmetic":
            if found := _no_arithmetic(of_inputs):
                return found
            kinds[place] = "number" if set(of_inputs) == {"number"} else ""
        elif what in ("text", "boolean"):
            kinds[place] = what if set(of_inputs) == {what} else ""
        elif what:
            chosen = of_inputs[:_BRANCHES] if what == _CASE else of_inputs
            kinds[place] = _common_kind(chosen)
            if not kinds[place]:
                return _different(what, [type_of(each) for each in inputs[: len(chosen)]])
        if not kinds[place]:
            text = str(part)
            if text.endswith(_JOINED_TEXT):
                kinds[place] = "text"
                continue
            if text not in known:
                known[text] = _kind(type_of(part))
            kinds[place] = known[text]
    return ""


def _operation(part: pl.Expr, inputs: Sequence[pl.Expr]) -> str:
    """What is done with the inputs: ``arithmetic``, ``offset``, the names of functions that choose one of
    them; ``text`` or ``boolean`` where all are that and so is the part; or nothing that mixes types."""
    if len(inputs) < 2:
        return ""
    if len(inputs) == 2:
        left, right = inputs
        if part.meta.eq(left & right) or part.meta.eq(left | right):
            return "boolean"
        if part.meta.eq(left + right) or part.meta.eq(left - right):
            joins = all(str(each).endswith(_JOINED_TEXT) for each in inputs)
            return "text" if joins else "arithmetic"
    if len(inputs) == 3 and part.meta.eq(_case(*inputs)):
        return _CASE
    text, start = str(part), str(inputs[0])
    called = _CALLED.match(text, len(start)) if text.startswith(start) else None
    name = called.group(1) if called is not None else ""
    if name == "dt.offset_by":
        return "offset"
    return "arithmetic" if name in _ARITHMETIC else _CHOOSING.get(name, "")


def _case(then: pl.Expr, otherwise: pl.Expr, condition: pl.Expr) -> pl.Expr:
    """The choice whose inputs are these, in the order in which Polars has them."""
    return pl.when(condition).then(then).otherwise(otherwise)


def _common_kind(kinds: Sequence[str]) -> str:
    """The kind that values of all these have together; empty: there is none."""
    different = {*kinds} - {"null"}
    if different == _TIMES:
        return "timestamp"
    return different.pop() if len(different) == 1 else "" if different else "null"


def _different(what: str, types: Sequence[pl.DataType]) -> str:
    named = " and ".join(sorted({_name(each) for each in types if each != pl.Null}))
    return f"{what} can't choose between values of {named}; make them of one type with cast"


def _no_arithmetic(kinds: Sequence[str]) -> str:
    if "text" in kinds:
        return "texts can't be computed with; write a || b to join them, or cast(... as bigint)"
    if "boolean" in kinds:
        return "booleans can't be computed with; write cast(... as bigint) for 1 and 0"
    if {*kinds} == {"date", "duration"}:
        return (
            "a duration that is computed can't be added to a date, and an interval stands behind it; "
            f"{_AS_TIMESTAMP}"
        )
    return ""


def _name(kind: pl.DataType) -> str:
    # a literal's type is as narrow as can be, its values are not
    return "int64" if kind.is_integer() else type_text(kind)


def _kind(kind: pl.DataType) -> str:
    return "number" if kind.is_numeric() else _PLAIN_KINDS.get(kind.base_type(), str(kind))
