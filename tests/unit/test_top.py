"""Top and rank: order, ties, nulls, names, and what a topology may say."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streammine import Topology
from streammine.model.contracts import (
    EpochClose,
    Forgets,
    HoldsWindows,
    KeepsState,
    StatefulOperator,
)
from streammine.model.document import parse_topology
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import TopologyError
from streammine.model.topology import OrderTerm
from streammine.operators import best_rows
from streammine.operators.top import RankedRows
from streammine.operators.windows import AlignedWindows
from streammine.testing import assert_deterministic, assert_rows

MINUTE = EpochDefinition("time", 60_000_000, "ts")
SCHEMA = pa.schema([("word", pa.string()), ("count", pa.int64())])


def by(*terms: str) -> list[OrderTerm]:
    return [OrderTerm.parse(term) for term in terms]


def left(operator: RankedRows, *batches: pa.RecordBatch, epoch: int = 0) -> list[tuple[Any, ...]]:
    operator.prepare()
    accumulator = operator.accumulator(0)
    for batch in batches:
        accumulator.add(batch)
    close = EpochClose(epoch, MINUTE.watermark(epoch), MINUTE)
    return [
        tuple(row.values())
        for batch in operator.close(close, [accumulator])
        for row in batch.to_pylist()
    ]


def words(*rows: tuple[Any, ...]) -> pa.RecordBatch:
    return pa.record_batch([list(column) for column in zip(*rows, strict=True)], schema=SCHEMA)


WORDS = words(("the", 5), ("a", 7), ("of", 5), ("to", None), ("in", 1))


def test_the_first_rows_leave_with_their_rank_and_ties_go_by_the_whole_row() -> None:
    operator = RankedRows("top", SCHEMA, [], by("count desc"), count=3)
    for contract in (StatefulOperator, HoldsWindows, KeepsState, Forgets):
        assert isinstance(operator, contract)
    assert operator.output.names == ["epoch", "rank", "word", "count"]
    assert left(operator, WORDS, epoch=4) == [(4, 1, "a", 7), (4, 2, "of", 5), (4, 3, "the", 5)]


def test_null_comes_last_either_way() -> None:
    for term, first in (("count desc", "a"), ("count asc", "in")):
        rows = left(RankedRows("top", SCHEMA, [], by(term), count=9), WORDS)
        assert (rows[0][2], rows[-1][2]) == (first, "to")


def test_nan_is_greater_than_every_number_and_zeros_are_one() -> None:
    values = [0.0, math.nan, math.inf, -0.0, -math.inf, None]
    rows = pa.record_batch({"v": pa.array(values), "n": pa.array(range(6))})
    ascending = left(RankedRows("rank", rows.schema, [], by("v asc"), method="rank"), rows)
    assert [row[3] for row in ascending] == [4, 3, 0, 2, 1, 5]
    assert [row[1] for row in ascending] == [1, 2, 2, 4, 5, 6]
    descending = left(RankedRows("rank", rows.schema, [], by("v desc")), rows)
    assert [row[3] for row in descending] == [1, 2, 3, 0, 4, 5]


def test_ranks_are_shared_as_the_method_says() -> None:
    ranks = {
        method: [
            row[1]
            for row in left(RankedRows("r", SCHEMA, [], by("count desc"), method=method), WORDS)
        ]
        for method in ("row_number", "rank", "dense_rank")
    }
    assert ranks == {
        "row_number": [1, 2, 3, 4, 5],
        "rank": [1, 2, 2, 4, 5],
        "dense_rank": [1, 2, 2, 3, 4],
    }


def test_each_key_has_its_own_order_and_zeros_are_one_key() -> None:
    rows = pa.record_batch(
        {"v": pa.array([1, 2, 3, 4]), "k": pa.array([0.0, -0.0, None, math.nan])}
    )
    operator = RankedRows("top", rows.schema, ["k"], by("v desc"), count=1)
    assert repr(left(operator, rows)) == "[(0, 0.0, 1, 2), (0, nan, 1, 4), (0, None, 1, 3)]"


def test_the_column_epoch_of_the_input_gives_way() -> None:
    rows = pa.record_batch({"epoch": [3, 3], "n": [1, 2]})
    operator = RankedRows("top", rows.schema, [], by("n desc"), count=1, into="place")
    assert operator.output.names == ["epoch", "place", "n"]
    assert operator.needs == (frozenset({"n"}),)
    assert left(operator, rows, epoch=3) == [(3, 1, 2)]
    with pytest.raises(TopologyError, match="'epoch' of its input gives way"):
        RankedRows("top", rows.schema, [], by("epoch desc"), count=1)


@pytest.mark.parametrize(
    "kind", ["int64", "uint8", "float32", "float16", "date32[day]", "bool", "text", "decimal"]
)
@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_values_of_every_type_have_their_order(kind: str, direction: str) -> None:
    numbers = [3, 0, None, 1, 2]
    match kind:
        case "text":
            column = pa.array(["d", "", None, "b", "b\x00"])
        case "decimal":
            column = pa.array(numbers, pa.decimal128(30, 2))
        case "bool":
            column, numbers = pa.array([True, False, None]), [1, 0, None]
        case "float16":
            column = pa.array([None if n is None else np.float16(n) for n in numbers], pa.float16())
        case "date32[day]":
            column = pa.array(numbers, pa.int32()).cast(pa.date32())
        case _:
            column = pa.array(numbers, pa.type_for_alias(kind))
    rows = pa.record_batch({"v": column, "n": pa.array(numbers)})
    found = [row[3] for row in left(RankedRows("r", rows.schema, [], by(f"v {direction}")), rows)]
    present = sorted((n for n in numbers if n is not None), reverse=direction == "desc")
    assert found == [*present, None]


@pytest.mark.parametrize("keys", [[], ["key"]])
@pytest.mark.parametrize("count", [1, 3, 500])
def test_many_rows_are_cut_down_on_the_way(keys: list[str], count: int) -> None:
    source = np.random.default_rng(7)
    batches = [
        pa.record_batch(
            {
                "key": pa.array(source.integers(0, 50, 20_000)),
                "value": pa.array(source.integers(0, 1 << 40, 20_000)),
            }
        )
        for _ in range(12)
    ]
    operator = RankedRows("top", batches[0].schema, keys, by("value desc"), count=count)
    held = operator.accumulator(0)
    for batch in batches:
        held.add(batch)
        assert (
            sum(each.num_rows for each in held.batches) <= best_rows._ROWS_NOT_CUT + 2 * 50 * count
        )
    table = pa.Table.from_batches(batches)
    expected = []
    for key in range(50) if keys else [None]:
        rows = table if key is None else table.filter(pa.compute.equal(table["key"], key))
        values = sorted(rows["value"].to_pylist(), reverse=True)[:count]
        expected += [(rank, value) for rank, value in enumerate(values, 1)]
    place = 2 if keys else 1
    found = [(row[place], row[-1]) for row in left(operator, *batches)]
    assert found == expected


def test_a_window_that_was_cut_between_two_snapshots_is_restored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(best_rows, "_ROWS_NOT_CUT", 3)

    def made() -> RankedRows:
        return RankedRows(
            "top", SCHEMA, [], by("count asc"), count=2, window=AlignedWindows.tumbling(5)
        )

    operator, restored = made(), made()
    for epoch, row in enumerate([("a", 9), ("b", 8), ("c", 7), ("d", 6)]):
        assert left(operator, words(row), epoch=epoch) == []
        frozen = operator.freeze(full=False)
        assert frozen.full == (epoch == 0)
        restored.restore(operator.state_version, frozen.full, frozen.pieces())
    assert restored.due_epoch == 4
    expected = [(4, 1, "e", 5), (4, 2, "d", 6)]
    assert left(restored, words(("e", 5)), epoch=4) == expected
    assert left(operator, words(("e", 5)), epoch=4) == expected


def test_a_combiner_sends_no_more_than_the_first_rows_of_each_key() -> None:
    operator = RankedRows("top", SCHEMA, [], by("count desc"), count=2)
    combiner = operator.combiner()
    combiner.add(WORDS)
    assert combiner.partials().to_pylist() == [
        {"word": "a", "count": 7},
        {"word": "of", "count": 5},
    ]
    assert combiner.partials().num_rows == 0


# --- mistakes -------------------------------------------------------------------------------------

RIGHT = """\
name: words
epoch: {time: 10s, column: ts}
sources:
  words: {files: words.parquet, prepare: none}
