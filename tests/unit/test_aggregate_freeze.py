"""A window's layers: what is handed over stays apart until its pieces are made."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from streammine.model.contracts import EpochClose
from streammine.model.epochs import EpochDefinition
from streammine.model.topology.aggregates import AggregateCall
from streammine.operators.aggregate import KeyedAggregate
from streammine.operators.frozen import decode_piece, encode_piece
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


# --- tables of keys -------------------------------------------------------------------------------

MANY = 20_000
"""Keys, more than a table may hold for ever."""


def with_many_keys() -> KeyedAggregate:
    one = aggregate()
    batch = pa.record_batch([[str(key) for key in range(MANY)], [1] * MANY], schema=SCHEMA)
    accumulator = one.accumulator(0)
    accumulator.add(batch)
    one.close(EpochClose(0, 0, EpochDefinition("count", 1)), [accumulator])
    return one


def epoch_bytes(one: KeyedAggregate) -> int:
    """What an epoch with one key takes."""
    accumulator = one.accumulator(0)
    accumulator.add(pa.record_batch([["x"], [1]], schema=SCHEMA))
    return accumulator.nbytes


def test_an_epoch_takes_no_room_for_all_keys_of_the_window() -> None:
    one = with_many_keys()
    assert epoch_bytes(one) > MANY
    close(one, 1, ("a", 1))
    assert epoch_bytes(one) < MANY


def test_nor_does_the_first_epoch_behind_a_snapshot() -> None:
    one = with_many_keys()
    again = aggregate()
    again.restore(1, True, one.freeze(True).pieces())
    assert epoch_bytes(again) < MANY
    rows = close(again, 9, ("7", 10))
    assert len(rows) == MANY
    assert next(row for row in rows if row["key"] == "7")["total"] == 11


# --- pieces ---------------------------------------------------------------------------------------


def test_a_piece_is_filled_up_with_zeros_so_that_pieces_can_lie_one_behind_the_other() -> None:
    for rows in range(70):
        batch = pa.record_batch([["x" * rows] * rows, range(rows)], schema=SCHEMA)
        piece = encode_piece({"rows": rows}, batch)
        assert piece.size % 64 == 0
        source = pa.BufferReader(piece)
        assert [each.num_rows for each in pa.ipc.open_stream(source)] == [rows]
        assert not any(source.read())
        assert decode_piece(piece) == ({"rows": rows}, [batch])
