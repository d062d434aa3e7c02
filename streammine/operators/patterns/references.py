"""Expressions over the events of a match.

``start.value`` is a column of batches with one row per combination, and so is ``max(rise.value)``. So an
expression over events becomes one over columns, which are named as the references are written, and what
expressions can do, what their types are and what is wrong with them is the business of `Expression`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, NoReturn

import pyarrow as pa

from streammine.model.errors import TopologyError
from streammine.model.suggestions import did_you_mean, listed
from streammine.model.topology.aggregates import AggregateCall
from streammine.model.topology.pattern_parts import AbsentEvent, PatternEvent
from streammine.operators.aggregates.functions import aggregate
from streammine.operators.expressions import KEYWORDS, Expression, unknown_column

PREVIOUS = "previous"
ENDS = ("first", "last")
AGGREGATES = (
    "count",
    "count_distinct",
    "sum",
    "mean",
    "min",
    "max",
    "variance",
    "variance_population",
    "stddev",
    "stddev_population",
    "median",
    "collect",
)
_OTHER_NAMES = {"avg": "mean", "prev": PREVIOUS}
CLOSURE_FUNCTIONS = (*ENDS, PREVIOUS, *AGGREGATES)

_NAME = r'(?:[^\W\d]\w*|"(?:[^"]|"")*")'
_NO_KEYWORD = rf"(?!(?i:{'|'.join(sorted(KEYWORDS))})\b)"
_TOKEN = re.compile(
    rf"""(?P<space>\s+)
    |(?P<text>'(?:[^']|'')*')
    |(?P<call>(?P<function>{_NO_KEYWORD}[^\W\d]\w*)\s*\(\s*(?P<of>[^\W\d]\w*)(?:\s*\.\s*(?P<of_column>{_NAME}))?\s*\))
    |(?P<value>(?P<event>[^\W\d]\w*)\s*\.\s*(?P<column>{_NAME}))
    |(?P<quoted>"(?:[^"]|"")*")
    |(?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)
    |(?P<word>[^\W\d]\w*)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Reference:
    """A value of an event: of a column of `event` itself, or what `function` gives for a closure."""

    event: str
    column: str | None
    function: str | None = None

    @property
    def name(self) -> str:
        """What it is called among the columns of combinations."""
        place = self.event if self.column is None else f"{self.event}.{self.column}"
        return place if self.function is None else f"{self.function}({place})"

    @property
    def is_aggregate(self) -> bool:
        """Whether it belongs to a closure as a whole."""
        return self.function is not None and self.function != PREVIOUS


class Scope(NamedTuple):
    """What expressions of an operator may name. `events` by name; `schema` is that of the input."""

    operator: str
    events: Mapping[str, PatternEvent | AbsentEvent]
    schema: pa.Schema


@dataclass(frozen=True)
class EventExpression:
    """A checked expression over events. `references` by their columns' names."""

    text: str
    expression: Expression
    references: Mapping[str, Reference]


def event_expression(scope: Scope, text: str, own: str | None = None) -> EventExpression:
    """Check an expression. `own`: the event to which columns belong that name none.

    Raises TopologyError that names the operator, the expression and what would be right.
    """
    parsed = _Parsing(scope, text, own)
    schema = pa.schema(
        [pa.field(name, reference_type(scope, each)) for name, each in parsed.references.items()]
    )
    return EventExpression(text, Expression(scope.operator, parsed.sql, schema), parsed.references)


def named_events(scope: Scope, text: str, own: str | None = None) -> frozenset[str]:
    """The events that an expression refers to."""
    return frozenset(each.event for each in _Parsing(scope, text, own).references.values())


def reference_type(scope: Scope, reference: Reference) -> pa.DataType:
    """The type of the values of a reference. Raises TopologyError."""
    if reference.function in AGGREGATES:
        call = AggregateCall(reference.function, reference.column)  # type: ignore[arg-type]
        return aggregate(scope.operator, reference.name, call, scope.schema).type
    assert reference.column is not None, reference
    return scope.schema.field(reference.column).type


def conjuncts(text: str) -> list[str]:
    """The parts of a condition that must all hold, as far as `and` tells them. Brackets around all of it, or
    around a part, make no difference."""
    tokens = [found for found in _TOKEN.finditer(text) if found["space"] is None]
    closing = _closing_brackets(tokens)
    parts: list[str] = []
    rest = [(0, len(tokens))] if tokens else []
    while rest:
        first, end = rest.pop()
        cuts = _ands(tokens, closing, first, end)
        if cuts:
            starts = [first, *(place + 1 for place in cuts)]
            rest += reversed(list(zip(starts, [*cuts, end], strict=True)))
        elif closing.get(first) == end - 1 > first + 1:
            rest.append((first + 1, end - 1))
        else:
            parts.append(text[tokens[first].start() : tokens[end - 1].end()])
    return parts or [text]


def _closing_brackets(tokens: Sequence[re.Match[str]]) -> dict[int, int]:
    """By the place of each opening bracket that is closed, the place where it is."""
    closing: dict[int, int] = {}
    is_open: list[int] = []
    for place, found in enumerate(tokens):
        if found["other"] == "(":
            is_open.append(place)
        elif found["other"] == ")" and is_open:
            closing[is_open.pop()] = place
    return closing


