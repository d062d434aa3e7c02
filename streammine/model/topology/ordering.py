"""By which columns rows are ordered, as it is written: ``count desc``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from streammine.model.topology.parts import MOST_ENTRIES
from streammine.model.topology.problems import shown, wrong_value

_TERM = re.compile(r'\s*(?:"((?:[^"]|"")+)"|(.+?))(?:\s+(asc|desc))?\s*', re.IGNORECASE)
_PLAIN = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class OrderTerm:
    """One column, `descending` or not. Null comes last either way, and NaN is greater than every number."""

    column: str
    descending: bool

    @classmethod
    def parse(cls, value: object) -> OrderTerm:
        """From text such as ``count desc``; raises a wrong-value error."""
        if isinstance(value, OrderTerm):
            return value
        if not isinstance(value, str) or not value.strip():
            raise wrong_value(
                f"must be a column and its direction, like 'count desc', not {shown(value)}"
            )
        found = _TERM.fullmatch(value)
        assert found is not None, value
        quoted, plain, direction = found.groups()
        column = plain if quoted is None else quoted.replace('""', '"')
        if direction is None and quoted is None and not _PLAIN.fullmatch(plain):
            raise wrong_value(
                f"'{value.strip()}' is no column and its direction, like 'count desc'; what is computed "
                "is made a column by a map before"
            )
        if direction is None:
            raise wrong_value(
                f"'{value.strip()}' has no direction; write '{value.strip()} desc' for the greatest "
                f"first, or '{value.strip()} asc' for the least"
            )
        return cls(column, direction.lower() == "desc")

    def __str__(self) -> str:
        column = self.column
        if not _PLAIN.fullmatch(column):
            column = '"' + column.replace('"', '""') + '"'
        return f"{column} {'desc' if self.descending else 'asc'}"


def _terms(value: object) -> object:
    if isinstance(value, str):
        return re.split(r',(?=(?:[^"]*"[^"]*")*[^"]*$)', value)
    if isinstance(value, OrderTerm):
        return [value]
    if not isinstance(value, list | tuple):
        raise wrong_value(f"must be a text or a list of texts, not {shown(value)}")
    return value


def _distinct(terms: tuple[OrderTerm, ...]) -> tuple[OrderTerm, ...]:
    columns = [term.column for term in terms]
    for column in columns:
        if columns.count(column) > 1:
            raise wrong_value(f"'{column}' stands there twice; the first one decides")
    return terms


def _texts(terms: Sequence[OrderTerm]) -> list[str]:
    return [str(term) for term in terms]


OrderTerms = Annotated[
    tuple[Annotated[OrderTerm, BeforeValidator(OrderTerm.parse)], ...],
    BeforeValidator(_terms),
    AfterValidator(_distinct),
    Field(min_length=1, max_length=MOST_ENTRIES),
    PlainSerializer(_texts, return_type=list[str]),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {"type": "array", "items": {"type": "string"}, "minItems": 1},
            ]
        }
    ),
]
"""One or more columns with their directions, the one that decides first; kept as a tuple."""
