"""The aggregate against a slow, obvious reference, for any order, batching and combining."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.model.contracts import EpochClose
from streammine.model.epochs import EpochDefinition
from streammine.model.topology.aggregates import AggregateCall
from streammine.operators.aggregate import KeyedAggregate
from streammine.operators.windows import TumblingWindow

SCHEMA = pa.schema(
    [("word", pa.string()), ("group", pa.int32()), ("f", pa.float64()), ("i", pa.int64())]
)
CALLS = {
    f"{function}_{column}": AggregateCall.parse(f"{function}({column})")
    for function in ("count", "sum", "mean", "min", "max", "variance", "variance_population")
    for column in ("f", "i")
} | {"rows": AggregateCall.parse("count()")}
ROWS = EpochDefinition("count", 1_000)

Row = tuple[str | None, int | None, float | None, int | None]

FLOATS = st.one_of(
    st.floats(),
    st.floats(-1e3, 1e3),
    st.sampled_from([0.0, -0.0, 1e308, -1e308, 5e-324, 0.1, math.inf, -math.inf, math.nan]),
)
ROW_LISTS = st.lists(
    st.tuples(
        st.none()
        | st.sampled_from(["", "a", "ab", "b", "é", "longer than eight", "longer than 8"]),
        st.none() | st.integers(-2, 2),
        st.none() | FLOATS,
        st.none() | st.integers(-(2**53), 2**53),
    ),
    max_size=40,
)
KEYS = st.sampled_from([("word",), ("group",), ("group", "word"), ()])


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMA)
    arrays = [
        pa.array(list(column), field.type) for column, field in zip(columns, SCHEMA, strict=True)
    ]
    return pa.record_batch(arrays, schema=SCHEMA)


def cut(rows: Sequence[Row], source: random.Random) -> list[pa.RecordBatch]:
    """Shuffled and cut into batches, some empty, some sliced out of larger ones."""
    shuffled = list(rows)
    source.shuffle(shuffled)
    whole = batch_of(shuffled)
    ends = sorted(source.randrange(len(rows) + 1) for _ in range(source.randrange(5)))
    bounds = [0, *ends, len(rows)]
    return [whole.slice(begin, end - begin) for begin, end in pairwise(bounds)]


def encoded(batches: Sequence[pa.RecordBatch]) -> list[list[bytes]]:
    """Rows as bytes, floats by their bits."""
    return [
        [
            struct.pack("<d", value) if isinstance(value, float) else repr(value).encode()
            for value in row.values()
        ]
        for batch in batches
        for row in batch.to_pylist()
    ]


def aggregated(
    operator: KeyedAggregate, combined: bool, rows: Sequence[Row], source: random.Random
) -> list[pa.RecordBatch]:
    """One epoch over some channels."""
    channels = [operator.accumulator(0) for _ in range(source.randrange(1, 4))]
    combiners = [operator.combiner() for _ in channels]
    for batch in cut(rows, source):
        number = source.randrange(len(channels))
        if not combined:
            channels[number].add(batch)
            continue
        combiners[number].add(batch)
        if source.random() < 0.3:
            channels[number].add(combiners[number].partials())
    if combined:
        for channel, combiner in zip(channels, combiners, strict=True):
            channel.add(combiner.partials())
    for channel in channels[1:]:
        channels[0].merge(channel)
    return list(operator.close(EpochClose(0, 0, ROWS), channels[:1]))


@settings(max_examples=200, deadline=None)
@given(ROW_LISTS, KEYS, st.randoms(use_true_random=False))
def test_order_batches_channels_and_combining_do_not_show(
    rows: list[Row], keys: tuple[str, ...], source: random.Random
) -> None:
    once = KeyedAggregate("a", SCHEMA, keys, CALLS)
    accumulator = once.accumulator(0)
    accumulator.add(batch_of(rows))
    expected = encoded(list(once.close(EpochClose(0, 0, ROWS), [accumulator])))
    for combined in (False, True):
        operator = KeyedAggregate("a", SCHEMA, keys, CALLS, combined=combined)
        for _ in range(2):
            assert encoded(aggregated(operator, combined, rows, source)) == expected


@settings(max_examples=200, deadline=None)
@given(st.lists(ROW_LISTS, max_size=5), st.randoms(use_true_random=False))
def test_a_window_gives_what_one_epoch_with_all_its_rows_gives(
    epochs: list[list[Row]], source: random.Random
) -> None:
    keys = ("word", "group")
    window = KeyedAggregate("a", SCHEMA, keys, CALLS, window=TumblingWindow(max(len(epochs), 2)))
    left: list[pa.RecordBatch] = []
    last = max(len(epochs), 2) - 1
    for number in range(last + 1):
        rows = epochs[number] if number < len(epochs) else []
        accumulator = window.accumulator(0)
        for batch in cut(rows, source):
            accumulator.add(batch)
        left += window.close(EpochClose(number, 0, ROWS), [accumulator])
    once = KeyedAggregate("a", SCHEMA, keys, CALLS)
    accumulator = once.accumulator(0)
    accumulator.add(batch_of([row for rows in epochs for row in rows]))
    assert encoded(left) == encoded(list(once.close(EpochClose(last, 0, ROWS), [accumulator])))


@settings(max_examples=200, deadline=None)
@given(ROW_LISTS, KEYS)
def test_results_are_those_of_the_reference(rows: list[Row], keys: tuple[str, ...]) -> None:
    operator = KeyedAggregate("a", SCHEMA, keys, CALLS)
    accumulator = operator.accumulator(0)
    accumulator.add(batch_of(rows))
    (batches,) = [list(operator.close(EpochClose(3, 0, ROWS), [accumulator]))]
    assert encoded(batches) == encoded_reference(rows, keys)


def encoded_reference(rows: Sequence[Row], keys: tuple[str, ...]) -> list[list[bytes]]:
    places = [SCHEMA.get_field_index(key) for key in keys]
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[place] for place in places), []).append(row)
    results = []
    for key in sorted(groups, key=key_order):
        values: list[Any] = [3, *key]
        columns = [
            [row[place] for row in groups[key] if row[place] is not None] for place in (2, 3)
        ]
        for function in (len, total, mean, lowest, highest, sample_variance, variance):
            values += [function(column) for column in columns]
        values.append(len(groups[key]))
        results.append(
            [
                struct.pack("<d", value) if isinstance(value, float) else repr(value).encode()
                for value in values
            ]
        )
    return results


def key_order(key: tuple[Any, ...]) -> list[tuple[bool, Any]]:
    return [
        (value is None, value.encode() if isinstance(value, str) else value or 0) for value in key
    ]


def total(values: list[Any]) -> Any:
    if not values:
        return None
    if isinstance(values[0], int):
        return sum(values)
    if any(map(math.isnan, values)) or {math.inf, -math.inf} <= set(values):
        return math.nan
    if not all(map(math.isfinite, values)):
        return next(value for value in values if not math.isfinite(value))
    try:
        return math.fsum(values) + 0.0
    except OverflowError:
        exact = sum(map(Fraction, values))
        try:
            return float(exact)
        except OverflowError:
            return math.inf if exact > 0 else -math.inf


def mean(values: list[Any]) -> float | None:
    return float(total(values)) / len(values) if values else None


def in_order(value: Any) -> tuple[bool, Any, float]:
    if isinstance(value, float) and math.isnan(value):
        return (True, 0, 0)
    return (False, value, math.copysign(1, value))


def lowest(values: list[Any]) -> Any:
    return normal(min(values, key=in_order)) if values else None


def highest(values: list[Any]) -> Any:
    return normal(max(values, key=in_order)) if values else None


def normal(value: Any) -> Any:
    return math.nan if isinstance(value, float) and math.isnan(value) else value


def variance(values: list[Any], divisor_less: int = 0) -> float | None:
    if len(values) <= divisor_less:
        return None
    if not all(math.isfinite(value) for value in values):
        return math.nan
    exact = [Fraction(value) for value in values]
    average = sum(exact) / len(exact)
    result = sum((value - average) ** 2 for value in exact) / (len(exact) - divisor_less)
    try:
        return float(result)
    except OverflowError:
        return math.inf


def sample_variance(values: list[Any]) -> float | None:
    return variance(values, 1)
