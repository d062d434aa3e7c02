"""Aggregates over sessions: where they are cut, when they leave, which rows are late, what is kept."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streammine.model.contracts import EpochClose
from streammine.model.durations import Duration
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import UserCodeError
from streammine.model.topology.aggregates import AggregateCall
from streammine.operators.event_time import EventTime
from streammine.operators.session_aggregate import SessionAggregate

EPOCHS = EpochDefinition("time", 10_000_000, "ts")
SCHEMA = pa.schema([("k", pa.string()), ("ts", pa.int64()), ("v", pa.int64())])
CALLS = {"n": AggregateCall.parse("count()"), "sum": AggregateCall.parse("sum(v)")}

Row = tuple[str | None, int | None]


def sessions(gap: int = 15) -> SessionAggregate:
    time = EventTime("s", SCHEMA, EPOCHS)
    gap_length = Duration(gap * 1_000_000)
    return SessionAggregate("s", SCHEMA, ("k",), CALLS, event_time=time, gap=gap_length, spans=True)


def close(one: SessionAggregate, epoch: int, *rows: Row, value: int = 1) -> list[tuple[Any, ...]]:
    """What leaves: epoch, start and end in seconds, key, rows, sum."""
    accumulator = one.accumulator(0)
    for key, time in rows:
        accumulator.add(pa.record_batch([[key], [time], [value]], schema=SCHEMA))
    made = one.close(EpochClose(epoch, EPOCHS.watermark(epoch), EPOCHS), [accumulator])
    found = [tuple(row.values()) for batch in made for row in batch.to_pylist()]
    return [(epoch, seconds(start), seconds(end), *rest) for epoch, start, end, *rest in found]


def seconds(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1)) // timedelta(seconds=1)


def dead(one: SessionAggregate) -> list[str]:
    taken = one.take_dead()
    return [] if taken is None else list(taken.rows)


def test_rows_less_than_the_gap_apart_are_one_session() -> None:
    one = sessions()
    assert close(one, 0, ("a", 0), ("a", 9)) == []
    assert one.due_epoch == 2
    assert close(one, 1, ("b", 10)) == []
    assert close(one, 2, ("a", 23)) == [(2, 10, 25, "b", 1, 1)]
    assert one.due_epoch == 3
    assert close(one, 3, ("a", 37)) == []
    assert close(one, 5) == [(5, 0, 52, "a", 4, 4)]


def test_rows_the_gap_apart_are_two_sessions() -> None:
    one = sessions()
    close(one, 2, ("a", 23))
    assert close(one, 3, ("a", 38)) == [(3, 23, 38, "a", 1, 1)]
    assert one.due_epoch == 5
    assert close(one, 5) == [(5, 38, 53, "a", 1, 1)]
    assert one.due_epoch is None


def test_a_session_that_ends_with_an_epoch_leaves_with_it() -> None:
    one = sessions()
    close(one, 0, ("a", 5))
    assert one.due_epoch == 1
    assert close(one, 1) == [(1, 5, 20, "a", 1, 1)]


def test_sessions_may_begin_and_end_in_one_epoch() -> None:
    one = sessions(gap=2)
    found = close(one, 0, ("a", 5), ("b", 1), ("a", 1), ("a", 2), ("a", 9))
    assert found == [(0, 1, 4, "a", 2, 2), (0, 5, 7, "a", 1, 1), (0, 1, 3, "b", 1, 1)]
    assert close(one, 1) == [(1, 9, 11, "a", 1, 1)]


def test_a_row_between_two_sessions_makes_them_one() -> None:
    one = sessions(gap=25)
    close(one, 0, ("a", 0), ("b", 3))
    close(one, 1, ("b", 12))
    close(one, 3, ("a", 30), value=100)
    assert close(one, 3) == []
    one = sessions(gap=25)
    close(one, 0, ("a", 0), ("a", 30), ("a", 60))
    assert close(one, 1, ("a", 45)) == []
    assert close(one, 2, ("a", 24), value=100) == []
    assert one.due_epoch == 8
    assert close(one, 8) == [(8, 0, 85, "a", 5, 104)]


def test_late_rows_are_set_aside() -> None:
    one = sessions()
    close(one, 0, ("a", 0))
    assert close(one, 1) == [(1, 0, 15, "a", 1, 1)]
    left = close(one, 2, ("a", 14), ("a", 15), ("b", 5), ("b", 6))
    assert left == [(2, 15, 30, "a", 1, 1), (2, 6, 21, "b", 1, 1)]
    assert dead(one) == ["k='a', ts=14, v=1", "k='b', ts=5, v=1"]
    assert one.take_dead() is None


def test_a_row_that_would_be_over_belongs_to_an_open_session_around_it() -> None:
    one = sessions()
    close(one, 0, ("a", 2), ("a", 9))
    close(one, 1, ("a", 19))
    close(one, 2, ("a", 29))
    close(one, 3, ("a", 5), ("a", 1))
    assert dead(one) == ["k='a', ts=1, v=1"]
    assert close(one, 4) == [(4, 2, 44, "a", 5, 5)]


def test_rows_without_event_time_are_set_aside_with_the_reason() -> None:
    one = sessions()
    close(one, 0, ("a", None), ("a", 1), ("b", 2**60))
    taken = one.take_dead()
    assert taken is not None
    assert taken.reasons == ("no event time in column 'ts', which sessions need",) * 2
    assert taken.rows == ("k='a', ts=None, v=1", f"k='b', ts={2**60}, v=1")
    assert [row[4] for row in close(one, 1)] == [1]


def test_a_sum_beyond_its_type_names_the_key_and_only_of_a_session_that_leaves() -> None:
    one = sessions()
    close(one, 0, ("x", 1), value=2**62)
    close(one, 1, ("x", 12), value=2**62)
    close(one, 2, ("x", 21), value=-(2**62))
    assert close(one, 3) == [(3, 1, 36, "x", 3, 2**62)]
    one = sessions()
    close(one, 0, ("x", 1), ("x", 2), value=2**62)
    with pytest.raises(UserCodeError, match=r"'s', epoch 1, k = 'x': sum\(v\) is 92233720"):
        close(one, 1)


def close_many(one: SessionAggregate, epoch: int, keys: Sequence[int]) -> int:
    accumulator = one.accumulator(0)
    numbers = np.asarray(keys)
    times = np.full(numbers.size, epoch * 10)
    accumulator.add(pa.record_batch([pa.array(numbers.astype(str)), times, numbers], schema=SCHEMA))
    made = one.close(EpochClose(epoch, EPOCHS.watermark(epoch), EPOCHS), [accumulator])
    return sum(batch.num_rows for batch in made)


def test_state_does_not_grow_with_the_keys_that_have_been() -> None:
    one = sessions()
    held = []
    for epoch in range(14):
        left = close_many(one, epoch, range(20_000 * epoch, 20_000 * (epoch + 1)))
        assert left == (20_000 if epoch else 0)
        held.append(one.state_nbytes)
    assert max(held[7:]) <= 1.2 * max(held[:7])
    assert one._groups.table.size <= 8 * 20_000


def test_a_snapshot_holds_the_changed_sessions_alone() -> None:
    one = sessions(gap=1000)
    close_many(one, 0, range(5_000))
    full = sum(piece.size for piece in one.freeze(False).pieces())
    close(one, 1, ("7", 12))
    changed = one.freeze(False)
    assert not changed.full
    assert sum(piece.size for piece in changed.pieces()) < full / 50


def test_pieces_made_late_show_what_was_frozen() -> None:
    one = sessions()
    close(one, 0, ("a", 1), ("b", 9))
    chain = [list(one.freeze(True).pieces())]
    close(one, 1, ("a", 12), ("c", 13))
    late = one.freeze(False).pieces()
    first = next(late)
    close(one, 2, ("a", 20), ("c", 27))
    chain.append([first, *late])
    again = sessions()
    for number, pieces in enumerate(chain):
        again.restore(1, number == 0, iter(pieces))
    assert again.due_epoch == 2
    expected = [(2, 1, 27, "a", 2, 2), (2, 9, 24, "b", 1, 1), (2, 13, 28, "c", 1, 1)]
    assert close(again, 2) == expected
    chain.append(list(again.freeze(True).pieces()))
    another = sessions()
    another.restore(1, True, iter(chain[-1]))
    close(another, 3, ("b", 20), ("b", 30))
    assert dead(another) == ["k='b', ts=20, v=1"], "the session that has left is remembered"
