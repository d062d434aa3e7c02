"""Grouping, word splitting, integer sums, extremes and counts, each against plain Python."""

import datetime
import decimal
import math
import random
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streammine.operators.kernels import (
    Count,
    ExactSquares,
    ExactSum,
    Extreme,
    GroupIndex,
    IntegerSum,
    StringExtreme,
    exact_variance,
    split_words,
    warm_up,
    words,
)

TEXTS = ["", "a", "\x00", "a\x00", "eight by", "nine byte", "sixteen byte txt", "ü" * 40, None]
NAN_GROUP = "NaN"


def comparable(value: Any) -> Any:
    """The value as a dictionary key under the rules of GroupIndex."""
    if isinstance(value, float):
        return NAN_GROUP if math.isnan(value) else value + 0.0
    return value


def expected_ids(columns: list[list[Any]]) -> list[int]:
    known: dict[Any, int] = {}
    return [
        known.setdefault(tuple(map(comparable, row)), len(known))
        for row in zip(*columns, strict=True)
    ]


COLUMN_CASES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int64(), [0, -1, 2**63 - 1, -(2**63), None, 7]),
    (pa.int8(), [0, -1, 127, None]),
    (pa.uint64(), [0, 2**64 - 1, 2**63, None]),
    (pa.uint16(), [0, 65535]),
    (pa.bool_(), [True, False, None]),
    (pa.float64(), [0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 1.5, None]),
    (pa.float32(), [0.0, -0.0, math.nan, 1.5, None]),
    (pa.date32(), [datetime.date(2020, 1, 1), datetime.date(1960, 2, 3), None]),
    (pa.timestamp("us", tz="UTC"), [0, 10**15, None]),
    (pa.duration("ms"), [0, 5, None]),
    (pa.time64("us"), [0, 10**6, None]),
    (pa.decimal128(30, 2), [decimal.Decimal("1.20"), decimal.Decimal(-(10**20)), None]),
    (pa.utf8(), TEXTS),
    (pa.large_utf8(), TEXTS),
    (pa.binary(), [b"", b"\xff", b"\xff\x00", b"0123456789", None]),
    (pa.binary(3), [b"abc", b"abd", None]),
]


