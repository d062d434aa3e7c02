"""Union: what may be put together, and that no row is lost, doubled or out of order on the way."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streammine import Operator, Topology, Value
from streammine.cli.explain_command import explanation
from streammine.engine.planner import LogicalNode, plan
from streammine.engine.union_order import union_orders
from streammine.model.contracts import Traits
from streammine.model.disciplines import Discipline
from streammine.model.document import parse_topology
from streammine.model.errors import TopologyError
from streammine.model.ids import TIME_COLUMN
from streammine.operators.union import UnionOperator
from streammine.runtime.submission import compile_topology
from streammine.testing import assert_deterministic, simulate

FIRST = pa.schema([("ts", pa.int64()), ("value", pa.float64())])
OTHER_WAY_ROUND = pa.schema([("value", pa.float64()), ("ts", pa.int64())])


# --- columns --------------------------------------------------------------------------------------


def test_columns_stand_as_in_the_first_stream() -> None:
    union = UnionOperator("all", ["a", "b"], [FIRST, OTHER_WAY_ROUND])
    assert union.output == FIRST
    batch = pa.record_batch({"value": [0.5], "ts": [3]})
    assert union.apply(batch).batch.to_pylist() == [{"ts": 3, "value": 0.5}]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (pa.schema([("ts", pa.int64())]), r"'b' lacks value"),
        (FIRST.append(pa.field("x", pa.int8())), r"'a' lacks x; add them with an enrich"),
        (
            pa.schema([("ts", pa.int64()), ("val", pa.float64())]),
            r"'b' lacks value and 'a' lacks val",
        ),
        (
            pa.schema([("ts", pa.int64()), ("value", pa.int32())]),
            r"'value' has type double in 'a' and int32 in 'b'.*replace: value",
        ),
    ],
)
def test_other_columns_are_refused(other: pa.Schema, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        UnionOperator("all", ["a", "b"], [FIRST, other])


RIGHT = """\
name: traffic
epoch: {time: 10s, column: ts}
sources:
  cars: {files: cars.parquet, prepare: none, slices: 2}
  trucks: {files: trucks.parquet, prepare: none, slices: 3}
operators:
  all: {union: [cars, trucks]}
  counts: {input: all, key: key, aggregate: {count: count()}}
sinks:
  result: {input: counts, format: parquet, path: out}
  raw: {input: all, format: parquet, path: raw}