def _ands(
    tokens: Sequence[re.Match[str]], closing: Mapping[int, int], first: int, end: int
) -> list[int]:
    """Where tokens from `first` up to `end` may be cut; nowhere if nothing stands on a side of a place."""
    cuts: list[int] = []
    cases, between = 0, False
    place = first
    while place < end:
        word = (tokens[place]["word"] or tokens[place]["other"] or "").lower()
        if word == "(":
            place = closing.get(place, end)
        elif word in ("case", "end"):
            cases += 1 if word == "case" else -1
        elif cases == 0 and word == "or":
            return []
        elif cases == 0 and word == "between":
            between = True
        elif cases == 0 and word == "and":
            if not between:
                cuts.append(place)
            between = False
        place += 1
    edges = [first - 1, *cuts, end]
    return cuts if all(right - left > 1 for left, right in pairwise(edges)) else []


class _Parsing:
    """One expression: `sql` over columns that are named as `references` are."""

    def __init__(self, scope: Scope, text: str, own: str | None) -> None:
        self._scope = scope
        self._text = text
        self._own = own
        self.references: dict[str, Reference] = {}
        words: list[str] = []
        before = ""
        for found in _TOKEN.finditer(text):
            words.append(self._word(found, before, text[found.end() :].lstrip()[:1]))
            if found.lastgroup != "space":
                before = found.group().lower()
        self.sql = "".join(words)

    def _word(self, found: re.Match[str], before: str, after: str) -> str:
        if found["call"] is not None:
            return self._call(found)
        if found["value"] is not None:
            return self._named(self._value(found["event"], _unquoted(found["column"]), None))
        if found["quoted"] is not None:
            return self._bare(_unquoted(found["quoted"]), found.group())
        if after == "(" and found["word"] and self._is_of_closures(found["word"].lower()):
            self._fail(
                f"{found['word']} takes one column of a closure, like {found['word']}(NAME.x); let a map or "
                "an enrich compute before what it is to be of"
            )
        # what stands before a text is its type: date '2024-01-01'
        if found["word"] is None or after in ("(", "'"):
            return found.group()
        word = found["word"]
        is_type = before in ("as", ":")
        if word.lower() in KEYWORDS or is_type or word not in self._scope.schema.names:
            if word in self._scope.events:
                self._fail(f"{word!r} is an event; write {word}.COLUMN")
            return found.group()
        return self._bare(word, word)

    @staticmethod
    def _is_of_closures(word: str) -> bool:
        return _OTHER_NAMES.get(word, word) in CLOSURE_FUNCTIONS

    def _call(self, found: re.Match[str]) -> str:
        written, event = found["function"], found["of"]
        function = _OTHER_NAMES.get(written.lower(), written.lower())
        column = None if found["of_column"] is None else _unquoted(found["of_column"])
        if function not in CLOSURE_FUNCTIONS:
            if column is not None:
                return f"{written}({self._named(self._value(event, column, None))})"
            if event in self._scope.schema.names:
                return f"{written}({self._bare(event, event)})"
            if event in self._scope.events:
                self._fail(f"{event!r} is an event; write {written}({event}.COLUMN)")
            return found.group()
        reference = self._value(event, column, function)
        if column is None and function != "count":
            self._fail(f"{written}({event}): {function} needs a column, like {written}({event}.x)")
        return self._named(reference)

    def _bare(self, column: str, written: str) -> str:
        """A column that names no event."""
        if self._own is None:
            events = list(self._scope.events)
            self._fail(
                f"{written} does not say of which event; write {events[0]}.{written}. "
                f"Events: {listed(events)}"
            )
        return self._named(self._value(self._own, column, None))

    def _value(self, event: str, column: str | None, function: str | None) -> Reference:
        events = self._scope.events
        if event not in events:
            suggestion = did_you_mean(event, events) or "."
            self._fail(f"there is no event {event!r}{suggestion} Events: {listed(events)}")
        if column is not None and column not in self._scope.schema.names:
            self._fail(f"{event}.{column}: {unknown_column(column, self._scope.schema)}")
        found = events[event]
        if function is not None and (isinstance(found, AbsentEvent) or not found.is_closure):
            right = f"write {event}.{column}"
            if column is None:
                right = "it is there once"
                if isinstance(found, PatternEvent) and found.at_least == 0:
                    right = f"it is there once at most; where it is missing {event}.COLUMN is null"
            self._fail(f"{function}({event}…): {event!r} is one event, not a closure; {right}")
        return Reference(event, column, function)

    def _named(self, reference: Reference) -> str:
        self.references[reference.name] = reference
        quoted = reference.name.replace('"', '""')
        return f'"{quoted}"'

    def _fail(self, reason: str) -> NoReturn:
        raise TopologyError(
            f"operator {self._scope.operator!r}: expression {self._text!r}: {reason}"
        )


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def columns_read(expressions: Sequence[EventExpression]) -> frozenset[str]:
    """The input columns that expressions read."""
    return frozenset(
        reference.column
        for each in expressions
        for reference in each.references.values()
        if reference.column is not None
    )