def array_of(values: list[Any], value_type: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(value_type) or pa.types.is_duration(value_type):
        return pa.array(values, type=pa.int64()).cast(value_type)
    return pa.array(values, type=value_type)


def check_index(types: list[pa.DataType], arrays: list[pa.Array], batch_rows: int) -> None:
    """Group ids, keys and lookups of sliced batches equal those of a Python dictionary."""
    index = GroupIndex(types)
    rows = len(arrays[0])
    parts = [
        index.ids([array.slice(first, batch_rows) for array in arrays])
        for first in range(0, rows, batch_rows)
    ]
    ids = np.concatenate(parts).tolist()
    assert ids == expected_ids([array.to_pylist() for array in arrays])
    assert index.size == len(set(ids))
    keys = index.keys()
    assert [key.type for key in keys] == types
    for key, array in zip(keys, arrays, strict=True):
        key.validate(full=True)
        back = key.take(pa.array(ids)).to_pylist()
        assert list(map(comparable, back)) == list(map(comparable, array.to_pylist()))
    assert index.lookup(arrays).tolist() == ids
    assert index.nbytes > 0


@pytest.mark.parametrize(("value_type", "values"), COLUMN_CASES, ids=lambda case: str(case)[:20])
@pytest.mark.parametrize("batch_rows", [3, 1000])
def test_one_key_column_of_any_type_is_grouped(
    value_type: pa.DataType, values: list[Any], batch_rows: int
) -> None:
    picked = random.Random(1).choices(values, k=600)
    padded = array_of([values[0], *picked], value_type)
    check_index([value_type], [padded.slice(1)], batch_rows)


@pytest.mark.parametrize("seed", range(12))
def test_several_key_columns_are_grouped_as_one_row(seed: int) -> None:
    chance = random.Random(seed)
    cases = chance.choices(COLUMN_CASES, k=chance.randint(2, 5))
    types = [value_type for value_type, _ in cases]
    arrays = [
        array_of(
            [v for v in chance.choices(values, k=900) if v is not None or seed % 3][:500]
            + chance.choices(values, k=100),
            value_type,
        ).slice(0, 500)
        for value_type, values in cases
    ]
    check_index(types, arrays, chance.choice([7, 64, 500]))


def test_a_null_after_many_rows_without_one_keeps_the_ids() -> None:
    numbers = [*range(700), None, *range(700), None]
    check_index([pa.int64()], [pa.array(numbers)], 350)
    check_index(
        [pa.int64(), pa.int32()], [pa.array(numbers), pa.array([1] * 1402, pa.int32())], 350
    )


@pytest.mark.parametrize("columns", [1, 3])
def test_tables_grow_and_small_ranges_give_way_to_wide_ones(columns: int) -> None:
    chance = np.random.default_rng(3)
    narrow = chance.integers(-20, 20, 5000)
    wide = chance.integers(-(2**62), 2**62, 20000)
    values = np.concatenate([narrow, narrow + 15, wide, narrow, wide])
    arrays = [pa.array(np.roll(values, shift)) for shift in range(columns)]
    check_index([pa.int64()] * columns, arrays, 4096)


def test_many_strings_of_all_lengths_are_told_apart() -> None:
    chance = random.Random(5)
    texts = ["".join(chance.choices("ab\x00é", k=chance.randint(0, 40))) for _ in range(20000)]
    check_index([pa.utf8()], [pa.array(texts + texts)], 4096)
    check_index([pa.utf8(), pa.int64()], [pa.array(texts), pa.array(range(20000))], 4096)


def test_strings_at_the_very_end_of_their_buffer_are_read_within_it() -> None:
    data = pa.py_buffer(b"abcde")
    offsets = pa.py_buffer(np.array([0, 2, 4, 5], dtype=np.int32))
    array = pa.Array.from_buffers(pa.utf8(), 3, [None, offsets, data])
    check_index([pa.utf8()], [array], 3)


def test_lookup_does_not_insert() -> None:
    index = GroupIndex([pa.utf8(), pa.int64()])
    index.ids([pa.array(["a", "b"]), pa.array([1, 2])])
    unknown = [pa.array(["a", "b", "a", "new", None]), pa.array([1, 1, None, 1, 1])]
    assert index.lookup(unknown).tolist() == [0, -1, -1, -1, -1]
    assert index.size == 2
    empty = [pa.array([], pa.utf8()), pa.array([], pa.int64())]
    assert index.ids(empty).tolist() == []


def test_keys_seen_earlier_do_not_change_when_groups_are_added() -> None:
    index = GroupIndex([pa.utf8()])
    index.ids([pa.array(["one", "two"])])
    early = index.keys()[0]
    index.ids([pa.array([f"word {number}" for number in range(5000)])])
    assert early.to_pylist() == ["one", "two"]


def test_wrong_key_columns_are_refused() -> None:
    with pytest.raises(TypeError, match="cannot be a key"):
        GroupIndex([pa.list_(pa.int64())])
    with pytest.raises(ValueError, match="0 key columns"):
        GroupIndex([])
    index = GroupIndex([pa.int64(), pa.int64()])
    with pytest.raises(TypeError, match="key column 1 has type int32"):
        index.ids([pa.array([1]), pa.array([1], pa.int32())])
    with pytest.raises(ValueError, match="1 key columns given, 2 declared"):
        index.ids([pa.array([1])])
    with pytest.raises(ValueError, match="has 2 rows"):
        index.ids([pa.array([1]), pa.array([1, 2])])


LINES = ["", "  ", "Ab c", None, "x", "Grüße, WORLD's end.", "a\tb\nc\x0bd\x0ce\rf", "é", "q\x00r "]


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("mode", ["whitespace", "letters"])
@pytest.mark.parametrize("value_type", [pa.utf8(), pa.large_utf8()], ids=str)
def test_words_are_those_of_a_regular_expression(
    value_type: pa.DataType, mode: words.WordMode, lower: bool
) -> None:
    chance = random.Random(2)
    lines = LINES + [
        "".join(chance.choices("aZ \tü,", k=chance.randint(0, 300))) for _ in range(200)
    ]
    array = pa.array([*lines, "past the slice"], value_type).slice(2, len(lines) - 2)
    pattern = re.compile(rb"[^ \t\n\v\f\r]+" if mode == "whitespace" else rb"[A-Za-z]+")
    expected = [
        ((word.lower() if lower else word).decode(), row)
        for row, line in enumerate(lines[2:])
        if line is not None
        for word in pattern.findall(line.encode())
    ]
    found, parents = split_words(array, mode, lower)
    found.validate(full=True)
    assert list(zip(found.to_pylist(), parents.tolist(), strict=True)) == expected


def test_a_batch_without_words_gives_an_empty_array() -> None:
    for array in (pa.array([], pa.utf8()), pa.array([None, ""], pa.utf8())):
        found, parents = split_words(array, "letters", False)
        assert len(found) == 0
        assert parents.tolist() == []


def test_words_beyond_the_offset_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "OFFSET_LIMIT", 5)
    with pytest.raises(OverflowError, match="6 bytes"):
        split_words(pa.array(["abc def"]))
    with pytest.raises(ValueError, match="unknown word mode"):
        split_words(pa.array(["a"]), "lines")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not from int64"):
        split_words(pa.array([1]))


