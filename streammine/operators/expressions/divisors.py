"""What is divided by, and raised to: how an operand is made a value per row.

Polars divides a column by a single value with a multiplication by its reciprocal, which in every third
row is another float64 than the quotient; but a column of one row it divides. It takes for a single value
what is a literal, and a ``case`` whose condition is the same in all rows of the batch. So the bytes would
depend on where batches are cut. ``pow(x, 2)`` is x * x for a single 2, and the C library's power for a column
of them, with the same consequences.

Two things are a value per row: a ``case`` of literals whose condition is not the same in all rows, and a
column that was made before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from streammine.operators.expressions.words import Token, operator_of

POWERS = frozenset(["pow", "power"])

_WITH_TEXT = ("date", "timestamp", "interval")
_SECOND_WORDS = ("precision", "unsigned")

Closing = Callable[[Sequence[Token], int], int]
"""Where the bracket that opens there is closed."""


def divides(tokens: Sequence[Token]) -> bool:
    return any(operator_of(token) == "/" for token in tokens)


def with_alternation(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """The frame with a column that is false and true by turns."""
    return frame.with_columns(pl.Series(name, np.arange(frame.height) % 2 == 1))


def is_literal(divisor: Sequence[Token]) -> bool:
    """Whether nothing but numbers is computed."""
    return not divides(divisor) and all(each.kind in ("number", "operator") for each in divisor)


def value_per_row(literal: Sequence[Token], alternation: str) -> list[Token]:
    """Tokens that have the value of these in every row, and its type."""
    words = {name: Token("keyword", name) for name in ("case", "when", "then", "else", "end")}
    return [
        Token("operator", "("),
        words["case"],
        words["when"],
        Token("column", alternation),
        words["then"],
        *literal,
        words["else"],
        *literal,
        words["end"],
        Token("operator", ")"),
    ]


def divisor_end(tokens: Sequence[Token], start: int, closing: Closing) -> int:
    """Where the divisor that begins at `start` ends: signs, one value, and casts of it."""
    end = start
    while end < len(tokens) and operator_of(tokens[end]) in ("-", "+"):
        end += 1
    if end >= len(tokens):
        return end
    end = _value_end(tokens, end, closing)
    while end < len(tokens) and operator_of(tokens[end]) == "::":
        end += 2
        while end < len(tokens) and tokens[end].text.lower() in _SECOND_WORDS:
            end += 1
        if end < len(tokens) and operator_of(tokens[end]) == "(":
            end = closing(tokens, end) + 1
    return min(end, len(tokens))


def _value_end(tokens: Sequence[Token], start: int, closing: Closing) -> int:
    token = tokens[start]
    if token.kind == "function":
        return closing(tokens, start + 1) + 1
    if operator_of(token) == "(":
        return closing(tokens, start) + 1
    word = token.text.lower() if token.kind == "keyword" else ""
    if word == "case":
        return case_end(tokens, start)
    return start + (2 if word in _WITH_TEXT else 1)


def case_end(tokens: Sequence[Token], start: int) -> int:
    """Behind the case that begins there."""
    open_cases = 0
    for index in range(start, len(tokens)):
        if tokens[index].kind == "keyword":
            open_cases += {"case": 1, "end": -1}.get(tokens[index].text.lower(), 0)
        if open_cases == 0:
            return index + 1
    return len(tokens)
