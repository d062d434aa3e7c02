"""The pattern against plain Python that looks at every combination."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from streammine.model.topology import PatternOperator
from streammine.model.topology.pattern_parts import AbsentEvent, PatternEvent, leaves, pattern_part
from streammine.operators.catalog import build_operator
from streammine.operators.checking.events import Events
from streammine.operators.site import Site
from tests.property.operator_trials import assert_as_reference, dead_of, events_of, minutes
from tests.property.pattern_reference import Condition, Question, Row, matches

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("v", pa.float64()), ("p", pa.int32())])
MINUTE = minutes()
MATCHINGS = ("any", "next", "strict")

Values = Mapping[str, list[Row]]


def order(value: Any) -> tuple[bool, float]:
    """NaN equals NaN and is greater than every number."""
    return (True, 0.0) if isinstance(value, float) and math.isnan(value) else (False, value)


def compared(sign: str, left: Any, right: Any) -> bool:
    """False where a side is null."""
    if left is None or right is None:
        return False
    signs: dict[str, Callable[[Any, Any], bool]] = {
        ">": operator.gt,
        "<=": operator.le,
        "<>": operator.ne,
        "=": operator.eq,
    }
    return signs[sign](order(left), order(right))


FITS: dict[str, Callable[[Row], bool]] = {
    "true": lambda row: True,
    "v > 1": lambda row: compared(">", row.v, 1.0),
    "p = 1": lambda row: row.p == 1,
    "v is null or v < 2 and p = 0": lambda row: (
        row.v is None or (compared("<=", row.v, 1.9) and row.p == 0)
    ),
    "v <= 2 and p <> 0": lambda row: (
        compared("<=", row.v, 2.0) and row.p is not None and row.p != 0
    ),
}
OFTEN = ("true", "v > 1", *FITS)
SIGNS = ("", "", "", "+", "*", "?", "{2}", "{1,2}", "{2,}")


class Names:
    """Gives every event of a drawn pattern a name of its own."""

    def __init__(self) -> None:
        self.count = 0

    def new(self) -> str:
        self.count += 1
        return f"e{self.count}"


@st.composite
def parts(draw: st.DrawFn, names: Names, depth: int = 0) -> Any:
    kind = draw(st.sampled_from(["event", "event", "sequence", "all", "one_of"][: 5 - 2 * depth]))
    if names.count > 3 or kind == "event" or depth == 2:
        name = names.new()
        return {name + draw(st.sampled_from(SIGNS)): draw(st.sampled_from(OFTEN))}
    return {kind: draw(part_lists(names, depth + 1, kind))}


@st.composite
def part_lists(draw: st.DrawFn, names: Names, depth: int, kind: str) -> Any:
    made: list[Any] = []
    least = 1 if kind == "sequence" else 2
    for _ in range(draw(st.integers(least, max(2, 3 - depth)))):
        if kind == "sequence" and draw(st.integers(0, 3)) == 0:
            made.append({"not": {names.new(): draw(st.sampled_from(OFTEN))}})
        made.append(draw(parts(names, depth)))
    if kind == "sequence" and draw(st.integers(0, 4)) == 0:
        made.append({"not": {names.new(): draw(st.sampled_from(OFTEN))}})
    return made


class Term(NamedTuple):
    """One side of a condition. `element`: it belongs to each element of a closure; `whole`: to all of it."""

    text: str
    value: Callable[[Values], Any]
    event: str
    element: bool = False
    pair: bool = False
    whole: bool = False


def terms(event: PatternEvent | AbsentEvent) -> list[Term]:
    name = event.name
    if isinstance(event, AbsentEvent) or not event.is_closure:
        return [
            Term(f"{name}.{c}", lambda rows, c=c: getattr(rows[name][0], c), name) for c in "vp"
        ]
    return [
        Term(f"{name}.v", lambda rows: rows[""][-1].v, name, element=True),
        Term(f"previous({name}.v)", lambda rows: rows[""][0].v, name, element=True, pair=True),
        Term(f"count({name})", lambda rows: len(rows[name]), name, whole=True),
        Term(f"first({name}.p)", lambda rows: rows[name][0].p, name, whole=True),
        Term(f"last({name}.v)", lambda rows: rows[name][-1].v, name, whole=True),
        Term(f"sum({name}.p)", lambda rows: total(rows[name]), name, whole=True),
        Term(f"max({name}.v)", lambda rows: greatest(rows[name]), name, whole=True),
    ]


def total(rows: list[Row]) -> int | None:
    values = [row.p for row in rows if row.p is not None]
    return sum(values) if values else None


def greatest(rows: list[Row]) -> float | None:
    values = [row.v for row in rows if row.v is not None]
    return max(values, key=lambda v: (*order(v), math.copysign(1, v))) if values else None


@st.composite
def conditions(draw: st.DrawFn, events: list[PatternEvent | AbsentEvent]) -> Condition | None:
    left = draw(st.sampled_from(terms(draw(st.sampled_from(events)))))
    right = draw(st.sampled_from(terms(draw(st.sampled_from(events)))))
    sign = draw(st.sampled_from([">", "<=", "<>"]))
    sides = (left, right)
    elements = {side.event for side in sides if side.element}
    absent = {side.event for side in sides} & {
        event.name for event in events if isinstance(event, AbsentEvent)
    }
    if len(elements) > 1 or len(absent) > 1 or (elements and absent):
        return None
    return Condition(
        f"{left.text} {sign} {right.text}",
        tuple(sorted({left.event, right.event})),
        lambda rows: compared(sign, left.value(rows), right.value(rows)),
        next(iter(elements), None),
        any(side.pair for side in sides),
        whole=tuple(side.event for side in sides if side.whole),
    )


def output_of(
    events: list[PatternEvent], columns: tuple[str, ...]
) -> tuple[dict[str, str], Callable[[Values], tuple[Any, ...]]]:
    """Columns that tell matches apart as far as these columns do, and what they hold."""
    texts: dict[str, str] = {}
    values: list[Callable[[Values], Any]] = []

    def add(text: str, name: str, value: Callable[[list[Row]], Any], otherwise: Any = None) -> None:
        texts[f"o{len(texts)}"] = text
        values.append(lambda rows: value(rows[name]) if name in rows else otherwise)

    for event in events:
        name = event.name
        if event.is_closure:
            add(f"count({name})", name, len, 0)
            if "ts" in columns:
                add(f"sum({name}.ts)", name, lambda rows: sum(row.ts for row in rows))
            if "v" in columns:
                add(f"max({name}.v)", name, greatest)
            if "p" in columns:
                add(f"last({name}.p)", name, lambda rows: rows[-1].p)
        else:
            for column in columns:
                add(f"{name}.{column}", name, lambda rows, c=column: getattr(rows[0], c))
    return texts, lambda rows: tuple(value(rows) for value in values)


FLOATS = st.sampled_from([None, 0.0, -0.0, 1.0, 2.0, 3.0, 2.0, 3.0, math.nan])
ROWS = st.builds(
    Row,
    st.integers(0, 30).map(lambda t: 10 * t // 3 * 2),
    st.sampled_from([1, 1, 1, 2, None]),
    FLOATS,
    st.sampled_from([None, 0, 1, 1, 2]),
)


@st.composite
def questions(draw: st.DrawFn) -> tuple[dict[str, Any], Question]:
    kind = draw(st.sampled_from(["sequence", "sequence", "sequence", "all", "one_of"]))
    pattern: dict[str, Any] = {kind: draw(part_lists(Names(), 0, kind))}
    root = pattern_part(pattern)
    events = list(leaves(root))
    drawn = [draw(conditions(events)) for _ in range(draw(st.integers(0, 2)))]
    where = [condition for condition in drawn if condition is not None]
    wanted = [event for event in events if isinstance(event, PatternEvent)]
    columns = draw(st.sampled_from([("ts", "v", "p"), ("ts",), ("ts", "v"), ("ts", "p")]))
    texts, values = output_of(wanted, columns)
    within = draw(st.sampled_from([0, 20, 40, 60, 80, 120, 120, 200, 200]))
    matching = draw(st.sampled_from(MATCHINGS))
    pattern |= {
        "where": [condition.text for condition in where],
        "within": f"{within}s",
        "matching": matching,
        "output": texts,
    }
    fits = {event.name: FITS[event.condition] for event in events}
    written = [event.condition for event in events] + [c.text for c in where] + [*texts.values()]
    read = "".join(c for c in "vp" if any(re.search(rf"\b{c}\b", text) for text in written))
    return pattern, Question(root, fits, where, within, matching, values, read)


def maker(pattern: Mapping[str, Any]) -> Callable[[bool], Any]:
    try:
        operator_settings = PatternOperator.model_validate(
            {"input": "rows", "key": "k", "pattern": pattern}
        )
    except ValidationError:
        assume(False)
    return lambda combined: build_operator(operator_settings, Site("p", [SCHEMA], MINUTE))


def arriving(rows: list[tuple[Row, int]]) -> tuple[Events, dict[int, list[Row]]]:
    """The rows in the epochs of their times, some earlier or later by a number of epochs."""
    epochs: dict[int, list[Row]] = {}
    for row, shift in rows:
        epochs.setdefault(row.ts // 60 + shift, []).append(row)
    epochs = dict(sorted(epochs.items()))
    return events_of(MINUTE, [SCHEMA], {e: [rows] for e, rows in epochs.items()}), epochs


SHIFTS = st.sampled_from([0] * 14 + [1, -1])


@settings(max_examples=200, deadline=None)
@given(
    questions(),
    st.lists(st.tuples(ROWS, SHIFTS), min_size=5, max_size=9),
    st.integers(0, 2**32),
)
def test_matches_are_those_of_the_reference(
    asked: tuple[dict[str, Any], Question], rows: list[tuple[Row, int]], seed: int
) -> None:
    pattern, question = asked
    make = maker(pattern)
    events, epochs = arriving(rows)
    expected = matches(question, epochs)
    assert_as_reference(make, events, expected, np.random.default_rng(seed), trials=2)
    late = [row for row, shift in rows if shift > 0]
    assert len(dead_of(make, events)) == len(late)
