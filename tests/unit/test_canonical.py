"""The canonical encoding: its order is the rows' order, and it is the one that is described."""

from __future__ import annotations

import datetime
import decimal
import itertools
import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streammine.model.canonical import (
    canonical_order,
    encode_rows,
    is_encodable,
    type_name,
)
from streammine.model.errors import TopologyError
from tests.unit.canonical_reference import encode_row, stored

NAN, INF = math.nan, math.inf
ASCENDING: list[tuple[pa.DataType, list[Any]]] = [
    (pa.bool_(), [False, True, None]),
    (pa.int8(), [-128, -1, 0, 1, 127, None]),
    (pa.int16(), [-(2**15), -1, 0, 1, 2**15 - 1, None]),
    (pa.int32(), [-(2**31), -256, -1, 0, 1, 255, 256, None]),
    (pa.int64(), [-(2**63), -1, 0, 1, 255, 256, 2**63 - 1, None]),
    (pa.uint8(), [0, 1, 255, None]),
    (pa.uint64(), [0, 1, 2**63, 2**64 - 1, None]),
    (pa.float16(), [np.float16(x) for x in (-INF, -1.5, -0.0, 0.0, 1.5, INF, NAN)] + [None]),
    (pa.float32(), [-INF, -1.5, -0.0, 0.0, 2.0**-149, 1.5, INF, NAN, None]),
    (pa.float64(), [-INF, -1e300, -5e-324, -0.0, 0.0, 5e-324, 1.0, INF, NAN, None]),
    (pa.string(), ["", "\0", "\0\0", "\0a", "a", "a\0", "a\0b", "aa", "b", "z", "é", "😀", None]),
    (pa.large_string(), ["", "a", "ab", None]),
    (pa.string_view(), ["", "a", "ab", "b" * 30, None]),
    (pa.binary(), [b"", b"\0", b"\0\0", b"\0\1", b"\0\xff", b"\1", b"\xff", b"\xff\xff", None]),
    (pa.large_binary(), [b"", b"\0", b"\xff", None]),
    (pa.binary(2), [b"\0\0", b"\0\1", b"\1\0", b"\xff\xff", None]),
    (pa.date32(), [datetime.date(1900, 1, 1), datetime.date(2020, 2, 29), None]),
    (pa.timestamp("us"), [-1, 0, 1, 10**15, None]),
    (pa.timestamp("ns", "UTC"), [-1, 0, 1, None]),
    (pa.time64("us"), [0, 1, None]),
    (pa.duration("ms"), [-5, 0, 5, None]),
    (
        pa.decimal128(10, 2),
        [decimal.Decimal(x) for x in ("-9.01", "-0.01", "0.00", "7.10")] + [None],
    ),
    (pa.decimal128(38, 0), [decimal.Decimal(x) for x in (-(2**70), -1, 0, 2**64, 2**70)] + [None]),
    (pa.decimal256(60, 0), [decimal.Decimal(x) for x in (-(2**130), -1, 0, 2**129)] + [None]),
    (pa.list_(pa.int32()), [[], [-1], [0], [0, 5], [0, None], [1], [None], [None, 0], None]),
    (pa.list_(pa.string()), [[], [""], ["", "a"], ["\0"], ["a"], ["a", "b"], None]),
    (pa.list_(pa.int8(), 2), [[0, 1], [1, 0], None]),
    (
        pa.struct([("a", pa.int16()), ("b", pa.string())]),
        [{"a": 0, "b": ""}, {"a": 0, "b": "x"}, {"a": 0, "b": None}, {"a": 1, "b": ""}, None],
    ),
    (pa.list_(pa.list_(pa.int8())), [[], [[]], [[], []], [[0]], [[0], []], [None], None]),
    (pa.null(), [None]),
]
IDS = [str(kind) for kind, _ in ASCENDING]


def row_bytes(table: pa.Table | pa.RecordBatch) -> list[bytes]:
    data, offsets = encode_rows(table)
    return [data[start:end].tobytes() for start, end in itertools.pairwise(offsets)]


@pytest.mark.parametrize(("kind", "values"), ASCENDING, ids=IDS)
def test_bytes_ascend_as_values_do(kind: pa.DataType, values: list[Any]) -> None:
    encoded = row_bytes(pa.table({"x": pa.array(values, kind)}))
    assert encoded == sorted(encoded)
    assert len(set(encoded)) == len(values)


@pytest.mark.parametrize(("kind", "values"), ASCENDING, ids=IDS)
def test_order_undoes_a_shuffle(kind: pa.DataType, values: list[Any]) -> None:
    mixed = np.random.default_rng(3).permutation(len(values))
    column = pa.array([values[index] for index in mixed], kind)
    assert mixed[canonical_order(pa.table({"x": column}))].tolist() == list(range(len(values)))


@pytest.mark.parametrize(("kind", "values"), ASCENDING, ids=IDS)
def test_encoding_is_the_described_one(kind: pa.DataType, values: list[Any]) -> None:
    # A sliced array and columns around it, so that offsets and joins count.
    array = pa.concat_arrays([pa.array(values[:1], kind), pa.array(values, kind)]).slice(1)
    numbers = pa.array(range(len(values)), pa.int32())
    table = pa.table({"n": numbers, "x": array, "y": array, "m": numbers})
    expected = [encode_row(row, table.schema) for row in stored(table)]
    assert row_bytes(table) == expected
    assert row_bytes(pa.concat_tables([table.slice(0, 1), table.slice(1)])) == expected


