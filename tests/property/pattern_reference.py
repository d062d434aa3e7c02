"""What a pattern means, in plain Python: every combination is looked at, one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise, permutations, product
from typing import Any, NamedTuple

from streammine.model.topology.pattern_parts import (
    AbsentEvent,
    PatternEvent,
    PatternPart,
    leaves,
)


class Row(NamedTuple):
    """An event. `v` is a float or None, `p` an integer or None; `ts` in seconds."""

    ts: int
    k: int | None
    v: float | None
    p: int | None


Rows = Sequence[Row]
Binding = Mapping[str, tuple[int, ...]]
"""For each event of a match the numbers of its rows, ascending."""


@dataclass(frozen=True)
class Condition:
    """`holds` takes the rows of each event that `names` has; `elements`: the closure that it looks at element
    by element, whose rows are given one at a time, or, with `pairs`, with the one before."""

    text: str
    names: tuple[str, ...]
    holds: Callable[[Mapping[str, list[Row]]], bool]
    elements: str | None = None
    pairs: bool = False
    own: bool = False
    whole: tuple[str, ...] = ()
    """Closures that must be complete before it can be judged."""


@dataclass(frozen=True)
class Question:
    """A pattern. `fits` judges a row for each event; `output` makes a row of a match's rows by event."""

    root: PatternPart
    fits: Mapping[str, Callable[[Row], bool]]
    conditions: Sequence[Condition]
    within: int
    matching: str
    output: Callable[[Mapping[str, list[Row]]], tuple[Any, ...]]
    read: str = "vp"
    """The columns that the pattern reads; of rows of one time, these say which comes first."""
    epoch_seconds: int = 60


@dataclass
class Line:
    """The rows of one key in canonical order."""

    rows: list[Row] = field(default_factory=list)


def matches(question: Question, epochs: Mapping[int, Rows]) -> dict[int, list[tuple[Any, ...]]]:
    """The rows that leave, by epoch: (epoch, key, output...)."""
    by_key: dict[int | None, list[Row]] = {}
    for epoch, rows in epochs.items():
        for row in rows:
            if row.ts // question.epoch_seconds >= epoch:
                by_key.setdefault(row.k, []).append(row)
    left: dict[int, list[tuple[Any, ...]]] = {}
    for key, rows in by_key.items():
        line = Line(sorted(rows, key=lambda row: canonical(row, question.read)))
        for tree, binding in _found(question, line):
            if not _undisturbed(question, line, tree, binding):
                continue
            taken = [line.rows[number].ts for numbers in binding.values() for number in numbers]
            certain = min(taken) + question.within if _ends_absent(tree) else max(taken)
            epoch = certain // question.epoch_seconds
            named = {name: [line.rows[n] for n in numbers] for name, numbers in binding.items()}
            left.setdefault(epoch, []).append((epoch, key, *question.output(named)))
    return left


def canonical(row: Row, read: str) -> tuple[Any, ...]:
    return (row.ts, *(_ordered(getattr(row, column)) for column in read))


def _ordered(value: Any) -> tuple[Any, ...]:
    if value is None:
        return (2, 0, 0)
    if isinstance(value, float) and math.isnan(value):
        return (1, 0, 0)
    return (0, value, math.copysign(1, value))


# --- trees without choices -----------------------------------------------------------------------

Tree = tuple[Any, ...]
"""("event", PatternEvent), ("not", AbsentEvent), ("sequence", trees), ("all", trees)"""


def trees(part: PatternPart) -> Iterator[Tree | None]:
    if isinstance(part, AbsentEvent):
        yield ("not", part)
    elif isinstance(part, PatternEvent):
        if part.at_least == 0:
            yield None
        yield ("event", part)
    elif part.kind == "one_of":
        for each in part.parts:
            yield from trees(each)
    else:
        for chosen in product(*(list(trees(each)) for each in part.parts)):
            there = [each for each in chosen if each is not None]
            yield (part.kind, flat(there) if part.kind == "sequence" else there) if there else None


def flat(parts: Sequence[Tree]) -> list[Tree]:
    steps: list[Tree] = []
    for part in parts:
        steps += part[1] if part[0] == "sequence" else [part]
    return steps


