"""A window's layers: what is handed over stays apart until its pieces are made."""

from __future__ import annotations

from collections import Counter
from random import Random
from threading import Thread, current_thread
from typing import Any

import pyarrow as pa
import pytest

from streammine.model.contracts import EpochClose
from streammine.model.epochs import EpochDefinition
from streammine.model.topology.aggregates import AggregateCall
from streammine.operators.aggregate import KeyedAggregate
from streammine.operators.aggregates.state import GroupState
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


# --- two threads ----------------------------------------------------------------------------------


def test_another_thread_makes_pieces_and_adds_them_to_what_was_before_while_epochs_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # tables are given up all the time, so what is added comes from other tables
    monkeypatch.setattr("streammine.operators.aggregates.keys._SIZE_ALWAYS_KEPT", 3)
    monkeypatch.setattr("streammine.operators.aggregates.window_state.PIECE_BYTES", 256)
    random = Random(5)
    one = KeyedAggregate("a", SCHEMA, ["key"], CALLS, window=TumblingWindow(400))
    expected: Counter[str] = Counter()
    taken: list[tuple[bool, list[pa.Buffer]]] = []
    writer: Thread | None = None
    for epoch in range(399):
        rows = [(f"{random.randrange(300)}", epoch) for _ in range(random.randrange(1, 40))]
        close(one, epoch, *rows)
        for key, value in rows:
            expected[key] += value
        if writer is None or not writer.is_alive():
            frozen = one.freeze(random.random() < 0.2)
            kept: list[pa.Buffer] = []
            taken.append((frozen.full, kept))
            writer = Thread(target=lambda of, into: into.extend(of.pieces()), args=(frozen, kept))
            writer.start()
            counted = dict(expected)
    assert writer is not None
    writer.join()
    totals = {row["key"]: row["total"] for row in close(one, 399)}
    assert totals == expected
    again = KeyedAggregate("a", SCHEMA, ["key"], CALLS, window=TumblingWindow(400))
    for full, pieces in taken:
        again.restore(1, full, iter(pieces))
    assert {row["key"]: row["total"] for row in close(again, 399)} == counted
    assert len(taken) > 3


def test_what_was_frozen_is_added_by_the_thread_that_made_its_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settling: list[str] = []
    merge = GroupState.merge

    def note(self: GroupState, other: GroupState, keys: Any = None) -> None:
        if keys is not None:
            settling.append(current_thread().name)
        merge(self, other, keys)

    monkeypatch.setattr(GroupState, "merge", note)
    one = aggregate()
    for epoch in range(4):
        close(one, epoch, ("a", 1))
        frozen = one.freeze(False)
        writer = Thread(target=lambda of: list(of.pieces()), args=(frozen,), name="writer")
        writer.start()
        writer.join()
    assert [row["total"] for row in close(one, 9, ("a", 1))] == [5]
    assert settling == ["writer"] * 3


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
