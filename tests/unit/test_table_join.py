"""The join with a table: which version a row meets, what wins, what is removed, kept and set aside."""

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
from streammine.operators.catalog import build_operator
from streammine.operators.site import Site
from streammine.operators.table_join import TableJoin

TIME = EpochDefinition("time", 10_000_000, "ts")
COUNT = EpochDefinition("count", 10)
LEFT = pa.schema([("id", pa.int64()), ("ts", pa.int64())])
TABLE = pa.schema(
    [("id", pa.int64()), ("ts", pa.int64()), ("price", pa.int64()), ("gone", pa.bool_())]
)
Row = tuple[Any, ...]


def operator_of(
    epoch: EpochDefinition = TIME, left: pa.Schema = LEFT, table: pa.Schema = TABLE, **join: Any
) -> TableJoin:
    settings = JoinOperator.model_validate(
        {"join": {"left": "a", "table": "b", "on": "id", "delete": "gone", **join}}
    )
    operator = build_operator(settings, Site("prices", [left, table], epoch, ordered=True))
    assert isinstance(operator, TableJoin)
    return operator


def closed(
    operator: TableJoin,
    number: int,
    left: Sequence[Row] = (),
    table: Sequence[Row] = (),
    definition: EpochDefinition = TIME,
) -> list[Row]:
    sides = [operator.accumulator(0), operator.accumulator(1)]
    for side, rows, schema in zip(sides, (left, table), operator._schemas, strict=True):
        columns = list(zip(*rows, strict=True)) or [()] * len(schema)
        arrays = [
            pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)
        ]
        side.add(pa.record_batch(arrays, schema=schema))
    found = operator.close(EpochClose(number, definition.watermark(number), definition), sides)
    return [tuple(row.values())[1:] for batch in found for row in batch.to_pylist()]


def price(number: int, ts: int | None, value: int, gone: bool | None = None) -> Row:
    return (number, ts, value, gone)


def test_what_it_is() -> None:
    operator = operator_of()
    for contract in (StatefulOperator, KeepsState, SetsAside):
        assert isinstance(operator, contract)
    for contract in (Forgets, HoldsWindows):
        assert not isinstance(operator, contract)
    assert operator.keys == (("id",), ("id",))
    assert operator.output.names == ["epoch", "id", "ts", "ts_right", "price"]
    assert operator_of(kind="semi").output.names == ["epoch", "id", "ts"]


def test_a_row_meets_the_table_at_the_end_of_its_epoch() -> None:
    operator = operator_of(kind="left")
    assert closed(operator, 0, [(1, 1), (2, 2)], [price(1, 9, 100)]) == [
        (1, 1, 9, 100),
        (2, 2, None, None),
    ]
    assert closed(operator, 5, [(1, 50)]) == [(1, 50, 9, 100)]
    assert closed(operator, 6, [(1, 60)], [price(1, 69, 200)]) == [(1, 60, 69, 200)]


def test_inside_an_epoch_the_later_time_wins_then_the_canonical_order() -> None:
    operator = operator_of()
    changes = [price(1, 5, 300), price(1, 8, 100), price(1, 8, 200), price(1, 2, 900)]
    assert closed(operator, 0, [(1, 1)], changes) == [(1, 1, 8, 200)]


def test_without_event_time_the_canonical_order_decides() -> None:
    operator = operator_of(COUNT)
    changes = [price(1, 5, 300), price(1, 8, 100), price(1, 8, 200), price(1, 2, 900)]
    assert closed(operator, 0, [(1, 1)], changes, COUNT) == [(1, 1, 8, 200)]
    assert closed(operator, 1, [(1, 1)], [price(1, 0, 0)], COUNT) == [(1, 1, 0, 0)]


