"""Enrich and unnest: columns and their places, empty lists, and what is refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from streammine import Topology
from streammine.model.document import parse_topology
from streammine.model.errors import TopologyError
from streammine.operators.enrich import EnrichOperator
from streammine.operators.unnest import UnnestOperator
from streammine.testing import assert_deterministic, assert_rows

SCHEMA = pa.schema([("ts", pa.int64()), ("value", pa.float64()), ("words", pa.list_(pa.string()))])
ROWS = pa.record_batch(
    [[1, 2, 3, 4], [0.5, None, 2.0, 4.0], [["a", None], [], None, ["b"]]], schema=SCHEMA
)


def test_columns_that_are_added_stand_behind_the_others() -> None:
    operator = EnrichOperator("e", {"watts": "value * 1000", "one": "1"}, SCHEMA)
    assert operator.output.names == ["ts", "value", "words", "watts", "one"]
    rows = operator.apply(ROWS).batch
    assert rows.column("watts").to_pylist() == [500.0, None, 2000.0, 4000.0]
    assert rows.column("one").to_pylist() == [1, 1, 1, 1]
    assert rows.select(SCHEMA.names) == ROWS


def test_a_replaced_column_keeps_its_place_and_all_read_what_came_in() -> None:
    columns = {"ts": "ts * 2", "twice": "ts + ts"}
    operator = EnrichOperator("e", columns, SCHEMA, replace=["ts"], drop=["words", "value"])
    assert operator.apply(ROWS).batch.to_pydict() == {"ts": [2, 4, 6, 8], "twice": [2, 4, 6, 8]}


def test_a_dropped_column_may_be_read_and_its_name_used_again() -> None:
    operator = EnrichOperator("e", {"value": "cast(value as bigint)"}, SCHEMA, drop=["value"])
    assert operator.output.names == ["ts", "words", "value"]
    assert operator.apply(ROWS).batch.column("value").to_pylist() == [0, None, 2, 4]


@pytest.mark.parametrize(
    ("columns", "settings", "message"),
    [
        ({"value": "ts"}, {}, "has a column 'value' already; write replace: value"),
        ({"valeu": "ts"}, {"replace": ["valeu"]}, "replace: unknown column 'valeu'; did you mean"),
        ({"x": "ts"}, {"drop": ["tss"]}, "drop: unknown column 'tss'; did you mean 'ts'"),
        ({"x": "tss"}, {}, "unknown column 'tss'"),
        ({"__x": "ts"}, {}, "can't name an output column"),
        ({}, {"drop": ["ts", "value", "words"]}, "no column is left"),
    ],
)
def test_enrich_refuses_what_does_not_fit(
    columns: dict[str, str], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(TopologyError, match=message):
        EnrichOperator("e", columns, SCHEMA, **settings)


def test_an_element_has_the_place_of_its_list() -> None:
    operator = UnnestOperator("u", SCHEMA, "words", into="word", position="place")
    assert operator.output.names == ["ts", "value", "word", "place"]
    derived = operator.apply(ROWS)
    assert derived.parents is not None
    assert derived.parents.tolist() == [0, 0, 3]
    assert [tuple(row.values()) for row in derived.batch.to_pylist()] == [
        (1, 0.5, "a", 0),
        (1, 0.5, None, 1),
        (4, 4.0, "b", 0),
    ]


def test_rows_without_elements_may_be_kept() -> None:
    operator = UnnestOperator("u", SCHEMA, "words", keep_empty=True)
    assert operator.output.names == ["ts", "value", "words"]
    rows = operator.apply(ROWS).batch.to_pylist()
    assert [(row["ts"], row["words"]) for row in rows] == [
        (1, "a"),
        (1, None),
        (2, None),
        (3, None),
        (4, "b"),
    ]
    assert operator.apply(ROWS.slice(0, 0)).batch.num_rows == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"column": "wrds"}, "unknown column 'wrds'; did you mean 'words'"),
        ({"column": "value"}, "'value' has type double; for the words of a text write flat_map"),
        ({"column": "words", "into": "ts"}, "two columns 'ts'; choose another name with into"),
        ({"column": "words", "position": "ts"}, "two columns 'ts'.*with position"),
        ({"column": "words", "into": "__w"}, "can't name an output column"),
    ],
)
def test_unnest_refuses_what_does_not_fit(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        UnnestOperator("u", SCHEMA, **settings)


RIGHT = """\
name: shaped
epoch: {count: 10}
sources:
  rows: {files: rows.parquet, prepare: none}
operators:
  more: {input: rows, enrich: {watts: value * 1000}, drop: value}
  words: {input: more, unnest: {column: words, into: word, position: place}}
sinks:
  result: {input: words, format: parquet, path: out}
"""


@pytest.mark.parametrize(
    ("old", "new", "where", "right"),
    [
        ("drop: value}", "replace: value}", "6:3", "enrich does not compute it"),
        ("drop: value}", "replace: watts, drop: watts}", "6:3", "both in replace and in drop"),
        ("drop: value}", "slices: 3}", "6:54", "runs in the slices of its input"),
        ("{watts: value * 1000}, drop: value}", "{}}", "6:3", "changes nothing"),
        ("position: place", "position: word", "7:24", "both the elements and their positions"),
        ("position: place", "empty: no", "7:67", "Allowed: drop, keep"),
        ("position: place}", "pos: place}", "7:60", "unknown field 'pos'"),
        (
            "into: word, position: place}}",
            "into: word}, position: place}",
            "7:61",
            "inside of unnest",
        ),
    ],
)
def test_mistakes_are_told_with_their_place(old: str, new: str, where: str, right: str) -> None:
    assert old in RIGHT
    with pytest.raises(TopologyError) as caught:
        parse_topology(RIGHT.replace(old, new, 1), "t.yaml")
    assert right in str(caught.value), str(caught.value)
    assert f"t.yaml:{where}" in str(caught.value), str(caught.value)


def test_shaped_rows_are_the_same_however_they_are_run() -> None:
    rows = [(number, [f"w{number % 3}"] * (number % 4)) for number in range(60)]
    table = pa.table({"n": [row[0] for row in rows], "words": [row[1] for row in rows]})
    topology = (
        Topology(name="shaped", epoch={"count": 10})
        .source("rows", files="rows.parquet", prepare="none", slices=3)
        .operator("more", input="rows", enrich={"half": "n // 2"}, drop="n")
        .operator("words", input="more", unnest={"column": "words", "position": "place"})
        .sink("result", input="words", format="console", ordered=True)
    )
    done = assert_deterministic(topology, {"rows": table}, seeds=range(6))
    expected = [(word, place, n // 2) for n, words in rows for place, word in enumerate(words)]
    assert_rows(done.table("result"), expected, ordered=True)
