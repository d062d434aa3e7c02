"""What operators say that they hold: kept as rows come and go, as adding it up would cost each epoch anew."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from streammine.model.contracts import EpochClose
from streammine.model.epochs import EpochDefinition
from streammine.model.topology import OrderTerm
from streammine.model.topology.aggregates import AggregateCall
from streammine.operators.best_rows import BestRows
from streammine.operators.frozen import Handover, decode_piece
from streammine.operators.join import EquiJoin
from streammine.operators.row_order import RowOrder
from streammine.operators.sliding_aggregate import SlidingAggregate
from streammine.operators.top import RankedRows
from streammine.operators.windows import AlignedWindows

SECOND = EpochDefinition("time", 1_000_000, "ts")
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
WINDOWS = [AlignedWindows(6, 6), AlignedWindows(6, 2), AlignedWindows(6, 4), AlignedWindows(6, 1)]
EPOCHS = 40


def some_rows(epoch: int) -> pa.RecordBatch:
    """As many, and as long, as the epoch has them; none in some."""
    rows = [{"k": row % 3, "v": "x" * (epoch % 7)} for row in range(epoch % 5)]
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def close(operator: EquiJoin | RankedRows | SlidingAggregate, epoch: int) -> None:
    accumulators = [operator.accumulator(port) for port in range(len(operator.keys))]
    for accumulator in accumulators:
        accumulator.add(some_rows(epoch))
    for _ in operator.close(EpochClose(epoch, SECOND.watermark(epoch), SECOND), accumulators):
        pass


def open_epochs(window: AlignedWindows, epoch: int) -> list[int]:
    """Those before the end of `epoch` whose rows a window holds that is still to end."""
    first = (window.first_needed(epoch) // window.pane_epochs) * window.pane_epochs
    return [each for each in range(max(0, first), epoch + 1) if some_rows(each).num_rows]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_a_join_holds_the_rows_of_open_windows(window: AlignedWindows) -> None:
    operator = EquiJoin("j", SCHEMA, SCHEMA, (["k"], ["k"]), window=window)
    for epoch in range(EPOCHS):
        close(operator, epoch)
        held = sum(int(some_rows(each).nbytes) for each in open_epochs(window, epoch))
        assert operator.state_nbytes == 2 * held, epoch


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_a_rank_holds_the_rows_of_open_windows(window: AlignedWindows) -> None:
    operator = RankedRows("r", SCHEMA, ["k"], [OrderTerm.parse("v desc")], window=window)
    for epoch in range(EPOCHS):
        close(operator, epoch)
        held = sum(int(some_rows(each).nbytes) for each in open_epochs(window, epoch))
        assert operator.state_nbytes == held, epoch


def test_a_restored_join_holds_as_much() -> None:
    one, other = (
        EquiJoin("j", SCHEMA, SCHEMA, (["k"], ["k"]), window=AlignedWindows(6, 2)) for _ in range(2)
    )
    for epoch in range(11):
        close(one, epoch)
        frozen = one.freeze(full=epoch == 0)
        other.restore(one.state_version, frozen.full, frozen.pieces())
        assert other.state_nbytes == one.state_nbytes
    assert one.state_nbytes > 0


def test_a_snapshot_of_a_join_holds_what_came_since_the_last_one() -> None:
    operator = EquiJoin("j", SCHEMA, SCHEMA, (["k"], ["k"]), window=AlignedWindows(6, 2))
    close(operator, 4)
    assert rows_in(operator.freeze(full=False)) == 2 * some_rows(4).num_rows
    close(operator, 3 + 5)
    assert rows_in(operator.freeze(full=False)) == 2 * some_rows(8).num_rows
    assert rows_in(operator.freeze(full=False)) == 0
    assert rows_in(operator.freeze(full=True)) > 0


def rows_in(frozen: Handover) -> int:
    return sum(batch.num_rows for piece in frozen.pieces() for batch in decode_piece(piece)[1])


def test_complete_panes_hold_the_first_rows_only() -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    for window in (AlignedWindows(6, 2), AlignedWindows(6, 1)):
        operator = RankedRows(
            "r", schema, ["k"], [OrderTerm.parse("v desc")], count=3, window=window
        )
        for epoch in range(20):
            accumulator = operator.accumulator(0)
            numbers = np.arange(1000)
            accumulator.add(pa.record_batch([numbers % 2, numbers], schema=schema))
            closing = EpochClose(epoch, SECOND.watermark(epoch), SECOND)
            left = [
                row for batch in operator.close(closing, [accumulator]) for row in batch.to_pylist()
            ]
            if window.ends_with(epoch) and epoch > 6:
                assert [row["v"] for row in left] == [998] * 3 + [999] * 3
            if window.pane_end(epoch) == epoch:
                panes = (window.epochs - window.slide) // window.pane_epochs
                assert operator.state_nbytes <= 16 * 6 * max(panes, 1) + 16 * 6, epoch


def test_rows_that_are_cut_away_are_held_no_more() -> None:
    schema = pa.schema([("n", pa.int64())])
    rows = BestRows(RowOrder("b", schema, [], [OrderTerm.parse("n desc")]), 2)
    for number in range(20):
        start = 10_000 * number
        rows.add(pa.record_batch([np.arange(start, start + 10_000)], schema=schema))
        assert rows.nbytes == sum(int(batch.nbytes) for batch in rows.batches)
    assert rows.cuts > 0
    rows.taken()
    assert rows.nbytes == 0


def test_a_sliding_minimum_holds_the_same_of_the_same_rows() -> None:
    calls = {"least": AggregateCall.parse("min(v)")}
    operator = SlidingAggregate("a", SCHEMA, ["k"], calls, window=AlignedWindows(35, 1))
    held = []
    for epoch in range(20 * 35):
        close(operator, epoch)
        held.append(operator.state_nbytes)
    # rows come again every 35 epochs, and after 35 the older panes make way for the recent ones
    assert held[10 * 35 : 11 * 35] == held[19 * 35 :]