def chains(tree: Tree) -> Iterator[list[Tree]]:
    """The tree as sequences of single events, in every order that it allows one after the other."""
    if tree[0] in ("event", "not"):
        yield [tree]
        return
    orders = permutations(tree[1]) if tree[0] == "all" else [tree[1]]
    for order in orders:
        for chosen in product(*(list(chains(each)) for each in order)):
            yield [step for steps in chosen for step in steps]


def events_of(tree: Tree) -> list[PatternEvent]:
    if tree[0] == "event":
        return [tree[1]]
    if tree[0] == "not":
        return []
    return [event for each in tree[1] for event in events_of(each)]


def _ends_absent(tree: Tree) -> bool:
    return tree[0] == "sequence" and tree[1][-1][0] == "not"


# --- combinations --------------------------------------------------------------------------------


def _found(question: Question, line: Line) -> Iterator[tuple[Tree, Binding]]:
    for tree in trees(question.root):
        assert tree is not None
        if question.matching == "any":
            for binding in _bindings(question, line, events_of(tree)):
                if _in_order(line, tree, binding) and _conditions_hold(question, line, binding):
                    yield tree, binding
            continue
        for chain in chains(tree):
            whole: Tree = ("sequence", chain)
            events = events_of(whole)
            if question.matching == "next":
                found = [b for n in range(len(line.rows)) for b in _next(question, line, events, n)]
            else:
                found = [
                    binding
                    for binding in _bindings(question, line, events)
                    if _in_total_order(events, binding) and _without_gap(binding)
                    if _conditions_hold(question, line, binding)
                ]
            yield from ((whole, binding) for binding in found)


def _bindings(question: Question, line: Line, events: Sequence[PatternEvent]) -> Iterator[Binding]:
    """All ways to give different rows to events, as far as `within` and single rows allow."""

    def extend(binding: dict[str, tuple[int, ...]], rest: Sequence[PatternEvent]) -> Any:
        if not rest:
            yield dict(binding)
            return
        event = rest[0]
        taken = {number for numbers in binding.values() for number in numbers}
        free = [
            n
            for n, row in enumerate(line.rows)
            if n not in taken
            and question.fits[event.name](row)
            and all(abs(row.ts - line.rows[t].ts) <= question.within for t in taken)
        ]
        most = len(free) if event.at_most is None else min(event.at_most, len(free))
        for count in range(max(1, event.at_least), most + 1):
            for numbers in combinations(free, count):
                if line.rows[numbers[-1]].ts - line.rows[numbers[0]].ts <= question.within:
                    yield from extend({**binding, event.name: numbers}, rest[1:])

    yield from extend({}, events)


def _numbers(tree: Tree, binding: Binding) -> list[int]:
    return [number for event in events_of(tree) for number in binding[event.name]]


def _in_order(line: Line, tree: Tree, binding: Binding) -> bool:
    """Parts of a sequence follow one another, equal times in either order."""
    if tree[0] in ("event", "not"):
        return True
    if not all(_in_order(line, each, binding) for each in tree[1]):
        return False
    if tree[0] == "all":
        return True
    there = [_numbers(each, binding) for each in tree[1] if each[0] != "not"]
    times = [[line.rows[number].ts for number in numbers] for numbers in there]
    return all(max(one) <= min(other) for one, other in pairwise(times))


def _in_total_order(events: Sequence[PatternEvent], binding: Binding) -> bool:
    numbers = [number for event in events for number in binding[event.name]]
    return all(one < other for one, other in pairwise(numbers))


def _without_gap(binding: Binding) -> bool:
    numbers = sorted(number for numbers in binding.values() for number in numbers)
    return numbers[-1] - numbers[0] == len(numbers) - 1


def _conditions_hold(question: Question, line: Line, binding: Binding) -> bool:
    return all(
        condition_holds(each, line, binding)
        for each in question.conditions
        if set(each.names) <= set(binding)
    )


def condition_holds(condition: Condition, line: Line, binding: Binding) -> bool:
    rows = {name: [line.rows[n] for n in binding[name]] for name in condition.names}
    if condition.elements is None:
        return condition.holds(rows)
    elements = rows[condition.elements]
    if condition.pairs:
        return all(
            condition.holds({**rows, condition.elements: elements, "": [one, other]})
            for one, other in pairwise(elements)
        )
    return all(
        condition.holds({**rows, condition.elements: elements, "": [element]})
        for element in elements
    )