def test_as_of_a_time() -> None:
    operator = operator_of(kind="left", as_of="ts")
    rows = [(1, 0), (1, 4), (1, 5), (1, 7), (1, 8), (1, 9), (3, 9)]
    changes = [price(1, 5, 500), price(1, 8, 800), price(2, 0, 1)]
    assert closed(operator, 0, rows, changes) == [
        (1, 0, None, None),
        (1, 4, None, None),
        (1, 5, 5, 500),
        (1, 7, 5, 500),
        (1, 8, 8, 800),
        (1, 9, 8, 800),
        (3, 9, None, None),
    ]
    assert closed(operator, 1, [(1, 10)]) == [(1, 10, 8, 800)]


def test_as_of_a_time_rows_may_be_announced() -> None:
    operator = operator_of(kind="left", as_of="ts")
    assert closed(operator, 0, [(1, 1)], [price(1, 25, 9), price(1, 0, 1)]) == [(1, 1, 0, 1)]
    assert closed(operator, 1, [(1, 19)]) == [(1, 19, 0, 1)]
    assert closed(operator, 2, [(1, 24), (1, 25)]) == [(1, 24, 0, 1), (1, 25, 25, 9)]


def test_a_row_that_begins_with_the_next_epoch_waits_for_it() -> None:
    operator = operator_of(kind="left", as_of="ts")
    closed(operator, 0, [], [price(1, 10, 9)])
    assert closed(operator, 1, [(1, 10)], [price(1, 3, 7)]) == [(1, 10, 10, 9)]


def test_rows_that_wait_are_frozen_incrementally() -> None:
    operator = operator_of(kind="left", as_of="ts")
    closed(operator, 0, [], [price(1, 15, 1), price(1, 45, 4)])
    pieces = [list(operator.freeze(full=False).pieces())]
    closed(operator, 1, [], [price(1, 35, 3)])
    pieces.append(list(operator.freeze(full=False).pieces()))
    other = operator_of(kind="left", as_of="ts")
    other.restore(1, True, iter(pieces[0]))
    other.restore(1, False, iter(pieces[1]))
    for each in (operator, other):
        assert closed(each, 2, [(1, 20)]) == [(1, 20, 15, 1)]
        assert closed(each, 3, [(1, 34), (1, 35)]) == [(1, 34, 15, 1), (1, 35, 35, 3)]
        assert closed(each, 4, [(1, 45)]) == [(1, 45, 45, 4)]


def test_as_of_a_time_what_comes_later_replaces_what_came_before() -> None:
    operator = operator_of(kind="left", as_of="ts")
    closed(operator, 5, [], [price(1, 55, 9)])
    assert closed(operator, 6, [(1, 60)], [price(1, 3, 7)]) == [(1, 60, 3, 7)]


@pytest.mark.parametrize("between", [(), (2,), (2, 5)])
def test_what_waited_is_replaced_whichever_epochs_are_closed_between(
    between: tuple[int, ...],
) -> None:
    operator = operator_of(kind="left", as_of="ts")
    closed(operator, 0, [], [price(1, 25, 5), price(2, 25, 6), price(2, 55, 8)])
    for number in between:
        closed(operator, number)
    assert closed(operator, 7, [(1, 70), (2, 70)], [price(1, 3, 7)]) == [
        (1, 70, 3, 7),
        (2, 70, 55, 8),
    ]
    assert closed(operator, 8, [(1, 80)]) == [(1, 80, 3, 7)]


def test_rows_of_the_table_are_removed() -> None:
    operator = operator_of(kind="left")
    closed(operator, 0, [], [price(1, 0, 5), price(2, 0, 6, False)])
    assert closed(operator, 1, [(1, 10), (2, 10)], [price(1, 11, 0, True)]) == [
        (1, 10, None, None),
        (2, 10, 0, 6),
    ]
    assert closed(operator, 2, [(1, 20)], [price(1, 21, 7)]) == [(1, 20, 21, 7)]
    assert len(operator._table) == 2


