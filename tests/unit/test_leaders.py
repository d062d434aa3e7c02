"""Leaders: ties, what counts as a change, mistakes, and what a restored one remembers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streammine import Topology, TopologyError
from streammine.model.contracts import EpochClose
from streammine.model.topology import Leading
from streammine.operators import leaders as leaders_module
from streammine.operators import rows_in_time
from streammine.operators.leaders import Leaders, _numbered
from streammine.operators.measures import bits_of, ranks_of
from streammine.runtime.submission import compile_topology
from tests.property.event_order_cases import MINUTE

SCHEMA = pa.schema([("ts", pa.int64()), ("key", pa.string()), ("points", pa.int64())])
OTHER = pa.schema([("ts", pa.int64()), ("key", pa.string()), ("bonus", pa.int64())])
ORDER = (
    pa.field("__time", pa.int64()),
    pa.field("__by_event0", pa.int8()),
    pa.field("__row", pa.int64()),
)
SETTINGS: dict[str, Any] = {
    "count": 2,
    "measures": {"points": "latest(points)"},
    "by": "points",
    "show": {"key": "key"},
    "keep": ["ts"],
}

READINGS = {"measures": {"points": "latest(value)"}, "show": {"plug": "plug"}, "keep": []}

Change = tuple[int, bool, str, Any]
"""Event (or its time), whether it is one, key, value."""


def leaders(inputs: list[pa.Schema] | None = None, **settings: Any) -> Leaders:
    schemas = inputs or [SCHEMA]
    operator = Leaders(
        "first",
        schemas,
        ["key"],
        Leading.model_validate({**SETTINGS, **settings}),
        orders=[ORDER] * len(schemas),
    )
    operator.prepare()
    return operator


def run(operator: Leaders, *ports: list[Change], epoch: int = 0) -> list[tuple[Any, ...]]:
    bag = []
    for port, (changes, schema) in enumerate(zip(ports, [SCHEMA, OTHER], strict=False)):
        columns = [
            [event if by_event else None for event, by_event, *_ in changes],
            [change[2] for change in changes],
            [change[3] for change in changes],
            [change[0] * 1_000_000 for change in changes],
            [int(change[1]) for change in changes],
            [change[0] for change in changes],
        ]
        fields = pa.schema([*schema, *ORDER])
        arrays = [pa.array(each, field.type) for each, field in zip(columns, fields, strict=True)]
        bag.append((port, pa.record_batch(arrays, schema=fields)))
    told = operator.run(EpochClose(epoch, MINUTE.watermark(epoch), MINUTE), iter(bag))
    return [tuple(row.values()) for batch in told for row in batch.to_pylist()]


def test_a_sum_beyond_64_bits_is_no_sum() -> None:
    operator = leaders(measures={"points": "sum(points)"})
    run(operator, [(1, True, "a", 2**62), (2, True, "b", 2**62), (3, True, "a", 2**62 - 1)])
    with pytest.raises(OverflowError, match="measure 'points': adding 1 of 'points' to the sum"):
        run(operator, [(4, True, "a", 1)], epoch=1)


def test_a_row_leaves_whenever_the_list_changes() -> None:
    changes: list[Change] = [
        (1, True, "a", 5),
        (2, True, "b", 7),
        (3, True, "c", 1),
        (4, True, "a", 6),
        (5, True, "a", 7),
        (6, True, "b", None),
    ]
    assert run(leaders(), changes) == [
        (1, "a", None),
        (2, "b", "a"),
        # c is third, a stays second; with as many points as b, it has changed more recently
        (5, "a", "b"),
        (6, "a", "c"),
    ]


def test_what_time_changes_is_told_with_the_next_event_and_makes_nobody_recent() -> None:
    changes: list[Change] = [
        (1, True, "a", 5),
        (2, True, "b", 5),
        (3, False, "b", 5),
        (4, False, "b", 4),
        (5, True, "c", 1),
        (6, False, "a", 4),
        (7, True, "c", 1),
    ]
    # at 7, a and b have 4 each, and b's last event came after a's
    assert run(leaders(), changes) == [
        (1, "a", None),
        (2, "b", "a"),
        (5, "a", "b"),
        (7, "b", "a"),
    ]


def test_all_rows_of_one_event_are_one_change_and_the_later_port_is_the_more_recent() -> None:
    operator = leaders(
        [SCHEMA, OTHER],
        measures={"points": "latest(points)", "bonus": "sum(bonus)"},
        by="coalesce(points, 0) + bonus",
    )
    # event 1: a gets five points, b as many by its bonus, and c comes and goes
    first = [(1, True, "a", 5), (2, True, "c", 9)]
    second = [(1, True, "b", 5), (2, True, "c", -9)]
    assert run(operator, first, second) == [(1, "b", "a")]  # type: ignore[list-item]


def test_another_value_of_what_is_shown_is_a_change_and_of_what_is_not_is_none() -> None:
    changes: list[Change] = [(1, True, "a", 5), (2, True, "a", 6), (3, True, "a", 6)]
    assert run(leaders(count=1), changes) == [(1, "a")]
    shown = leaders(count=1, show={"key": "key", "points": "points"})
    assert run(shown, changes) == [(1, "a", 5), (2, "a", 6)]


def test_values_are_those_of_when_it_was_told() -> None:
    # b's 3 is changed later in the same epoch, and its first value comes from the epoch before
    operator = leaders(show={"key": "key", "points": "points"})
    run(operator, [(1, True, "b", 3)])
    changes: list[Change] = [(11, True, "a", 9), (12, True, "b", 4)]
    assert run(operator, changes, epoch=1) == [(11, "a", 9, "b", 3), (12, "a", 9, "b", 4)]


def test_keys_of_which_nothing_is_known_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_in_time, "_SIZE_ALWAYS_KEPT", 4)
    operator = leaders()
    for epoch in range(30):
        time = 10 * epoch
        changes: list[Change] = [(time + n, True, f"{epoch}-{n}", n + 1) for n in range(5)]
        changes += [(time + 5 + n, True, f"{epoch}-{n}", None) for n in range(5)]
        told = run(operator, changes, epoch=epoch)
        assert told[-1] == (time + 9, None, None)
        assert operator._ids.size <= 12


@pytest.mark.parametrize("full", [True, False])
def test_a_restored_one_goes_on_where_the_other_was(full: bool) -> None:
    operator, other = leaders(), leaders()
    run(operator, [(1, True, "a", 5), (2, True, "b", 5), (3, True, "c", 4)])
    first = operator.freeze(True)
    first_pieces = list(first.pieces())
    run(operator, [(11, True, "a", None), (12, True, "c", 5)], epoch=1)
    second = operator.freeze(full)
    assert second.full is full
    other.restore(1, True, iter(first_pieces))
    other.restore(1, full, second.pieces())
    # the first changes nothing of what was told last
    changes: list[Change] = [(20, True, "z", 0), (21, True, "d", 5), (22, True, "b", 1)]
    told = run(operator, changes, epoch=2)
    assert told == [(21, "d", "c")]
    assert run(other, changes, epoch=2) == told


def test_what_time_changes_in_an_operator_before_is_no_event() -> None:
    #   s ── recent ── recent ── leaders: the second one sees a row come, which the first tells by time
    order = (*ORDER[:2], pa.field("__by_event1", pa.int8()), ORDER[2])
    operator = Leaders("first", [SCHEMA], ["key"], Leading.model_validate(SETTINGS), orders=[order])
    operator.prepare()
    rows = [
        # time, by an event of the second, of the first, place
        (1, "a", 5, 1, 1, 1, 0),
        (2, "b", 5, 2, 1, 1, 1),
        (None, "a", 9, 6, 1, 0, 0),
        (6, "b", 7, 6, 1, 1, 2),
    ]
    fields = pa.schema([*SCHEMA, *order])
    arrays = [
        pa.array(each, field.type)
        for each, field in zip(zip(*rows, strict=True), fields, strict=True)
    ]
    bag = [(0, pa.record_batch(arrays, schema=fields))]
    told = operator.run(EpochClose(0, MINUTE.watermark(0), MINUTE), iter(bag))
    assert [tuple(row.values()) for batch in told for row in batch.to_pylist()] == [
        (1, "a", None),
        (2, "b", "a"),
        (6, "a", "b"),
    ]


def test_epochs_of_rows_are_refused() -> None:
    topology = (
        Topology(name="t", epoch={"count": 10})
        .source("rows", generator="readings", rows=10)
        .operator("first", input="rows", key="plug", leaders={**SETTINGS, **READINGS})
        .sink("result", input="first", format="console")
    )
    with pytest.raises(TopologyError, match="epochs of rows know none; write epoch:"):
        compile_topology(topology, Path())


def test_inputs_from_several_sources_are_refused() -> None:
    topology = Topology(name="t", epoch={"time": "60s", "column": "ts"})
    for number in (1, 2):
        topology = topology.source(f"rows{number}", generator="readings", rows=10).operator(
            f"recent{number}",
            input=f"rows{number}",
            key="plug",
            recent={f"n{number}": "count()"},
            within="5m",
        )
    topology = topology.operator(
        "first",
        inputs=["recent1", "recent2"],
        key="plug",
        leaders={
            "count": 2,
            "measures": {"n": "latest(n1)", "m": "latest(n2)"},
            "by": "n + m",
            "show": {"plug": "plug"},
        },
    ).sink("result", input="first", format="parquet", path="out")
    with pytest.raises(
        TopologyError, match="'recent1' stems from 'rows1' and 'recent2' from 'rows2'"
    ):
        topology.check()


def test_floats_are_ranked_by_value() -> None:
    values = [float("-inf"), -1.5, -0.0, 0.0, 1e-300, 2.0, float("inf")]
    ranks, listed = ranks_of(pa.array([*values, None, float("nan")], pa.float64()))
    assert listed.tolist() == [True] * len(values) + [False, False]
    assert (np.diff(ranks[: len(values)]) >= 0).all()
    assert ranks[2] == ranks[3]
    assert len(set(ranks[: len(values)].tolist())) == len(values) - 1


@pytest.mark.parametrize("by", ["points", "points + 0"], ids=["as they are", "computed"])
def test_leaders_by_floats_that_are_less_than_nothing(by: str) -> None:
    schema = SCHEMA.set(2, pa.field("points", pa.float64()))
    operator = leaders([schema], by=by, show={"key": "key", "points": "points"})
    columns = [
        pa.array([1, 2, 3, 4]),
        pa.array(["a", "b", "c", "d"]),
        pa.array([-3.0, -1.0, 0.5, None]),
        pa.array([1, 2, 3, 4]),
        pa.array([1] * 4, pa.int8()),
        pa.array([0] * 4),
    ]
    batch = pa.record_batch(columns, schema=pa.schema([*schema, *ORDER]))
    (told,) = operator.run(EpochClose(0, MINUTE.watermark(0), MINUTE), iter([(0, batch)]))
    assert told.column("key_1").to_pylist() == ["a", "b", "c"]
    assert told.column("key_2").to_pylist() == [None, "a", "b"]
    assert told.column("points_2").to_pylist() == [None, -3.0, -1.0]


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.float64(), pa.float32()])
def test_what_lies_under_a_null_is_nothing(kind: pa.DataType) -> None:
    numbers = np.array([7, 5, 3]).astype(kind.to_pandas_dtype())
    column = pa.array(numbers, kind, mask=np.array([False, True, False]))
    assert column.buffers()[1].size >= 3 * numbers.itemsize
    wide = pa.int64() if pa.types.is_integer(kind) else pa.float64()
    for part, expected in ((column, [7, 0, 3]), (column.slice(1), [0, 3])):
        bits, valid = bits_of(part, wide)
        assert bits.view(wide.to_pandas_dtype()).tolist() == expected
        assert valid.tolist() == [each != 0 for each in expected]


def test_what_is_told_is_numbered_alike_be_it_sorted_or_marked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    random = np.random.default_rng(3)
    for changes, keys, rows in ((1, 1, 1), (5, 3, 4), (40, 60, 7), (3, 200, 2)):
        # changes, nobody, or keys as they were before
        places = random.integers(-1 - keys, changes, (rows, 3))
        found = []
        for share in (0, 1 << 30):
            monkeypatch.setattr(leaders_module, "_SORTED_SHARE", share)
            found.append([each.tolist() for each in _numbered(places, changes, keys)])
        assert found[0] == found[1]
        of_change, of_key, numbers = found[0]
        told = [*of_change, *(-2 - key for key in of_key), -1]
        assert [[told[number] for number in row] for row in numbers] == places.tolist()


def test_whole_numbers_of_64_bits_are_ranked_by_value() -> None:
    ranks, listed = ranks_of(pa.array([0, 1, 2**63 - 1, 2**63, 2**64 - 1, None], pa.uint64()))
    assert listed.tolist() == [True] * 5 + [False]
    assert (np.diff(ranks[:5]) > 0).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"by": "pionts"}, "unknown column 'pionts'; did you mean 'points'"),
        ({"by": "key"}, "ranked by numbers"),
        ({"measures": {"points": "latest(pts)"}}, r"latest\(pts\): unknown column 'pts'"),
        ({"measures": {"x": "sum(key)"}, "by": "x"}, "sum takes whole numbers"),
        ({"measures": {"x": "latest(key)"}, "by": "x"}, "latest takes whole numbers, or floats"),
        ({"keep": ["t"]}, "keep: unknown column 't'"),
    ],
)
def test_mistakes_against_the_columns_are_told(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        leaders(**settings)


def test_inputs_that_know_events_differently_are_refused() -> None:
    orders = [ORDER, (*ORDER[:2], pa.field("__file", pa.int32()), ORDER[2])]
    with pytest.raises(TopologyError, match="don't stem from one source"):
        Leaders("first", [SCHEMA, SCHEMA], ["key"], Leading.model_validate(SETTINGS), orders=orders)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"count": 0}, "at least 1"),
        ({"measures": {"points": "mean(points)"}}, "there is no function 'mean' here"),
        ({"measures": {"key": "latest(points)"}}, "measure 'key' is a key column"),
        ({"keep": ["key_1"]}, "two columns 'key_1'"),
        ({"key": "x"}, "it stands beside leaders"),
        ({"k": 3}, "write count: 10"),
    ],
)
def test_mistakes_in_the_settings_are_told(settings: dict[str, Any], message: str) -> None:
    topology = Topology(name="t", epoch={"time": "60s", "column": "ts"}).source(
        "rows", generator="keys", rows=10
    )
    with pytest.raises(TopologyError, match=message):
        topology.operator("first", input="rows", key="key", leaders={**SETTINGS, **settings})
