"""What stands beside `and`, `or` and `not` in an expression: Polars takes numbers for bits there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from streammine.operators.expressions.divisors import case_end
from streammine.operators.expressions.words import Token, closing_bracket, operator_of

_SEPARATING = ("when", "then", "else", "as", "from")


def logical_operands(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Each operand of an `and`, `or` or `not`, at every depth."""
    operands: list[list[Token]] = [[]]
    logical = False
    index = 0
    while index < len(tokens):
        token = tokens[index]
        end = _group_end(tokens, index)
        word = token.text.lower() if token.kind == "keyword" else ""
        if end > index + 1:
            yield from _within(tokens[index:end])
            operands[-1] += tokens[index:end]
        elif word in ("and", "or") and not _is_of_between(operands[-1]):
            logical = True
            operands.append([])
        elif word == "not" and not operands[-1]:
            logical = True
        else:
            operands[-1].append(token)
        index = end
    if logical:
        yield from operands


def _within(group: Sequence[Token]) -> Iterator[list[Token]]:
    """Those of all that stands between the brackets, or the words of the case, of a group."""
    parts: list[list[Token]] = [[]]
    index = 1
    while index < len(group) - 1:
        end = _group_end(group, index)
        token = group[index]
        if operator_of(token) == "," or (
            token.kind == "keyword" and token.text.lower() in _SEPARATING
        ):
            parts.append([])
        else:
            parts[-1] += group[index:end]
        index = end
    for part in parts:
        yield from logical_operands(part)


def _group_end(tokens: Sequence[Token], start: int) -> int:
    """Behind the bracket with what is in it, the case, or else the token that is there."""
    if tokens[start].kind == "keyword" and tokens[start].text.lower() == "case":
        return case_end(tokens, start)
    closing = closing_bracket(tokens, start)
    return start + 1 if closing is None else closing + 1


def _is_of_between(operand: Sequence[Token]) -> bool:
    """Whether the `and` behind these is that of a `between` among them."""
    words = [token.text.lower() for token in operand if token.kind == "keyword"]
    return words.count("between") > words.count("and")