operators:
  counts: {input: words, key: word, aggregate: {count: count()}}
  best: {input: counts, top: {count: 10, by: count desc}}
sinks:
  result: {input: best, format: parquet, path: out}
"""


@pytest.mark.parametrize(
    ("old", "new", "where", "right"),
    [
        ("by: count desc", "by: count", "7:46", "'count desc' for the greatest first"),
        ("by: count desc", "by: 3", "7:46", "a text or a list of texts"),
        ("by: count desc", "by: [a asc, a desc]", "7:46", "'a' stands there twice"),
        ("by: count desc", "order: count desc", "7:25", "by: COLUMN desc"),
        ("count: 10", "count: 0", "7:38", "at least 1"),
        ("count: 10", "k: 10", "7:25", "write count"),
        ("by: count desc}", "by: count desc, into: epoch}", "7:25", "already"),
        ("by: count desc}}", "by: count desc}, window: 15s}", "7:67", "10s or 20s"),
        ("by: count desc}}", "by: count desc}, key: epoch}", "7:3", "of other epochs"),
        ("by: count desc}}", "by: count desc}, key: rank}", "7:3", "another name with into"),
        ("top: {count: 10, by", "rank: {count: 10, by", "7:32", "write top"),
        ("top: {count: 10, by", "rank: {method: dense, by", "7:40", "did you mean 'dense_rank'"),
        ("top: {count: 10, by: count desc}", "tpo: {}", "7:3", "did you mean 'top'"),
    ],
)
def test_mistakes_are_told_with_their_place(old: str, new: str, where: str, right: str) -> None:
    assert old in RIGHT
    with pytest.raises(TopologyError) as caught:
        parse_topology(RIGHT.replace(old, new, 1), "t.yaml")
    assert right in str(caught.value), str(caught.value)
    assert f"t.yaml:{where}" in str(caught.value), str(caught.value)


def test_terms_are_written_in_several_ways() -> None:
    def terms(by: object) -> tuple[OrderTerm, ...]:
        topology = Topology(epoch={"count": 1}).operator("a", input="b", top={"count": 1, "by": by})
        again = Topology.model_validate(topology.model_dump(mode="json"))
        assert again.operators["a"] == topology.operators["a"]
        operator = topology.operators["a"]
        return operator.top.by  # type: ignore[union-attr]

    assert terms("count desc") == (OrderTerm("count", True),)
    assert terms("count DESC, word asc") == (OrderTerm("count", True), OrderTerm("word", False))
    assert terms(['"a, ""b"" desc" asc', "c d desc"]) == (
        OrderTerm('a, "b" desc', False),
        OrderTerm("c d", True),
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"keys": ["wrd"]}, r"unknown column 'wrd'; did you mean 'word'"),
        ({"by": by("cuont desc")}, r"by: unknown column 'cuont'; did you mean 'count'"),
        ({"into": "word"}, r"has a column 'word' already; give the rank another name"),
        ({"into": "__rank"}, r"can't name an output column"),
    ],
)
def test_columns_that_do_not_fit_are_refused(settings: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"keys": [], "by": by("count desc"), **settings}
    with pytest.raises(TopologyError, match=message):
        RankedRows("top", SCHEMA, **arguments)


def test_columns_without_an_order_are_refused() -> None:
    schema = SCHEMA.append(pa.field("map", pa.map_(pa.string(), pa.int64())))
    with pytest.raises(TopologyError, match=r"'map' has type map.*leave it out with a map"):
        RankedRows("top", schema, [], by("count desc"))


# --- in a topology --------------------------------------------------------------------------------


def rows(count: int = 150) -> pa.Table:
    source = random.Random(3)
    times = sorted(source.randrange(100) for _ in range(count))
    return pa.table({"ts": times, "word": [source.choice("abcdefgh") for _ in times]})


@pytest.mark.parametrize("combine", [None, False])
def test_a_top_of_all_rows_is_the_same_however_it_is_run(combine: bool | None) -> None:
    topology = (
        Topology(name="words", epoch={"time": "10s", "column": "ts"})
        .source("words", files="words.parquet", prepare="none", slices=3)
        .operator("counts", input="words", key="word", aggregate={"count": "count()"}, slices=3)
        .operator("best", input="counts", top={"count": 3, "by": "count desc"}, combine=combine)
        .operator(
            "long", input="counts", top={"count": 2, "by": "count desc"}, key="word", window="30s"
        )
        .operator("all", input="counts", rank={"by": "count desc", "method": "rank"})
        .sink("best_out", input="best", format="console")
        .sink("long_out", input="long", format="console")
        .sink("all_out", input="all", format="console", ordered=True)
    )
    table = rows()
    done = assert_deterministic(topology, {"words": table}, seeds=range(6))
    counts: dict[int, dict[str, int]] = {}
    for row in table.to_pylist():
        of_epoch = counts.setdefault(row["ts"] // 10, {})
        of_epoch[row["word"]] = of_epoch.get(row["word"], 0) + 1
    expected = []
    for epoch, of_epoch in counts.items():
        best = sorted(of_epoch.items(), key=lambda each: (-each[1], each[0]))[:3]
        expected += [(epoch, rank, word, count) for rank, (word, count) in enumerate(best, 1)]
    assert_rows(done.table("best_out"), expected)