"""


@pytest.mark.parametrize(
    ("old", "new", "where", "right"),
    [
        ("[cars, trucks]", "[cars]", "7:16", "two streams"),
        ("[cars, trucks]", "[cars, cars]", "7:16", "twice"),
        ("[cars, trucks]", "[cars, truks]", "7:23", "did you mean 'trucks'"),
        ("[cars, trucks]}", "[cars, trucks], input: cars}", "7:32", "union: [NAME, NAME]"),
        ("[cars, trucks]}", "[cars, trucks], slices: 3}", "7:32", "runs in the slices"),
        ("[cars, trucks]}", "[cars, trucks], max_rounds: 3}", "7:32", "is in no loop"),
    ],
)
def test_mistakes_are_told_with_their_place(old: str, new: str, where: str, right: str) -> None:
    with pytest.raises(TopologyError) as caught:
        parse_topology(RIGHT.replace(old, new, 1), "t.yaml")
    assert f"t.yaml:{where}" in str(caught.value)
    assert right in str(caught.value)


def test_explain_shows_the_edges_of_a_union(tmp_path: Path) -> None:
    for name in ("cars", "trucks"):
        pq.write_table(pa.table({"ts": [1], "key": [1]}), tmp_path / f"{name}.parquet")
    topology = parse_topology(RIGHT, "t.yaml")
    compiled, sources = compile_topology(topology, tmp_path)
    text = "\n".join(explanation(topology, compiled, sources))
    assert "all (runs here) → counts (4 channels by key, combined before it is sent)" in text
    assert "all (runs here) → counts (6 channels by key, combined before it is sent)" in text
    assert "all (runs here) → raw (3 channels one to one)" in text


# --- the plan -------------------------------------------------------------------------------------


def source(name: str, slices: int = 2) -> LogicalNode:
    return LogicalNode(name, "source", slices=slices)


def test_a_reader_of_a_union_has_an_edge_from_all_that_make_a_part_of_it() -> None:
    #   a ──────────────┐
    #   b ──clean──┐    ├── all ──> counts
    #   c ─────── some ─┘
    graph = plan(
        [
            source("a"),
            source("b"),
            source("c", 3),
            LogicalNode("clean", "stateless", ("b",)),
            LogicalNode("some", "union", ("clean", "c")),
            LogicalNode("all", "union", ("a", "some")),
            LogicalNode("counts", "stateful", ("all",)),
            LogicalNode("result", "sink", ("all",)),
        ]
    )
    into = {(edge.source, edge.stages) for edge in graph.edges if edge.target == "counts"}
    assert into == {
        ("a", ("all",)),
        ("b", ("clean", "some", "all")),
        ("c", ("some", "all")),
    }
    assert {edge.port for edge in graph.edges if edge.target == "counts"} == {0}
    assert graph.vertex("result").slices == 3
    reached = {
        channel.source
        for channel in graph.channels
        if channel.target.vertex == "result" and channel.source.vertex != "result"
    }
    assert len(reached) == 2 + 2 + 3, "every slice sends to one of the sink's"


def test_eithers_in_one_union_are_chosen_from_apart() -> None:
    graph = plan(
        [
            *(source(name, 1) for name in "abcd"),
            LogicalNode("one", "either", ("a", "b")),
            LogicalNode("two", "either", ("c", "d")),
            LogicalNode("all", "union", ("one", "two")),
            LogicalNode("counts", "stateful", ("all",)),
            LogicalNode("result", "sink", ("counts",)),
        ]
    )
    choosers = {edge.source: edge.chooser for edge in graph.edges if edge.either}
    assert choosers == {"a": "one", "b": "one", "c": "two", "d": "two"}
    assert graph.receivers == {"a": 0, "b": 1, "c": 0, "d": 1}
    assert "those of a or b; replicas agree" in graph.vertex("counts").reason


def test_a_cycle_of_a_union_without_state_is_refused() -> None:
    nodes = [
        source("a"),
        LogicalNode("all", "union", ("a", "clean")),
        LogicalNode("clean", "stateless", ("all",)),
        LogicalNode("result", "sink", ("clean",)),
    ]
    with pytest.raises(
        TopologyError, match="all, clean form a cycle, and none of them keeps state"
    ):
        plan(nodes)


def test_a_loop_may_begin_at_a_union() -> None:
    graph = plan(
        [
            source("a"),
            LogicalNode("all", "union", ("a", "step"), max_rounds=7),
            LogicalNode("step", "stateful", ("all",)),
            LogicalNode("result", "sink", ("step",)),
        ]
    )
    (loop,) = graph.loops
    assert (loop.head, loop.max_rounds, loop.back) == ("step", 7, (("step", "step"),))


def test_strict_order_asks_for_positions_of_all_streams() -> None:
    graph = plan(
        [
            source("a"),
            source("b"),
            LogicalNode("all", "union", ("a", "b")),
            LogicalNode("chain", "stateful", ("all",), traits=Traits(commutative=False)),
            LogicalNode("result", "sink", ("chain",)),
        ]
    )
    assert graph.vertex("chain").discipline is Discipline.STRICT
    assert all(edge.carries_order for edge in graph.edges if edge.target == "chain")


# --- order ----------------------------------------------------------------------------------------

TIME = pa.field(TIME_COLUMN, pa.int64())
ROW = pa.field("__row", pa.int64())
KEY = pa.field("__key0", pa.string())


def names(streams: list[list[pa.Field]]) -> list[str]:
    return [field.name for field in union_orders(streams)[0].fields]


def test_streams_with_the_same_order_share_its_columns() -> None:
    assert names([[TIME, ROW], [TIME, ROW]]) == ["__time", "__place0", "__row"]
    inner = list(union_orders([[TIME, ROW], [TIME, ROW]])[0].fields)
    assert names([inner, inner]) == ["__time", "__place1", "__place0", "__row"]


def test_streams_with_other_orders_have_columns_of_their_own() -> None:
    assert names([[TIME, ROW], [KEY]]) == ["__time", "__place0", "__0_row", "__1_key0"]
    assert names([[ROW], [ROW, KEY]]) == ["__place0", "__0_row", "__1_row", "__1_key0"]


# --- rows -----------------------------------------------------------------------------------------


def rows(count: int, seed: int) -> pa.Table:
    source = random.Random(seed)
    times = sorted(source.randrange(60) for _ in range(count))
    return pa.table(
        {
            "ts": times,
            "key": [source.randrange(3) for _ in times],
            "text": [" ".join(["x"] * source.randrange(3)) for _ in times],
        }
    )


INPUTS = {"cars": rows(60, 1), "trucks": rows(40, 2)}


class Chain(Operator):
    """A number per key into which every event is mixed: any other order gives another one."""

    output: ClassVar = {"key": "int64", "mixed": "int64"}
    state: ClassVar = {"mixed": Value(7)}

    def process(self, key: Any, event: Any, state: Any) -> Any:
        state.mixed = (state.mixed * 31 + event.ts) % 1_000_003
        return key, state.mixed


def topology(
    epoch: dict[str, Any], slices: int = 2, discipline: str | None = None, **sink: Any
) -> Topology:
    """cars, trucks, trucks' words, their counts and the chain of them all -> all -> chain -> result"""
    with_order = {} if discipline is None else {"discipline": discipline}
    return (
        Topology(name="union", epoch=epoch)
        .source("cars", files="cars.parquet", prepare="none", slices=slices)
        .source("trucks", files="trucks.parquet", prepare="none", slices=4 - slices)
        .operator("both", union=["cars", "trucks"])
        .operator(
            "words",
            input="both",
            flat_map={"split": "text", "into": "text", "keep": ["ts", "key"]},
        )
        .operator("counts", input="trucks", key=["ts", "key"], aggregate={"n": "count()"})
        .operator("counted", input="counts", map={"ts": "ts", "key": "key", "text": "''"})
        .operator("all", union=["both", "words", "counted"])
        .operator("chain", input="all", key="key", operator=Chain, slices=slices, **with_order)
        .sink("result", input="chain", format="console", **sink)
        .sink("rows", input="all", format="console")
    )


