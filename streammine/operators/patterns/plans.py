"""In which order the events of an alternative are found, and which conditions are judged when.

Matches leave in the epoch in which they are complete. Every row before that epoch has been seen, so a match
is new if one of its last events is. Hence the search begins there and goes backwards: with the rows that
came in this epoch, not with all that are kept (Mei & Madden 2009 join the rarest end first; here it is the
newest). With an absence at the end a match is decided later, when `within` has passed since its first event.
Then the search begins at the first events whose time has come, and goes forwards. So does `next`, which
depends on what comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from streammine.model.topology.pattern_alternatives import Absence, Alternative
from streammine.model.topology.pattern_parts import PatternEvent
from streammine.model.topology.patterning import Matching
from streammine.operators.patterns.conditions import Condition, applying

BEFORE, FOCUS, BEHIND = 0, 1, 2
"""Where a row lies: before, inside or behind the span of time in which matches are anchored."""


@dataclass(frozen=True)
class Step:
    """One event to be found. `on_element` is judged for each row that it takes, `on_end` once it has all.

    `earlier` and `later` are the events found before it that must precede or follow it."""

    event: PatternEvent
    earlier: tuple[str, ...]
    later: tuple[str, ...]
    on_element: tuple[Condition, ...]
    on_end: tuple[Condition, ...]


@dataclass(frozen=True)
class AbsencePlan:
    """An event that must not be there, from the last of `after` to the first of `before`."""

    event: str
    after: tuple[str, ...]
    before: tuple[str, ...]
    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class Plan:
    """How matches of one alternative are found. The first `anchors` steps are its ends."""

    steps: tuple[Step, ...]
    anchors: int
    forward: bool
    waits: bool
    """Whether a match is decided only when `within` has passed since its first event."""
    looks_back: bool
    """Whether what lies before a match, within its span, can break it."""
    absences: tuple[AbsencePlan, ...]
    matching: Matching

    @property
    def total_order(self) -> bool:
        """Whether rows of one time count as one after the other, in canonical order."""
        return self.matching != "any"


def plan_of(alternative: Alternative, conditions: Sequence[Condition], matching: Matching) -> Plan:
    """The plan of an alternative whose events' conditions are among these."""
    waits = alternative.ends_with_absence
    forward = waits or matching == "next"
    anchors = alternative.first if forward else alternative.last
    others = [number for number in range(len(alternative.events)) if number not in anchors]
    order = [*anchors, *(others if forward else reversed(others))]
    present = frozenset(event.name for event in alternative.events)
    waiting = applying(conditions, present, None)
    steps: list[Step] = []
    found: set[str] = set()
    for number in order:
        event = alternative.events[number]
        ready = [each for each in waiting if each.events <= found | {event.name}]
        waiting = [each for each in waiting if each not in ready]
        steps.append(
            Step(
                event,
                _found(alternative, alternative.earlier[number], found),
                _found(alternative, _later(alternative, number), found),
                tuple(each for each in ready if event.name not in each.ends_of),
                tuple(each for each in ready if event.name in each.ends_of),
            )
        )
        found.add(event.name)
    assert not waiting, waiting
    return Plan(
        tuple(steps),
        len(anchors),
        forward,
        waits,
        alternative.begins_with_absence,
        tuple(_absence(alternative, each, conditions, present) for each in alternative.absences),
        matching,
    )


def _later(alternative: Alternative, number: int) -> tuple[int, ...]:
    return tuple(other for other, before in enumerate(alternative.earlier) if number in before)


def _found(alternative: Alternative, numbers: Sequence[int], found: set[str]) -> tuple[str, ...]:
    names = (alternative.events[number].name for number in numbers)
    return tuple(name for name in names if name in found)


def _absence(
    alternative: Alternative,
    absence: Absence,
    conditions: Sequence[Condition],
    present: frozenset[str],
) -> AbsencePlan:
    names = [event.name for event in alternative.events]
    return AbsencePlan(
        absence.event.name,
        tuple(names[number] for number in absence.after),
        tuple(names[number] for number in absence.before),
        tuple(applying(conditions, present, absence.event.name)),
    )
