"""Whatever the files, batches, slices, formats and order of writing: same rows, same digest."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.model.canonical import canonical_order, encode_rows
from streammine.runtime.output import output_digest
from tests.unit.memory_store import MemoryStore
from tests.unit.sink_bench import Sink

SCHEMA = pa.schema([("word", pa.string()), ("count", pa.int64()), ("mean", pa.float64())])
Row = tuple[str | None, int | None, float | None]
ROWS = st.tuples(
    st.none() | st.text(st.sampled_from('a\0"\n,\\é'), max_size=3),
    st.none() | st.integers(-2, 2) | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.floats(allow_nan=False) | st.just(math.nan),
)
EPOCHS = st.dictionaries(st.integers(-5, 20), st.lists(ROWS, min_size=1, max_size=6), max_size=5)


def batch(rows: list[Row]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True))
    return pa.record_batch(
        [pa.array(list(one), field.type) for one, field in zip(columns, SCHEMA, strict=True)],
        schema=SCHEMA,
    )


def written(epochs: dict[int, list[Row]], *, ordered: bool = False, **options: Any) -> str:
    """The digest after writing each epoch as one batch on slice 0."""
    store = MemoryStore()
    sink = Sink(store, SCHEMA, ordered=ordered, **options)
    for epoch in sorted(epochs):
        sink.epoch(epoch, [batch(epochs[epoch])] if epochs[epoch] else [])
    sink.finish(max(epochs, default=0))
    return output_digest({"result": store})


@given(
    EPOCHS,
    st.integers(1, 3),
    st.integers(1, 4),
    st.sampled_from(["parquet", "csv", "json", "arrow"]),
    st.integers(20, 400),
    st.randoms(use_true_random=False),
)
@settings(max_examples=60, deadline=None)
def test_files_batches_slices_formats_and_order_leave_no_trace(
    epochs: dict[int, list[Row]],
    slices: int,
    every: int,
    file_format: str,
    file_bytes: int,
    chance: Any,
) -> None:
    store = MemoryStore()
    sink = Sink(
        store, SCHEMA, slices=slices, every=every, file_format=file_format, file_bytes=file_bytes
    )
    for epoch in sorted(epochs):
        rows = list(epochs[epoch])
        chance.shuffle(rows)
        shares: list[list[pa.RecordBatch]] = [[] for _ in range(slices)]
        while rows:
            length = chance.randint(1, len(rows))
            shares[chance.randrange(slices)].append(batch(rows[:length]))
            rows = rows[length:]
        sink.epoch(epoch, *shares)
    sink.finish(max(epochs, default=0))
    assert output_digest({"result": store}) == written(epochs)


@given(EPOCHS.filter(bool), st.data())
@settings(max_examples=60, deadline=None)
def test_dropping_doubling_or_changing_any_row_shows(
    epochs: dict[int, list[Row]], data: st.DataObject
) -> None:
    epoch = data.draw(st.sampled_from(sorted(epochs)))
    rows = epochs[epoch]
    index = data.draw(st.integers(0, len(rows) - 1))
    row = rows[index]
    other = data.draw(ROWS.filter(lambda one: value_bytes([one]) != value_bytes([row])))
    before = written(epochs)
    for changed in (
        [*rows[:index], *rows[index + 1 :]],
        [*rows, row],
        [*rows[:index], other, *rows[index + 1 :]],
    ):
        assert written({**epochs, epoch: changed}) != before


@given(EPOCHS.filter(lambda epochs: len(epochs) > 1), st.data())
@settings(max_examples=60, deadline=None)
def test_swapping_rows_across_epochs_shows_unless_they_are_equal(
    epochs: dict[int, list[Row]], data: st.DataObject
) -> None:
    one, two = data.draw(st.permutations(sorted(epochs)))[:2]
    first, *rest = epochs[one]
    second, *others = epochs[two]
    swapped = {**epochs, one: [second, *rest], two: [first, *others]}
    same = value_bytes([first]) == value_bytes([second])
    assert (written(swapped) == written(epochs)) == same


@given(st.lists(ROWS, min_size=2, max_size=6), st.data())
@settings(max_examples=60, deadline=None)
def test_order_within_an_epoch_shows_in_an_ordered_sink_alone(
    rows: list[Row], data: st.DataObject
) -> None:
    mixed = data.draw(st.permutations(rows))
    same = value_bytes(rows) == value_bytes(mixed)
    assert written({0: mixed}) == written({0: rows})
    assert (written({0: mixed}, ordered=True) == written({0: rows}, ordered=True)) == same


@pytest.mark.parametrize("times", [1, 1000])
@given(st.lists(ROWS, max_size=12))
@settings(max_examples=60, deadline=None)
def test_canonical_order_is_the_order_of_the_encodings(times: int, rows: list[Row]) -> None:
    table = pa.Table.from_batches([batch(rows)] * times if rows else [], schema=SCHEMA)
    encoded = [value_bytes([row]) for row in rows] * times
    order = canonical_order(table)
    assert [encoded[index] for index in order] == sorted(encoded)
    assert sorted(order.tolist()) == list(range(table.num_rows))


@pytest.mark.parametrize("times", [1, 1000])
@given(st.lists(ROWS, min_size=5, max_size=12))
@settings(max_examples=30, deadline=None)
def test_rows_that_are_equal_in_the_given_columns_keep_their_order(
    times: int, rows: list[Row]
) -> None:
    table = pa.Table.from_batches([batch(rows)] * times, schema=SCHEMA)
    numbered = table.append_column("number", pa.array(np.arange(table.num_rows)))
    by_columns = canonical_order(table, ["mean", "count"])
    assert by_columns.tolist() == canonical_order(numbered, ["mean", "count", "number"]).tolist()


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1), st.sampled_from(["f8", "f4", "f2"]))
def test_floats_of_any_bits_order_by_value(bits: list[int], kind: str) -> None:
    size = int(kind[1])
    raw = np.array([one % (1 << 8 * size) for one in bits], f"u{size}").view(kind)
    data, _ = encode_rows(pa.table({"x": pa.array(raw)}))
    width = size + 1
    encoded = [data[start : start + width].tobytes() for start in range(0, len(data), width)]

    def key(value: Any) -> tuple[bool, float, bool]:
        number = float(value)
        if math.isnan(number):
            return True, 0.0, True
        return False, number, struct.pack(">d", number)[0] < 0x80

    by_value = sorted(range(len(raw)), key=lambda index: key(raw[index]))
    by_bytes = sorted(range(len(raw)), key=lambda index: encoded[index])
    assert by_value == by_bytes


def value_bytes(rows: list[Row]) -> bytes:
    data, _ = encode_rows(batch(rows))
    return data.tobytes()
