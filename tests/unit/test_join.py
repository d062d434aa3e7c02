"""The equi-join: pairs, nulls, names, windows and order."""

from __future__ import annotations

import datetime
import math
import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from streammine.model.contracts import EpochClose, Flushes, HoldsWindows, StatefulOperator
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import TopologyError
from streammine.model.topology import JoinOperator
from streammine.model.topology.join_kinds import JoinKind
from streammine.operators.catalog import build_operator
from streammine.operators.join import EquiJoin
from streammine.operators.site import Site
from streammine.operators.windows import AlignedWindows

MINUTE = EpochDefinition("time", 60_000_000, "ts")
LEFT = pa.record_batch({"id": pa.array([1, 2, None, 2]), "name": pa.array(["a", "b", "c", "d"])})
RIGHT = pa.record_batch({"id": pa.array([2, 3, None, 2]), "name": pa.array(["x", "y", "z", None])})


def closing(epoch: int) -> EpochClose:
    return EpochClose(epoch, MINUTE.watermark(epoch), MINUTE)


def joined(
    operator: EquiJoin, epoch: int, left: list[pa.RecordBatch], right: list[pa.RecordBatch]
) -> list[tuple[Any, ...]]:
    sides = [operator.accumulator(0), operator.accumulator(1)]
    for side, batches in zip(sides, (left, right), strict=True):
        for batch in batches:
            side.add(batch)
    return rows_of(operator, operator.close(closing(epoch), sides))


