"""Stateless operators that shape rows, against plain Python: enrich, unnest and split."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.operators.checking.events import Trial
from streammine.operators.checking.running import run
from streammine.operators.enrich import EnrichOperator
from streammine.operators.split import SplitOperator, SplitOutput
from streammine.operators.unnest import UnnestOperator
from tests.property.operator_trials import batch_of, events_of, minutes

NUMBERS = st.none() | st.integers(-5, 5)
SCHEMAS = {
    "list": pa.list_(pa.int64()),
    "large_list": pa.large_list(pa.int64()),
    "fixed": pa.list_(pa.int64(), 2),
}


def shaped(operator: Any, schema: pa.Schema, rows: list[Any], seed: int) -> list[Any]:
    """What leaves in the order of the rows, which come shuffled and in batches of any length."""
    random = np.random.default_rng(seed)
    trial = Trial(rows_per_batch=[None, 1, 2, 5][random.integers(4)], shuffled=bool(seed % 2))
    events = events_of(minutes(), [schema], {0: [rows]})
    (step,) = run(lambda combined: operator, events, trial, random).steps
    # sliced batches have offsets, which kernels on buffers may forget
    whole = batch_of(schema, rows)
    cut = pa.concat_batches([whole.slice(0, 1), whole]).slice(min(1, len(rows)))
    assert operator.apply(cut).batch.to_pylist() == step.table.to_pylist()
    return [tuple(row.values()) for row in step.table.to_pylist()]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), max_size=10), st.integers(0, 2**32))
def test_enrich_adds_replaces_and_drops(rows: list[Any], seed: int) -> None:
    schema = pa.schema([(name, pa.int64()) for name in "abc"])
    columns = {"sum": "a + b", "b": "b * a"}
    operator = EnrichOperator("e", columns, schema, replace=["b"], drop=["c"])

    def times(a: int | None, b: int | None) -> int | None:
        return None if a is None or b is None else a * b

    def plus(a: int | None, b: int | None) -> int | None:
        return None if a is None or b is None else a + b

    assert operator.output.names == ["a", "b", "sum"]
    expected = [(a, times(a, b), plus(a, b)) for a, b, _ in rows]
    assert shaped(operator, schema, rows, seed) == expected


@settings(max_examples=300, deadline=None)
@given(st.data(), st.sampled_from(sorted(SCHEMAS)), st.booleans(), st.integers(0, 2**32))
def test_unnest_gives_a_row_per_element(
    data: st.DataObject, kind: str, keep_empty: bool, seed: int
) -> None:
    bounds = {"min_size": 2, "max_size": 2} if kind == "fixed" else {"max_size": 3}
    lists = st.none() | st.lists(NUMBERS, **bounds)
    rows = data.draw(st.lists(st.tuples(NUMBERS, lists, st.text(max_size=2)), max_size=10))
    schema = pa.schema([("a", pa.int64()), ("l", SCHEMAS[kind]), ("t", pa.string())])
    operator = UnnestOperator("u", schema, "l", into="e", position="n", keep_empty=keep_empty)
    assert operator.output.names == ["a", "e", "n", "t"]
    expected = []
    for a, elements, text in rows:
        expected += [(a, element, place, text) for place, element in enumerate(elements or ())]
        if keep_empty and not elements:
            expected.append((a, None, None, text))
    assert shaped(operator, schema, rows, seed) == expected


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=12), st.booleans(), st.integers(0, 2**32))
def test_split_sends_each_row_one_way(rows: list[Any], rest: bool, seed: int) -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    conditions = {"one": "a > b", "two": "a > 0 or b > 3"} | ({"rest": "else"} if rest else {})
    split = SplitOperator("s", conditions, schema)

    def output_of(a: int | None, b: int | None) -> str:
        if a is not None and b is not None and a > b:
            return "one"
        if (a is not None and a > 0) or (b is not None and b > 3):
            return "two"
        return "rest"

    expected = [(row, output_of(*row)) for row in rows]
    found = shaped(split, schema, rows, seed)
    names = list(conditions)
    wanted = [(*row, names.index(name)) for row, name in expected if name in names]
    assert found == wanted
    whole = split.apply(batch_of(schema, rows))
    dead = 0 if whole.dead is None else len(whole.dead)
    assert dead + whole.batch.num_rows == len(rows)
    for number, name in enumerate(names):
        own = SplitOutput(name, number, split.output).apply(whole.batch).batch
        assert [tuple(row.values()) for row in own.to_pylist()] == [
            row for row, output in expected if output == name
        ]
