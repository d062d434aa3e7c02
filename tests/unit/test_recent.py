"""Recent and latest: settings, mistakes and what a restored one remembers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streammine import Topology, TopologyError
from streammine.model.contracts import EpochClose, HoldsWindows, KeepsState, SequentialOperator
from streammine.model.epochs import EpochDefinition
from streammine.model.topology import LatestOperator, RecentCall, RecentOperator
from streammine.operators import rows_in_time
from streammine.operators.catalog import build_operator
from streammine.operators.latest import Latest
from streammine.operators.recent import Recent
from streammine.operators.rows_in_time import KeyIds, RowsInTime
from streammine.operators.site import Site
from tests.property.event_order_cases import MINUTE, ORDER

SCHEMA = pa.schema([("ts", pa.int64()), ("key", pa.string()), ("value", pa.int32())])
COUNTED = EpochDefinition("count", 10)


BIG = SCHEMA.set(2, pa.field("value", pa.int64()))
"""Values whose sums may be beyond 64 bits."""


def recent(
    calls: dict[str, str] | None = None,
    within: int = 10,
    schema: pa.Schema = SCHEMA,
    **settings: Any,
) -> Recent:
    parsed = {name: RecentCall.parse(call) for name, call in (calls or {"rows": "count()"}).items()}
    operator = Recent(
        "lately",
        schema,
        ["key"],
        parsed,
        within * 1_000_000,
        ["ts"],
        settings.pop("epoch", MINUTE),
        order=ORDER,
        **settings,
    )
    operator.prepare()
    return operator


def run(
    operator: Any, epoch: int, *rows: tuple[int, Any, Any], columns_of: pa.Schema = SCHEMA
) -> list[tuple[Any, ...]]:
    """Rows (time, key, value) of one epoch of ten seconds."""
    schema = pa.schema([*columns_of, *ORDER])
    columns = [[row[place] for row in rows] for place in range(3)]
    columns += [[row[0] * 1_000_000 for row in rows], [0] * len(rows), list(range(len(rows)))]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    bag = [(0, pa.record_batch(arrays, schema=schema))] if rows else []
    told = operator.run(EpochClose(epoch, MINUTE.watermark(epoch), MINUTE), iter(bag))
    return [tuple(row.values()) for batch in told for row in batch.to_pylist()]


def test_rows_that_are_kept_don_t_keep_the_batch_that_they_came_in() -> None:
    rows = RowsInTime([KeyIds([])], 0)
    batch = np.arange(2_000, dtype=np.int64)
    rows.append([batch[:10], batch[10:20]])
    assert not any(np.shares_memory(batch, column) for column in rows.all())


@pytest.mark.parametrize("stretches", [1, 63, 64, 65, 200])
def test_rows_of_many_short_epochs_are_saved(stretches: int) -> None:
    rows, other = (RowsInTime([KeyIds([pa.string()])], 1) for _ in range(2))
    for number in range(stretches):
        ids = rows.keys[0].ids([pa.array([f"{number % 7}", "x"])], 2)
        rows.append([ids, np.array([number, number]), np.array([number, -number])])
    other.restore(True, rows.freeze(True).pieces())
    found, expected = (
        [each.keys[0].keys(each.all()[0])[0].to_pylist(), *(c.tolist() for c in each.all()[1:])]
        for each in (other, rows)
    )
    assert found == expected
    assert len(other) == 2 * stretches


def test_a_row_counts_until_it_is_as_old_as_that() -> None:
    #   0    3         10   13
    #   a────a─────────┤    ┤      within 10 s: at 10 the first leaves before another comes
    operator = recent()
    assert isinstance(operator, SequentialOperator)
    assert isinstance(operator, HoldsWindows)
    assert isinstance(operator, KeepsState)
    assert run(operator, 0, (0, "a", 1), (3, "a", 1)) == [("a", 1, 0), ("a", 2, 3)]
    assert operator.due_epoch == 1
    assert run(operator, 1, (10, "a", 1)) == [("a", 1, None), ("a", 2, 10), ("a", 1, None)]
    assert operator.due_epoch == 2
    assert run(operator, 2) == [("a", None, None)]
    assert operator.due_epoch is None


def test_what_leaves_without_changing_anything_is_not_told() -> None:
    operator = recent({"middle": "median(value)"})
    run(operator, 0, (0, "a", 5), (1, "a", 5), (2, "a", None))
    assert run(operator, 1) == [("a", None, None)]


def test_a_latest_row_goes_when_another_comes_or_it_is_too_old() -> None:
    operator = Latest("seats", SCHEMA, ["key"], ["value"], 10_000_000, ["ts"], MINUTE, order=ORDER)
    operator.prepare()
    assert run(operator, 0, (0, "a", 1), (3, "b", 7), (3, "a", 1)) == [
        (1, 1, 0),
        (7, 1, 3),
        (1, -1, 3),
        (1, 1, 3),
    ]
    assert run(operator, 1) == [(7, -1, None), (1, -1, None)]


def test_keys_without_rows_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_in_time, "_SIZE_ALWAYS_KEPT", 4)
    operators = [
        recent({"rows": "count()", "middle": "median(value)"}),
        Latest("seats", SCHEMA, ["key"], ["value"], 10_000_000, [], MINUTE, order=ORDER),
    ]
    operators[1].prepare()
    for operator in operators:
        for epoch in range(40):
            rows = [(epoch * 10 + n % 10, f"{epoch}-{n}", epoch + n) for n in range(9)]
            rows.sort(key=lambda row: row[0])
            told = run(operator, epoch, *rows)
            assert len(told) == (9 if epoch == 0 else 18)
        assert operator._rows.keys[0].size <= 4 * 9 + 9


def test_a_sum_beyond_64_bits_is_no_sum() -> None:
    operator = recent({"total": "sum(value)"}, schema=BIG)
    run(operator, 0, (0, "a", 2**62), (1, "a", 2**62 - 1), (2, "b", 5), columns_of=BIG)
    with pytest.raises(OverflowError, match="with 1 of column 'value' the sum of a key leaves"):
        run(operator, 1, (10, "b", 1), (10, "a", 2**62), (10, "a", 1), columns_of=BIG)


def test_a_sum_beyond_64_bits_is_told_with_its_epoch() -> None:
    operator = recent({"total": "sum(value)"}, within=60, schema=BIG)
    times = [time * 1_000_000 for time in (5, 25, 31)]
    columns = [[5, 25, 31], ["a"] * 3, [2**62, 2**62, 1], times, [0] * 3, [0, 1, 2]]
    schema = pa.schema([*BIG, *ORDER])
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    bag = iter([(0, pa.record_batch(arrays, schema=schema))])
    with pytest.raises(OverflowError, match=f"in epoch 2: with {2**62} of column 'value'"):
        operator.run_through(EpochClose(3, MINUTE.watermark(3), MINUTE), bag)


def test_a_sum_that_was_small_whenever_it_was_told_is_restored() -> None:
    operator, other = (recent({"total": "sum(value)"}, within=15, schema=BIG) for _ in range(2))
    half = 2**62
    coming = [(0, "a", -half), (5, "a", half), (6, "a", half), (7, "a", -half)]
    run(operator, 0, *coming, columns_of=BIG)
    assert run(operator, 1) == [("a", half, None)]
    other.restore(1, True, operator.freeze(True).pieces())
    left = [("a", 0, None), ("a", -half, None), ("a", None, None)]
    assert run(operator, 2) == run(other, 2) == left


@pytest.mark.parametrize("full", [True, False])
def test_a_restored_one_goes_on_where_the_other_was(full: bool) -> None:
    operator, other = recent({"middle": "median(value)"}), recent({"middle": "median(value)"})
    pieces = []
    run(operator, 0, (0, "a", 5), (4, "b", 1))
    frozen = [operator.freeze(True)]
    pieces.append((True, list(frozen[0].pieces())))
    run(operator, 1, (11, "a", 8), (12, "c", 3))
    again = operator.freeze(full)
    assert again.full is full
    pieces.append((full, list(again.pieces())))
    for of_full, each in pieces:
        other.restore(1, of_full, iter(each))
    assert other.due_epoch == operator.due_epoch
    assert run(other, 2, (21, "a", 2)) == run(operator, 2, (21, "a", 2))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: recent({"x": "sum(speed)"}), "unknown column 'speed'"),
        (lambda: recent({"x": "median(key)"}), r"type string; .* whole numbers.*cast\(round"),
        (lambda: recent(epoch=COUNTED), "looks at event time, and epochs of rows know none"),
        (
            lambda: Recent("lately", SCHEMA, ["kye"], {}, 1, [], MINUTE, order=ORDER),
            "unknown column 'kye'; did you mean 'key'",
        ),
        (
            lambda: Latest("seats", SCHEMA, ["key"], ["valu"], 1, [], MINUTE, order=ORDER),
            "latest: unknown column 'valu'; did you mean 'value'",
        ),
        (
            lambda: Latest("seats", SCHEMA, ["key"], ["value"], 1, ["t"], MINUTE, order=ORDER),
            "keep: unknown column 't'",
        ),
        (
            lambda: Recent(
                "lately", SCHEMA, [], {}, 1, [], MINUTE, order=[pa.field("__key0", pa.string())]
            ),
            "takes events one after the other",
        ),
    ],
)
def test_mistakes_against_the_columns_are_told(make: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        make()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"recent": {"x": "mean(v)"}, "within": "1m"}, "there is no function 'mean' here"),
        ({"recent": {"x": "median()"}, "within": "1m"}, "median needs a column"),
        ({"recent": {"x": "count"}, "within": "1m"}, "is no function"),
        ({"recent": {"x": 3}, "within": "1m"}, "must be function"),
        ({"recent": {"x": "count()"}}, "needs 'within'"),
        ({"recent": {"x": "count()"}, "within": "0s"}, "must be some time"),
        ({"recent": {"x": "count()"}, "within": "1m", "window": "5m"}, "write within"),
        ({"recent": {"k": "count()"}, "within": "1m", "key": "k"}, "two columns 'k'"),
        (
            {"recent": {"x": "count()"}, "within": "1m", "discipline": "merge"},
            "which discipline merge does not give; write strict",
        ),
        ({"latest": "change", "within": "1m", "key": "k"}, "two columns 'change'"),
        ({"latest": "x", "within": "1m"}, "needs 'key'"),
    ],
)
def test_mistakes_in_the_settings_are_told(settings: dict[str, Any], message: str) -> None:
    topology = Topology(name="t", epoch={"time": "60s", "column": "ts"}).source(
        "rows", generator="keys", rows=10
    )
    with pytest.raises(TopologyError, match=message):
        topology.operator("lately", input="rows", **settings)


def test_settings_become_the_operators() -> None:
    site = Site("lately", [SCHEMA], MINUTE)
    made = build_operator(
        RecentOperator.model_validate(
            {
                "input": "rows",
                "key": "key",
                "recent": {"n": "count()"},
                "within": "1m",
                "keep": "ts",
            }
        ),
        site,
    )
    assert isinstance(made, Recent)
    assert made.output.names == ["key", "n", "ts"]
    assert made.needs == (frozenset({"key", "ts"}),)
    latest = build_operator(
        LatestOperator.model_validate(
            {"input": "rows", "key": "key", "latest": ["value"], "within": "1m"}
        ),
        site,
    )
    assert isinstance(latest, Latest)
    assert latest.output.names == ["value", "change"]
