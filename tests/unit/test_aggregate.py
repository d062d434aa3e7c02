"""The keyed aggregate: results, null rules, windows, errors, and its table of keys."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streammine.model.contracts import EpochClose, Flushes, HoldsWindows, StatefulOperator
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import TopologyError, UserCodeError
from streammine.model.topology.aggregates import AggregateCall
from streammine.operators.aggregate import KeyedAggregate
from streammine.operators.windows import TumblingWindow

MINUTE = EpochDefinition("time", 60_000_000, "ts")
ALL = {
    "rows": "count()",
    "values": "count(v)",
    "total": "sum(v)",
    "average": "mean(v)",
    "lowest": "min(v)",
    "highest": "max(v)",
    "spread": "variance(v)",
    "spread_all": "variance_population(v)",
}


def calls(texts: Mapping[str, str]) -> dict[str, AggregateCall]:
    return {name: AggregateCall.parse(text) for name, text in texts.items()}


def closing(epoch: int) -> EpochClose:
    return EpochClose(epoch, MINUTE.watermark(epoch), MINUTE)


def operator_of(
    schema: pa.Schema, keys: Sequence[str], texts: Mapping[str, str], **settings: Any
) -> KeyedAggregate:
    return KeyedAggregate("counts", schema, keys, calls(texts), **settings)


def fed(operator: KeyedAggregate, epoch: int, *batches: pa.RecordBatch) -> list[dict[str, Any]]:
    accumulator = operator.accumulator(0)
    for batch in batches:
        accumulator.add(batch)
    return rows_of(operator.close(closing(epoch), [accumulator]))


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def batch_of(keys: Sequence[Any], values: Sequence[Any], value_type: Any) -> pa.RecordBatch:
    return pa.record_batch({"k": pa.array(keys, pa.string()), "v": pa.array(values, value_type)})


def test_all_functions_skip_nulls_and_leave_in_key_order() -> None:
    batch = batch_of(["b", "a", "b", "a", None], [4, 1, None, 2, None], pa.int32())
    operator = operator_of(batch.schema, ["k"], ALL)
    assert isinstance(operator, StatefulOperator)
    assert isinstance(operator, HoldsWindows)
    assert not isinstance(operator, Flushes)
    rows = fed(operator, 7, batch)
    names = ["epoch", "k", *ALL]
    assert [tuple(row[name] for name in names) for row in rows] == [
        (7, "a", 2, 2, 3, 1.5, 1, 2, 0.5, 0.25),
        (7, "b", 2, 1, 4, 4.0, 4, 4, None, 0.0),
        (7, None, 1, 0, None, None, None, None, None, None),
    ]
    assert operator.output.field("lowest").type == pa.int32()
    assert operator.output.field("total").type == pa.int64()


def test_float_sum_is_fsum_and_mean_its_share() -> None:
    values = [1e16, 1.0, -1e16, 0.1, 0.2, 0.3]
    rows = fed(
        operator_of(batch_of([], [], pa.float64()).schema, ["k"], ALL),
        0,
        batch_of(["a"] * 6, values, pa.float64()),
    )
    assert rows[0]["total"] == math.fsum(values)
    assert rows[0]["average"] == math.fsum(values) / 6


def test_infinities_and_not_a_number_have_one_result() -> None:
    batch = batch_of(
        ["inf", "both", "both", "nan", "nan", "zero", "zero"],
        [math.inf, math.inf, -math.inf, math.nan, 1.0, 0.0, -0.0],
        pa.float64(),
    )
    rows = {row["k"]: row for row in fed(operator_of(batch.schema, ["k"], ALL), 0, batch)}
    assert rows["inf"]["total"] == math.inf
    assert math.isnan(rows["both"]["total"])
    assert math.isnan(rows["nan"]["highest"])
    assert rows["nan"]["lowest"] == 1.0
    assert math.copysign(1, rows["zero"]["lowest"]) == -1
    assert math.copysign(1, rows["zero"]["highest"]) == 1


def test_integer_sum_beyond_int64_is_an_error_that_names_the_key() -> None:
    batch = batch_of(["x", "x", "y"], [2**62, 2**62, 1], pa.int64())
    with pytest.raises(UserCodeError, match=r"'counts', epoch 3, k = 'x': sum\(v\) is 92233720"):
        fed(operator_of(batch.schema, ["k"], {"total": "sum(v)"}), 3, batch)


def test_integer_sum_may_pass_beyond_int64_on_the_way() -> None:
    batch = batch_of(["x"] * 4, [2**62, 2**62, -(2**62), -1], pa.int64())
    texts = {"total": "sum(v)", "average": "mean(v)"}
    rows = fed(operator_of(batch.schema, ["k"], texts), 0, batch)
    assert rows[0]["total"] == 2**62 - 1
    assert rows[0]["average"] == float(2**62 - 1) / 4


def test_unsigned_and_decimal_sums_are_exact() -> None:
    unsigned = batch_of(["x", "x"], [2**63 - 5, 4], pa.uint64())
    assert fed(operator_of(unsigned.schema, ["k"], ALL), 0, unsigned)[0]["total"] == 2**63 - 1
    decimals = batch_of(
        ["x", "x", "y"], [Decimal("0.10"), Decimal("-0.30"), None], pa.decimal128(9, 2)
    )
    operator = operator_of(decimals.schema, ["k"], ALL)
    rows = fed(operator, 0, decimals)
    assert operator.output.field("total").type == pa.decimal128(38, 2)
    assert [row["total"] for row in rows] == [Decimal("-0.20"), None]
    assert rows[0]["lowest"] == Decimal("-0.30")


@pytest.mark.parametrize("precision", [15, 16, 38])
def test_means_take_the_float_nearest_to_a_decimal(precision: int) -> None:
    """83216 times 0.001 is 83.21600000000001."""
    largest = "9" * (precision - 3) + ".999"
    texts = ["83.216", None, "-67.826", "0.000", largest, f"-{largest}"]
    values = [None if text is None else Decimal(text) for text in texts]
    kind = pa.decimal128(precision, 3)
    whole = batch_of([str(each) for each in range(len(values))], values, kind)
    for batch in (whole, whole.slice(1)):
        rows = fed(operator_of(batch.schema, ["k"], {"average": "mean(v)"}), 0, batch)
        expected = [None if value is None else float(value) for value in batch["v"].to_pylist()]
        assert [row["average"] for row in rows] == expected


def test_a_decimal_sum_beyond_38_digits_is_an_error() -> None:
    nines = Decimal("-" + "9" * 38)
    batch = batch_of(["x", "x"], [nines, nines], pa.decimal128(38, 0))
    with pytest.raises(UserCodeError, match="more than decimal128"):
        fed(operator_of(batch.schema, ["k"], {"total": "sum(v)"}), 0, batch)


def test_texts_times_and_booleans_have_extremes() -> None:
    batch = pa.record_batch(
        {
            "k": pa.array(["a", "a"]),
            "s": pa.array(["z", "é"]),
            "t": pa.array([5, 3], pa.timestamp("us")),
            "b": pa.array([True, False]),
        }
    )
    texts = {"s": "max(s)", "t": "min(t)", "b": "min(b)"}
    operator = operator_of(batch.schema, ["k"], texts)
    (row,) = fed(operator, 0, batch)
    assert (row["s"], row["b"]) == ("é", False)
    assert operator.output.field("t").type == pa.timestamp("us")


def test_without_keys_there_is_one_group() -> None:
    batch = batch_of(["a", "b"], [1, 2], pa.int64())
    operator = operator_of(batch.schema, [], {"n": "count()"})
    assert fed(operator, 0, batch) == [{"epoch": 0, "n": 2}]
    assert fed(operator, 1) == []
    assert operator.keys == ((),)


def test_zeros_of_both_signs_are_one_key_and_nulls_one_more() -> None:
    batch = pa.record_batch({"k": pa.array([0.0, -0.0, math.nan, None, math.nan, -1.0])})
    rows = fed(operator_of(batch.schema, ["k"], {"n": "count()"}), 0, batch)
    assert [row["n"] for row in rows] == [1, 2, 2, 1]
    assert [str(row["k"]) for row in rows] == ["-1.0", "0.0", "nan", "None"]


def test_groups_of_an_epoch_do_not_show_in_the_next() -> None:
    operator = operator_of(batch_of([], [], pa.int64()).schema, ["k"], ALL)
    fed(operator, 0, batch_of(["a", "c"], [1, 2], pa.int64()))
    rows = fed(operator, 1, batch_of(["d", "b", "c"], [3, 4, None], pa.int64()))
    assert [(row["k"], row["values"], row["total"]) for row in rows] == [
        ("b", 1, 4),
        ("c", 0, None),
        ("d", 1, 3),
    ]


def test_an_open_epoch_of_a_channel_that_is_thrown_away_leaves_no_trace() -> None:
    batch = batch_of(["a"], [1], pa.int64())
    operator = operator_of(batch.schema, ["k"], {"n": "count()"})
    operator.accumulator(0).add(batch)
    assert fed(operator, 0, batch)[0]["n"] == 1


def test_a_combiner_hands_out_partials_in_key_order_and_is_empty_afterwards() -> None:
    batch = batch_of(["b", "a", "b"], [1.0, None, 2.0], pa.float64())
    operator = operator_of(batch.schema, ["k"], ALL)
    combiner = operator.combiner()
    combiner.add(batch)
    partials = combiner.partials()
    assert partials.schema == operator.partial_schema
    assert partials["k"].to_pylist() == ["a", "b"]
    assert combiner.partials().num_rows == 0


def test_partial_columns_never_clash_with_keys() -> None:
    batch = pa.record_batch({"rows": pa.array([1, 1]), "nulls of v": pa.array([1, 1]), "v": [1, 2]})
    operator = operator_of(batch.schema, ["rows", "nulls of v"], {"n": "count(v)"})
    assert operator.partial_schema is not None
    assert len(set(operator.partial_schema.names)) == len(operator.partial_schema.names)


def test_a_window_of_epochs_leaves_with_its_last_epoch() -> None:
    batch = batch_of(["a"], [1], pa.int64())
    operator = operator_of(batch.schema, ["k"], {"n": "count()"}, window=TumblingWindow(epochs=3))
    assert fed(operator, 3, batch) == []
    assert operator.due_epoch == 5
    assert operator.state_nbytes > 0
    assert fed(operator, 4, batch, batch) == []
    assert fed(operator, 5, batch) == [{"epoch": 5, "k": "a", "n": 4}]
    assert operator.state_nbytes == 0
    assert operator.due_epoch is None


def test_a_due_epoch_without_data_closes_the_window() -> None:
    batch = batch_of(["a"], [1], pa.int64())
    operator = operator_of(batch.schema, ["k"], {"n": "count()"}, window=TumblingWindow(epochs=3))
    fed(operator, -3, batch)
    assert operator.due_epoch == -1
    assert fed(operator, -1) == [{"epoch": -1, "k": "a", "n": 1}]


def test_a_table_of_keys_that_never_come_again_is_given_up() -> None:
    """Every epoch has 10,000 keys of its own; memory must not grow with the epochs."""
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    operator = operator_of(schema, ["k"], {"n": "count()", "total": "sum(v)"})
    held = []
    for epoch in range(12):
        keys = np.arange(10_000) + 10_000 * epoch
        rows = fed(operator, epoch, pa.record_batch([keys, keys], schema=schema))
        assert [row["k"] for row in rows] == keys.tolist()
        assert all(row["total"] == row["k"] for row in rows[:3])
        held.append(operator._table.nbytes)
    assert max(held[6:]) <= max(held[:6])


def test_new_texts_find_their_places_among_those_of_earlier_epochs() -> None:
    source = random.Random(5)
    operator = operator_of(pa.schema([("k", pa.string())]), ["k"], {"n": "count()"})
    for epoch in range(30):
        words = ["".join(source.choices("ab\0é", k=source.randrange(12))) for _ in range(200)]
        keys = [None if len(word) == 3 else word for word in words]
        rows = fed(operator, epoch, pa.record_batch({"k": pa.array(keys, pa.string())}))
        expected = sorted({key.encode() for key in keys if key is not None})
        assert [row["k"].encode() for row in rows if row["k"] is not None] == expected
        assert (rows[-1]["k"] is None) == (None in keys)
        assert sum(row["n"] for row in rows) == 200


def test_open_states_survive_the_change_of_the_table() -> None:
    schema = pa.schema([("k", pa.int64())])
    operator = operator_of(schema, ["k"], {"n": "count()"})
    few = pa.record_batch([pa.array([5, 3])], schema=schema)
    early = operator.accumulator(0)
    early.add(few)
    fed(operator, 0, pa.record_batch([np.arange(20_000)], schema=schema))
    fed(operator, 1, few)
    late = operator.accumulator(0)
    late.add(few)
    early.merge(late)
    assert [(row["k"], row["n"]) for row in rows_of(operator.close(closing(2), [early]))] == [
        (3, 2),
        (5, 2),
    ]


@pytest.mark.parametrize(
    ("keys", "texts", "message"),
    [
        (["kk"], {"n": "count()"}, "unknown column 'kk'; did you mean 'k'"),
        (["k"], {"n": "sum(w)"}, "unknown column 'w'"),
        (["k"], {"n": "sum(k)"}, "sum takes numbers; column 'k' has type string"),
        (["k"], {"k": "count()"}, "'k' is a key"),
        (["k"], {"epoch": "count()"}, "'epoch' is the number of the epoch"),
        (["k", "k"], {"n": "count()"}, "twice"),
        (["l"], {"n": "count()"}, "cannot be a key"),
        (["k"], {"n": "min(l)"}, "have no order"),
    ],
)
def test_what_can_not_be_aggregated_is_refused(
    keys: list[str], texts: dict[str, str], message: str
) -> None:
    schema = pa.schema([("k", pa.string()), ("v", pa.int64()), ("l", pa.list_(pa.int64()))])
    with pytest.raises(TopologyError, match=message):
        operator_of(schema, keys, texts)
