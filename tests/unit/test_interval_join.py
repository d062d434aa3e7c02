"""The interval join: bounds, late rows, what is kept, what is dropped and when rows leave alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from streammine.model.contracts import (
    EpochClose,
    Forgets,
    HoldsWindows,
    KeepsState,
    SetsAside,
    StatefulOperator,
)
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import TopologyError
from streammine.model.topology import JoinOperator
from streammine.model.topology.join_kinds import JoinKind
from streammine.operators.catalog import build_operator
from streammine.operators.event_time import EventTime
from streammine.operators.interval_join import IntervalJoin
from streammine.operators.site import Site

EPOCH = EpochDefinition("time", 10_000_000, "ts")
SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("name", pa.string())])
Row = tuple[Any, ...]


def operator_of(
    lowest: float, highest: float, kind: str = "inner", schema: pa.Schema = SCHEMA
) -> IntervalJoin:
    return IntervalJoin(
        "near",
        (schema, schema),
        (("id",), ("id",)),
        (EventTime("near", schema, EPOCH), EventTime("near", schema, EPOCH)),
        (int(lowest * 1_000_000), int(highest * 1_000_000)),
        EPOCH,
        kind=JoinKind(kind),
        ordered=True,
    )


def closed(
    operator: IntervalJoin, epoch: int, left: Sequence[Row] = (), right: Sequence[Row] = ()
) -> list[Row]:
    sides = [operator.accumulator(0), operator.accumulator(1)]
    for side, rows in zip(sides, (left, right), strict=True):
        columns = list(zip(*rows, strict=True)) or [()] * 3
        arrays = [
            pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)
        ]
        side.add(pa.record_batch(arrays, schema=SCHEMA))
    found = operator.close(EpochClose(epoch, EPOCH.watermark(epoch), EPOCH), sides)
    return [tuple(row.values()) for batch in found for row in batch.to_pylist()]


def test_what_it_is() -> None:
    operator = operator_of(-5, 5)
    for contract in (StatefulOperator, HoldsWindows, KeepsState, SetsAside):
        assert isinstance(operator, contract)
    assert not isinstance(operator, Forgets)
    assert operator.output.names == ["epoch", "id", "ts", "name", "ts_right", "name_right"]


def test_bounds_are_inclusive() -> None:
    operator = operator_of(-2, 3)
    lefts = [(1, second, str(second)) for second in range(10, 20)]
    rows = closed(operator, 1, lefts, [(1, 15, "r")])
    assert [row[2] for row in rows] == [13, 14, 15, 16, 17, 18]


def test_bounds_count_microseconds() -> None:
    schema = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us"))])
    operator = operator_of(0, 0.000001, schema=schema)
    sides = [operator.accumulator(0), operator.accumulator(1)]
    times = [pa.array([0, 1, 2, 3], pa.timestamp("us")), pa.array([1], pa.timestamp("us"))]
    for side, ts in zip(sides, times, strict=True):
        side.add(pa.record_batch([pa.array([1] * len(ts)), ts], schema=schema))
    found = operator.close(EpochClose(0, EPOCH.watermark(0), EPOCH), sides)
    assert sum(batch.num_rows for batch in found) == 2


def test_a_pair_leaves_in_the_epoch_of_the_later_row() -> None:
    operator = operator_of(-100, 100)
    assert closed(operator, 0, left=[(1, 3, "l")]) == []
    assert closed(operator, 4, right=[(1, 45, "r")]) == [(4, 1, 3, "l", 45, "r")]
    assert closed(operator, 9, left=[(1, 95, "m")]) == [(9, 1, 95, "m", 45, "r")]


def test_rows_are_dropped_when_no_partner_can_come() -> None:
    operator = operator_of(-15, 0)
    closed(operator, 0, left=[(1, 9, "l")], right=[(1, 9, "r")])
    kept_left, kept_right = operator._kept
    assert (len(kept_left), len(kept_right)) == (1, 0)
    closed(operator, 1)
    assert len(kept_left) == 1
    closed(operator, 2)
    assert len(kept_left) == 0


def test_state_stays_bounded() -> None:
    operator = operator_of(-20, 20, "full")
    sizes = []
    for epoch in range(400):
        rows = [(number + 1000 * epoch, 10 * epoch, "x") for number in range(1000)]
        closed(operator, epoch, rows, rows[:500])
        sizes.append(operator.state_nbytes)
    assert sizes[-1] < 12_000_000
    assert operator._numbers.size < 70_000


@pytest.mark.parametrize("kind", ["inner", "full"])
def test_rows_whose_times_lie_far_ahead_hold_no_others_up(kind: str) -> None:
    operator = operator_of(-20, 20, kind)
    for epoch in range(200):
        rows = [(number, 10 * epoch + number % 10, "x") for number in range(50)]
        ahead = [(number, 5000, "far") for number in range(epoch, 200, 200)]
        closed(operator, epoch, rows + ahead, rows)
        if epoch % 50 == 0:
            other = operator_of(-20, 20, kind)
            other.restore(1, True, operator.freeze(full=True).pieces())
            operator = other
    kept_left, kept_right = operator._kept
    assert 200 < len(kept_left) < 4 * (200 + 4 * 50)
    assert len(kept_right) <= 4 * 50
    partners = [(number, 4990, "near") for number in range(200)]
    found = closed(operator, 499, right=partners)
    assert [row[1] for row in found if row[3] == "far"] == list(range(200))


def test_rows_without_a_partner_leave_when_none_can_come_any_more() -> None:
    operator = operator_of(-15, 5, "full")
    assert closed(operator, 0, left=[(1, 3, "l")], right=[(2, 3, "r")]) == [
        (0, 2, None, None, 3, "r")
    ]
    assert operator.due_epoch == 1
    assert closed(operator, 1) == [(1, 1, 3, "l", None, None)]
    assert operator.due_epoch is None


def test_a_partner_in_the_last_moment_counts() -> None:
    operator = operator_of(-15, 0, "left")
    closed(operator, 0, left=[(1, 5, "l")])
    assert operator.due_epoch == 2
    assert closed(operator, 2, right=[(1, 20, "r")]) == [(2, 1, 5, "l", 20, "r")]
    assert closed(operator, 3) == []


def test_a_left_row_of_a_semi_join_leaves_once() -> None:
    operator = operator_of(-100, 100, "semi")
    assert closed(operator, 0, left=[(1, 5, "l"), (2, 5, "m")], right=[(1, 5, "r")] * 3) == [
        (0, 1, 5, "l")
    ]
    assert closed(operator, 1, right=[(1, 15, "r"), (2, 15, "r"), (2, 16, "r")]) == [(1, 2, 5, "m")]
    assert closed(operator, 2, right=[(2, 25, "r")]) == []


def test_a_left_row_that_finds_its_partner_waiting_is_not_kept() -> None:
    for kind, leaves in (("semi", [(1, 1, 15, "l")]), ("anti", [])):
        operator = operator_of(-100, 100, kind)
        closed(operator, 0, right=[(1, 5, "r")])
        assert closed(operator, 1, left=[(1, 15, "l")]) == leaves
        assert closed(operator, 2, right=[(1, 25, "r")]) == []
        assert operator.due_epoch is None
        assert len(operator._kept[0]) == 0


def test_null_keys_leave_alone_at_once() -> None:
    operator = operator_of(-100, 100, "full")
    assert closed(operator, 0, left=[(None, 5, "l")], right=[(None, 6, "r")]) == [
        (0, None, 5, "l", None, None),
        (0, None, None, None, 6, "r"),
    ]
    assert closed(operator_of(-100, 100, "anti"), 0, left=[(None, 5, "l")]) == [(0, None, 5, "l")]


def test_late_and_timeless_rows_are_set_aside() -> None:
    operator = operator_of(-100, 100)
    rows = [
        (1, 19, "late"),
        (1, None, "never"),
        (1, 2**62, "far"),
        (1, 20, "right"),
        (1, 99, "early"),
    ]
    assert len(closed(operator, 2, left=rows, right=[(1, 25, "r")])) == 2
    dead = operator.take_dead()
    assert dead is not None
    assert sorted(zip(dead.reasons, dead.rows, strict=True)) == [
        (
            "its event time, column 'ts', is missing or out of range",
            "id=1, ts=4611686018427387904, name='far'",
        ),
        ("its event time, column 'ts', is missing or out of range", "id=1, ts=None, name='never'"),
        ("late: its event time, column 'ts', lies before its epoch", "id=1, ts=19, name='late'"),
    ]
    assert operator.take_dead() is None


def test_many_pairs_leave_in_bounded_batches() -> None:
    operator = operator_of(-1, 1, "full")
    operator._ordered = False
    rows = pa.record_batch(
        [pa.array([1] * 600), pa.array([5] * 600), pa.array(["x"] * 600)], schema=SCHEMA
    )
    sides = [operator.accumulator(0), operator.accumulator(1)]
    for side in sides:
        side.add(rows)
    batches = list(operator.close(EpochClose(0, EPOCH.watermark(0), EPOCH), sides))
    assert max(batch.num_rows for batch in batches) <= 65_536
    assert sum(batch.num_rows for batch in batches) == 360_000


def test_incremental_freezes_hold_what_came_since() -> None:
    operator = operator_of(-1000, 1000, "left")
    closed(operator, 0, left=[(key, 5, "x" * 50) for key in range(20_000)])
    first = operator.freeze(full=False)
    assert first.full
    first_bytes = sum(piece.size for piece in first.pieces())
    closed(operator, 1, left=[(1, 15, "y")])
    second = operator.freeze(full=False)
    assert not second.full
    assert sum(piece.size for piece in second.pieces()) < first_bytes / 20


BY_KEY = {"left": "a", "right": "b", "on": "id"}


@pytest.mark.parametrize(
    ("when", "bounds"),
    [
        ("a.ts between b.ts - 5m and b.ts + 30s", (-300, 30)),
        ("b.ts between a.ts - 5m and a.ts + 30s", (-30, 300)),
        ("left.ts between right.ts and right.ts + 1h", (0, 3600)),
        ("a.ts BETWEEN b.ts AND b.ts + 1s", (0, 1)),
        ("right.ts  between left.ts + 1s and  left.ts+2s", (-2, -1)),
    ],
)
def test_how_it_is_written(when: str, bounds: tuple[int, int]) -> None:
    settings = JoinOperator.model_validate({"join": {**BY_KEY, "when": when}})
    operator = build_operator(settings, Site("near", [SCHEMA, SCHEMA], EPOCH))
    assert isinstance(operator, IntervalJoin)
    assert (operator._lowest, operator._highest) == tuple(each * 1_000_000 for each in bounds)
    assert JoinOperator.model_validate(settings.model_dump(mode="json")) == settings


def test_outputs_of_splits_have_names_of_two_words() -> None:
    join = {"left": "a.high", "right": "b", "on": "id", "when": "a.high.ts between b.ts and b.ts"}
    distance = JoinOperator.model_validate({"join": join}).join.distance
    assert (distance.left_column, distance.right_column) == ("ts", "ts")


def test_a_join_with_itself_says_left_and_right() -> None:
    join = {
        "left": "a",
        "right": "a",
        "on": "id",
        "when": "left.ts between right.ts and right.ts + 1s",
    }
    assert JoinOperator.model_validate({"join": join}).join.distance.highest == 1_000_000
    join["when"] = "a.ts between a.ts and a.ts + 1s"
    with pytest.raises(ValueError, match="name each of them once"):
        JoinOperator.model_validate({"join": join})


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ("a.at between b.ts and b.ts", "when, left: unknown column 'at'"),
        ("a.ts between b.name and b.name", "event time is an integer, a timestamp or a date"),
    ],
)
def test_wrong_time_columns_are_refused(when: str, message: str) -> None:
    settings = JoinOperator.model_validate({"join": {**BY_KEY, "when": when}})
    with pytest.raises(TopologyError, match=message):
        build_operator(settings, Site("near", [SCHEMA, SCHEMA], EPOCH))
