"""Quantiles, distinct and first values, lists, filters and having: semantics by small drawn cases."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streammine.model.contracts import EpochClose
from streammine.model.document import parse_topology
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import TopologyError, UserCodeError
from streammine.model.topology import AggregateOperator
from streammine.model.topology.aggregates import AGGREGATE_FUNCTIONS, AggregateCall
from streammine.operators.aggregate import KeyedAggregate
from streammine.operators.kernels.word_bag import WordBag
from streammine.operators.windows import TumblingWindow

MINUTE = EpochDefinition("time", 60_000_000, "ts")
NAN = math.nan


def operator_of(schema: pa.Schema, texts: Mapping[str, str], **settings: Any) -> KeyedAggregate:
    calls = {name: AggregateCall.parse(text) for name, text in texts.items()}
    return KeyedAggregate("counts", schema, ["k"], calls, **{"time": "ts", **settings})


def batch_of(rows: Sequence[tuple[Any, Any, Any]], kind: pa.DataType) -> pa.RecordBatch:
    """Rows of ts, k, v."""
    ts, keys, values = zip(*rows, strict=True)
    return pa.record_batch(
        {"ts": pa.array(ts, pa.int64()), "k": pa.array(keys), "v": pa.array(values, kind)}
    )


def fed(operator: KeyedAggregate, epoch: int, *batches: pa.RecordBatch) -> list[dict[str, Any]]:
    accumulator = operator.accumulator(0)
    for batch in batches:
        accumulator.add(batch)
    closing = EpochClose(epoch, MINUTE.watermark(epoch), MINUTE)
    return [row for batch in operator.close(closing, [accumulator]) for row in batch.to_pylist()]


def result(text: str, values: Sequence[Any], kind: pa.DataType, **settings: Any) -> Any:
    """What the aggregate gives for values of one group, which came at times 0, 1, 2, ..."""
    batch = batch_of([(ts, "k", value) for ts, value in enumerate(values)], kind)
    (row,) = fed(operator_of(batch.schema, {"r": text}, **settings), 0, batch)
    return row["r"]


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("median(v)", [3.0, 1.0, 2.0], 2.0),
        ("median(v)", [4.0, 1.0, 2.0, 3.0], 2.5),
        ("median(v)", [None, 1.0, None], 1.0),
        ("median(v)", [None], None),
        ("median(v)", [-0.0], -0.0),
        ("median(v)", [-0.0, 0.0], 0.0),
        ("median(v)", [1.7e308, 1.7e308], 1.7e308),
        ("median(v)", [1.7e308, 1.6e308], 1.7e308 / 2 + 1.6e308 / 2),
        ("median(v)", [5e-324, 1e-323], 1e-323),
        ("median(v)", [math.inf, 1.0], math.inf),
        ("median(v)", [-math.inf, 1.0], -math.inf),
        ("median(v)", [-math.inf, math.inf], NAN),
        ("median(v)", [NAN, 1.0, 2.0], 2.0),
        ("median(v)", [NAN, 1.0], NAN),
        ("quantile(v, 0)", [3.0, 1.0], 1.0),
        ("quantile(v, 1)", [3.0, 1.0], 3.0),
        ("quantile(v, 0.1)", [0.0, 1.0], 0.1),
        ("quantile(v, 0.25)", [1.0, 2.0, 3.0, 4.0], 1.75),
        ("quantile(v, 0.25, lower)", [1.0, 2.0, 3.0, 4.0], 1.0),
        ("quantile(v, 0.25, higher)", [1.0, 2.0, 3.0, 4.0], 2.0),
        ("quantile(v, 0.25, nearest)", [1.0, 2.0, 3.0, 4.0], 2.0),
        ("quantile(v, 0.5, nearest)", [1.0, 2.0], 1.0),
        ("quantile(v, 0.5, higher)", [1.0, 2.0, 3.0], 2.0),
        ("count_distinct(v)", [1.0, 1.0, None, -0.0, 0.0, NAN, NAN], 3),
        ("count_distinct(v)", [None], 0),
        ("collect(v)", [2.0, NAN, None, -0.0, 1.0, 0.0, 2.0], [-0.0, 0.0, 1.0, 2.0, 2.0, NAN]),
        ("collect(v)", [None], []),
        ("first(v)", [None, 7.0, 5.0], 7.0),
        ("last(v)", [7.0, 5.0, None], 5.0),
        ("arg_min(ts, v)", [2.0, 1.0, 1.0], 1),
        ("arg_max(ts, v)", [2.0, 2.0, 1.0], 1),
        ("arg_max(ts, v)", [2.0, NAN, 1.0], 1),
        ("arg_min(ts, v)", [0.0, -0.0], 1),
        ("stddev(v)", [2.0], None),
        ("stddev_population(v)", [2.0, 4.0], 1.0),
        ("stddev(v)", [1e-200, 3e-200], math.sqrt(2) * 1e-200),
        ("stddev_population(v)", [-1.7e308, 1.7e308], 1.7e308),
    ],
)
def test_a_function_of_floats(text: str, values: list[Any], expected: Any) -> None:
    assert repr(result(text, values, pa.float64())) == repr(expected)


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_quantiles_of_the_largest_floats_lie_between_them_without_a_warning(
    kind: pa.DataType,
) -> None:
    largest = {pa.float16(): 65504.0, pa.float32(): 2.0**127, pa.float64(): 2.0**1023}[kind]
    values = pa.array(np.array([largest, largest / 2], kind.to_pandas_dtype()), kind)
    rows = pa.record_batch({"ts": [0, 1], "k": ["k", "k"], "v": values})
    (row,) = fed(operator_of(rows.schema, {"r": "quantile(v, 0.25)"}), 0, rows)
    assert row["r"] == largest * 0.625


def test_quantiles_of_whole_numbers_are_rounded_once_from_the_exact_point() -> None:
    far = [2**62 + 1, 2**62 + 2]
    assert result("quantile(v, 0.5, lower)", far, pa.int64()) == far[0]
    assert result("median(v)", [2**53 + 1, 2**53 + 3], pa.int64()) == float(2**53 + 2)
    assert result("median(v)", [2**64 - 1, 2**64 - 3], pa.uint64()) == float(2**64 - 2)
    assert result("median(v)", [-(2**63), 2**63 - 1], pa.int64()) == -0.5
    assert result("quantile(v, 0.3333333)", [-7, 3], pa.int8()) == -3.666667


def test_quantiles_of_decimals_are_floats_and_between_two_of_them_decimals() -> None:
    values = [Decimal("0.1"), Decimal("0.2"), Decimal("99999999999999999999999999999999999.99")]
    kind = pa.decimal128(38, 2)
    assert result("median(v)", values[:2], kind) == 0.15
    assert result("median(v)", values, kind) == 0.2
    assert result("quantile(v, 1, lower)", values, kind) == values[2]


def test_texts_and_times_have_quantiles_that_are_among_them() -> None:
    assert result("quantile(v, 0.5, lower)", ["b", "é", "a", "z"], pa.string()) == "b"
    days = [datetime.date(2020, 1, day) for day in (5, 1, 9)]
    assert result("quantile(v, 0.5, nearest)", days, pa.date32()) == days[0]
    assert result("count_distinct(v)", [b"", None, b"", b"\0"], pa.binary()) == 2
    assert result("collect(v)", [True, False, True], pa.bool_()) == [False, True, True]
    assert result("collect(v)", ["b", "", "é", "b"], pa.string()) == ["", "b", "b", "é"]


def test_the_column_type_stays_where_a_value_is_given() -> None:
    schema = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("v", pa.timestamp("ms"))])
    texts = {"q": "quantile(v, 0.5, lower)", "f": "first(v)", "l": "collect(v)"}
    output = operator_of(schema, texts).output
    assert output.field("q").type == output.field("f").type == pa.timestamp("ms")
    assert output.field("l").type == pa.list_(pa.timestamp("ms"))


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
def test_of_equal_times_first_has_the_least_value_and_last_the_greatest(kind: pa.DataType) -> None:
    values = [5, 3, 4] if kind == pa.int64() else ["5", "3", "4"]
    rows = [(1, "k", value) for value in values]
    rows += [(None, "k", values[0]), (1, "other", values[0])]
    batch = batch_of(rows, kind)
    texts = {"first": "first(v)", "last": "last(v)", "by": "first(v, ts)"}
    row = fed(operator_of(batch.schema, texts), 0, batch.slice(0, 2), batch.slice(2))[0]
    assert (row["first"], row["last"], row["by"]) == (values[1], values[0], values[1])


def test_panes_of_a_window_do_not_forget_at_which_time_their_first_value_came() -> None:
    schema = batch_of([(0, "k", 1)], pa.int64()).schema
    operator = operator_of(
        schema, {"first": "first(v)", "last": "last(v)"}, window=TumblingWindow(2)
    )
    fed(operator, 0, batch_of([(50, "k", 1)], pa.int64()))
    (row,) = fed(operator, 1, batch_of([(40, "k", 2), (60, "k", 0)], pa.int64()))
    assert (row["first"], row["last"]) == (2, 0)


def test_a_condition_takes_rows_out_of_one_aggregate_only() -> None:
    batch = batch_of([(0, "a", 1), (1, "a", 5), (2, "a", None), (3, "b", 1)], pa.int64())
    texts = {
        "all": "sum(v)",
        "high": "sum(v) where v > 3",
        "rows": "count() where v > 3 or v is null",
        "values": "count(v) where ts > 0",
        "late": "last(v) WHERE ts < 1",
    }
    rows = fed(operator_of(batch.schema, texts), 0, batch)
    assert [tuple(row[name] for name in texts) for row in rows] == [
        (6, 5, 2, 1, 1),
        (1, None, 0, 1, None),
    ]


def test_only_what_is_read_is_needed() -> None:
    schema = pa.schema([(name, pa.int64()) for name in ("ts", "k", "a", "b", "c", "d")])
    operator = operator_of(schema, {"x": "arg_min(a, b) where c > 0", "n": "count()"})
    assert operator.needs == (frozenset({"k", "a", "b", "c"}),)


def test_having_sees_keys_epoch_and_results() -> None:
    batch = batch_of([(0, "a", 1), (1, "b", 5), (2, "c", None)], pa.int64())
    operator = operator_of(batch.schema, {"s": "sum(v)"}, having="s > 1 or (k = 'a' and epoch = 3)")
    assert [row["k"] for row in fed(operator, 3, batch)] == ["a", "b"]
    assert [row["k"] for row in fed(operator, 4, batch)] == ["b"]
    assert fed(operator, 5) == []


def test_a_list_beyond_its_limit_is_an_error_that_says_what_to_write() -> None:
    assert result("collect(v, 3)", [1, 2, 2], pa.int64()) == [1, 2, 2]
    with pytest.raises(UserCodeError) as caught:
        result("collect(v, 3)", [1, 2, 2, 2], pa.int64())
    for part in ("'counts', epoch 0, k = 'k'", "has 4 values, more than 3", "collect(v, 4)"):
        assert part in str(caught.value)


def test_long_lists_leave_in_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streammine.operators.aggregate._OUTPUT_BYTES", 1000)
    batch = batch_of([(ts, f"{ts % 10}", ts) for ts in range(1000)], pa.int64())
    operator = operator_of(batch.schema, {"l": "collect(v)"})
    accumulator = operator.accumulator(0)
    accumulator.add(batch)
    left = operator.close(EpochClose(0, 0, MINUTE), [accumulator])
    assert len(left) == 10
    assert sum(len(row["l"]) for one in left for row in one.to_pylist()) == 1000


def test_a_bag_in_parts_is_the_bag_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streammine.operators.kernels.word_bag._BUFFER_ROWS", 50)
    random = np.random.default_rng(3)
    groups, words = random.integers(0, 9, 2000), random.integers(-20, 20, 2000)
    whole, parts = WordBag(), [WordBag(), WordBag()]
    whole.add(groups, words, 9)
    for first in range(0, 2000, 37):
        part = parts[first % 2]
        part.add(groups[first : first + 37], words[first : first + 37], 9)
    parts[0].merge(parts[1], np.arange(9))
    for left, right in zip(whole.entries(), parts[0].entries(), strict=True):
        assert left.tolist() == right.tolist()
    assert whole.entries().totals().tolist() == np.bincount(groups, minlength=9).tolist()
    assert whole.nbytes < 40 * (360 + 10)


def test_a_bag_refuses_groups_that_are_not_there() -> None:
    bag = WordBag()
    with pytest.raises(IndexError, match="outside"):
        bag.add(np.array([3]), np.array([1]), 3)
    bag.resize(3)
    with pytest.raises(ValueError, match="already"):
        bag.resize(2)


@pytest.mark.parametrize(
    ("texts", "settings", "message"),
    [
        (
            {"n": "median(k)"},
            {},
            "median takes numbers; column 'k' has type string; for one of its",
        ),
        ({"n": "stddev(k)"}, {}, "stddev takes numbers; column 'k' has type string"),
        (
            {"n": "sum(w)"},
            {},
            r"sums have at most 38 digits; column 'w'.*cast\(w as decimal\(38, 2\)\)",
        ),
        ({"n": "collect(l)"}, {}, "have no order"),
        ({"n": "first(l)"}, {}, "have no order"),
        ({"n": "first(v, l)"}, {}, "have no order"),
        ({"n": "first(v)"}, {"time": None}, "there is no event time; name the column"),
        ({"n": "first(v)"}, {"time": "at"}, "unknown column 'at'.*or name the column that orders"),
        ({"n": "arg_min(v, kk)"}, {}, "unknown column 'kk'; did you mean 'k'"),
        ({"n": "sum(v) where vv > 1"}, {}, "unknown column 'vv'; did you mean 'v'"),
        ({"n": "sum(v) where v + 1"}, {}, "the condition 'v . 1' gives int64; a condition gives"),
        ({"n": "sum(v) where k > 1"}, {}, "expression 'k > 1'"),
        ({"n": "sum(v)"}, {"having": "v > 1"}, "unknown column 'v'.*Its input has: epoch, k, n"),
        ({"n": "sum(v)"}, {"having": "n"}, "having 'n' gives int64"),
    ],
)
def test_what_can_not_be_computed_is_refused(
    texts: dict[str, str], settings: dict[str, Any], message: str
) -> None:
    schema = pa.schema(
        {
            "ts": pa.int64(),
            "k": pa.string(),
            "v": pa.int64(),
            "w": pa.decimal256(60, 2),
            "l": pa.list_(pa.int64()),
        }
    )
    with pytest.raises(TopologyError, match=message):
        operator_of(schema, texts, **settings)


def test_the_documented_example_is_right_and_every_function_is_described() -> None:
    text = (Path(__file__).parents[2] / "docs/operators/aggregate.md").read_text()
    assert [name for name in AGGREGATE_FUNCTIONS if f"`{name}(" not in text] == []
    example = text.partition("```yaml\n")[2].partition("```")[0]
    topology = parse_topology(
        "epoch: {time: 60s, column: ts}\nsources: {readings: {files: a.parquet}}\n"
        f"{example}sinks: {{out: {{input: loads, format: console}}}}\n",
        "t.yaml",
    )
    loads = topology.operators["loads"]
    assert isinstance(loads, AggregateOperator)
    assert str(loads.aggregate["p95"]) == "quantile(value, 0.95) where property = 1"
    schema = pa.schema([(name, pa.int64()) for name in ("ts", "house_id", "plug_id", "property")])
    schema = schema.append(pa.field("value", pa.float64()))
    KeyedAggregate("loads", schema, loads.key, loads.aggregate, having=loads.having, time="ts")
