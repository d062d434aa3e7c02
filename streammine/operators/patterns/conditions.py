"""The conditions of a pattern: those on one event alone, and those between events.

What is about one event alone decides whether a row is a candidate, long before rows are combined, wherever
it is written. Everything else is cut at its `and`s, so that each part is judged as soon as the events that
it names are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import pyarrow as pa

from streammine.model.errors import TopologyError
from streammine.model.topology.pattern_parts import AbsentEvent, PatternEvent
from streammine.operators.patterns.references import (
    PREVIOUS,
    EventExpression,
    Scope,
    conjuncts,
    event_expression,
)


@dataclass(frozen=True)
class Condition:
    """A condition between events.

    `events` are all that it names. `elements_of`: the closure each element of which it is about; `ends_of`:
    closures that must be complete for it; `absent`: the event that must not be there, of which it says more.
    `pairs`: it is about each element and the one before it.
    """

    checked: EventExpression
    events: frozenset[str]
    elements_of: str | None
    ends_of: frozenset[str]
    absent: str | None
    pairs: bool


@dataclass(frozen=True)
class Conditions:
    """`own`: what a row must fulfil to be a candidate for an event; no entry where any row is."""

    own: Mapping[str, EventExpression]
    between: tuple[Condition, ...]


def conditions_of(scope: Scope, where: Iterable[str]) -> Conditions:
    """All conditions of a pattern. Raises TopologyError for those that can't be."""
    own: dict[str, list[str]] = {}
    between: list[Condition] = []
    texts: list[tuple[str | None, str]] = [
        (name, part) for name, event in scope.events.items() for part in conjuncts(event.condition)
    ]
    texts += [(None, part) for text in where for part in conjuncts(text)]
    for name, text in texts:
        if name is not None and text.lower() == "true":
            continue
        checked = event_expression(scope, text, name)
        _require_boolean(scope, checked)
        events = {each.event for each in checked.references.values()}
        if not events:
            if name is None:
                _fail(scope, text, "names no event; write for example a.value > 0")
            events = {name}
        if len(events) == 1 and all(each.function is None for each in checked.references.values()):
            own.setdefault(next(iter(events)), []).append(text)
        else:
            between.append(_between(scope, checked, frozenset(events)))
    whole = {name: " and ".join(f"({part})" for part in parts) for name, parts in own.items()}
    return Conditions(
        {name: event_expression(scope, text, name) for name, text in whole.items()},
        tuple(between),
    )


def output_expressions(scope: Scope, output: Mapping[str, str]) -> dict[str, EventExpression]:
    """The output columns. Raises TopologyError."""
    made = {}
    for column, text in output.items():
        checked = event_expression(scope, text)
        for reference in checked.references.values():
            event = scope.events[reference.event]
            if isinstance(event, AbsentEvent):
                _fail(scope, text, f"{event.name!r} stands behind 'not' and is never there")
            if event.is_closure and not reference.is_aggregate:
                _fail(
                    scope,
                    text,
                    f"{event.name!r} is several events; write first({event.name}.x), last, count, sum, "
                    "mean, min or max",
                )
        made[column] = checked
    return made


def _between(scope: Scope, checked: EventExpression, events: frozenset[str]) -> Condition:
    references = checked.references.values()
    absent = sorted(name for name in events if isinstance(scope.events[name], AbsentEvent))
    elements = sorted(
        {
            each.event
            for each in references
            if not each.is_aggregate and _is_closure(scope.events[each.event])
        }
    )
    if len(absent) > 1:
        _fail(scope, checked.text, f"names {' and '.join(absent)}, which are both behind 'not'")
    if len(elements) > 1:
        _fail(
            scope,
            checked.text,
            f"is about the elements of {' and '.join(elements)}; it may be about those of one closure, and "
            "about first, last, min, max and the like of others",
        )
    if absent and elements:
        _fail(
            scope,
            checked.text,
            f"compares {absent[0]!r} with each element of {elements[0]!r}; write first({elements[0]}.x), "
            "last, min or max",
        )
    return Condition(
        checked,
        events,
        elements[0] if elements else None,
        frozenset(each.event for each in references if each.is_aggregate),
        absent[0] if absent else None,
        any(each.function == PREVIOUS for each in references),
    )


def _is_closure(event: PatternEvent | AbsentEvent) -> bool:
    return isinstance(event, PatternEvent) and event.is_closure


def _require_boolean(scope: Scope, checked: EventExpression) -> None:
    kind = checked.expression.type
    if not pa.types.is_boolean(kind):
        _fail(
            scope,
            checked.text,
            f"gives {kind}; a condition gives a boolean, for example a comparison",
        )


def _fail(scope: Scope, text: str, reason: str) -> NoReturn:
    raise TopologyError(f"operator {scope.operator!r}: condition {text!r} {reason}")


def applying(
    conditions: Sequence[Condition], present: frozenset[str], absent: str | None
) -> list[Condition]:
    """The conditions that judge combinations of these events, and the event that must not be there."""
    return [
        each
        for each in conditions
        if each.absent == absent and each.events - {each.absent} <= present
    ]
