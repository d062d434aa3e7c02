"""A window's layers: what is handed over stays apart until its pieces are made."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from streammine.model.contracts import EpochClose
from streammine.model.epochs import EpochDefinition
from streammine.model.topology.aggregates import AggregateCall
from streammine.operators.aggregate import KeyedAggregate
from streammine.operators.windows import TumblingWindow

SCHEMA = pa.schema([("key", pa.string()), ("value", pa.int64())])
CALLS = {"total": AggregateCall.parse("sum(value)"), "rows": AggregateCall.parse("count()")}


def aggregate() -> KeyedAggregate:
    return KeyedAggregate("a", SCHEMA, ["key"], CALLS, window=TumblingWindow(10))


def close(one: KeyedAggregate, epoch: int, *rows: tuple[str, int]) -> list[dict[str, Any]]:
    accumulator = one.accumulator(0)
    for key, value in rows:
        accumulator.add(pa.record_batch([[key], [value]], schema=SCHEMA))
    made = one.close(EpochClose(epoch, 0, EpochDefinition("count", 1)), [accumulator])
    return [row for batch in made for row in batch.to_pylist()]


def test_a_full_freeze_whose_pieces_are_made_late_counts_nothing_twice() -> None:
    one = aggregate()
    close(one, 0, ("a", 1), ("b", 1))
    list(one.freeze(False).pieces())
    close(one, 1, ("a", 10))
    late = one.freeze(True).pieces()
    first = next(late)
    close(one, 2, ("a", 100), ("c", 100))
    close(one, 3, ("b", 1000))
    pieces = [first, *late]
    again = aggregate()
    again.restore(1, True, iter(pieces))
    assert again.due_epoch == 9
    expected = [("a", 11, 2), ("b", 1, 1)]
    assert [tuple(row.values())[1:] for row in close(again, 9)] == expected
    expected = [("a", 111, 3), ("b", 1001, 2), ("c", 100, 1)]
    assert [tuple(row.values())[1:] for row in close(one, 9)] == expected


def test_an_incremental_freeze_holds_the_changed_groups_alone() -> None:
    one = aggregate()
    close(one, 0, *[(str(number), 1) for number in range(5000)])
    full = sum(piece.size for piece in one.freeze(False).pieces())
    close(one, 1, ("7", 1))
    changed = one.freeze(False)
    assert not changed.full
    assert sum(piece.size for piece in changed.pieces()) < full / 20
