"""Split: which output a row goes to, what may be read, and what becomes of rows that match nothing."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from streammine import Topology
from streammine.model.document import parse_topology
from streammine.model.errors import TopologyError, UserCodeError
from streammine.operators import split as module
from streammine.operators.expressions.salvage import evaluated_or_aside
from streammine.operators.split import NO_MATCH, SplitOperator, SplitOutput
from streammine.testing import assert_deterministic, simulate

ROWS = pa.record_batch({"x": pa.array([1, 5, None, 9, 12]), ".output": pa.array(list("abcde"))})


def outputs_of(
    split: SplitOperator, names: list[str], batch: pa.RecordBatch = ROWS
) -> dict[str, list[Any]]:
    """The numbers of the rows that go to each output."""
    derived = split.apply(batch)
    parents = range(batch.num_rows) if derived.parents is None else derived.parents.tolist()
    found = {}
    for number, name in enumerate(names):
        output = SplitOutput(name, number, split.output)
        assert output.output.names == batch.schema.names
        own = output.apply(derived.batch)
        places = range(derived.batch.num_rows) if own.parents is None else own.parents
        found[name] = [list(parents)[place] for place in places]
        assert own.batch.to_pylist() == [batch.to_pylist()[row] for row in found[name]]
    return found


def test_a_row_goes_to_the_first_output_whose_condition_is_true() -> None:
    split = SplitOperator("s", {"low": "x < 6", "odd": "x % 2 = 1", "rest": "ELSE"}, ROWS.schema)
    assert outputs_of(split, ["low", "odd", "rest"]) == {"low": [0, 1], "odd": [3], "rest": [2, 4]}
    assert split.apply(ROWS).dead is None


def test_else_may_stand_anywhere() -> None:
    split = SplitOperator("s", {"rest": "else", "low": "x < 6"}, ROWS.schema)
    assert outputs_of(split, ["rest", "low"]) == {"rest": [2, 3, 4], "low": [0, 1]}


def test_rows_that_match_nothing_are_set_aside_with_a_reason() -> None:
    split = SplitOperator("s", {"low": "x < 6"}, ROWS.schema)
    dead = split.apply(ROWS).dead
    assert dead is not None
    assert dead.reasons == (NO_MATCH,) * 3
    assert dead.rows[0] == "x=None, .output='c'"
    assert outputs_of(split, ["low"]) == {"low": [0, 1]}


def test_a_call_that_fails_as_a_whole_leaves_no_dead_letters_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = pa.record_batch({"t": pa.array(["x", "4"])})
    conditions = {"big": "cast(t as bigint) > 5", "three": "t = '3'"}
    split = SplitOperator("s", conditions, rows.schema, dead_letter=True)

    def failing(expressions: Any, batch: pa.RecordBatch, dead: Any) -> Any:
        if "cast" in expressions[0].label:
            return evaluated_or_aside(expressions, batch, dead)
        raise UserCodeError("too much")

    with monkeypatch.context() as patch:
        patch.setattr(module, "evaluated_or_aside", failing)
        with pytest.raises(UserCodeError, match="too much"):
            split.apply(rows)
    dead = split.apply(rows.slice(1)).dead
    assert dead is not None
    assert dead.reasons == (NO_MATCH,)


def test_a_condition_is_asked_only_of_rows_that_are_left() -> None:
    rows = pa.record_batch({"t": pa.array(["x", "3", None])})
    conditions = {"text": "not regexp_like(t, '^[0-9]+$')", "big": "cast(t as bigint) > 2"}
    split = SplitOperator("s", {**conditions, "rest": "else"}, rows.schema)
    assert outputs_of(split, ["text", "big", "rest"], rows) == {
        "text": [0],
        "big": [1],
        "rest": [2],
    }


def test_an_empty_batch_and_one_that_goes_one_way() -> None:
    split = SplitOperator("s", {"all": "true", "rest": "else"}, ROWS.schema)
    assert outputs_of(split, ["all", "rest"]) == {"all": [0, 1, 2, 3, 4], "rest": []}
    assert outputs_of(split, ["all", "rest"], ROWS.slice(0, 0)) == {"all": [], "rest": []}


def test_a_condition_gives_a_boolean() -> None:
    with pytest.raises(TopologyError, match=r"split: low: 'x \+ 1' gives int64"):
        SplitOperator("s", {"low": "x + 1"}, ROWS.schema)


RIGHT = """\
name: trips
epoch: {count: 10}
sources:
  trips: {files: trips.parquet, prepare: none}
operators:
  route: {input: trips, split: {inside: x between 1 and 300, outliers: else}}
  counts: {input: route.inside, aggregate: {count: count()}}
