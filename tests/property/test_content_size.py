"""The size of content is a function of the rows alone, however they are cut into batches."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from streammine.operators.content_size import ContentSizes, content_size

VALUES = st.lists(
    st.tuples(
        st.none() | st.text(max_size=4),
        st.none() | st.booleans(),
        st.none() | st.lists(st.none() | st.text(max_size=3), max_size=3),
        st.none() | st.fixed_dictionaries({"a": st.none() | st.binary(max_size=3)}),
    ),
    max_size=12,
)
NESTED = pa.schema(
    [
        ("text", pa.string()),
        ("flag", pa.bool_()),
        ("texts", pa.list_(pa.string())),
        ("struct", pa.struct([("a", pa.large_binary())])),
    ]
)


@settings(max_examples=100, deadline=None)
@given(VALUES, st.integers(1, 12))
def test_content_size_adds_up_over_any_cuts(rows: list[Any], step: int) -> None:
    columns = zip(*rows, strict=True) if rows else [()] * len(NESTED)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, NESTED, strict=True)]
    whole = pa.record_batch(arrays, schema=NESTED)
    slices = [whole.slice(start, step) for start in range(0, len(rows), step)]
    copies = [pa.RecordBatch.from_pylist(piece.to_pylist(), schema=NESTED) for piece in slices]
    assert sum(map(content_size, slices)) == content_size(whole)
    assert sum(map(content_size, copies)) == content_size(whole)


FLAT = pa.schema(
    [("text", pa.string()), ("flag", pa.bool_()), ("again", pa.string()), ("n", pa.int8())]
)


@settings(max_examples=200, deadline=None)
@given(
    st.booleans(),
    st.lists(
        st.tuples(st.text(max_size=3) | st.none(), st.booleans(), st.integers(0, 9)), max_size=12
    ),
    st.integers(1, 12),
    st.integers(1, 60),
)
def test_sizes_of_content_are_as_exact_as_if_each_batch_was_measured(
    flat: bool, rows: list[Any], step: int, limit: int
) -> None:
    """Columns that share an array and parts that share a batch hold more than their share of buffers."""
    texts, flags, numbers = zip(*rows, strict=True) if rows else ((), (), ())
    text = pa.array(texts, pa.string())
    columns = [text, pa.array(flags, pa.bool_()), text, pa.array(numbers, pa.int8())]
    whole = pa.record_batch(columns, schema=FLAT)
    if not flat:
        encoded = pa.array(["a long text, often"] * len(rows)).dictionary_encode()
        whole = whole.append_column("encoded", encoded)
    sizes, total = ContentSizes(), 0
    for start in range(0, len(rows), step):
        part = whole.slice(start, step)
        sizes.add(part)
        total += content_size(part)
        assert sizes.reach(limit) == (total >= limit)
        assert sizes.pieces(limit) == max(1, -(-total // limit))
    assert sizes.total == total