def test_integer_sums_may_leave_int64_on_the_way_but_not_at_the_end() -> None:
    large = 2**63 - 1
    sums = IntegerSum()
    sums.add(np.array([0, 0, 0, 1]), np.array([large, large, -large, -5]), 2)
    assert sums.finish().tolist() == [large, -5]
    sums.add(np.array([1, 1, 1]), np.array([-large, -large, 9]), 3, np.array([True, True, False]))
    assert sums.exact(1) == -5 - 2 * large
    with pytest.raises(OverflowError, match="the sum of group 1 is -18446744073709551619"):
        sums.finish()


def test_encoded_integer_sums_merge_exactly() -> None:
    chance = np.random.default_rng(1)
    groups, values = chance.integers(0, 5, 1000), chance.integers(-(2**63), 2**63 - 1, 1000)
    whole, left, right = IntegerSum(), IntegerSum(), IntegerSum()
    whole.add(groups, values, 5)
    left.add(groups[:300], values[:300], 5)
    right.add(groups[300:], values[300:], 5)
    sent = pa.concat_arrays([pa.nulls(1, pa.binary(16)), right.encode()])
    merged = IntegerSum()
    merged.resize(5)
    merged.merge(left, np.arange(5))
    merged.add_encoded(np.arange(5), sent.slice(1))
    merged.add_encoded(np.array([0]), sent.slice(0, 1))
    assert merged.encode() == whole.encode()
    for group in range(5):
        assert merged.exact(group) == sum(values[groups == group].tolist())


FLOATS = [1.0, -0.0, 0.0, math.nan, -math.nan, math.inf, -math.inf, -1.5, 5e-324, None]


def float_order(value: float) -> tuple[bool, float, float]:
    return (math.isnan(value), 0.0 if math.isnan(value) else value, math.copysign(1.0, value))


