"""Topologies built in Python: steps, JSON form, graph, helpers for planners."""

import json

import pyarrow as pa
import pytest

from streammine.model.disciplines import Discipline
from streammine.model.durations import Duration, Interval, Rate
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import TopologyError
from streammine.model.topology import (
    BroadcastPartition,
    Consumer,
    FilesSource,
    HashPartition,
    KeyRangePartition,
    Topology,
    Tumbling,
    UserPartition,
    interval_epochs,
    json_schema,
    topological_order,
)


class Doubler:
    """Stands for a user's operator."""


def word_count() -> Topology:
    return (
        Topology(name="wordcount", epoch={"count": 1000})
        .source("lines", files="data/*.txt")
        .operator("words", input="lines", flat_map={"split": "line", "into": "word"})
        .operator("counts", input="words", key="word", aggregate={"count": "count()"})
        .sink("result", input="counts", format="parquet", path="out")
    )


def timed() -> Topology:
    #   left ──┐
    #          ├─ pairs ── means ── result
    #   right ─┘
    return (
        Topology(name="timed", epoch={"time": "60s", "column": "ts"})
        .source("left", files="l.parquet", rate="50000/s")
        .source("right", generator="readings", rows=10, seed=7, with_={"plugs": 3})
        .operator(
            "pairs",
            join={"left": "left", "right": "right", "on": {"left": "id", "right": ["plug_id"]}},
            window="2m",
            discipline="strict",
        )
        .operator("means", input="pairs", key=["id"], aggregate={"mean": "mean(value)"})
        .sink("result", input="means", format="csv", path="out")
    )


@pytest.mark.parametrize("make", [word_count, timed])
def test_the_json_form_comes_back_as_the_same_topology(make):
    topology = make().check()
    travelled = json.loads(json.dumps(topology.model_dump(mode="json")))
    back = Topology.model_validate(travelled)
    assert back == topology
    assert back.model_dump(mode="json") == travelled


def test_the_json_form_uses_the_names_of_the_document():
    source = timed().model_dump(mode="json")["sources"]["right"]
    assert source["with"] == {"plugs": 3}
    assert "schema" in timed().model_dump(mode="json")["sources"]["left"]


def test_a_step_leaves_the_topology_before_it_as_it_was():
    before = word_count()
    after = before.sink("table", input="counts", format="console")
    assert list(before.sinks) == ["result"]
    assert list(after.sinks) == ["result", "table"]


def test_texts_become_typed_values():
    topology = timed()
    left, right = topology.sources["left"], topology.sources["right"]
    pairs = topology.operators["pairs"]
    assert left.rate == Rate(50_000)
    assert left.lateness == Duration(0)
    assert (left.kind, right.kind, pairs.kind) == ("files", "generator", "join")
    assert pairs.window == Tumbling(length=Interval(duration=Duration(120_000_000)))
    assert pairs.discipline is Discipline.STRICT
    assert pairs.input_names == ("left", "right")
    assert pairs.key_columns == (("id",), ("plug_id",))
    assert topology.operators["means"].key_columns == (("id",),)


def test_epochs_and_windows_are_told_to_planners():
    topology = timed()
    assert topology.epoch_definition() == EpochDefinition("time", 60_000_000, "ts", "s")
    assert word_count().epoch_definition() == EpochDefinition("count", 1000)
    length = topology.operators["pairs"].window.length
    assert interval_epochs(length, topology.epoch) == 2
    assert "write epoch: {time: 60s" in interval_epochs(length, word_count().epoch)


@pytest.mark.parametrize(
    ("value", "partition"),
    [
        ("hash", HashPartition()),
        ("broadcast", BroadcastPartition()),
        ({"key_range": {"boundaries": [1, 2.5]}}, KeyRangePartition((1, 2.5))),
        ("my.code:Modulo", UserPartition("my.code:Modulo")),
    ],
)
def test_partitions_are_typed_and_travel_as_they_are_written(value, partition):
    topology = word_count().operator(
        "mine", input="words", key="word", operator="m:Mine", partition=value
    )
    assert topology.operators["mine"].partition == partition
    assert topology.model_dump(mode="json")["operators"]["mine"]["partition"] == value


def test_key_ranges_tell_the_number_of_slices():
    topology = word_count().operator(
        "ranged",
        input="words",
        key="word",
        aggregate={"n": "count()"},
        partition={"key_range": {"boundaries": ["h", "p"]}},
    )
    assert topology.operators["ranged"].slices == 3


@pytest.mark.parametrize("code", [Doubler, Doubler()])
def test_code_by_value_stays_out_of_the_json_form(code):
    topology = word_count().operator("mine", input="words", operator=code, key=["word"])
    topology = topology.sink("own", input="mine", format="json", path="own").check()
    assert topology.operators["mine"].operator == "value:mine"
    assert topology.operators["mine"].by_value == "mine"
    assert dict(topology.code) == {"mine": code}
    back = Topology.model_validate(topology.model_dump(mode="json"))
    assert dict(back.code) == {}
    with pytest.raises(TopologyError, match=r"there is no such code; name the class as module"):
        back.check()