EPOCHS: list[dict[str, Any]] = [{"time": "10s", "column": "ts"}, {"count": 20}]


@pytest.mark.parametrize("epoch", EPOCHS)
def test_all_rows_come_once(epoch: dict[str, Any]) -> None:
    found = simulate(topology(epoch), INPUTS, seed=3).table("rows")
    expected: Counter[tuple[int, int, str]] = Counter()
    for name, table in INPUTS.items():
        counts: set[tuple[int, int]] = set()
        for number, row in enumerate(table.to_pylist()):
            expected[row["ts"], row["key"], row["text"]] += 1
            expected.update((row["ts"], row["key"], word) for word in row["text"].split())
            place = number // 20 if "count" in epoch else 0
            counts.add((place, row["ts"], row["key"]))  # type: ignore[arg-type]
        if name == "trucks":
            expected.update((ts, key, "") for _, ts, key in counts)  # type: ignore[misc]
    assert Counter(tuple(row.values()) for row in found.to_pylist()) == expected


@pytest.mark.parametrize("epoch", EPOCHS)
def test_strict_order_is_the_same_on_any_number_of_nodes_and_slices(epoch: dict[str, Any]) -> None:
    digests = {
        assert_deterministic(topology(epoch, slices, ordered=True), INPUTS, seeds=range(4)).digest
        for slices in (1, 2, 3)
    }
    assert len(digests) == 1


@pytest.mark.parametrize("epoch", EPOCHS)
def test_rows_of_a_union_stand_by_time_and_then_by_stream(epoch: dict[str, Any]) -> None:
    one = topology(epoch).sink("ordered", input="both", format="console", ordered=True)
    outputs = simulate(one, INPUTS, seed=1).outputs["ordered"]
    places = {"cars": 0, "trucks": 1}
    for number, table in outputs.items():
        rows = []
        for name, source in INPUTS.items():
            for row, values in enumerate(source.to_pylist()):
                own = values["ts"] // 10 if "time" in epoch else row // 20
                if own == number:
                    time = values["ts"] if "time" in epoch else 0
                    rows.append(((time, places[name], row), values))
        assert table.to_pylist() == [values for _, values in sorted(rows, key=lambda each: each[0])]


def test_bags_of_a_union_are_merged_in_the_order_of_its_streams() -> None:
    assert_deterministic(topology(EPOCHS[0], discipline="merge"), INPUTS, seeds=range(6))


class Halved(Operator):
    """Half of each number; commutative, as a loop asks for."""

    output: ClassVar = {"value": "int64"}
    commutative: ClassVar[bool] = True

    def process(self, key: Any, event: Any, state: Any) -> Any:
        return event.value // 2


@pytest.mark.parametrize("rounds", [None, 2])
def test_rows_go_round_in_a_loop_that_begins_at_a_union(rounds: int | None) -> None:
    loop = (
        Topology(name="halves", epoch={"count": 10})
        .source("numbers", files="numbers.parquet", prepare="none", slices=2)
        .operator("all", union=["numbers", "route.again"], max_rounds=rounds)
        .operator("halved", input="all", key="value", operator=Halved)
        .operator("route", input="halved", split={"again": "value > 0", "done": "else"})
        .sink("result", input="halved", format="console")
        .sink("done", input="route.done", format="console")
    )
    numbers = [random.Random(number).randrange(200) for number in range(40)]
    found = assert_deterministic(loop, {"numbers": pa.table({"value": numbers})}, seeds=range(4))
    expected: Counter[int] = Counter()
    for number in numbers:
        expected[number // 2] += 1
        while (number := number // 2) > 0:
            expected[number // 2] += 1
    assert Counter(found.table("result")["value"].to_pylist()) == expected
    assert found.table("done").num_rows == len(numbers)
