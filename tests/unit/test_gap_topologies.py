"""Topologies with gap recovery: what `explain` says of their operators, and which of them are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from streammine.cli.explain_command import explain
from streammine.model.errors import TopologyError

TOPOLOGY = """\
epoch: {time: 10s, column: ts}
recovery: {max_time: 5s, semantics: gap}
sources:
  lines: {files: lines.csv, schema: {ts: int64, word: string}, prepare: none}
operators:
"""
SINK = """\
sinks:
  result: {input: %s, format: console}
"""
COUNTS = "  counts: {input: lines, key: word, aggregate: {n: count()}}\n"
LONG = "  counts: {input: lines, key: word, window: 30s, aggregate: {n: count()}}\n"
STEPS = "  steps: {input: %s, key: word, operator: losing:Steps}\n"
WORDS = "  words: {input: lines, filter: word != 'a'}\n"
CODE = """\
from streammine import Operator, Value

class Steps(Operator):
    commutative = True
    output = {"word": "string"}
    state = {"seen": Value(0)}
    def process(self, key, event, state):
        state.seen += 1
        return key
"""


def topology(folder: Path, operators: str, sink: str) -> Path:
    (folder / "losing.py").write_text(CODE)
    (folder / "lines.csv").write_text("ts,word\n1,a\n")
    path = folder / "t.yaml"
    path.write_text(TOPOLOGY + operators + SINK % sink)
    return path


def explained(path: Path) -> str:
    done = CliRunner().invoke(explain, [str(path)])
    assert done.exit_code == 0, done.exception
    return done.output


def said_of(operator: str, path: Path) -> str:
    """What is explained of one operator."""
    parts = explained(path).split("\n\n")
    return next(part for part in parts if part.startswith(f"stateful {operator} "))


def test_explain_says_which_operators_may_lose(tmp_path: Path) -> None:
    text = explained(topology(tmp_path, COUNTS, "counts"))
    assert "  may lose epochs in a recovery, which are reported\n" in text
    assert text.count("in a recovery") == 1, "of operators alone"
    text = explained(topology(tmp_path, LONG, "counts"))
    line = "may lose epochs in a recovery, which are reported, with the windows of 3 epochs that they lie in"
    assert line in text


def test_explain_says_why_an_operator_may_not(tmp_path: Path) -> None:
    after = COUNTS.replace("counts:", "last:").replace("lines", "steps")
    path = topology(tmp_path, STEPS % "lines" + after, "last")
    steps = said_of("steps", path)
    assert "loses nothing in a recovery: it keeps state without end" in steps
    assert "may lose epochs in a recovery, which are reported" in said_of("last", path)


def test_precise_recovery_is_not_worth_a_word(tmp_path: Path) -> None:
    path = topology(tmp_path, COUNTS, "counts")
    path.write_text(path.read_text().replace("semantics: gap", "semantics: precise"))
    assert "in a recovery" not in explained(path)


@pytest.mark.parametrize(
    ("operators", "sink", "where", "what"),
    [
        (
            STEPS % "lines",
            "steps",
            ":6:3: recovery: ",
            "'steps' would lose for ever, since it keeps state without",
        ),
        (
            COUNTS + STEPS % "counts",
            "steps",
            ":7:3: recovery: ",
            "it keeps state without end; write semantics: pre",
        ),
        (
            WORDS,
            "words",
            "recovery: ",
            "there is no operator with slices of its own; write semantics: precise",
        ),
    ],
)
def test_gap_recovery_that_could_leave_nothing_out_is_refused(
    tmp_path: Path, operators: str, sink: str, where: str, what: str
) -> None:
    path = topology(tmp_path, operators, sink)
    done = CliRunner().invoke(explain, [str(path)])
    assert isinstance(done.exception, TopologyError)
    assert str(done.exception).removeprefix(str(path)).startswith(where)
    assert what in str(done.exception)


def test_who_leads_to_one_that_never_forgets_is_named_with_it(tmp_path: Path) -> None:
    after = COUNTS.replace("counts:", "last:").replace("lines", "steps")
    path = topology(tmp_path, COUNTS + STEPS % "counts" + after, "last")
    assert (
        "loses nothing in a recovery: 'steps', which it leads to, keeps state without end"
        in said_of("counts", path)
    )
    assert "loses nothing in a recovery: it keeps state without end" in said_of("steps", path)
    assert "may lose epochs in a recovery" in said_of("last", path)
