"""A pattern as alternatives, none of which leaves a choice.

`one_of` makes an alternative of each of its parts, and so does a part that may be missing. What is left of
an alternative is a set of events, which of them come before which, and between which of them others must
not stand. Where all events are in one total order (`strict`, `next`), the parts of `all` make an alternative
of each of their orders, so that every alternative is a chain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product
from math import factorial, prod

from streammine.model.topology.pattern_parts import (
    AbsentEvent,
    PatternEvent,
    PatternGroup,
    PatternPart,
)
from streammine.model.topology.problems import wrong_value

MOST_ALTERNATIVES = 128


@dataclass(frozen=True)
class Absence:
    """No such event from the last of the events `after` to the first of the events `before`, whose numbers
    these are. No number: from the beginning, or until the end, of what `within` spans."""

    event: AbsentEvent
    after: tuple[int, ...]
    before: tuple[int, ...]


@dataclass(frozen=True)
class Alternative:
    """`events` stand such that each comes behind those that must precede it; `earlier[i]` are the numbers of
    those right before event i. A closure has at least one event here."""

    events: tuple[PatternEvent, ...]
    earlier: tuple[tuple[int, ...], ...]
    absences: tuple[Absence, ...]

    @property
    def first(self) -> tuple[int, ...]:
        """The events before which there is none."""
        return tuple(number for number, before in enumerate(self.earlier) if not before)

    @property
    def last(self) -> tuple[int, ...]:
        """The events behind which there is none."""
        followed = {number for before in self.earlier for number in before}
        return tuple(number for number in range(len(self.events)) if number not in followed)

    @property
    def ends_with_absence(self) -> bool:
        """Whether a match is decided only when all that `within` spans has passed."""
        return any(not absence.before for absence in self.absences)

    @property
    def begins_with_absence(self) -> bool:
        return any(not absence.after for absence in self.absences)


def alternatives(part: PatternPart, total_order: bool) -> tuple[Alternative, ...]:
    """All alternatives of a pattern. Raises a wrong-value error where it makes no sense."""
    if _count(part, total_order) > MOST_ALTERNATIVES:
        raise wrong_value(
            f"the pattern leaves more than {MOST_ALTERNATIVES} choices (one_of, ?, *"
            f"{', orders of all' if total_order else ''} multiply); make it several patterns"
        )
    made = []
    for variant in _variants(part, total_order):
        if variant is None or isinstance(variant, AbsentEvent):
            raise wrong_value("the pattern could match without any event; make one of them needed")
        made.append(_Linking().alternative(variant))
    return tuple(made)


def _count(part: PatternPart, total_order: bool) -> int:
    if isinstance(part, PatternEvent):
        return 2 if part.at_least == 0 else 1
    if isinstance(part, AbsentEvent):
        return 1
    counts = [_count(each, total_order) for each in part.parts]
    if part.kind == "one_of":
        return sum(counts)
    orders = factorial(len(counts)) if part.kind == "all" and total_order else 1
    return prod(counts) * orders


def _variants(part: PatternPart, total_order: bool) -> Iterator[PatternPart | None]:
    """The part without choices; None where it is missing."""
    if isinstance(part, AbsentEvent):
        yield part
    elif isinstance(part, PatternEvent):
        if part.at_least == 0:
            yield None
        yield replace(part, at_least=max(1, part.at_least))
    elif part.kind == "one_of":
        for each in part.parts:
            yield from _variants(each, total_order)
    else:
        for chosen in product(*(tuple(_variants(each, total_order)) for each in part.parts)):
            yield from _combined(part, [each for each in chosen if each is not None], total_order)


def _combined(
    group: PatternGroup, parts: Sequence[PatternPart], total_order: bool
) -> Iterator[PatternPart | None]:
    if group.kind == "all" and any(isinstance(each, AbsentEvent) for each in parts):
        raise wrong_value(
            "not stands in a sequence: before, between or behind events; in 'all' nothing says where. Write "
            "one_of the sequences that are meant"
        )
    if not parts:
        yield None
    elif group.kind == "all" and not total_order:
        yield parts[0] if len(parts) == 1 else PatternGroup("all", tuple(parts))
    else:
        for order in permutations(parts) if group.kind == "all" else (tuple(parts),):
            flat = tuple(each for one in order for each in _steps(one))
            if all(isinstance(each, AbsentEvent) for each in flat):
                raise wrong_value("a sequence of nothing but 'not' matches nothing; name an event")
            if group.kind == "all":
                _refuse_open_ends(order)
            yield PatternGroup("sequence", flat)


def _steps(part: PatternPart) -> tuple[PatternPart, ...]:
    return part.parts if isinstance(part, PatternGroup) and part.kind == "sequence" else (part,)


def _refuse_open_ends(parts: Sequence[PatternPart]) -> None:
    for part in parts:
        steps = _steps(part)
        if isinstance(steps[0], AbsentEvent) or isinstance(steps[-1], AbsentEvent):
            raise wrong_value(
                "in 'all', a sequence begins and ends with an event, not with 'not': nothing says how far "
                "that would reach"
            )


class _Linking:
    """Numbers the events of one variant and finds which of them precede which."""

    def __init__(self) -> None:
        self._events: list[PatternEvent] = []
        self._earlier: list[tuple[int, ...]] = []
        self._absences: list[Absence] = []

    def alternative(self, part: PatternPart) -> Alternative:
        _, last = self._link(part, ())
        del last
        return Alternative(tuple(self._events), tuple(self._earlier), tuple(self._absences))

    def _link(
        self, part: PatternPart, earlier: tuple[int, ...]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The first and last events of a part that comes behind the events `earlier`."""
        if isinstance(part, PatternEvent):
            self._events.append(part)
            self._earlier.append(earlier)
            number = (len(self._events) - 1,)
            return number, number
        assert isinstance(part, PatternGroup), part
        if part.kind == "all":
            _refuse_open_ends(part.parts)
            ends = [self._link(each, earlier) for each in part.parts]
            return tuple(n for first, _ in ends for n in first), tuple(
                n for _, last in ends for n in last
            )
        first: tuple[int, ...] = ()
        last = earlier
        waiting: list[AbsentEvent] = []
        for each in part.parts:
            if isinstance(each, AbsentEvent):
                waiting.append(each)
                continue
            of_part = self._link(each, last)
            self._absences += [Absence(absent, last, of_part[0]) for absent in waiting]
            waiting = []
            first, last = first or of_part[0], of_part[1]
        self._absences += [Absence(absent, last, ()) for absent in waiting]
        return first, last
