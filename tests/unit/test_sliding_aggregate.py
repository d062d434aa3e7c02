"""Aggregates over windows that overlap, and over the whole input: when results leave, and what is kept."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streammine.model.contracts import EpochClose
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import StateVersionError, UserCodeError
from streammine.model.topology.aggregates import AggregateCall
from streammine.operators.global_aggregate import GlobalAggregate
from streammine.operators.sliding_aggregate import SlidingAggregate
from streammine.operators.windows import AlignedWindows

SECOND = EpochDefinition("time", 1_000_000, "ts")
SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])
CALLS = {name: AggregateCall.parse(f"{name}(v)") for name in ("sum", "min", "max")}


def sliding(length: int, slide: int, *keys: str, **settings: Any) -> SlidingAggregate:
    window = AlignedWindows(length, slide)
    return SlidingAggregate("a", SCHEMA, keys or ("k",), CALLS, window=window, **settings)


def closing(epoch: int) -> EpochClose:
    return EpochClose(epoch, SECOND.watermark(epoch), SECOND)


def close(one: Any, epoch: int, *rows: tuple[str | None, int | None]) -> list[tuple[Any, ...]]:
    accumulator = one.accumulator(0)
    for key, value in rows:
        accumulator.add(pa.record_batch([[key], [value]], schema=SCHEMA))
    made = one.close(closing(epoch), [accumulator])
    return [tuple(row.values()) for batch in made for row in batch.to_pylist()]


def many(one: Any, epoch: int, keys: np.ndarray[Any, Any]) -> int:
    """An epoch with these keys; how many rows leave."""
    accumulator = one.accumulator(0)
    accumulator.add(pa.record_batch([pa.array(keys.astype(str)), keys], schema=SCHEMA))
    return sum(batch.num_rows for batch in one.close(closing(epoch), [accumulator]))


def test_results_leave_with_every_slide_as_long_as_a_window_has_rows() -> None:
    one = sliding(3, 1)
    assert one.due_epoch is None
    assert close(one, 10, ("a", 5), ("b", 1)) == [(10, "a", 5, 5, 5), (10, "b", 1, 1, 1)]
    assert one.due_epoch == 11
    assert close(one, 11, ("a", 3)) == [(11, "a", 8, 3, 5), (11, "b", 1, 1, 1)]
    assert close(one, 12) == [(12, "a", 8, 3, 5), (12, "b", 1, 1, 1)]
    assert close(one, 13) == [(13, "a", 3, 3, 3)]
    assert one.due_epoch is None
    assert one.state_nbytes < 5_000


def test_a_longer_slide_is_due_at_its_ends_alone() -> None:
    one = sliding(6, 3, spans=True)
    assert close(one, 1, ("a", 5)) == []
    assert one.due_epoch == 2, "the pane ends, and a window with it"
    start, middle = datetime(1969, 12, 31, 23, 59, 57), datetime(1970, 1, 1, 0, 0, 3)
    assert close(one, 2) == [(2, start, middle, "a", 5, 5, 5)]
    assert one.due_epoch == 5
    assert [row[0] for row in close(one, 5, ("a", None))] == [5]
    assert close(one, 8)[0][3:] == ("a", None, None, None), "of a pane without values"
    assert one.due_epoch is None


def test_panes_are_as_long_as_length_and_slide_have_in_common() -> None:
    one = sliding(6, 4)
    assert close(one, 0, ("a", 1)) == []
    assert one.due_epoch == 1
    assert close(one, 1) == [(1, "a", 1, 1, 1)], "of the window of epochs -4 to 1"
    assert one.due_epoch == 5
    assert close(one, 4, ("a", 7)) == []
    assert close(one, 5) == [(5, "a", 8, 1, 7)]
    assert close(one, 9) == [(9, "a", 7, 7, 7)]


def test_what_is_not_finite_leaves_with_its_pane() -> None:
    schema = pa.schema([("v", pa.float64())])
    calls = {name: AggregateCall.parse(f"{name}(v)") for name in ("sum", "variance")}
    window = AlignedWindows(2, 1)
    one = SlidingAggregate("a", schema, (), calls, window=window)
    found = []
    for epoch, values in enumerate([[1.0], [float("inf"), 2.0], [float("-inf")], [3.0], [4.0]]):
        accumulator = one.accumulator(0)
        accumulator.add(pa.record_batch([pa.array(values)], schema=schema))
        (batch,) = one.close(closing(epoch), [accumulator])
        found.append(repr(batch.column("sum")[0].as_py()))
    assert found == ["1.0", "inf", "nan", "-inf", "7.0"]


def test_a_sum_beyond_its_type_names_the_key() -> None:
    one = sliding(2, 1)
    close(one, 0, ("x", 2**62))
    with pytest.raises(UserCodeError, match=r"'a', epoch 1, k = 'x': sum\(v\) is 92233720"):
        close(one, 1, ("x", 2**62), ("y", 1))


def test_memory_goes_back_when_keys_do_not_come_again() -> None:
    """Each epoch has 20,000 keys of its own: what is held must not grow with the epochs."""
    one = sliding(3, 1)
    held, tables = [], []
    for epoch in range(14):
        assert many(one, epoch, np.arange(20_000) + 20_000 * epoch) == 20_000 * min(3, epoch + 1)
        held.append(one.state_nbytes)
        tables.append(one._groups.table.size)
    assert max(held[7:]) <= 1.2 * max(held[:7])
    assert max(tables) <= 5 * 60_000
    assert close(one, 14) != []
    assert sorted(row[2] for row in close(one, 15)) == list(range(260_000, 280_000))


def test_epochs_with_few_keys_take_no_room_for_all_of_the_window() -> None:
    one = sliding(50, 1)
    many(one, 0, np.arange(100_000))
    many(one, 1, np.arange(10))
    accumulator = one.accumulator(0)
    accumulator.add(pa.record_batch([["1"], [1]], schema=SCHEMA))
    assert accumulator.nbytes < 100_000
    before = one.state_nbytes
    for epoch in range(2, 20):
        many(one, epoch, np.arange(10))
    assert one.state_nbytes < before + 100_000, "panes take what they hold"


def test_a_snapshot_holds_the_new_panes_alone() -> None:
    one = sliding(20, 1)
    many(one, 0, np.arange(5_000))
    full = sum(piece.size for piece in one.freeze(False).pieces())
    close(one, 1, ("7", 1))
    changed = one.freeze(False)
    assert not changed.full
    assert sum(piece.size for piece in changed.pieces()) < full / 50


def test_pieces_made_late_show_what_was_frozen() -> None:
    one = sliding(6, 2)
    for epoch in range(5):
        close(one, epoch, ("a", epoch))
    frozen = one.freeze(True)
    late = frozen.pieces()
    pieces = [next(late)]
    for epoch in range(5, 12):
        many(one, epoch, np.arange(30_000) + 30_000 * epoch)
    pieces += late
    again = sliding(6, 2)
    again.restore(1, True, iter(pieces))
    assert again.due_epoch == 5
    assert close(again, 5) == [(5, "a", 10, 0, 4)]
    with pytest.raises(StateVersionError, match="version 3"):
        again.restore(3, True, iter(pieces))


def test_the_whole_input_leaves_in_the_epoch_that_it_is_told() -> None:
    one = GlobalAggregate("a", SCHEMA, ("k",), CALLS)
    assert close(one, 3, ("a", 1), ("b", 2)) == []
    pieces = list(one.freeze(True).pieces())
    assert close(one, 900, ("a", 5)) == []
    assert one.state_nbytes > 0
    left = [row for batch in one.flush(closing(901)) for row in batch.to_pylist()]
    assert [tuple(row.values()) for row in left] == [(901, "a", 6, 1, 5), (901, "b", 2, 2, 2)]
    again = GlobalAggregate("a", SCHEMA, ("k",), CALLS)
    again.restore(1, True, iter(pieces))
    assert sum(batch.num_rows for batch in again.flush(closing(4))) == 2
    assert list(GlobalAggregate("a", SCHEMA, ("k",), CALLS).flush(closing(0))) == []