@pytest.mark.parametrize(
    ("fields", "right"),
    [
        ({"operator": len}, "make a Mapper, Reducer or Operator"),
        ({"operator": 3}, "takes a class, an instance or 'module:Class', not int"),
        ({"operator": Doubler(), "with_": {"a": 1}}, "pass the class Doubler with these"),
        ({"operator": "module.Class"}, "did you mean 'module:Class'"),
        ({"operator": Doubler, "with_": {"a": object()}}, "pass an instance instead"),
    ],
)
def test_code_that_is_no_operator_is_refused_at_once(fields, right):
    with pytest.raises(TopologyError) as caught:
        word_count().operator("mine", input="words", **fields)
    assert "operators.mine" in str(caught.value)
    assert right in str(caught.value)


def test_a_wrong_field_is_refused_at_the_step_that_has_it():
    with pytest.raises(TopologyError, match="did you mean 'format'"):
        word_count().source("more", files="a.txt", formt="text")
    with pytest.raises(TopologyError, match="the name 'words' stands under operators already"):
        word_count().source("words", files="a.txt")
    with pytest.raises(TopologyError, match="did you mean 'count'"):
        Topology(epoch={"cuont": 3})


def test_the_graph_knows_readers_inputs_and_order():
    graph = timed().graph()
    assert graph.order == ("left", "right", "pairs", "means", "result")
    assert graph.inputs["pairs"] == ("left", "right")
    assert graph.consumers["right"] == (Consumer("pairs", 1),)
    assert graph.upstream("means") == {"left", "right", "pairs"}
    assert graph.downstream("left") == {"pairs", "means", "result"}


def test_the_order_does_not_depend_on_the_order_of_the_entries():
    topology = timed()
    turned = topology.model_copy(
        update={
            "sources": dict(reversed(topology.sources.items())),
            "operators": dict(reversed(topology.operators.items())),
        }
    )
    assert topological_order(turned) == topological_order(topology)


def test_a_stream_joined_with_itself_has_two_consumers():
    topology = (
        Topology(epoch={"count": 10})
        .source("a", files="a.parquet")
        .operator("twins", join={"left": "a", "right": "a", "on": "id"})
        .sink("out", input="twins", format="console")
        .check()
    )
    assert topology.graph().consumers["a"] == (Consumer("twins", 0), Consumer("twins", 1))


def test_what_leads_to_no_sink_is_warned_of_and_not_run():
    topology = word_count().operator("loud", input="words", map={"word": "upper(word)"}).check()
    assert topology.warnings() == [
        "'loud' leads to no sink, so it is not run; give it a sink or take it out"
    ]
    assert topology.graph().unused == ("loud",)
    assert "loud" not in topological_order(topology)


@pytest.mark.parametrize(
    ("files", "format_"),
    [
        ("a/*.txt", "text"),
        ("a.TXT.gz", "text"),
        (["a.csv", "b.tsv.zst"], "csv"),
        ("s3://bucket/x.ndjson.bz2", "json"),
        ("x.jsonl", "json"),
        ("dir.v1/x.parquet", "parquet"),
        ("data/*", None),
        (["a.csv", "a.json"], None),
    ],
)
def test_the_format_follows_from_the_suffix(files, format_):
    assert FilesSource(files=files).resolved_format == format_


def test_csv_settings_have_their_defaults_filled_in():
    schema = {"a": "int64", "b": "string"}
    tabs = FilesSource(files="a.tsv", schema=schema).csv_settings
    assert (tabs.delimiter, tabs.columns) == ("\t", None)
    bare = FilesSource(files="a.csv", schema=schema, csv={"header": False}).csv_settings
    assert (bare.delimiter, bare.columns) == (",", ("a", "b"))
    assert FilesSource(files="a.txt").arrow_schema == pa.schema([("line", pa.string())])


def test_prepare_is_spark_none_or_settings():
    assert FilesSource(files="a.txt").prepare.sort is True
    assert FilesSource(files="a.txt", prepare="none").prepare is None
    assert FilesSource(files="a.txt", prepare={"partitions": 8}).prepare.partitions == 8


def _properties(schema):
    for part in [schema, *schema["$defs"].values()]:
        yield from part.get("properties", {}).items()


def test_every_field_of_the_json_schema_is_described():
    schema = json_schema()
    assert schema["required"] == ["epoch", "sources", "sinks"]
    assert schema["additionalProperties"] is False
    assert all(one.get("description") for _, one in _properties(schema))
    names = {name for name, _ in _properties(schema)}
    assert {"schema", "with", "flat_map", "exactly_once", "merge_by"} <= names
    assert json.loads(json.dumps(schema)) == schema