def rows_of(operator: EquiJoin, batches: Iterable[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    rows = []
    for batch in batches:
        assert batch.schema == operator.output
        rows += [tuple(row.values()) for row in batch.to_pylist()]
    return rows


def operator_of(**settings: Any) -> EquiJoin:
    return EquiJoin(
        "matches", LEFT.schema, RIGHT.schema, (["id"], ["id"]), ordered=True, **settings
    )


def test_all_pairs_of_equal_keys_leave_and_nulls_match_nothing() -> None:
    operator = operator_of()
    assert isinstance(operator, StatefulOperator)
    assert isinstance(operator, HoldsWindows)
    assert not isinstance(operator, Flushes)
    assert operator.output.names == ["epoch", "id", "name", "name_right"]
    assert joined(operator, 4, [LEFT], [RIGHT]) == [
        (4, 2, "b", "x"),
        (4, 2, "b", None),
        (4, 2, "d", "x"),
        (4, 2, "d", None),
    ]


@pytest.mark.parametrize("kind", list(JoinKind))
def test_a_window_that_is_asked_for_says_when_it_starts_and_ends(kind: JoinKind) -> None:
    settings = JoinOperator.model_validate(
        {"join": {"left": "a", "right": "b", "on": "id", "kind": kind}, "window": "2m"}
    )
    operator = build_operator(settings, Site("matches", [LEFT.schema, RIGHT.schema], MINUTE))
    assert isinstance(operator, EquiJoin)
    assert operator.output.names[:4] == ["epoch", "window_start", "window_end", "id"]
    assert operator.output.field("window_start").type == pa.timestamp("us")
    assert joined(operator, -2, [LEFT], []) == []
    found = joined(operator, -1, [], [RIGHT])
    epoch = datetime.datetime(1970, 1, 1)
    span = (epoch - datetime.timedelta(minutes=2), epoch)
    assert found
    assert {row[:3] for row in found} == {(-1, *span)}


def test_columns_of_the_names_of_a_windows_ends() -> None:
    spans = pa.schema([("id", pa.int64()), ("window_start", pa.int64())])
    settings: dict[str, Any] = {"spans": MINUTE, "window": AlignedWindows.tumbling(2)}
    keys = (["id"], ["id"])
    operator = EquiJoin("m", LEFT.schema, spans, keys, **settings)
    assert operator.output.names[-2:] == ["name", "window_start_right"]
    assert EquiJoin("m", spans, LEFT.schema, keys).output.names[:3] == [
        "epoch",
        "id",
        "window_start",
    ]
    with pytest.raises(TopologyError, match="rename that of the left input with a map before"):
        EquiJoin("m", spans, LEFT.schema, keys, **settings)


def test_order_does_not_depend_on_arrival() -> None:
    expected = joined(operator_of(), 0, [LEFT], [RIGHT])
    pieces = [LEFT.slice(3), LEFT.slice(0, 3)], [RIGHT.slice(2), RIGHT.slice(0, 2)]
    assert joined(operator_of(), 0, *pieces) == expected


def test_unordered_rows_are_the_same_rows() -> None:
    unordered = EquiJoin("m", LEFT.schema, RIGHT.schema, (["id"], ["id"]))
    rows = joined(unordered, 0, [LEFT], [RIGHT])
    assert sorted(rows, key=repr) == sorted(joined(operator_of(), 0, [LEFT], [RIGHT]), key=repr)


def test_epochs_do_not_meet() -> None:
    operator = operator_of()
    assert joined(operator, 0, [LEFT], []) == []
    assert joined(operator, 1, [], [RIGHT]) == []


def test_rows_meet_inside_a_window_of_epochs() -> None:
    operator = operator_of(window=AlignedWindows.tumbling(2))
    assert joined(operator, 0, [LEFT], []) == []
    assert operator.state_nbytes > 0
    assert len(joined(operator, 1, [], [RIGHT])) == 4
    assert operator.state_nbytes == 0
    assert joined(operator, 2, [LEFT], [RIGHT]) == []
    assert operator.due_epoch == 3
    assert [row[0] for row in joined(operator, 3, [], [])] == [3] * 4


def test_accumulators_of_channels_merge() -> None:
    operator = operator_of()
    left, other, right = operator.accumulator(0), operator.accumulator(0), operator.accumulator(1)
    left.add(LEFT.slice(0, 2))
    other.add(LEFT.slice(2))
    left.merge(other)
    right.add(RIGHT)
    assert len(rows_of(operator, operator.close(closing(0), [left, right]))) == 4


def test_keys_may_have_two_names_and_several_columns() -> None:
    left = pa.record_batch({"a": [1, 1], "b": ["x", "y"], "n": [10, 20]})
    right = pa.record_batch({"n": [7, 8], "c": [1, 1], "d": ["y", "q"]})
    operator = EquiJoin("m", left.schema, right.schema, (["a", "b"], ["c", "d"]), suffix="_2")
    assert operator.output.names == ["epoch", "a", "b", "n", "n_2"]
    assert operator.keys == (("a", "b"), ("c", "d"))
    assert joined(operator, 0, [left], [right]) == [(0, 1, "y", 20, 7)]


@pytest.mark.parametrize(
    "keys",
    [
        pa.array([0.0, math.nan, None, 1.5]),
        pa.array(["", "é", None, "z"]),
        pa.array([b"", b"\xff", None, b"z"]),
        pa.array([True, False, None, None]),
        pa.array([1, 2, None, 3], pa.uint8()),
        pa.array([1, 2, None, 3], pa.date32()),
        pa.array([1, 2, None, 3], pa.timestamp("ms", "UTC")),
        pa.array([1, 2, None, 3], pa.decimal128(10, 2)),
        pa.array([1, 2, None, 3], pa.time64("us")),
    ],
)
def test_keys_of_every_type_come_out_in_their_type(keys: pa.Array) -> None:
    left = pa.record_batch({"k": keys, "payload": keys})
    right = pa.record_batch({"k": keys, "other": keys})
    operator = EquiJoin("m", left.schema, right.schema, (["k"], ["k"]), ordered=True)
    rows = joined(operator, 0, [left], [right])
    assert len(rows) == len(keys) - keys.null_count
    for _, key, payload, other in rows:
        assert str(key) == str(payload) == str(other)


def test_zeros_of_both_signs_are_one_key() -> None:
    left = pa.record_batch({"k": pa.array([0.0, -0.0])})
    right = pa.record_batch({"k": pa.array([-0.0])})
    operator = EquiJoin("m", left.schema, right.schema, (["k"], ["k"]))
    assert len(joined(operator, 0, [left], [right])) == 2


@pytest.mark.parametrize("key_names", [("k",), ("s",), ("k", "s")])
@pytest.mark.parametrize(("left_rows", "right_rows"), [(300, 40), (40, 300), (0, 5), (200, 200)])
def test_pairs_are_those_of_a_nested_loop(
    key_names: tuple[str, ...], left_rows: int, right_rows: int
) -> None:
    source = random.Random(left_rows)

    def side(rows: int, payload: str) -> pa.RecordBatch:
        keys = [source.choice([None, -1, 0, 2**40, *range(30)]) for _ in range(rows)]
        texts = [source.choice([None, "", "a", "longer than eight bytes"]) for _ in range(rows)]
        columns = {"k": pa.array(keys, pa.int64()), "s": pa.array(texts, pa.string())}
        return pa.record_batch({**columns, payload: pa.array(range(rows), pa.int64())})

    left, right = side(left_rows, "l"), side(right_rows, "r")
    operator = EquiJoin("m", left.schema, right.schema, (key_names, key_names))
    place = operator.output.names.index
    found = [
        (row[place("l")], row[place("r")])
        for row in joined(operator, 0, [left.slice(0, 7), left.slice(7)], [right])
    ]
    expected = [
        (one["l"], other["r"])
        for one in left.to_pylist()
        for other in right.to_pylist()
        if all(one[key] is not None and one[key] == other[key] for key in key_names)
    ]
    assert sorted(found) == expected


def test_a_join_that_explodes_leaves_in_bounded_batches() -> None:
    rows = pa.record_batch({"id": pa.array([7] * 600), "n": pa.array(range(600))})
    for ordered in (False, True):
        operator = EquiJoin("m", rows.schema, rows.schema, (["id"], ["id"]), ordered=ordered)
        left, right = operator.accumulator(0), operator.accumulator(1)
        left.add(rows)
        right.add(rows)
        batches = list(operator.close(closing(0), [left, right]))
        assert max(batch.num_rows for batch in batches) <= 65_536
        pairs = pa.Table.from_batches(batches).select(["n", "n_right"])
        assert pairs.num_rows == 360_000
        assert pairs.group_by(["n", "n_right"]).aggregate([]).num_rows == 360_000


def test_columns_named_epoch_of_the_inputs_give_way_to_that_of_the_output() -> None:
    #  what two aggregates gave
    left = pa.record_batch({"epoch": pa.array([3]), "id": pa.array([1]), "sum": pa.array([5])})
    right = pa.record_batch({"epoch": pa.array([4]), "id": pa.array([1]), "mean": pa.array([0.5])})
    operator = EquiJoin("both", left.schema, right.schema, (["id"], ["id"]))
    assert operator.output.names == ["epoch", "id", "sum", "mean"]
    assert joined(operator, 7, [left], [right]) == [(7, 1, 5, 0.5)]


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        ({"ix": "int64"}, {"id": "int64"}, "left key: unknown column 'id'"),
        ({"id": "int64"}, {"id": "int32"}, "make them one type"),
        (
            {"id": "int64", "n": "int64", "n_right": "int64"},
            {"id": "int64", "n": "int64"},
            "two columns 'n_right'",
        ),
    ],
)
def test_what_can_not_be_joined_is_refused(
    left: dict[str, str], right: dict[str, str], message: str
) -> None:
    schemas = [
        pa.schema([(name, pa.type_for_alias(kind)) for name, kind in fields.items()])
        for fields in (left, right)
    ]
    with pytest.raises(TopologyError, match=message):
        EquiJoin("matches", schemas[0], schemas[1], (["id"], ["id"]))


