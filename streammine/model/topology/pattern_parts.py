"""What a pattern consists of: events and closures, in a sequence, in any order, or one of several.

A part is written as a mapping with one entry::

    - start: "value > 100"                        one event, called start
    - rise+: "value > start.value"                a closure: one event or more
    - {sequence: [...]}, {all: [...]}, {one_of: [...]}
    - not: {fault: "property = 0"}                no such event here

A name may end with how many events it takes, as in a regular expression: ``?``, ``*``, ``+``, ``{3}``,
``{2,}`` or ``{2,5}``, bounds inclusive. A name alone takes any event.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from streammine.model.suggestions import did_you_mean, listed
from streammine.model.topology.parts import LONGEST_NAME, LONGEST_TEXT
from streammine.model.topology.problems import shown, wrong_value

MOST_REPETITIONS = 1_000_000
_DEEPEST = 16
_MOST_PARTS = 32

GroupKind: TypeAlias = Literal["sequence", "all", "one_of"]
GROUP_KINDS: tuple[GroupKind, ...] = ("sequence", "all", "one_of")
_NOT = "not"
_RESERVED = (*GROUP_KINDS, _NOT)

_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*([?*+]|\{\s*(\d+)\s*(?:(,)\s*(\d+)?\s*)?\})?", re.A)
_FIXED = {"?": (0, 1), "*": (0, None), "+": (1, None), None: (1, 1)}


@dataclass(frozen=True)
class PatternEvent:
    """One event, or `at_least` to `at_most` of them (None: any number), that fits the condition."""

    name: str
    condition: str = "true"
    at_least: int = 1
    at_most: int | None = 1

    @property
    def is_closure(self) -> bool:
        """Whether it may take several events."""
        return self.at_most != 1

    @property
    def spelled(self) -> str:
        """Name and bounds, as they are written."""
        for sign, bounds in _FIXED.items():
            if bounds == (self.at_least, self.at_most):
                return self.name + (sign or "")
        if self.at_least == self.at_most:
            return f"{self.name}{{{self.at_least}}}"
        most = "" if self.at_most is None else self.at_most
        return f"{self.name}{{{self.at_least},{most}}}"

    def plain(self) -> Any:
        return {self.spelled: self.condition}


@dataclass(frozen=True)
class AbsentEvent:
    """An event that must not be there."""

    name: str
    condition: str = "true"

    def plain(self) -> Any:
        return {_NOT: {self.name: self.condition}}


@dataclass(frozen=True)
class PatternGroup:
    """Parts one after the other (sequence), in any order (all), or one of them (one_of)."""

    kind: GroupKind
    parts: tuple[PatternPart, ...]

    def plain(self) -> Any:
        return {self.kind: [part.plain() for part in self.parts]}


PatternPart: TypeAlias = PatternEvent | AbsentEvent | PatternGroup


def leaves(part: PatternPart) -> Iterator[PatternEvent | AbsentEvent]:
    """The events of a part, as they are written."""
    if isinstance(part, PatternGroup):
        for each in part.parts:
            yield from leaves(each)
    else:
        yield part


def pattern_part(value: object, depth: int = 0) -> PatternPart:
    """From plain data. Raises a wrong-value error that says what would be right."""
    if isinstance(value, PatternEvent | AbsentEvent | PatternGroup):
        return value
    if isinstance(value, str):
        return _event(value, None)
    if not isinstance(value, Mapping) or len(value) != 1:
        found = f"{len(value)} entries" if isinstance(value, Mapping) else shown(value)
        raise wrong_value(
            "a part of a pattern is one entry, like start: 'value > 100', or one of "
            f"{listed(_RESERVED)}; not {found}"
        )
    ((name, content),) = value.items()
    if name == _NOT:
        return _absent(content)
    if name in GROUP_KINDS:
        return _group(name, content, depth)
    return _event(name, content)


def _group(kind: GroupKind, content: object, depth: int) -> PatternGroup:
    if depth == _DEEPEST:
        raise wrong_value(f"groups stand in groups at most {_DEEPEST} deep")
    if not isinstance(content, list | tuple):
        raise wrong_value(
            f"{kind} is a list of parts, like {kind}: [a: 'x > 1', b: 'x < 1'], not {shown(content)}"
        )
    least = 1 if kind == "sequence" else 2
    if not least <= len(content) <= _MOST_PARTS:
        raise wrong_value(f"{kind} has {least} to {_MOST_PARTS} parts, not {len(content)}")
    return PatternGroup(kind, tuple(pattern_part(each, depth + 1) for each in content))


def _absent(content: object) -> AbsentEvent:
    if isinstance(content, str):
        content = {content: None}
    if not isinstance(content, Mapping) or len(content) != 1:
        raise wrong_value(f"not names one event: not: {{fault: 'x = 0'}}, not {shown(content)}")
    ((name, condition),) = content.items()
    event = _event(name, condition)
    if (event.at_least, event.at_most) != (1, 1):
        raise wrong_value(f"not: '{name}' can't have bounds; a single event breaks the pattern")
    return AbsentEvent(event.name, event.condition)


def _event(name: object, condition: object) -> PatternEvent:
    found = _NAME.fullmatch(name.strip()) if isinstance(name, str) else None
    if found is None or len(found[1]) > LONGEST_NAME:
        raise wrong_value(
            f"{shown(name)} can't name an event: a word of letters, digits and _, perhaps with ?, *, +, "
            "{3}, {2,} or {2,5} behind it for how many"
        )
    if found[1] in _RESERVED:
        raise wrong_value(f"'{found[1]}' is a word of patterns; give the event another name")
    if found[2] in _FIXED:
        least, most = _FIXED[found[2]]
    else:
        least = int(found[3])
        most = least if found[4] is None else None if found[5] is None else int(found[5])
    if most is not None and not max(1, least) <= most <= MOST_REPETITIONS:
        raise wrong_value(
            f"'{name}': the bounds are a least number and one that is at least that, 1 to "
            f"{MOST_REPETITIONS}"
        )
    if least > MOST_REPETITIONS:
        raise wrong_value(f"'{name}': a closure needs at most {MOST_REPETITIONS} events")
    return PatternEvent(found[1], _condition(found[1], condition), least, most)


def _condition(name: str, value: object) -> str:
    if value is None or value is True:
        return "true"
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST_TEXT:
        raise wrong_value(
            f"the condition of '{name}' is an expression, like 'value > 100', or nothing for any "
            f"event; not {shown(value)}{did_you_mean(name, _RESERVED)}"
        )
    return value


def _plain(part: PatternPart) -> Any:
    return part.plain()


PatternPartField = Annotated[
    PatternPart,
    PlainValidator(pattern_part),
    PlainSerializer(_plain, return_type=Any),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {"type": "object", "minProperties": 1, "maxProperties": 1},
            ],
            "examples": [{"start": "value > 100"}, {"rise+": "value > start.value"}],
        }
    ),
]
