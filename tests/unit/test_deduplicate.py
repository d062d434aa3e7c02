"""Deduplicate: which row of a key stays, late rows, what is forgotten, and what a topology may say."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from streammine import Topology
from streammine.model.contracts import EpochClose, Forgets, HoldsWindows, KeepsState, SetsAside
from streammine.model.document import parse_topology
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import TopologyError
from streammine.operators import keyed_rows
from streammine.operators.deduplicate import DistinctRows
from streammine.operators.deduplicate_within import LATE, NO_TIME, DistinctWithin
from streammine.operators.event_time import EventTime
from streammine.testing import assert_deterministic, assert_rows, simulate

SECONDS_10 = EpochDefinition("time", 10_000_000, "ts")
SCHEMA = pa.schema([("ts", pa.int64()), ("id", pa.int64()), ("text", pa.string())])

Row = tuple[Any, ...]


def rows_of(*rows: Row) -> pa.RecordBatch:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    return pa.record_batch(columns, schema=SCHEMA)


def close(operator: Any, epoch: int, *rows: Row) -> list[Row]:
    accumulator = operator.accumulator(0)
    accumulator.add(rows_of(*rows))
    at = EpochClose(epoch, SECONDS_10.watermark(epoch), SECONDS_10)
    return [
        tuple(row.values())
        for batch in operator.close(at, [accumulator])
        for row in batch.to_pylist()
    ]


def within(seconds: int, last: bool = False) -> DistinctWithin:
    time = EventTime("d", SCHEMA, SECONDS_10)
    operator = DistinctWithin("d", SCHEMA, ["id"], time, SECONDS_10, seconds * 1_000_000, last=last)
    operator.prepare()
    return operator


# --- in a window ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("last", "kept"), [(False, "b"), (True, "c")])
def test_one_row_of_each_key_stays(last: bool, kept: str) -> None:
    operator = DistinctRows("d", SCHEMA, ["id"], "ts", last=last)
    for contract in (HoldsWindows, KeepsState, Forgets):
        assert isinstance(operator, contract)
    rows = [(3, 1, "d"), (2, 1, "b"), (9, 1, "c"), (None, 1, "a"), (9, 1, "e"), (2, 1, "z")]
    assert [row[3] for row in close(operator, 0, *rows)] == [kept]
    assert close(operator, 1, (None, 2, "x"), (None, 2, "w")) == [(1, 2, None, "w")]


# --- within a length of event time ----------------------------------------------------------------


def test_the_first_row_leaves_at_once_and_what_follows_soon_is_dropped() -> None:
    #          0         10        20        30
    #   id 1   a . b     c                          a: 1..16, c is of another burst
    operator = within(15)
    for contract in (HoldsWindows, KeepsState, SetsAside):
        assert isinstance(operator, contract)
    assert not isinstance(operator, Forgets)
    assert close(operator, 0, (1, 1, "a"), (3, 1, "b")) == [(0, 1, 1, "a")]
    assert close(operator, 1, (15, 1, "b"), (16, 1, "c")) == [(1, 1, 16, "c")]
    assert operator.due_epoch is None


def test_the_last_row_leaves_when_its_burst_is_over() -> None:
    operator = within(15, last=True)
    assert close(operator, 0, (1, 1, "a"), (3, 1, "b")) == []
    assert operator.due_epoch == 1, "16 s is passed with epoch 1"
    assert close(operator, 1, (15, 1, "c"), (17, 1, "d")) == [(1, 1, 15, "c")]
    assert close(operator, operator.due_epoch or 0) == [(3, 1, 17, "d")]
    assert operator.due_epoch is None
    assert len(operator._bursts) == 0


def test_a_burst_that_ends_with_an_epoch_leaves_with_it() -> None:
    operator = within(9, last=True)
    assert close(operator, 0, (1, 1, "a")) == [(0, 1, 1, "a")]


def test_a_burst_that_ended_leaves_though_the_next_one_has_two_rows() -> None:
    operator = within(5, last=True)
    assert close(operator, 0, (8, 1, "a")) == []
    assert close(operator, 1, (14, 1, "b"), (14, 1, "b")) == [(1, 1, 8, "a"), (1, 1, 14, "b")]


def test_what_is_restored_is_due_when_it_was() -> None:
    operator, restored = within(15, last=True), within(15, last=True)
    for epoch, rows in enumerate([[(1, 1, "a"), (27, 2, "ahead")], [(17, 1, "b")]]):
        close(operator, epoch, *rows)
        frozen = operator.freeze(full=False)
        restored.restore(operator.state_version, frozen.full, frozen.pieces())
        assert restored.due_epoch == operator.due_epoch == (1, 2)[epoch]
    found = [close(each, epoch) for each in (operator, restored) for epoch in (3, 4)]
    assert found[:2] == found[2:] == [[(3, 1, 17, "b")], [(4, 2, 27, "ahead")]]


def test_late_rows_and_rows_without_time_are_set_aside() -> None:
    operator = within(15)
    close(operator, 3, (30, 1, "a"))
    assert close(operator, 4, (39, 2, "late"), (None, 2, "none"), (40, 2, "in time")) == [
        (4, 2, 40, "in time")
    ]
    dead = operator.take_dead()
    assert dead is not None
    assert dict(zip(dead.rows, dead.reasons, strict=True)) == {
        "ts=39, id=2, text='late'": LATE,
        "ts=None, id=2, text='none'": NO_TIME,
    }
    assert operator.take_dead() is None


def test_rows_ahead_of_the_watermark_wait_for_it() -> None:
    operator = within(15)
    assert close(operator, 0, (25, 1, "later")) == []
    assert operator.due_epoch == 2
    assert close(operator, 1, (12, 1, "first")) == [(1, 1, 12, "first")]
    assert close(operator, 2) == [], "it is of the burst of the one that came after it"


def test_keys_whose_bursts_are_over_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_rows, "_FEW_ROWS", 8)
    operator = within(20)
    most = 0
    for epoch in range(100):
        rows = [(10 * epoch + second, 10 * epoch + second, "") for second in range(10)]
        assert len(close(operator, epoch, *rows)) == 10
        most = max(most, len(operator._bursts))
    assert most <= 60


# --- mistakes -------------------------------------------------------------------------------------

RIGHT = """\
name: once
epoch: {time: 10s, column: ts}
sources:
  rows: {files: rows.parquet, prepare: none}