PAIRS = [(2, "b", "x"), (2, "b", None), (2, "d", "x"), (2, "d", None)]
LEFT_ALONE = [(1, "a", None), (None, "c", None)]
RIGHT_ALONE = [(3, None, "y"), (None, None, "z")]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("inner", PAIRS),
        ("left", [*PAIRS, *LEFT_ALONE]),
        ("right", [*PAIRS, *RIGHT_ALONE]),
        ("full", [*PAIRS, *LEFT_ALONE, *RIGHT_ALONE]),
        ("semi", [(2, "b"), (2, "d")]),
        ("anti", [(1, "a"), (None, "c")]),
    ],
)
def test_kinds(kind: str, expected: list[Any]) -> None:
    rows = joined(operator_of(kind=JoinKind(kind)), 4, [LEFT], [RIGHT])
    assert Counter(rows) == Counter((4, *row) for row in expected)


@pytest.mark.parametrize(
    ("kind", "left", "right"),
    [
        ("inner", 0, 0),
        ("left", 4, 0),
        ("right", 0, 4),
        ("full", 4, 4),
        ("semi", 0, 0),
        ("anti", 4, 0),
    ],
)
def test_a_side_that_is_missing_altogether(kind: str, left: int, right: int) -> None:
    assert len(joined(operator_of(kind=JoinKind(kind)), 0, [LEFT], [])) == left
    assert len(joined(operator_of(kind=JoinKind(kind)), 0, [], [RIGHT])) == right
    assert joined(operator_of(kind=JoinKind(kind)), 0, [], []) == []


def test_columns_that_may_be_missing_are_nullable() -> None:
    fields = [pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int8(), nullable=False)]
    schema = pa.schema(fields)
    found = {}
    for kind in JoinKind:
        output = EquiJoin("m", schema, schema, (["id"], ["id"]), kind=kind).output
        found[str(kind)] = [field.nullable for field in output][1:]
    assert found == {
        "inner": [False, False, False],
        "left": [False, False, True],
        "right": [False, True, False],
        "full": [False, True, True],
        "semi": [False, False],
        "anti": [False, False],
    }


def test_semi_and_anti_joins_read_the_keys_of_the_right_side_alone() -> None:
    for kind in (JoinKind.SEMI, JoinKind.ANTI):
        operator = operator_of(kind=kind)
        assert operator.needs == (None, frozenset({"id"}))
        assert operator.output.names == ["epoch", "id", "name"]


def test_rows_that_leave_alone_do_so_in_bounded_batches() -> None:
    rows = pa.record_batch({"id": pa.array(range(150_000))})
    operator = EquiJoin("m", rows.schema, rows.schema, (["id"], ["id"]), kind=JoinKind.FULL)
    left, right = operator.accumulator(0), operator.accumulator(1)
    left.add(rows.slice(0, 100_000))
    right.add(rows.slice(50_000))
    batches = list(operator.close(closing(0), [left, right]))
    assert max(batch.num_rows for batch in batches) <= 65_536
    assert sum(batch.num_rows for batch in batches) == 150_000
