"""Mistakes in a topology that show only when its files and code are looked at: they have a place, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from streammine.model.document import parse_topology
from streammine.model.errors import StreammineError
from streammine.runtime.submission import compile_topology

TOPOLOGY = """\
epoch: {count: 10}
sources:
  numbers: {files: numbers.csv, schema: {n: int64}, prepare: none}
operators:
  more: {input: numbers, map: {n: n + 1}}
  sums: {input: more, key: n, aggregate: {s: sum(n)}}
  own: {input: more, operator: "own_code:Own"}
sinks:
  result: {input: sums, format: console}
  other: {input: own, format: console}
"""
CODE = """\
import streammine

class Own(streammine.Mapper):
    output = {"n": "int64"}
    def map(self, event):
        return event.n

class Last(streammine.Operator):
    output = {"n": "int64"}
    def process(self, key, event, state):
        return [event.n]
"""


def refusal(folder: Path, text: str, *overrides: str) -> str:
    (folder / "numbers.csv").write_text("n\n1\n")
    (folder / "own_code.py").write_text(CODE)
    topology = parse_topology(text, "topology.yaml", overrides)
    with pytest.raises(StreammineError) as caught:
        compile_topology(topology, folder)
    return str(caught.value)


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("numbers.csv", "nombers.csv", "topology.yaml:3:3: {folder}/nombers.csv: no such file"),
        ("{n: int64}", "{m: int64}", "topology.yaml:3:3: {folder}/numbers.csv: has no column 'm'"),
        ("n + 1", "m + 1", "topology.yaml:5:3: operator 'more': expression 'm + 1': unknown col"),
        (
            "input: sums, format: console",
            "input: sums, format: console, delay: s",
            "topology.yaml:9:3: sink 'result': delay: its input has a column 's' already",
        ),
        (
            "input: sums, format: console",
            "input: sums, format: console, volatile: [t]",
            "topology.yaml:9:3: sink result: volatile names t, but its columns are epoch, n, s",
        ),
        ("sum(n)", "sum(m)", "topology.yaml:6:3: operator 'sums': "),
        ("own_code:Own", "own_code:Won", "topology.yaml:7:3: module 'own_code' "),
        (
            '"own_code:Own"',
            '"own_code:Last", discipline: epoch',
            "topology.yaml:7:3: operator 'own': discipline epoch needs a commutative operator",
        ),
    ],
)
def test_it_has_the_place_of_its_part(tmp_path: Path, right: str, wrong: str, said: str) -> None:
    text = refusal(tmp_path, TOPOLOGY.replace(right, wrong))
    assert text.startswith(said.format(folder=tmp_path))


def test_what_an_override_made_wrong_has_no_place_in_the_file(tmp_path: Path) -> None:
    text = refusal(tmp_path, TOPOLOGY, "operators.more.map.n=m")
    assert text.startswith("operator 'more': expression 'm'")


def test_places_do_not_make_topologies_differ() -> None:
    assert parse_topology(TOPOLOGY, "topology.yaml") == parse_topology(
        f"\n{TOPOLOGY}", "topology.yaml"
    )


@pytest.mark.parametrize("inner", ["agg", "first"])
def test_event_order_that_an_input_does_not_have_is_missed_before_anything_starts(
    inner: str, tmp_path: Path
) -> None:
    text = f"""\
epoch: {{time: 10s, column: n}}
sources:
  numbers: {{files: numbers.csv, schema: {{n: int64}}, prepare: none}}
operators:
  agg: {{input: numbers, key: n, aggregate: {{s: count()}}}}
  first: {{input: numbers, key: n, deduplicate: {{keep: first}}}}
  lately: {{input: {inner}, key: n, recent: {{m: count()}}, within: 5s}}
sinks:
  result: {{input: lately, format: console}}
"""
    said = refusal(tmp_path, text)
    assert said.startswith("topology.yaml:7:3: operator 'lately' takes events one after the other")


OWN = """\
import streammine

class Own(streammine.Operator):
    output = {"n": "int64"}

    def process(self, key, event, state):
        return event.n
"""


@pytest.mark.parametrize(
    "between",
    [
        "",
        "  held: {input: both, filter: n > 0}\n",
        "  held: {input: both, key: n, operator: own:Own, discipline: strict}\n",
    ],
)
def test_a_union_with_rows_that_have_no_event_time_is_missed_before_anything_starts(
    between: str, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    text = f"""\
epoch: {{time: 10s, column: n}}
sources:
  numbers: {{files: numbers.csv, schema: {{n: int64}}, prepare: none}}
operators:
  agg: {{input: numbers, key: n, aggregate: {{s: count()}}}}
  alike: {{input: agg, map: {{n: s}}}}
  both: {{union: [numbers, alike]}}
{between}  lately: {{input: {"held" if between else "both"}, key: n, recent: {{m: count()}}, within: 5s}}
sinks:
  result: {{input: lately, format: console}}
"""
    said = refusal(tmp_path, text)
    assert said.startswith(
        f"topology.yaml:{9 if between else 8}:3: operator 'lately' takes events one"
    )
    assert said.endswith("of those that 'both' unites the rows of 'alike' have none")