operators:
  once: {input: rows, key: id, deduplicate: {keep: first}}
sinks:
  result: {input: once, format: parquet, path: out}
"""


@pytest.mark.parametrize(
    ("old", "new", "where", "right"),
    [
        ("key: id, ", "", "6:3", "needs 'key'"),
        ("key: id, ", "key: [], ", "6:28", "must not be empty"),
        ("key: id, ", "key: epoch, ", "6:3", "rename the input's"),
        ("{keep: first}", "{keep: frist}", "6:52", "did you mean 'first'"),
        ("{keep: first}", "{within: 1h, by: id}", "6:32", "keep one"),
        ("{keep: first}", "{within: 0s}", "6:32", "0s"),
        ("{keep: first}}", "{within: 1h}, window: 20s}", "6:3", "keep one"),
        ("{keep: first}}", "{within: 1h}, combine: true}", "6:3", "take combine out"),
        ("{keep: first}}", "{by: id}, time: ts}", "6:3", "keep one"),
        ("{keep: first}}", "{}, keep: last}", "6:49", "deduplicate: {keep: last}"),
    ],
)
def test_mistakes_are_told_with_their_place(old: str, new: str, where: str, right: str) -> None:
    assert old in RIGHT
    with pytest.raises(TopologyError) as caught:
        parse_topology(RIGHT.replace(old, new, 1), "t.yaml")
    assert right in str(caught.value), str(caught.value)
    assert f"t.yaml:{where}" in str(caught.value), str(caught.value)


def table(count: int = 120) -> pa.Table:
    source = random.Random(3)
    times = sorted(source.randrange(100) for _ in range(count))
    return pa.table(
        {
            "ts": times,
            "id": [source.randrange(12) for _ in times],
            "text": [source.choice("ab") for _ in times],
        }
    )


def topology(**fields: Any) -> Topology:
    return (
        Topology(name="once", epoch={"time": "10s", "column": "ts"})
        .source("rows", files="rows.parquet", prepare="none", slices=3)
        .operator("once", input="rows", key="id", **fields)
        .sink("result", input="once", format="console", ordered=True)
    )


def test_what_does_not_fit_the_epochs_is_refused() -> None:
    counted = topology(deduplicate={"within": "1h"}).model_copy(
        update={"epoch": Topology(epoch={"count": 10}).epoch}
    )
    with pytest.raises(TopologyError, match="within is a length of event time"):
        simulate(counted, {"rows": table()})
    with pytest.raises(TopologyError, match="time: unknown column 'tss'; did you mean 'ts'"):
        simulate(topology(deduplicate={}, time="tss"), {"rows": table()})


@pytest.mark.parametrize("keep", ["first", "last"])
@pytest.mark.parametrize("where", [{}, {"within": "15s"}, {"window": "20s"}])
def test_it_is_the_same_however_it_is_run(keep: str, where: dict[str, str]) -> None:
    inside = {"keep": keep} | ({"within": where["within"]} if "within" in where else {})
    beside = {"window": where["window"]} if "window" in where else {}
    whole = topology(deduplicate=inside, **beside)
    done = assert_deterministic(whole, {"rows": table()}, seeds=range(5))
    assert done.dead_letters is None
    if where:
        return
    kept: dict[tuple[int, int], Row] = {}
    for row in table().to_pylist():
        order = (row["ts"] if keep == "first" else -row["ts"], row["text"])
        key = (row["ts"] // 10, row["id"])
        kept[key] = min(
            kept.get(key, (order, row["ts"], row["text"])), (order, row["ts"], row["text"])
        )
    expected = [(epoch, key, ts, text) for (epoch, key), (_, ts, text) in kept.items()]
    assert_rows(done.table("result"), expected)


def test_rows_read_are_rows_looked_at_and_dead_ones() -> None:
    #   a computed time, half of which lies before the epoch
    whole = (
        Topology(name="late", epoch={"time": "10s", "column": "ts"})
        .source("rows", files="rows.parquet", prepare="none", slices=3)
        .operator("moved", input="rows", enrich={"at": "ts - 5"})
        .operator(
            "once", input="moved", key=["id", "text", "at"], time="at", deduplicate={"within": "1s"}
        )
        .sink("result", input="once", format="console")
    )
    rows = table()
    done = assert_deterministic(whole, {"rows": rows}, seeds=range(5))
    late = [row for row in rows.to_pylist() if row["ts"] % 10 < 5]
    on_time = {
        (row["id"], row["text"], row["ts"]) for row in rows.to_pylist() if row["ts"] % 10 >= 5
    }
    assert done.dead_letters is not None
    assert done.dead_letters.num_rows == len(late)
    assert set(done.dead_letters["reason"].to_pylist()) == {LATE}
    assert done.table("result").num_rows == len(on_time)


def test_windows_of_so_many_epochs_of_rows() -> None:
    counted = (
        Topology(name="once", epoch={"count": 10})
        .source("rows", files="rows.parquet", prepare="none")
        .operator("once", input="rows", key="id", window="3 epochs", deduplicate={"by": "ts"})
        .sink("result", input="once", format="console")
    )
    done = assert_deterministic(counted, {"rows": table()}, seeds=range(6))
    kept: dict[tuple[int, int], Row] = {}
    for place, (ts, key, text) in enumerate(zip(*table().to_pydict().values(), strict=True)):
        row = (place // 30 * 3 + 2, key, ts, text)
        kept[row[:2]] = min(row, kept.get(row[:2], row))
    assert_rows(done.table("result"), list(kept.values()))