# --- the next event that fits --------------------------------------------------------------------


def _next(
    question: Question, line: Line, events: Sequence[PatternEvent], start: int
) -> Iterator[Binding]:
    if question.fits[events[0].name](line.rows[start]):
        begun = {events[0].name: (start,)}
        if _judged(question, line, begun, frozenset()):
            yield from _follow(question, line, events, 0, begun)


def _follow(
    question: Question,
    line: Line,
    events: Sequence[PatternEvent],
    place: int,
    binding: Binding,
) -> Iterator[Binding]:
    """What becomes of a match of the events up to `place`, the last of which has its newest row."""
    event = events[place]
    count = len(binding[event.name])
    whole = frozenset(each.name for each in events[: place + 1])
    may_end = count >= event.at_least and _judged(question, line, binding, whole)
    may_grow = event.at_most is None or count < event.at_most
    if may_end and place + 1 == len(events):
        yield binding
    newest = binding[event.name][-1]
    first = min(number for numbers in binding.values() for number in numbers)
    for number in range(newest + 1, len(line.rows)):
        row = line.rows[number]
        if row.ts - line.rows[first].ts > question.within:
            return
        uses = []
        if may_grow and question.fits[event.name](row):
            longer = {**binding, event.name: (*binding[event.name], number)}
            if _judged(question, line, longer, whole - {event.name}):
                uses.append((place, longer))
        if may_end and place + 1 < len(events) and question.fits[events[place + 1].name](row):
            further = {**binding, events[place + 1].name: (number,)}
            if _judged(question, line, further, whole):
                uses.append((place + 1, further))
        for where, used in uses:
            yield from _follow(question, line, events, where, used)
        if uses:
            return


def _judged(question: Question, line: Line, binding: Binding, whole: frozenset[str]) -> bool:
    """The conditions that can be judged when only the closures `whole` are complete."""
    return all(
        condition_holds(each, line, binding)
        for each in question.conditions
        if set(each.names) <= set(binding) and set(each.whole) <= whole
    )


# --- absences ------------------------------------------------------------------------------------


def _undisturbed(question: Question, line: Line, tree: Tree, binding: Binding) -> bool:
    steps = tree[1] if tree[0] in ("sequence", "all") else []
    if tree[0] == "all":
        return all(_undisturbed(question, line, each, binding) for each in steps)
    for place, step in enumerate(steps):
        if step[0] == "not":
            before = [each for each in steps[:place] if each[0] != "not"]
            behind = [each for each in steps[place + 1 :] if each[0] != "not"]
            if _disturbed(question, line, step[1].name, before, behind, binding):
                return False
        elif not _undisturbed(question, line, step, binding):
            return False
    return True


def _disturbed(
    question: Question,
    line: Line,
    absent: str,
    before: Sequence[Tree],
    behind: Sequence[Tree],
    binding: Binding,
) -> bool:
    taken = [number for numbers in binding.values() for number in numbers]
    times = [line.rows[number].ts for number in taken]
    total = question.matching != "any"
    for number, row in enumerate(line.rows):
        if number in taken or not question.fits[absent](row):
            continue
        if before:
            last = max(_numbers(before[-1], binding))
            reached = number > last if total else row.ts >= line.rows[last].ts
        else:
            reached = row.ts >= max(times) - question.within
        if behind:
            first = min(_numbers(behind[0], binding))
            reached &= number < first if total else row.ts <= line.rows[first].ts
        else:
            reached &= row.ts <= min(times) + question.within
        if reached and _said_of_absent(question, line, absent, {**binding, absent: (number,)}):
            return True
    return False


def _said_of_absent(question: Question, line: Line, absent: str, binding: Binding) -> bool:
    return all(
        condition_holds(each, line, binding)
        for each in question.conditions
        if absent in each.names and set(each.names) <= set(binding)
    )


def names_of(root: PatternPart) -> list[str]:
    return [leaf.name for leaf in leaves(root)]
