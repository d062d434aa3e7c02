"""Topology documents: YAML, placeholders, overrides, and what is refused about the text."""

import pytest

from streammine.model.document import parse_topology
from streammine.model.durations import Duration
from streammine.model.errors import TopologyError

DOCUMENT = """\
# Count words.
epoch: {count: ${epoch:1_000}}
sources:
  lines: {files: "${input:data/*.txt}", format: text}
  orders:
    files: [a.csv, b.csv]
    schema: {id: int64, on: bool}
operators:
  words: {input: lines, flat_map: {split: line, into: word, on: letters}}
  counts: &counts
    input: words
    key: word
    aggregate: {count: count()}
    slices: ${slices:4}
  again: *counts
  pairs:
    join: {left: orders, right: orders, on: id}
sinks:
  result: {input: counts, format: parquet, path: out}
  more: {input: again, format: json, path: more}
  pairs_out: {input: pairs, format: console}
"""
# A plain scalar inside of {} can't hold a brace; these are quoted here as users must, too.
DOCUMENT = DOCUMENT.replace("{count: ${epoch:1_000}}", '{count: "${epoch:1_000}"}')


def parse(text=DOCUMENT, *overrides):
    return parse_topology(text, "jobs/word-count.yaml", overrides)


def refused(text, *overrides):
    with pytest.raises(TopologyError) as caught:
        parse(text, *overrides)
    return str(caught.value)


def test_a_document_becomes_a_topology_named_after_its_file():
    topology = parse()
    assert topology.name == "word-count"
    assert topology.epoch.count == 1000
    assert topology.sources["lines"].files == ("data/*.txt",)
    assert topology.operators["counts"].slices == 4


def test_the_word_on_is_a_name_and_an_alias_repeats_a_value():
    topology = parse()
    assert topology.operators["words"].flat_map.on == "letters"
    assert list(topology.sources["orders"].schema_) == ["id", "on"]
    assert topology.operators["again"] == topology.operators["counts"]


@pytest.mark.parametrize(("file", "name"), [("7 jobs.x.yaml", "_7_jobs"), ("é.yml", "_")])
def test_a_file_name_that_is_no_name_is_made_one(file, name):
    assert parse_topology(DOCUMENT, file).name == name


def test_overrides_fill_placeholders_and_change_fields():
    topology = parse(
        DOCUMENT,
        "input=other/*.txt",
        "slices=8",
        "nodes=5",
        "name=renamed",
        "operators.counts.combine=false",
        "sources.orders.files.1=c.csv",
        "sources.orders.lateness=0s",
        "sinks.result.commit.every=7",
        "sinks.result.volatile=[a, b]",
    )
    assert topology.sources["lines"].files == ("other/*.txt",)
    assert topology.operators["counts"].slices == 8
    assert (topology.nodes, topology.name) == (5, "renamed")
    assert topology.operators["counts"].combine is False
    assert topology.operators["again"].combine is None
    assert topology.sources["orders"].files == ("a.csv", "c.csv")
    assert topology.sources["orders"].lateness == Duration(0)
    assert topology.sinks["result"].commit.every == 7
    assert topology.sinks["result"].volatile == ("a", "b")


def test_a_doubled_dollar_stands_for_the_characters_themselves():
    assert parse(DOCUMENT.replace("path: out", 'path: "$${x}"')).sinks["result"].path == "${x}"


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("inptu=x", ["--set inptu", "did you mean 'input'?", "Placeholders: epoch, input, slices"]),
        ("operators.cuonts.slices=3", ["--set operators.cuonts", "did you mean 'counts'?"]),
        ("operators.counts.slises=3", ["--set operators.counts.slises", "did you mean 'slices'?"]),
        ("operators.counts.slices=x", ["(--set operators.counts.slices)", "whole number", "'x'"]),
        ("sources.orders.files.2=x", ["'2' is no entry of a list of 2"]),
        ("sinks.result.volatile=[a", ["--set sinks.result.volatile", "is no YAML"]),
        ("nodes", ["--set nodes: must be name=value"]),
        ("nodes=0", ["(--set nodes)", "must be at least 1, not 0"]),
    ],
)
def test_a_wrong_override_is_named(override, words):
    message = refused(DOCUMENT, override)
    for word in words:
        assert word in message


def test_a_placeholder_without_value_says_how_to_give_one():
    message = refused(DOCUMENT.replace("${input:data/*.txt}", "${input}"), "inpt=3")
    assert message.startswith("jobs/word-count.yaml:4:18: ${input} has no value")
    assert "--set input=VALUE" in message
    assert "is no placeholder" in refused(DOCUMENT.replace("${input:", "${in put:"))


def test_all_mistakes_are_told_at_once_in_the_order_of_the_document():
    text = DOCUMENT.replace("format: text", "formt: text").replace("letters", "leters")
    text = text.replace("format: json", "format: jsn")
    lines = refused(text).splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        "jobs/word-count.yaml:4:41",
        "jobs/word-count.yaml:9:65",
        "jobs/word-count.yaml:20:32",
    ]


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("", "1:1", "is empty; a topology starts with epoch"),
        ("- 1", "1:1", "a topology is a mapping"),
        ("a: b: c", "1:5", "put quotes around"),
        ("a:\n\t- b", "2:1", "indent with spaces, not tabs"),
        ("a: 'b", "1:6", "while scanning a quoted scalar"),
        ("a:\n  b: 1\n c: 2", "3:2", "check the indentation"),
        ("a: 1\nb: 2\na: 3", "3:1", "'a' stands there twice; it was first at line 1, column 1"),
        ("{[a]: 1}", "1:2", "a key is a name"),
        ("a: *b", "1:4", "undefined alias 'b'"),
        ("a: &a [*a]", "1:4", "an alias can't stand inside of what it names"),
        ("a: &a {b: 1}\nc: {<<: *a}", "2:5", "merge keys (<<) are not read"),
        ("a: 1\n---\nb: 2", "2:1", "expected a single document"),
        ("a: \x00", "1:4", "is the file UTF-8 text?"),
        ("a: !!python/object/apply:os.system [x]", "1:4", "write the plain value"),
        ("a: !!int 3", "1:4", "write the plain value"),
        ("a: " + "[" * 100_000, "1:35", "nested deeper than 32 levels"),
    ],
)
def test_text_that_is_no_plain_yaml_is_refused_with_its_place(text, place, words):
    message = refused(text)
    assert message.startswith(f"jobs/word-count.yaml:{place}: ")
    assert words in message


def test_aliases_can_not_multiply_without_bound():
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    assert "more than 100000 values, aliases counted" in refused("\n".join(lines))


def test_a_document_beyond_a_mebibyte_is_refused_unread():
    assert "at most 1048576" in refused("# " + "x" * (1 << 20))
