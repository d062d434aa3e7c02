"""`either`: what a topology may say of several receivers of one feed, and what comes of it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streammine.cli.explain_command import explanation
from streammine.model.document import parse_topology
from streammine.model.errors import TopologyError
from streammine.runtime.submission import compile_topology
from streammine.simulation.workload import Workload

RIGHT = """\
name: plugs
epoch: {time: 1s, column: ts}
sources:
  east: {files: east.parquet, prepare: none, slices: 2}
  west: {files: west.parquet, prepare: none, slices: 2}
operators:
  feed: {either: [east, west]}
  high: {input: feed, filter: "value > 3"}
  means: {input: high, key: plug, aggregate: {mean: mean(value)}, replicas: 2}
sinks:
  result: {input: means, format: parquet, path: out}
"""


def mistaken(old: str, new: str) -> str:
    assert old in RIGHT
    with pytest.raises(TopologyError) as caught:
        parse_topology(RIGHT.replace(old, new), "t.yaml")
    return str(caught.value)


def test_the_right_topology_is_right() -> None:
    assert parse_topology(RIGHT, "t.yaml").warnings() == []


@pytest.mark.parametrize(
    ("old", "new", "where", "right"),
    [
        ("[east, west]", "[east]", "7:18", "two sources at least"),
        ("[east, west]", "[east, east]", "7:18", "twice"),
        ("[east, west]", "[east, high]", "7:25", "is done behind it"),
        ("[east, west]", "[east, wset]", "7:25", "did you mean 'west'"),
        ("either: [east, west]", "either: [east, west], input: east", "7:32", "either: [NAME"),
        ("either: [east, west]", "either: [east, west], replicas: 2", "7:32", "who reads from it"),
        ("west.parquet, prepare: none, slices: 2", "west.parquet, slices: 3", "7:18", "west has 3"),
        ("{time: 1s, column: ts}", "{count: 100}", "7:18", "epoch: {time: 1s"),
        ("name: plugs", "name: plugs\nsnapshot: none", "8:18", "snapshot: {every: 1s}"),
        (
            "replicas: 2",
            "discipline: merge",
            "9:79",
            "discipline: consensus, or exactly_once: false",
        ),
    ],
)
def test_mistakes_are_told_with_their_place(old: str, new: str, where: str, right: str) -> None:
    message = mistaken(old, new)
    assert f"t.yaml:{where}" in message
    assert right in message


def write(folder: Path, name: str, **columns: list[int]) -> None:
    pq.write_table(pa.table(columns), folder / f"{name}.parquet")


def test_receivers_give_the_same_columns(tmp_path: Path) -> None:
    write(tmp_path, "east", ts=[1], plug=[1], value=[5])
    write(tmp_path, "west", ts=[1], plug=[1], power=[5])
    with pytest.raises(TopologyError, match="'west' has ts: int64, plug: int64, power: int64"):
        compile_topology(parse_topology(RIGHT, "t.yaml"), tmp_path)


def test_explain_says_who_agrees_on_what(tmp_path: Path) -> None:
    for name in ("east", "west"):
        write(tmp_path, name, ts=[1], plug=[1], value=[5])
    topology = parse_topology(RIGHT, "t.yaml")
    compiled, sources = compile_topology(topology, tmp_path)
    text = "\n".join(explanation(topology, compiled, sources))
    assert "replicas agree on whose rows count in each epoch, those of east or west" in text
    assert "one of those who receive the feed" in text


@pytest.mark.parametrize(
    ("discipline", "told"),
    [
        ("merge", "each replica takes those of east or west that it has first: they may differ"),
        ("consensus", "replicas agree on whose rows count in each epoch, those of east or west"),
    ],
)
def test_who_merges_without_agreement_promises_nothing(
    discipline: str, told: str, tmp_path: Path
) -> None:
    for name in ("east", "west"):
        write(tmp_path, name, ts=[1], plug=[1], value=[5])
    text = RIGHT.replace("replicas: 2", f"replicas: 2, discipline: {discipline}")
    topology = parse_topology(text.replace("path: out", "path: out, exactly_once: false"), "t.yaml")
    compiled, sources = compile_topology(topology, tmp_path)
    assert told in "\n".join(explanation(topology, compiled, sources))
    assert compiled.graph.choosing == {"means"}
    assert compiled.graph.agreeing == ({"means"} if discipline == "consensus" else set())


def test_what_replicas_take_without_agreement_is_not_simulated() -> None:
    text = RIGHT.replace("replicas: 2", "discipline: merge")
    topology = parse_topology(text.replace("path: out", "path: out, exactly_once: false"), "t.yaml")
    rows = pa.table({"ts": [1], "plug": [1], "value": [5]})
    with pytest.raises(TopologyError, match="no output that all runs have to give"):
        Workload(topology, {"east": rows, "west": rows})


@pytest.mark.parametrize("behind", ["operator", "sink"])
@pytest.mark.parametrize("discipline", ["merge", "none"])
def test_nobody_agrees_on_rows_that_may_differ_for_another_reason(
    behind: str, discipline: str, tmp_path: Path
) -> None:
    """
    ::

        feed ----------------> j      j knows a bag by its channel; those of one from `a` may be others
          +---> a ---> few ----+      in each of a's replicas
    """
    for name in ("east", "west"):
        write(tmp_path, name, ts=[1], plug=[1], value=[5])
    j = {
        "operator": "j: {join: {left: feed, right: few, on: plug}}",
        "sink": "j: {union: [feed, few]}",
    }[behind]
    text = f"""\
name: plugs
epoch: {{time: 1s, column: ts}}
sources:
  east: {{files: east.parquet, prepare: none}}
  west: {{files: west.parquet, prepare: none}}
operators:
  feed: {{either: [east, west]}}
  a: {{input: feed, key: plug, aggregate: {{ts: max(ts), value: max(value)}}, discipline: {discipline}}}
  few: {{input: a, map: {{ts: ts, plug: plug, value: value}}}}
  {j}
sinks:
  result: {{input: j, format: parquet, path: out, exactly_once: false}}
"""
    refused = f"may differ under discipline {discipline}; use consensus for 'a'"
    with pytest.raises(TopologyError, match=refused):
        compile_topology(parse_topology(text, "t.yaml"), tmp_path)
    text = text.replace(f"discipline: {discipline}", "discipline: consensus")
    compiled, _ = compile_topology(parse_topology(text, "t.yaml"), tmp_path)
    assert "a" in compiled.graph.agreeing
