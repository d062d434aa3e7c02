"""`replicas` in a topology: what it comes to in the graph, what is refused, and what explain says of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from pydantic import TypeAdapter, ValidationError

from streammine.cli.explain_command import explain
from streammine.model.document import parse_topology
from streammine.model.errors import TopologyError
from streammine.model.topology.live_sources import AnyLiveSource
from streammine.runtime.submission import compile_topology, prepare_submission

DOCUMENT = """\
epoch: {count: 10}
replicas: 2
sources:
  lines: {files: lines.csv, schema: {line: string}, prepare: none}
operators:
  words: {input: lines, flat_map: {split: line, into: word}}
  counts: {input: words, key: word, aggregate: {count: count()}, replicas: 3, slices: 4}
  totals: {input: counts, key: word, aggregate: {count: sum(count)}, slices: 1}
sinks:
  result: {input: totals, format: parquet, path: out, replicas: 1}
"""
LIVE = {"type": "tcp", "bind": "127.0.0.1:9000", "ingest_log": "in", "format": "text"}


def compiled(folder: Path, text: str = DOCUMENT) -> dict[str, int]:
    """The replicas of each vertex."""
    (folder / "lines.csv").write_text("line\na b\n")
    job, _ = compile_topology(parse_topology(text, "t.yaml"), folder)
    return {vertex.name: vertex.replicas for vertex in job.graph.vertices}


def test_each_part_has_its_own_number_or_that_of_the_topology(tmp_path: Path) -> None:
    assert compiled(tmp_path) == {
        "lines": 2,
        "counts": 3,
        "totals": 2,
        "result": 1,
        "result.committer": 1,
        ".dead-letters": 2,
        ".dead-letters.committer": 2,
    }


def test_without_a_word_there_is_one_of_each(tmp_path: Path) -> None:
    text = DOCUMENT.replace("replicas: 2\n", "").replace(", replicas: 3", "")
    assert set(compiled(tmp_path, text).values()) == {1}


@pytest.mark.parametrize(
    ("wrong", "texts"),
    [
        ("replicas: 0", ["2:11", "not 0", "at least 1"]),
        ("replicas: 6", ["2:11", "not 6", "at most 5"]),
        ("replicas: true", ["2:11", "true", "a whole number"]),
        ("replica: 2", ["2:1", "'replica'", "did you mean 'replicas'?"]),
    ],
)
def test_what_is_no_number_of_replicas_is_refused(wrong: str, texts: list[str]) -> None:
    with pytest.raises(TopologyError) as caught:
        parse_topology(DOCUMENT.replace("replicas: 2", wrong), "t.yaml")
    for text in texts:
        assert text in str(caught.value)


def test_a_stateless_operator_has_the_replicas_of_its_input() -> None:
    with pytest.raises(TopologyError) as caught:
        parse_topology(DOCUMENT.replace("into: word}}", "into: word}, replicas: 2}"), "t.yaml")
    assert "'replicas'" in str(caught.value)
    assert "runs in the slices of its input" in str(caught.value)


def test_a_live_source_has_no_replicas_and_the_message_says_who_may_have_some() -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(AnyLiveSource).validate_python({**LIVE, "replicas": 2})
    assert "clients send to one receiver" in str(caught.value)
    assert "give it to the operators behind it" in str(caught.value)


def test_a_live_source_has_one_replica_whatever_the_topology_says(tmp_path: Path) -> None:
    source = "{type: tcp, bind: '127.0.0.1:9000', ingest_log: in, format: text}"
    text = DOCUMENT.replace("{files: lines.csv, schema: {line: string}, prepare: none}", source)
    found = compiled(tmp_path, text)
    assert (found["lines"], found["counts"], found["totals"]) == (1, 3, 2)


@pytest.mark.parametrize("nodes", [None, 1, 2])
def test_more_replicas_than_nodes_are_refused_before_anything_starts(
    tmp_path: Path, nodes: int | None
) -> None:
    (tmp_path / "lines.csv").write_text("line\na b\n")
    with pytest.raises(TopologyError, match=r"replicas: 3 needs as many nodes.* is to have [12] "):
        prepare_submission(
            parse_topology(DOCUMENT, "t.yaml"),
            tmp_path,
            str(tmp_path / "scratch"),
            sign=lambda data: data,
            store=str(tmp_path / "store"),
            nodes=nodes,
        )
    assert not (tmp_path / "out").exists()


def test_explain_says_how_many_there_are_of_each(tmp_path: Path) -> None:
    compiled(tmp_path)
    (tmp_path / "t.yaml").write_text(DOCUMENT)
    done = CliRunner().invoke(explain, [str(tmp_path / "t.yaml")])
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[lines.index("stateful counts (4 slices)") + 1] == (
        "  3 replicas of each, on different nodes: active-replication"
    )
    result = lines.index(next(line for line in lines if line.startswith("sink result")))
    assert "replicas" not in lines[result + 1]
