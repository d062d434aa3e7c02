"""Stateless operators that shape rows, against plain Python: map, filter, enrich, flat_map, unnest, split and
union."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.model.errors import TopologyError
from streammine.operators.enrich import EnrichOperator
from streammine.operators.filter import FilterOperator
from streammine.operators.flat_map import WordSplit
from streammine.operators.map import MapOperator
from streammine.operators.split import SplitOperator, SplitOutput
from streammine.operators.union import UnionOperator
from streammine.operators.unnest import UnnestOperator
from tests.property.stateless_trials import Row, assert_shapes
from tests.property.three_valued import Condition, conditions

SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("j", pa.int64()),
        ("f", pa.float64()),
        ("g", pa.float64()),
        ("t", pa.string()),
        ("b", pa.bool_()),
        ("d", pa.date32()),
    ]
)
INTEGERS = st.none() | st.sampled_from([-(2**63), -1, 0, 1, 2, 2**63 - 1])
FLOATS = st.none() | st.sampled_from(
    [0.0, -0.0, 1.0, 1.5, -2.5, 5e-324, 1.7e308, -1.7e308, math.inf, -math.inf, math.nan]
)
TEXTS = st.none() | st.sampled_from(["", "a", "b", "A b", "é", "ß 😀", "\0", "12", "007"])
DATES = st.none() | st.dates(dt.date(1960, 1, 1), dt.date(2030, 1, 1))
ROWS = st.tuples(INTEGERS, INTEGERS, FLOATS, FLOATS, TEXTS, st.none() | st.booleans(), DATES)
RANDOM = st.integers(0, 2**32).map(np.random.default_rng)


def epochs_of(rows: st.SearchStrategy[Row]) -> st.SearchStrategy[dict[int, list[Row]]]:
    return st.dictionaries(st.integers(-2, 3), st.lists(rows, max_size=8), min_size=1, max_size=3)


def named(row: Row) -> dict[str, Any]:
    return dict(zip(SCHEMA.names, row, strict=True))


def wrapped(number: int) -> int:
    """As int64 holds it."""
    return (number + 2**63) % 2**64 - 2**63


def ordered(number: float) -> tuple[bool, float]:
    """Orders as comparisons do: NaN equals NaN and is greater than every number, -0.0 is 0.0."""
    return (math.isnan(number), 0.0 if math.isnan(number) else number)


def of_columns(names: str, compute: Callable[..., Any]) -> Callable[[Mapping[str, Any]], Any]:
    """Null where one of the columns is."""

    def computed(row: Mapping[str, Any]) -> Any:
        values = [row[name] for name in names]
        return None if None in values else compute(*values)

    return computed


COMPUTED: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "i": lambda row: row["i"],
    "f": lambda row: row["f"],
    "t": lambda row: row["t"],
    "d": lambda row: row["d"],
    "i + j": of_columns("ij", lambda i, j: wrapped(i + j)),
    "i * j - i": of_columns("ij", lambda i, j: wrapped(i * j - i)),
    "i + i * j": of_columns("ij", lambda i, j: wrapped(i + i * j)),
    # a computed -0.0 is 0.0
    "f + g": of_columns("fg", lambda f, g: f + g + 0.0),
    "-f": of_columns("f", lambda f: -f + 0.0),
    "t || '!'": of_columns("t", lambda t: t + "!"),
    "length(t) + i": of_columns("ti", lambda t, i: wrapped(len(t) + i)),
    "f >= g": of_columns("fg", lambda f, g: ordered(f) >= ordered(g)),
    "t < 'b'": of_columns("t", lambda t: t.encode() < b"b"),
    "case when b then i else j end": lambda row: row["i"] if row["b"] else row["j"],
    "coalesce(i, j, 7)": lambda row: next(v for v in (row["i"], row["j"], 7) if v is not None),
    "i is not distinct from j": lambda row: row["i"] == row["j"],
    "extract(year from d)": of_columns("d", lambda d: d.year),
    "3.5": lambda row: 3.5,
}
ATOMS = [
    Condition("i > 0", of_columns("i", lambda i: i > 0)),
    Condition("i = j", of_columns("ij", lambda i, j: i == j)),
    Condition("f > 1", of_columns("f", lambda f: ordered(f) > ordered(1))),
    Condition("f = g", of_columns("fg", lambda f, g: ordered(f) == ordered(g))),
    Condition("t <> 'a'", of_columns("t", lambda t: t != "a")),
    Condition("t is null", lambda row: row["t"] is None),
    Condition("b", of_columns("b", lambda b: b)),
    Condition("d < date '1970-01-01'", of_columns("d", lambda d: d < dt.date(1970, 1, 1))),
    Condition("j in (0, 1)", of_columns("j", lambda j: j in (0, 1))),
    Condition("true", lambda row: True),
]
EXPRESSIONS = st.lists(st.sampled_from(list(COMPUTED)), min_size=1, max_size=6)


@settings(max_examples=200, deadline=None)
@given(epochs_of(ROWS), EXPRESSIONS, RANDOM)
def test_map_gives_the_named_columns(
    epochs: dict[int, list[Row]], texts: list[str], random: np.random.Generator
) -> None:
    columns = {f"c{number}": text for number, text in enumerate(texts)}
    assert_shapes(
        lambda: MapOperator("m", columns, SCHEMA),
        SCHEMA,
        epochs,
        lambda row: [tuple(COMPUTED[text](named(row)) for text in texts)],
        random,
    )


@settings(max_examples=200, deadline=None)
@given(epochs_of(ROWS), conditions(ATOMS), RANDOM)
def test_filter_keeps_the_rows_for_which_its_condition_is_true(
    epochs: dict[int, list[Row]], condition: Condition, random: np.random.Generator
) -> None:
    assert_shapes(
        lambda: FilterOperator("f", condition.text, SCHEMA),
        SCHEMA,
        epochs,
        lambda row: [row] if condition.holds(named(row)) is True else [],
        random,
    )


@settings(max_examples=200, deadline=None)
@given(
    epochs_of(ROWS),
    st.dictionaries(
        st.sampled_from([*SCHEMA.names, "new", "newer"]),
        st.sampled_from(list(COMPUTED)),
        max_size=4,
    ),
    st.sets(st.sampled_from(SCHEMA.names), max_size=6),
    RANDOM,
)
def test_enrich_adds_replaces_and_drops(
    epochs: dict[int, list[Row]],
    columns: dict[str, str],
    dropped: set[str],
    random: np.random.Generator,
) -> None:
    """A column that is dropped may come again, then behind the others."""
    drop = sorted(dropped)
    replaced = [name for name in columns if name in SCHEMA.names and name not in dropped]

    def shape(row: Row) -> list[Row]:
        values = named(row)
        made = {name: COMPUTED[text](values) for name, text in columns.items()}
        stay = {name: made.get(name, value) for name, value in values.items() if name not in drop}
        return [tuple({**stay, **made}.values())]

    def make() -> EnrichOperator:
        return EnrichOperator("e", columns, SCHEMA, replace=replaced, drop=drop)

    stays = [name for name in SCHEMA.names if name not in dropped]
    assert make().output.names == [*stays, *(name for name in columns if name not in stays)]
    assert_shapes(make, SCHEMA, epochs, shape, random)


LINES = (
    st.none() | st.text("aZ é😀\t\n\v\f\r\x1f\x85\xa0'-0", max_size=12) | st.just("a" * 70 + " Bc")
)
SEPARATORS = {"whitespace": rb"[ \t\n\v\f\r]+", "letters": rb"[^A-Za-z]+"}


@settings(max_examples=200, deadline=None)
@given(
    epochs_of(st.tuples(INTEGERS, LINES, TEXTS)),
    st.sampled_from([pa.string(), pa.large_string()]),
    st.sampled_from(sorted(SEPARATORS)),
    st.booleans(),
    st.lists(st.sampled_from(["n", "line", "t"]), max_size=3, unique=True),
    RANDOM,
)
def test_flat_map_gives_a_row_per_word(
    epochs: dict[int, list[Row]],
    kind: pa.DataType,
    on: Any,
    lower: bool,
    keep: list[str],
    random: np.random.Generator,
) -> None:
    schema = pa.schema([("n", pa.int64()), ("line", kind), ("t", pa.string())])

    def shape(row: Row) -> list[Row]:
        line = (row[1] or "").encode()
        words = [word for word in re.split(SEPARATORS[on], line) if word]
        # only A to Z have a lower case here
        texts = [(word.lower() if lower else word).decode() for word in words]
        return [(text, *(row[schema.names.index(name)] for name in keep)) for text in texts]

    assert_shapes(
        lambda: WordSplit("w", schema, split="line", on=on, lower=lower, keep=keep),
        schema,
        epochs,
        shape,
        random,
    )


ELEMENTS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "integers": (pa.int64(), INTEGERS),
    "floats": (pa.float64(), FLOATS),
    "texts": (pa.string(), TEXTS),
    "lists": (pa.list_(pa.int64()), st.none() | st.lists(INTEGERS, max_size=2)),
}
LIST_TYPES: dict[str, Callable[[pa.DataType], pa.DataType]] = {
    "list": pa.list_,
    "large": pa.large_list,
    "fixed": lambda kind: pa.list_(kind, 2),
}


@settings(max_examples=300, deadline=None)
@given(
    st.data(),
    st.sampled_from(sorted(ELEMENTS)),
    st.sampled_from(sorted(LIST_TYPES)),
    st.booleans(),
    st.booleans(),
    RANDOM,
)
def test_unnest_gives_a_row_per_element(
    data: st.DataObject,
    elements: str,
    kind: str,
    keep_empty: bool,
    numbered: bool,
    random: np.random.Generator,
) -> None:
    element_type, values = ELEMENTS[elements]
    lists = st.lists(values, min_size=2 * (kind == "fixed"), max_size=2 + (kind != "fixed"))
    epochs = data.draw(epochs_of(st.tuples(INTEGERS, st.none() | lists, TEXTS)))
    schema = pa.schema(
        [("a", pa.int64()), ("l", LIST_TYPES[kind](element_type)), ("t", pa.string())]
    )

    def shape(row: Row) -> list[Row]:
        a, found, text = row
        places: list[Row] = [(element, place) for place, element in enumerate(found or ())]
        if keep_empty and not places:
            places = [(None, None)]
        return [(a, *place[: 1 + numbered], text) for place in places]

    position = "n" if numbered else None
    assert_shapes(
        lambda: UnnestOperator(
            "u", schema, "l", into="e", position=position, keep_empty=keep_empty
        ),
        schema,
        epochs,
        shape,
        random,
    )


# a text is read as a number only once it is known to be one
READABLE = [
    Condition(
        "t is null or not regexp_like(t, '^[0-9]+$')", lambda row: not (row["t"] or "").isdigit()
    ),
    Condition("cast(t as bigint) < 10", lambda row: int(row["t"]) < 10),
]


@settings(max_examples=200, deadline=None)
@given(
    epochs_of(ROWS),
    st.lists(conditions(ATOMS), max_size=3),
    st.sampled_from([[], READABLE]),
    st.booleans(),
    RANDOM,
)
def test_split_sends_each_row_to_the_first_output_that_takes_it(
    epochs: dict[int, list[Row]],
    drawn: list[Condition],
    guarded: list[Condition],
    rest: bool,
    random: np.random.Generator,
) -> None:
    asked = [*drawn, *guarded]
    outputs = {f"o{number}": each.text for number, each in enumerate(asked)}
    if rest or not outputs:
        outputs["rest"] = "else"

    def number_of(row: Row) -> int | None:
        values = named(row)
        taken = (number for number, each in enumerate(asked) if each.holds(values) is True)
        return next(taken, len(asked) if "rest" in outputs else None)

    def with_number(row: Row) -> list[Row]:
        number = number_of(row)
        return [] if number is None else [(*row, number)]

    def make() -> SplitOperator:
        return SplitOperator("s", outputs, SCHEMA)

    assert_shapes(
        make, SCHEMA, epochs, with_number, random, dead=lambda row: number_of(row) is None
    )
    routed = {
        epoch: [made for row in rows for made in with_number(row)] for epoch, rows in epochs.items()
    }
    output = make().output
    for number, name in enumerate(outputs):
        assert_shapes(
            lambda: SplitOutput(name, number, output),  # noqa: B023
            output,
            routed,
            lambda row: [row[:-1]] if row[-1] == number else [],  # noqa: B023
            random,
            trials=2,
        )


@st.composite
def streams(draw: st.DrawFn) -> list[tuple[pa.Schema, dict[int, list[Row]]]]:
    """Two or three streams with the same columns in any order, some without rows."""
    names = draw(st.lists(st.sampled_from(SCHEMA.names), min_size=1, unique=True))
    found = []
    for _ in range(draw(st.integers(2, 3))):
        order = draw(st.permutations(names))
        places = [SCHEMA.names.index(name) for name in order]
        rows = ROWS.map(lambda row: tuple(row[place] for place in places))  # noqa: B023
        schema = pa.schema([SCHEMA.field(name) for name in order])
        found.append((schema, draw(st.just({0: []}) | epochs_of(rows))))
    return found


@settings(max_examples=200, deadline=None)
@given(streams(), RANDOM)
def test_union_passes_on_all_rows_with_the_columns_of_the_first_stream(
    found: Sequence[tuple[pa.Schema, dict[int, list[Row]]]], random: np.random.Generator
) -> None:
    schemas = [schema for schema, _ in found]
    names = [f"stream{number}" for number in range(len(found))]

    def make() -> UnionOperator:
        return UnionOperator("u", names, schemas)

    assert make().output.equals(schemas[0])
    for schema, epochs in found:

        def shape(row: Row, schema: pa.Schema = schema) -> list[Row]:
            by_name = dict(zip(schema.names, row, strict=True))
            return [tuple(by_name[name] for name in schemas[0].names)]

        assert_shapes(make, schema, epochs, shape, random)


@settings(max_examples=200, deadline=None)
@given(streams(), st.data())
def test_union_refuses_streams_with_other_columns_or_types(
    found: Sequence[tuple[pa.Schema, dict[int, list[Row]]]], data: st.DataObject
) -> None:
    schemas = [schema for schema, _ in found]
    names = [f"stream{number}" for number in range(len(found))]
    which = data.draw(st.integers(0, len(found) - 1))
    schema = schemas[which]
    place = data.draw(st.integers(0, len(schema) - 1))
    field = schema.field(place)
    others = {
        "more": schema.append(pa.field("more", pa.int64())),
        "twice": schema.append(field),
        "renamed": schema.set(place, pa.field("other", field.type)),
        "another type": schema.set(place, pa.field(field.name, pa.int32())),
        "less": schema.remove(place),
    }
    schemas[which] = others[data.draw(st.sampled_from(sorted(others)))]
    with pytest.raises(TopologyError, match=r"operator 'u': .*stream"):
        UnionOperator("u", names, schemas)