sinks:
  result: {input: counts, format: parquet, path: out}
  outliers: {input: route.outliers, format: parquet, path: outliers}
"""


def test_the_right_topology_is_right_and_survives_a_round_trip() -> None:
    topology = parse_topology(RIGHT, "t.yaml")
    assert topology.warnings() == []
    again = Topology.model_validate(topology.model_dump(mode="json"))
    assert again == topology
    assert list(again.every_operator) == ["route", "route.inside", "route.outliers", "counts"]


def test_an_output_that_nobody_reads_is_told() -> None:
    topology = parse_topology(RIGHT.replace("route.outliers", "trips"), "t.yaml")
    (warning,) = topology.warnings()
    assert "'route.outliers' leads to no sink" in warning


@pytest.mark.parametrize(
    ("old", "new", "where", "right"),
    [
        ("input: route.inside", "input: route", "7:19", "read one of its outputs: route.inside"),
        ("input: route.inside", "input: route.insde", "7:19", "did you mean 'route.inside'"),
        ("input: route.inside", "input: trips.inside", "7:19", "'trips' is no split"),
        ("input: route.inside", "input: ruote.inside", "7:19", "did you mean 'route.inside'"),
        ("input: route.inside", "input: route.in.side", "7:19", "can't be a name"),
        ("x between 1 and 300", "else", "6:25", "inside and outliers are all else"),
        ("{inside: x between 1 and 300, outliers: else}", "{}", "6:25", "must not be empty"),
        ("inside: x", "a.b: x", "6:33", "can't be a name"),
        ("  route:", "  ro.ute:", "6:3", "can't be a name"),
    ],
)
def test_mistakes_are_told_with_their_place(old: str, new: str, where: str, right: str) -> None:
    with pytest.raises(TopologyError) as caught:
        parse_topology(RIGHT.replace(old, new, 1), "t.yaml")
    assert f"t.yaml:{where}" in str(caught.value), str(caught.value)
    assert right in str(caught.value)


def trips(rows: int = 80) -> pa.Table:
    source = random.Random(5)
    values = [source.choice((None, -3, 0, 1, 2, 300, 301)) for _ in range(rows)]
    return pa.table({"x": pa.array(values, pa.int64()), "n": pa.array(range(rows))})


def test_rows_read_are_rows_used_and_dead_ones() -> None:
    topology = (
        Topology(name="split", epoch={"count": 10})
        .source("trips", files="trips.parquet", prepare="none", slices=3)
        .operator("route", input="trips", split={"in": "x between 1 and 300", "far": "x > 300"})
        .operator("high", input="route.in", filter="x > 1")
        .operator("sums", input="high", key="x", aggregate={"n": "sum(n)"})
        .sink("inside", input="route.in", format="console")
        .sink("far", input="route.far", format="console")
        .sink("result", input="sums", format="console")
    )
    table = trips()
    done = assert_deterministic(topology, {"trips": table}, seeds=range(8))
    inside = [row for row in table.to_pylist() if row["x"] is not None and 1 <= row["x"] <= 300]
    far = [row for row in table.to_pylist() if row["x"] == 301]
    by_number = [("n", "ascending")]
    assert done.table("inside").sort_by(by_number).to_pylist() == inside
    assert done.table("far").sort_by(by_number).to_pylist() == far
    dead = done.dead_letters
    assert dead is not None
    assert len(inside) + len(far) + dead.num_rows == table.num_rows
    assert set(dead["reason"].to_pylist()) == {NO_MATCH}
    assert set(dead["origin"].to_pylist()) == {"route"}


def test_outputs_keep_the_order_of_the_input() -> None:
    topology = (
        Topology(name="split", epoch={"count": 10})
        .source("trips", files="trips.parquet", prepare="none", slices=2)
        .operator("route", input="trips", split={"in": "x between 1 and 300", "rest": "else"})
        .operator("again", union=["route.rest", "route.in"])
        .sink("inside", input="route.in", format="console", ordered=True)
        .sink("joined", input="again", format="console", ordered=True)
    )
    table = trips()
    outputs = simulate(topology, {"trips": table}, seed=2).outputs
    for epoch, rows in outputs["inside"].items():
        wanted = [
            row
            for row in table.slice(10 * epoch, 10).to_pylist()
            if row["x"] is not None and 1 <= row["x"] <= 300
        ]
        assert rows.to_pylist() == wanted
    for epoch, rows in outputs["joined"].items():
        inside = [row["x"] is not None and 1 <= row["x"] <= 300 for row in rows.to_pylist()]
        assert inside == sorted(inside), "the rest comes first"
        assert rows.num_rows == 10, epoch
