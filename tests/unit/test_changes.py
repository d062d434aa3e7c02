"""Changes: what counts as one, keys that are gone or forgotten, and what a topology may say."""

from __future__ import annotations

import math
import random
from typing import Any

import pyarrow as pa
import pytest

from streammine import Topology
from streammine.model.contracts import EpochClose, Forgets, HoldsWindows, KeepsState
from streammine.model.document import parse_topology
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import TopologyError
from streammine.operators.changes import ChangedRows
from streammine.operators.equality import unequal
from streammine.operators.windows import AlignedWindows
from streammine.testing import assert_deterministic, assert_rows, simulate

SECONDS_10 = EpochDefinition("time", 10_000_000, "ts")
SCHEMA = pa.schema([("epoch", pa.int64()), ("house", pa.int64()), ("share", pa.float64())])

Row = tuple[Any, ...]


def operator_of(**settings: Any) -> ChangedRows:
    operator = ChangedRows("changes", SCHEMA, ["house"], **settings)
    operator.prepare()
    return operator


def close(operator: ChangedRows, epoch: int, *rows: Row) -> list[Row]:
    accumulator = operator.accumulator(0)
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], []]
    accumulator.add(
        pa.record_batch([pa.array([epoch] * len(rows), pa.int64()), *columns], schema=SCHEMA)
    )
    at = EpochClose(epoch, SECONDS_10.watermark(epoch), SECONDS_10)
    return [
        tuple(row.values())
        for batch in operator.close(at, [accumulator])
        for row in batch.to_pylist()
    ]


def test_a_row_leaves_when_it_differs_from_what_left_for_its_key() -> None:
    operator = operator_of()
    assert isinstance(operator, HoldsWindows)
    assert isinstance(operator, KeepsState)
    assert not isinstance(operator, Forgets)
    assert operator.output.names == ["epoch", "house", "share"]
    assert close(operator, 0, (1, 0.5), (2, 0.1)) == [(0, 1, 0.5), (0, 2, 0.1)]
    assert close(operator, 1, (1, 0.5), (2, 0.2)) == [(1, 2, 0.2)]
    assert close(operator, 5, (1, 0.5)) == []
    assert close(operator, 6, (1, 0.25), (2, 0.2)) == [(6, 1, 0.25)]
    assert operator.due_epoch is None


@pytest.mark.parametrize(
    ("before", "now", "changed"),
    [
        (None, None, False),
        (math.nan, math.nan, False),
        (0.0, -0.0, False),
        (None, 0.0, True),
        (0.0, None, True),
        (math.nan, None, True),
        (math.nan, 1.0, True),
    ],
)
def test_values_are_compared_as_keys_are(
    before: float | None, now: float | None, changed: bool
) -> None:
    operator = operator_of()
    close(operator, 0, (1, before))
    assert bool(close(operator, 1, (1, now))) == changed


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_floats_of_all_sizes_are_compared(kind: pa.DataType) -> None:
    left = pa.array([0.0, math.nan, None, 1.5, None], pa.float32()).cast(kind)
    right = pa.array([-0.0, math.nan, None, 2.5, 0.0], pa.float32()).cast(kind)
    assert unequal(left, right).tolist() == [False, False, False, True, True]


def test_a_key_that_is_missing_is_gone_and_new_when_it_comes_again() -> None:
    operator = operator_of(gone="gone")
    assert close(operator, 0, (1, 0.5), (2, 0.1)) == [(0, 1, 0.5, False), (0, 2, 0.1, False)]
    assert close(operator, 1, (2, 0.1)) == [(1, 1, None, True)]
    assert operator.due_epoch == 2, "it may turn out to be gone without any other row"
    assert close(operator, 2) == [(2, 2, None, True)]
    assert operator.due_epoch is None
    assert close(operator, 3, (1, 0.5)) == [(3, 1, 0.5, False)]


def test_with_windows_a_key_is_gone_when_a_window_lacks_it() -> None:
    operator = operator_of(gone="gone", window=AlignedWindows.tumbling(2))
    assert close(operator, 0, (1, 0.5)) == []
    assert close(operator, 1) == [(1, 1, 0.5, False)]
    assert close(operator, 2) == []
    assert operator.due_epoch == 3
    assert close(operator, 3) == [(3, 1, None, True)]


def test_a_key_that_is_missing_for_long_is_forgotten() -> None:
    operator = operator_of(forget_windows=2)
    assert close(operator, 0, (1, 0.5), (2, 0.5)) != []
    assert close(operator, 3, (1, 0.5)) == [(3, 1, 0.5)], "missing in two windows in a row"
    assert close(operator, 5, (1, 0.5)) == [], "missing in one"