def test_all_nans_are_one_value_and_zeros_are_two() -> None:
    negative_nan = struct.unpack(">d", b"\xff\xf8\0\0\0\0\0\1")[0]
    encoded = row_bytes(pa.table({"x": pa.array([NAN, negative_nan, 0.0, -0.0])}))
    assert encoded[0] == encoded[1]
    assert encoded[2] > encoded[3]


def test_rows_that_are_equal_in_the_keys_keep_their_order() -> None:
    table = pa.table({"k": [2, 1, 2, 1, 2], "s": ["b", "a", "a", "a", "b"]})
    assert canonical_order(table, ["k"]).tolist() == [1, 3, 0, 2, 4]
    assert canonical_order(table, ["k", "s"]).tolist() == [1, 3, 2, 0, 4]
    assert canonical_order(table, []).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("seed", range(40))
def test_rows_that_are_in_order_or_nearly_so_are_put_in_order(seed: int) -> None:
    # few values, so that columns tie; two rows of the ordered ones change places
    random = np.random.default_rng(seed)
    choices = ([0, 1, None], [0.5, NAN, -0.0, 0.0], [-1, 2])
    columns = [[each[place] for place in random.integers(0, len(each), 30)] for each in choices]
    rows = sorted(zip(*columns, strict=True), key=lambda row: row_bytes(table_of([row]))[0])
    for _ in range(6):
        ordered = table_of(rows)
        order = canonical_order(ordered)
        encoded = row_bytes(ordered)
        assert order.tolist() == sorted(range(30), key=lambda place: (encoded[place], place))
        one, other = random.integers(0, 30, 2).tolist()
        rows[one], rows[other] = rows[other], rows[one]


def table_of(rows: list[tuple[Any, ...]]) -> pa.Table:
    kinds = (pa.int32(), pa.float64(), pa.int64())
    columns = [pa.array(c, kind) for c, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    return pa.table(dict(zip("abc", columns, strict=True)))


@pytest.mark.parametrize("rows", [1_000, 1_025, 4_000, 4_097])
@pytest.mark.parametrize("text", [False, True])
def test_few_and_many_rows_are_put_in_the_same_order(rows: int, text: bool) -> None:
    """By whatever sorts so many best; rows that are equal in the keys stay as they were."""
    random = np.random.default_rng(rows)
    columns = {
        "flag": pa.array(random.integers(0, 2, rows) > 0, mask=random.random(rows) < 0.1),
        "float": pa.array(random.choice([0.0, -0.0, 1.5, -2.0, math.nan, math.inf], rows)),
        "number": pa.array(random.integers(-3, 3, rows).astype(np.int8)),
    }
    if text:
        columns["text"] = pa.array(random.choice(["a", "b", ""], rows))
    batch = pa.record_batch({**columns, "row": pa.array(np.arange(rows))})
    data, offsets = encode_rows(batch.select([*columns]))
    encoded = [bytes(data[offsets[n] : offsets[n + 1]]) for n in range(rows)]
    expected = sorted(range(rows), key=encoded.__getitem__)
    assert canonical_order(batch, [*columns]).tolist() == expected


def test_what_stands_under_a_null_does_not_count() -> None:
    hidden = pa.Array.from_buffers(
        pa.int32(), 2, [pa.py_buffer(b"\x01"), pa.py_buffer(struct.pack("<2i", 7, 9))]
    )
    assert row_bytes(pa.table({"x": hidden})) == row_bytes(
        pa.table({"x": pa.array([7, None], pa.int32())})
    )


def test_dictionaries_and_variants_of_a_type_encode_alike() -> None:
    values = ["a", None, "b", "a"]
    plain = row_bytes(pa.table({"x": pa.array(values)}))
    for kind in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        assert row_bytes(pa.table({"x": pa.array(values).cast(kind)})) == plain
        assert type_name(kind) == "string"


def test_many_rows_are_encoded_in_several_pieces_without_a_seam() -> None:
    count = 600_000
    table = pa.table({"n": np.arange(count), "s": np.arange(count).astype(str)})
    data, offsets = encode_rows(table)
    assert len(offsets) == count + 1
    for row in (0, 262_143, 262_144, count - 1):
        piece = table.slice(row, 1)
        assert data[offsets[row] : offsets[row + 1]].tobytes() == row_bytes(piece)[0]


def test_no_rows_and_no_columns_are_fine() -> None:
    empty = pa.table({"x": pa.array([], pa.string()), "y": pa.array([], pa.int8())})
    data, offsets = encode_rows(empty)
    assert len(data) == 0
    assert offsets.tolist() == [0]
    assert canonical_order(empty).tolist() == []


def test_a_map_is_refused_by_name() -> None:
    kind = pa.map_(pa.string(), pa.int8())
    assert not is_encodable(kind)
    with pytest.raises(TopologyError, match="column tags has type map"):
        encode_rows(pa.table({"tags": pa.array([[("a", 1)]], kind)}))
