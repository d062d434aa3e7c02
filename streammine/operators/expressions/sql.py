"""An expression as Polars' SQL, its types those that it promises: what is computed is computed in 64 bits."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streammine.operators.expressions.words import Token, closing_bracket, operator_of, words_of

_INTEGER_FUNCTIONS = words_of(
    """length char_length character_length octet_length bit_length extract date_part year month day hour
    minute second array_length"""
)
"""Their Polars results are narrow or unsigned; ``length(a) - length(b)`` must not wrap around."""

_NARROW = words_of("tinyint smallint int int2 int4 integer utinyint usmallint uinteger")
_CASTS = ("cast", "try_cast")
_WIDE = Token("keyword", "bigint")


def with_tried_casts(tokens: Sequence[Token]) -> list[Token]:
    """The tokens with a try_cast for every cast that is written as a function."""
    return [
        Token("function", "try_cast")
        if token.kind == "function" and token.text.lower() == "cast"
        else token
        for token in tokens
    ]


def with_wide_casts(tokens: Sequence[Token]) -> list[Token]:
    """The tokens with every cast to a narrow integer in a cast to int64, unless it is the whole expression.

    Brackets that do not match stay as they are, for whoever says so.
    """
    whole = _without_brackets(tokens)
    begins = (len(tokens) - len(whole)) // 2
    found: list[Token] = []
    opening: list[bool] = []
    """Whether the brackets that are open are those of a cast that is to be widened."""
    for index, token in enumerate(tokens):
        operator = operator_of(token)
        if operator == "(":
            widens = _is_narrow_cast(tokens, index) and not (
                index - 1 == begins and _closes_at_end(whole, 1)
            )
            opening.append(widens)
            if widens:
                found[-1:] = [Token("function", "cast"), token, found[-1]]
        found.append(token)
        if operator == ")" and opening and opening.pop():
            found += [Token("keyword", "as"), _WIDE, token]
        is_type = index > 0 and operator_of(tokens[index - 1]) == "::"
        if is_type and token.text.lower() in _NARROW:
            ends = index == begins + len(whole) - 1
            if not (ends and _is_operand(whole[:-2])):
                found += [tokens[index - 1], _WIDE]
    return found


def _is_narrow_cast(tokens: Sequence[Token], opening: int) -> bool:
    """Whether the bracket that opens there is that of a cast to a narrow integer."""
    before = tokens[opening - 1] if opening else Token("", "")
    if before.kind != "function" or before.text.lower() not in _CASTS:
        return False
    closing = closing_bracket(tokens, opening)
    return closing is not None and tokens[closing - 1].text.lower() in _NARROW


def _without_brackets(tokens: Sequence[Token]) -> Sequence[Token]:
    """What stands in the brackets around all of it."""
    while len(tokens) > 2 and operator_of(tokens[0]) == "(" and _closes_at_end(tokens, 0):
        tokens = tokens[1:-1]
    return tokens


def _is_operand(tokens: Sequence[Token]) -> bool:
    """Whether a cast behind these is one of all of them."""
    while len(tokens) > 2 and operator_of(tokens[-2]) == "::":
        tokens = tokens[:-2]
    calls = len(tokens) > 1 and tokens[0].kind == "function"
    return len(tokens) == 1 or _closes_at_end(tokens, int(calls))


def _closes_at_end(tokens: Sequence[Token], opening: int) -> bool:
    """Whether a bracket opens there, and is closed by the last of the tokens."""
    return closing_bracket(tokens, opening) == len(tokens) - 1


def sql_of(tokens: Sequence[Token], schema: pa.Schema) -> str:
    """The checked tokens as SQL: columns quoted, numbers and function results typed as promised."""
    decimals = any(pa.types.is_decimal(field.type) for field in schema)
    words: list[str] = []
    open_casts: list[bool] = []
    for index, (kind, text) in enumerate(tokens):
        if kind == "column":
            words.append('"' + text.replace('"', '""') + '"')
        elif kind == "number" and "." in text and "e" not in text.lower() and not decimals:
            words.append(f"{text}e0")
        elif kind == "function" and text.lower() in _INTEGER_FUNCTIONS:
            words.append(f"cast({text}")
        elif kind == "text" and index and _is_word(tokens[index - 1], "date"):
            # not folded with an interval that stands beside it, whose hours would be lost
            words[-1:] = [f"cast(date {text} as date)"]
        else:
            words.append(text)
        if text == "(" and kind == "operator":
            called = tokens[index - 1] if index else Token("", "")
            open_casts.append(
                called.kind == "function" and called.text.lower() in _INTEGER_FUNCTIONS
            )
        elif text == ")" and kind == "operator" and open_casts and open_casts.pop():
            words.append("as bigint)")
    return " ".join(words)


def _is_word(token: Token, word: str) -> bool:
    return token.kind == "keyword" and token.text.lower() == word