@pytest.mark.parametrize("keys", [["house"], []])
def test_a_key_that_is_gone_is_gone_in_a_snapshot_of_what_changed(keys: list[str]) -> None:
    #   0  1 2 3      the row comes in epochs 0 and 3
    #   x . . x
    operator, restored = (
        ChangedRows("changes", SCHEMA, keys, gone="gone") for _ in ("as it runs", "restored")
    )
    for epoch, rows in enumerate([[(1, 0.5)], []]):
        assert [row[-1] for row in close(operator, epoch, *rows)] == [bool(epoch)]
        frozen = operator.freeze(full=False)
        assert frozen.full == (epoch == 0)
        restored.restore(operator.state_version, frozen.full, frozen.pieces())
        assert restored.due_epoch == operator.due_epoch == (1 if epoch == 0 else None)
    assert close(restored, 2) == []
    assert close(restored, 3, (1, 0.5)) == close(operator, 3, (1, 0.5)) != []


def test_one_row_of_a_window_counts() -> None:
    operator = ChangedRows("changes", SCHEMA, [], by="house", ignore=["house"])
    assert close(operator, 0, (1, 0.5), (3, 0.2), (2, 0.9)) == [(0, 3, 0.2)]
    assert close(operator, 1, (7, 0.2), (2, 0.9)) == []
    unordered = ChangedRows("changes", SCHEMA, [])
    assert close(unordered, 0, (1, 0.5), (1, 0.2)) == [(0, 1, 0.2)]


# --- mistakes -------------------------------------------------------------------------------------

RIGHT = """\
name: outliers
epoch: {time: 10s, column: ts}
sources:
  shares: {files: shares.parquet, prepare: none}
operators:
  news: {input: shares, key: house, changes: {of: share}}
sinks:
  result: {input: news, format: parquet, path: out}
"""


@pytest.mark.parametrize(
    ("old", "new", "where", "right"),
    [
        ("{of: share}", "{of: share, ignore: ts}", "6:37", "has both of and ignore"),
        ("{of: share}", "{of: house}", "6:3", "neither can change"),
        ("{of: share}", "{ignore: epoch}", "6:3", "neither can change"),
        ("{of: share}", "{gone: epoch}", "6:37", "already"),
        ("{of: share}", "{gone: house}", "6:3", "is a key column, too"),
        ("{of: share}", "{gone: x, forget_after: 1h}", "6:37", "take forget_after out"),
        ("{of: share}", "{on: share}", "6:47", "unknown field 'on'"),
        ("{of: share}", "{of: share, window: 20s}", "6:58", "beside changes"),
    ],
)
def test_mistakes_are_told_with_their_place(old: str, new: str, where: str, right: str) -> None:
    assert old in RIGHT
    with pytest.raises(TopologyError) as caught:
        parse_topology(RIGHT.replace(old, new, 1), "t.yaml")
    assert right in str(caught.value), str(caught.value)
    assert f"t.yaml:{where}" in str(caught.value), str(caught.value)


def table(count: int = 200) -> pa.Table:
    source = random.Random(3)
    times = sorted(source.randrange(200) for _ in range(count))
    return pa.table({"ts": times, "house": [source.randrange(6) for _ in times]})


def topology(**changes: Any) -> Topology:
    return (
        Topology(name="news", epoch={"time": "10s", "column": "ts"})
        .source("rows", files="rows.parquet", prepare="none", slices=3)
        .operator("counts", input="rows", key="house", aggregate={"count": "count()"})
        .operator("news", input="counts", key="house", changes=changes)
        .sink("result", input="news", format="console", ordered=True)
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"of": "cuont"}, "unknown column 'cuont'; did you mean 'count'"),
        ({"gone": "count"}, "has a column 'count' already"),
        ({"forget_after": "15s"}, "forget_after 15s is no .*10s or 20s"),
    ],
)
def test_what_does_not_fit_the_input_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        simulate(topology(**changes), {"rows": table()})


def counted(rows: pa.Table) -> dict[int, dict[int, int]]:
    counts: dict[int, dict[int, int]] = {}
    for row in rows.to_pylist():
        of_epoch = counts.setdefault(row["ts"] // 10, {})
        of_epoch[row["house"]] = of_epoch.get(row["house"], 0) + 1
    return counts


def test_changes_behind_an_aggregate_are_the_same_however_it_is_run() -> None:
    done = assert_deterministic(topology(), {"rows": table()}, seeds=range(6))
    told: dict[int, int] = {}
    expected = []
    for epoch, counts in sorted(counted(table()).items()):
        for house, count in counts.items():
            if told.get(house) != count:
                told[house] = count
                expected.append((epoch, house, count))
    assert_rows(done.table("result"), expected)


def test_keys_that_are_gone_are_told_in_every_run() -> None:
    done = assert_deterministic(topology(gone="gone"), {"rows": table()}, seeds=range(6))
    counts = counted(table())
    expected = {
        (epoch + 1, house)
        for epoch, of_epoch in counts.items()
        for house in of_epoch
        if house not in counts.get(epoch + 1, {})
    }
    found = [
        (row["epoch"], row["house"]) for row in done.table("result").to_pylist() if row["gone"]
    ]
    assert len(found) == len(expected)
    assert set(found) == expected