@pytest.mark.parametrize(
    ("value_type", "values"),
    [
        (pa.float64(), FLOATS),
        (pa.float32(), FLOATS),
        (pa.int64(), [2**63 - 1, -(2**63), 0, None]),
        (pa.uint64(), [2**64 - 1, 2**63, 2**63 - 1, 0, None]),
        (pa.int16(), [-5, 7, None]),
        (pa.bool_(), [True, False, None]),
        (pa.timestamp("ns"), [-5, 7, None]),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [Extreme, StringExtreme])
def test_extremes_follow_one_total_order(
    kind: Any, value_type: pa.DataType, values: list[Any]
) -> None:
    if kind is StringExtreme and pa.types.is_floating(value_type):
        with pytest.raises(TypeError, match="use Extreme"):
            kind("min", value_type)
        return
    chance = random.Random(4)
    picked = chance.choices(values, k=100)
    groups = np.array(chance.choices(range(40), k=100))
    array = array_of(picked, value_type)
    plain = array.to_pylist()
    order = float_order if pa.types.is_floating(value_type) else lambda value: value
    for direction, choose in (("min", min), ("max", max)):
        first, second = kind(direction, value_type), kind(direction, value_type)
        first.add(groups[:50], array.slice(0, 50), 41)
        second.add(groups[50:], array.slice(50), 42)
        second.merge(first, np.arange(41))
        result = second.finish()
        result.validate(full=True)
        assert result.type == value_type
        expected = []
        for group in range(42):
            members = [v for v, g in zip(plain, groups, strict=True) if g == group]
            members = [v for v in members if v is not None]
            expected.append(choose(members, key=order) if members else None)
        assert repr(result.to_pylist()).replace("-nan", "nan") == repr(expected)


def test_string_extremes_order_by_bytes() -> None:
    extreme = StringExtreme("max", pa.utf8())
    extreme.add(np.array([0, 2, 0]), pa.array(["b", None, "é"]), 3)
    extreme.add(np.array([0, 1]), pa.array(["z", ""]), 3)
    assert extreme.finish().to_pylist() == ["é", "", None]


def test_counts_skip_nulls_and_merge() -> None:
    count, other = Count(), Count()
    count.add(np.array([0, 1, 1]), 2)
    other.add(np.array([0, 0, 1]), 2, np.array([True, False, True]))
    count.resize(3)
    count.merge(other, np.array([2, 2]))
    assert count.finish().tolist() == [1, 2, 2]


def test_a_group_id_out_of_range_is_refused_not_written() -> None:
    for bad in (-1, 2):
        groups = np.array([0, bad])
        for state in (ExactSum(), ExactSquares()):
            with pytest.raises(IndexError, match="outside"):
                state.add(groups, np.ones(2), 2)
        with pytest.raises(IndexError, match="outside"):
            IntegerSum().add(groups, np.ones(2, dtype=np.int64), 2)
        with pytest.raises(IndexError, match="outside"):
            Count().add(groups, 2)
        for extreme in (Extreme("min", pa.int64()), StringExtreme("min", pa.int64())):
            with pytest.raises(IndexError, match="outside"):
                extreme.add(groups, pa.array([1, 2]), 2)


def test_wrong_values_are_refused() -> None:
    one = np.zeros(1, dtype=np.int64)
    with pytest.raises(TypeError, match="float64"):
        ExactSum().add(one, np.ones(1, dtype=np.float32), 1)
    with pytest.raises(ValueError, match="1 group ids"):
        ExactSum().add(one, np.ones(2), 1)
    sums = ExactSum()
    sums.resize(2)
    with pytest.raises(ValueError, match="already"):
        sums.resize(1)
    with pytest.raises(TypeError, match="int64"):
        IntegerSum().add(one, np.ones(1), 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="StringExtreme"):
        Extreme("min", pa.utf8())


@pytest.mark.parametrize(
    "damaged", [b"\x03", b"\x00\x00", b"\x00\x00\x00\x00", b"\x01\x00\x00\x01", b"\x00\xff\xff\x01"]
)
def test_bytes_that_are_no_encoded_sum_are_refused(damaged: bytes) -> None:
    sums = ExactSum()
    with pytest.raises(ValueError, match="row 1 is not an encoded exact sum"):
        sums.add_encoded(np.array([0, 0]), pa.array([b"", damaged]), 1)


def test_a_top_digit_that_fills_up_gets_a_neighbour() -> None:
    # Merging a state into itself doubles it: 2^100 copies of a number fill more lanes.
    sums = ExactSum()
    sums.add(np.array([0, 1]), np.array([1.5, -2.5]), 2)
    for _ in range(100):
        doubled = ExactSum()
        doubled.resize(2)
        doubled.merge(sums, np.arange(2))
        doubled.merge(sums, np.arange(2))
        sums = doubled
    assert sums.rounded().tolist() == [math.ldexp(1.5, 100), math.ldexp(-2.5, 100)]
    assert sums.exact(1) == -(5 << (1074 + 99))


def test_carries_are_moved_before_lanes_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    from streammine.operators.kernels import exact_sum

    monkeypatch.setattr(exact_sum, "_PENDING_LIMIT", 64)
    values = np.random.default_rng(2).normal(size=1000)
    sums = ExactSum()
    sums.add(np.zeros(1000, dtype=np.int64), values, 1)
    assert sums.rounded()[0] == math.fsum(values)


def test_variance_of_values_far_from_zero_does_not_cancel() -> None:
    values = 1e9 + np.arange(3) / 8
    sums, squares = ExactSum(), ExactSquares()
    groups = np.zeros(3, dtype=np.int64)
    sums.add(groups, values, 1)
    squares.add(groups, values, 1)
    assert exact_variance(np.array([3]), sums, squares, True).tolist() == [1 / 64]


def test_variance_is_not_a_number_without_enough_finite_values() -> None:
    groups = np.array([0, 1, 1])
    values = np.array([1.0, math.inf, 1.0])
    sums, squares = ExactSum(), ExactSquares()
    sums.add(groups, values, 3)
    squares.add(groups, values, 3)
    counts = np.array([1, 2, 0])
    assert np.isnan(exact_variance(counts, sums, squares, True)).all()
    population = exact_variance(counts, sums, squares, False)
    assert population[0] == 0.0
    assert np.isnan(population[1:]).all()


def test_empty_states_finish() -> None:
    nothing = np.empty(0, dtype=np.int64)
    for sums in (ExactSum(), ExactSquares()):
        assert sums.rounded().tolist() == []
        assert sums.encode().to_pylist() == []
        sums.merge(type(sums)(), nothing)  # type: ignore[arg-type]
    assert IntegerSum().finish().tolist() == []
    assert IntegerSum().encode().to_pylist() == []
    assert Count().finish().tolist() == []
    assert Extreme("max", pa.float64()).finish().to_pylist() == []


def test_kernels_are_ready_after_warming_up() -> None:
    warm_up()
    warm_up()