def test_null_keys_and_times_are_set_aside() -> None:
    operator = operator_of(kind="left", as_of="ts")
    changes = [(None, 5, 1, None), price(1, None, 2)]
    rows = [(1, 9), (1, 20), (1, None), (None, 15), (1, 15)]
    assert closed(operator, 1, rows, changes) == [(1, 15, None, None), (None, 15, None, None)]
    dead = operator.take_dead()
    assert dead is not None
    assert sorted(zip(dead.reasons, dead.rows, strict=True)) == [
        ("a row of the table has a null key", "id=None, ts=5, price=1, gone=None"),
        ("its event time, column 'ts', is missing or out of range", "id=1, ts=None"),
        (
            "its event time, column 'ts', is missing or out of range",
            "id=1, ts=None, price=2, gone=None",
        ),
        ("its event time, column 'ts', lies behind its epoch", "id=1, ts=20"),
        ("late: its event time, column 'ts', lies before its epoch", "id=1, ts=9"),
    ]


def test_a_null_key_is_neither_in_nor_out_of_the_table() -> None:
    for kind, expected in (("semi", []), ("anti", [(None, 1)]), ("inner", [])):
        operator = operator_of(kind=kind)
        assert closed(operator, 0, [(None, 1)], [price(1, 0, 5)]) == expected


def test_what_is_replaced_is_cleared_away() -> None:
    operator = operator_of()
    for epoch in range(60):
        first = 5_000 * (epoch % 2)
        closed(
            operator, epoch, [], [price(number + first, 10 * epoch, 1) for number in range(5_000)]
        )
        closed(operator, epoch + 1000, [], [price(10_000 + epoch, 0, 0)])
    assert len(operator._table) == 10_060
    assert operator._table._end < 90_000
    rows = closed(operator, 2000, [(number, 20_000) for number in range(10_060)])
    assert len(rows) == 10_060


def test_incremental_freezes_hold_what_changed() -> None:
    operator = operator_of()
    closed(operator, 0, [], [price(number, 0, number) for number in range(20_000)])
    pieces = [list(operator.freeze(full=False).pieces())]
    closed(operator, 1, [], [price(1, 10, 77), price(2, 10, 0, True), price(50_000, 10, 1)])
    closed(operator, 2, [], [price(50_000, 20, 0, True), price(3, 20, 0, True), price(3, 21, 33)])
    second = operator.freeze(full=False)
    assert not second.full
    pieces.append(list(second.pieces()))
    assert sum(each.size for each in pieces[1]) < sum(each.size for each in pieces[0]) / 20
    other = operator_of()
    other.restore(1, True, iter(pieces[0]))
    other.restore(1, False, iter(pieces[1]))
    asked = [(1, 30), (2, 30), (3, 30), (4, 30), (50_000, 30)]
    for each in (operator, other):
        rows = closed(each, 3, asked)
        assert rows == [(1, 30, 10, 77), (3, 30, 21, 33), (4, 30, 0, 4)]


@pytest.mark.parametrize(
    ("join", "message"),
    [
        ({"delete": "gne"}, "delete: unknown column 'gne'"),
        ({"delete": "price"}, "column 'price' has type int64; it must be bool"),
        ({"delete": "id"}, "'id' is a key column"),
        ({"as_of": {"left": "ts", "right": "gone"}}, "event time is an integer"),
        ({"as_of": {"left": "at", "right": "ts"}}, "as_of, left: unknown column 'at'"),
        ({"on": {"left": "id", "right": "gone"}, "delete": None}, "make them one type"),
    ],
)
def test_what_can_not_be_joined_is_refused(join: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        operator_of(**join)


def test_columns_without_an_order_are_refused() -> None:
    table = pa.schema([("id", pa.int64()), ("tags", pa.map_(pa.string(), pa.string()))])
    with pytest.raises(TopologyError, match=r"column 'tags' of the table has type map.*map before"):
        operator_of(table=table, delete=None)
