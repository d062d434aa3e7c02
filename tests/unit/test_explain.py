"""What `streammine explain` says of loops."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from streammine.cli.explain_command import explain

COMPONENTS = Path(__file__).resolve().parents[2] / "apps" / "components" / "topology.yaml"

TWO_LOOPS = """\
epoch: {count: 10}
sources:
  numbers: {files: numbers.csv, schema: {n: int64}, prepare: none}
operators:
  first: {inputs: [numbers, first], operator: looping:Both, key: n, max_rounds: 7}
  then: {inputs: [first, less, fewer], operator: looping:All, key: n}
  less: {input: then, filter: n > 3}
  fewer: {input: less, operator: looping:One, key: n}
sinks:
  result: {input: fewer, format: console}
"""
CODE = """\
from streammine import Operator

class One(Operator):
    commutative = True
    output = {"n": "int64"}
    def process(self, key, event, state):
        return event.n
    process_a = process_b = process_c = process

class Both(One):
    ports = ("a", "b")

class All(One):
    ports = ("a", "b", "c")
"""


def explained(path: Path) -> list[str]:
    done = CliRunner().invoke(explain, [str(path)])
    assert done.exit_code == 0, done.output
    return done.output.splitlines()


PACED = """\
epoch: {time: 10s, column: ts}
sources:
  played: {generator: keys, rows: 10, speed: 2.5}
  steady: {generator: keys, rows: 10, rate: 600/min}
sinks:
  a: {input: played, format: console}
  b: {input: steady, format: console}
"""


def test_a_source_with_a_pace_says_it(tmp_path: Path) -> None:
    path = tmp_path / "play.yaml"
    path.write_text(PACED)
    paces = [line.strip() for line in explained(path) if "paced" in line]
    assert paces == ["paced: event time runs 2.5 times as fast as the clock", "paced: 600/min"]


def after(lines: list[str], first: str, number: int) -> list[str]:
    place = lines.index(first)
    return lines[place + 1 : place + 1 + number]


def test_a_loop_is_shown_with_head_members_back_edges_and_rounds() -> None:
    lines = explained(COMPONENTS)
    assert after(lines, "loop (3 operators)", 4) == [
        "  head: messages",
        "  members: messages, labels, told",
        "  back-edges: told → messages",
        "  max_rounds: 1,000; what still goes round then waits for the next epoch",
    ]
    assert (
        "  → told (runs here) → messages, port 1 (4 channels by key, back-edge of a loop)" in lines
    )
    assert len([line for line in lines if "back-edge of a loop" in line]) == 1


def test_every_loop_is_shown(tmp_path: Path) -> None:
    (tmp_path / "looping.py").write_text(CODE)
    (tmp_path / "numbers.csv").write_text("n\n1\n")
    (tmp_path / "topology.yaml").write_text(TWO_LOOPS)
    lines = explained(tmp_path / "topology.yaml")
    assert after(lines, "loop (1 operator)", 4) == [
        "  head: first",
        "  members: first",
        "  back-edges: first → first",
        "  max_rounds: 7; what still goes round then waits for the next epoch",
    ]
    assert after(lines, "loop (3 operators)", 3) == [
        "  head: then",
        "  members: then, less, fewer",
        "  back-edges: less → then, fewer → then",
    ]


def test_nothing_is_said_of_loops_where_there_are_none() -> None:
    lines = explained(COMPONENTS.parents[1] / "equijoin" / "topology.yaml")
    assert not [line for line in lines if "loop" in line or "back" in line]


MERGED = """\
epoch: {count: 10}
sources:
  numbers: {files: numbers.csv, schema: {n: int64}, prepare: none, slices: 1}
operators:
  then: {input: numbers, operator: looping:Last, key: n, discipline: merge, slices: 1}
sinks:
  result: {input: then, format: console, ordered: ORDERED}
"""
ORDER_SENSITIVE = "class Last(One):\n    commutative = False\n"


def test_a_merge_is_shown_with_what_it_promises(tmp_path: Path) -> None:
    (tmp_path / "looping.py").write_text(f"{CODE}\n{ORDER_SENSITIVE}")
    (tmp_path / "numbers.csv").write_text("n\n1\n")
    path = tmp_path / "topology.yaml"
    path.write_text(MERGED.replace("ORDERED", "false"))
    lines = explained(path)
    assert "  → then (1 channel, an epoch's rows in one sequence)" in lines
    (discipline,) = [line for line in lines if "discipline merge" in line]
    assert "keep their numbers of slices, where strict gives the same for any" in discipline
    path.write_text(MERGED.replace("ORDERED", "true"))
    done = CliRunner().invoke(explain, [str(path)])
    assert done.exit_code != 0
    assert "sink 'result' with ordered: true needs rows with positions" in str(
        done.exception or done.output
    )


def test_what_a_scheme_comes_to_where_a_rung_is_missing_is_said(tmp_path: Path) -> None:
    (tmp_path / "numbers.csv").write_text("n\n1\n")
    (tmp_path / "t.yaml").write_text(
        """\
epoch: {count: 10}
scheme: passive-standby-hot
sources:
  numbers: {files: numbers.csv, schema: {n: int64}, prepare: none}
operators:
  counts: {input: numbers, key: n, aggregate: {count: count()}}
sinks:
  result: {input: counts, format: console}
"""
    )
    lines = explained(tmp_path / "t.yaml")
    replicas = [line.split(": ")[1] for line in lines if "replicas of each" in line]
    cold = "passive-standby-hot, which is passive-standby-cold here"
    assert replicas[:2] == [cold, "passive-standby-hot"], "a source queues nothing"
