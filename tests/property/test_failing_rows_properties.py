"""Rows that an expression fails on, where they are to be dead letters: the others go on, whatever batches
they come in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.operators.enrich import EnrichOperator
from streammine.operators.filter import FilterOperator
from streammine.operators.map import MapOperator
from streammine.operators.split import SplitOperator
from tests.property.stateless_trials import Row, assert_shapes

SCHEMA = pa.schema([("id", pa.int64()), ("t", pa.string()), ("u", pa.string()), ("k", pa.int64())])
TEXTS = st.none() | st.sampled_from(
    ["12", "-7", "0", "007", "3000000000", "abc", "", " ", "1.5", "9" * 30, "12 ", "é"]
)
ROWS = st.tuples(
    st.integers(0, 9), TEXTS, TEXTS, st.none() | st.sampled_from([0, 5, 127, 128, -129])
)
EPOCHS = st.dictionaries(st.integers(-2, 3), st.lists(ROWS, max_size=12), min_size=1, max_size=3)
RANDOM = st.integers(0, 2**32).map(np.random.default_rng)

Failing: TypeAlias = Callable[[Row], Any]


class NoValueError(Exception):
    """There is no value."""


def whole(text: str | None, bits: int) -> int | None:
    if text is None:
        return None
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise NoValueError(text)
    return within(int(text), bits)


def within(number: int | None, bits: int) -> int | None:
    if number is not None and not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise NoValueError(number)
    return number


def positive(number: int | None) -> bool:
    return number is not None and number > 0


EXPRESSIONS: dict[str, Failing] = {
    "id": lambda row: row[0],
    "cast(t as int)": lambda row: whole(row[1], 32),
    "cast(u as bigint)": lambda row: whole(row[2], 64),
    "cast(k as tinyint)": lambda row: within(row[3], 8),
    "try_cast(t as int)": lambda row: or_none(lambda: whole(row[1], 32)),
    "cast(t as int) is null": lambda row: whole(row[1], 32) is None,
    "lpad(cast(cast(u as int) as varchar), 3, '*')": lambda row: padded(whole(row[2], 32)),
}
CONDITIONS: dict[str, Callable[[Row], bool]] = {
    "cast(t as int) > 0": lambda row: positive(whole(row[1], 32)),
    "cast(u as bigint) > 0": lambda row: positive(whole(row[2], 64)),
    "cast(k as tinyint) > 0": lambda row: positive(within(row[3], 8)),
    "id > 4": lambda row: row[0] > 4,
}


def or_none(compute: Callable[[], Any]) -> Any:
    try:
        return compute()
    except NoValueError:
        return None


def padded(number: int | None) -> str | None:
    return None if number is None else str(number).rjust(3, "*")[:3]


def fails(compute: Failing) -> Callable[[Row], bool]:
    def failing(row: Row) -> bool:
        try:
            compute(row)
        except NoValueError:
            return True
        return False

    return failing


def unless_it_fails(compute: Callable[[Row], list[Row]]) -> Callable[[Row], list[Row]]:
    return lambda row: [] if fails(compute)(row) else compute(row)


@settings(max_examples=200, deadline=None)
@given(EPOCHS, st.lists(st.sampled_from(sorted(EXPRESSIONS)), min_size=1, max_size=5), RANDOM)
def test_map_gives_the_rows_that_have_all_of_their_values(
    epochs: dict[int, list[Row]], texts: list[str], random: np.random.Generator
) -> None:
    # all columns are read, so that the dead letters show them
    texts = [*texts, "concat(id, t, u, k)"]
    computed = [EXPRESSIONS.get(text, lambda row: "".join(map(shown, row))) for text in texts]

    def shape(row: Row) -> list[Row]:
        return [tuple(compute(row) for compute in computed)]

    columns = {f"c{number}": text for number, text in enumerate(texts)}
    assert_shapes(
        lambda: MapOperator("m", columns, SCHEMA, dead_letter=True),
        SCHEMA,
        epochs,
        unless_it_fails(shape),
        random,
        dead=fails(shape),
    )


def shown(value: Any) -> str:
    return "" if value is None else str(value)


@settings(max_examples=200, deadline=None)
@given(EPOCHS, st.lists(st.sampled_from(sorted(EXPRESSIONS)), max_size=5), RANDOM)
def test_enrich_gives_the_rows_that_have_all_of_their_values(
    epochs: dict[int, list[Row]], texts: list[str], random: np.random.Generator
) -> None:
    def shape(row: Row) -> list[Row]:
        return [(row[0], *row[2:], *(EXPRESSIONS[text](row) for text in texts))]

    columns = {f"c{number}": text for number, text in enumerate(texts)}
    assert_shapes(
        lambda: EnrichOperator("e", columns, SCHEMA, drop=["t"], dead_letter=True),
        SCHEMA,
        epochs,
        unless_it_fails(shape),
        random,
        dead=fails(shape),
    )


@settings(max_examples=200, deadline=None)
@given(EPOCHS, st.sampled_from(sorted(CONDITIONS)), RANDOM)
def test_filter_keeps_rows_that_its_condition_is_true_for_and_tells_those_it_fails_on(
    epochs: dict[int, list[Row]], text: str, random: np.random.Generator
) -> None:
    def shape(row: Row) -> list[Row]:
        return [row] if CONDITIONS[text](row) else []

    assert_shapes(
        lambda: FilterOperator("f", text, SCHEMA, dead_letter=True),
        SCHEMA,
        epochs,
        unless_it_fails(shape),
        random,
        dead=fails(shape),
    )


@settings(max_examples=200, deadline=None)
@given(
    EPOCHS,
    st.lists(st.sampled_from(sorted(CONDITIONS)), min_size=1, max_size=4, unique=True),
    st.booleans(),
    RANDOM,
)
def test_split_asks_no_more_of_a_row_that_a_condition_fails_on(
    epochs: dict[int, list[Row]], texts: list[str], rest: bool, random: np.random.Generator
) -> None:
    def shape(row: Row) -> list[Row]:
        for number, text in enumerate(texts):
            if CONDITIONS[text](row):
                return [(*row, number)]
        return [(*row, len(texts))] if rest else []

    def dead(row: Row) -> bool:
        return fails(shape)(row) or not shape(row)

    outputs = {f"o{number}": text for number, text in enumerate(texts)}
    if rest:
        outputs["rest"] = "else"
    assert_shapes(
        lambda: SplitOperator("s", outputs, SCHEMA, dead_letter=True),
        SCHEMA,
        epochs,
        unless_it_fails(shape),
        random,
        dead=dead,
    )
