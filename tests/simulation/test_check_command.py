"""`streammine check`: operators that don't keep what they claim are named, with the events that show it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pytest

from streammine.cli import main

CODE = '''
import itertools

import streammine


class FloatSum(streammine.Reducer):
    """Adds floats in the order in which they arrive."""

    output = {"total": "float64"}

    def create(self):
        return 0.0

    def add(self, total, event):
        return total + event.value

    def merge(self, left, right):
        return left + right

    def finish(self, key, total):
        return total


class Largest(FloatSum):
    output = {"largest": "float64"}

    def add(self, largest, event):
        return max(largest, event.value)

    def merge(self, left, right):
        return max(left, right)


class Steps(streammine.Operator):
    output = {"plug": "int64", "step": "float64"}
    state = {"last": streammine.Value(None)}

    def process(self, key, event, state):
        before, state.last = state.last, event.value
        if before is not None:
            return key, event.value - before


class Liar(Steps):
    """Says that order doesn't matter."""

    commutative = True


class Forgetful(streammine.Operator):
    """Counts in an attribute that no snapshot holds."""

    output = {"count": "int64"}

    def __init__(self):
        self.count = 0

    def process(self, key, event, state):
        self.count += 1
        return self.count


numbers = itertools.count()


class Numbered(streammine.Mapper):
    """Counts in the module."""

    output = {"number": "int64", "plug": "int64", "value": "float64"}

    def map(self, event):
        return next(numbers), event.plug, event.value


class Honest(Numbered):
    deterministic = False


class Raises(streammine.Mapper):
    output = {"plug": "int64"}

    def map(self, event):
        raise RuntimeError("no plug today")
'''
SOURCES = """
  readings:
    files: readings.csv
    schema: {ts: int64, plug: int64, value: float64}
    prepare: none
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "checked_code.py").write_text(CODE)
    rows = range(300)
    table = pa.table(
        {
            "ts": [row // 10 for row in rows],
            "plug": [row % 3 for row in rows],
            "value": [row * 0.1 for row in rows],
        }
    )
    csv.write_csv(table, tmp_path / "readings.csv")
    return tmp_path


def topology(
    folder: Path, operators: str, *sinks: str, epoch: str = "{count: 50}", sources: str = SOURCES
) -> Path:
    lines = [f"epoch: {epoch}", f"sources:{sources}", "operators:", operators, "sinks:"]
    lines += [f"  sink_{name}: {{input: {name}, format: console}}" for name in sinks]
    path = folder / "topology.yaml"
    path.write_text("\n".join(lines))
    return path


def checked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: Any
) -> tuple[int, str, str]:
    """Exit code, output and errors of the command."""
    monkeypatch.setattr("sys.argv", ["streammine", "check", *map(str, arguments)])
    code = main._exit_code()
    said = capsys.readouterr()
    return code, said.out, said.err


def test_operators_that_keep_their_claims_are_ok(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = topology(
        folder,
        """
  load: {input: readings, filter: "value >= 1"}
  largest: {input: load, key: plug, operator: "checked_code:Largest"}
  steps: {input: load, key: plug, operator: "checked_code:Steps"}
  means: {input: load, key: plug, aggregate: {mean: mean(value)}}
  renamed: {input: means, map: {plug: plug, mean: mean}}
  pairs: {join: {left: renamed, right: load, on: plug}}
""",
        "largest",
        "steps",
        "pairs",
    )
    code, out, _ = checked(capsys, monkeypatch, path, "--rows", 200)
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert code == 0, out
    assert all(" ok " in lines[name] for name in ("load", "largest", "means", "renamed", "pairs"))
    # ten rows are filtered out: it is checked with the rows that reach it
    assert "190 events in" in lines["largest"]
    assert "never shuffled, as it is not commutative" in lines["steps"]


def test_a_sum_in_the_order_of_arrival_fails_with_three_events(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = topology(
        folder, '  sums: {input: readings, key: plug, operator: "checked_code:FloatSum"}', "sums"
    )
    code, out, error = checked(capsys, monkeypatch, path)
    assert code == 1
    assert "sums  failed       depends on the order in which an epoch's events arrive" in out
    assert "3 of 300 events show it:" in out
    assert out.count(", value=") == 3
    assert "they came as " in out
    assert "1 of 1 operators failed: sums" in error


def test_an_operator_that_lies_about_order_fails_with_two_events(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = topology(
        folder, '  liar: {input: readings, key: plug, operator: "checked_code:Liar"}', "liar"
    )
    code, out, _ = checked(capsys, monkeypatch, path)
    assert code == 1
    assert "depends on the order in which an epoch's events arrive" in out
    assert "2 of 300 events show it:" in out
    assert "they came as 2, 1" in out


@pytest.mark.parametrize("epoch", ["{count: 50}", "{time: 1h, column: ts}"])
def test_state_outside_of_the_state_library_is_missed_after_a_restore(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, epoch: str
) -> None:
    path = topology(
        folder,
        '  forgetful: {input: readings, key: plug, operator: "checked_code:Forgetful"}',
        "forgetful",
        epoch=epoch,
    )
    code, out, _ = checked(capsys, monkeypatch, path)
    assert code == 1
    assert "remembers something outside its state, which a crash loses" in out
    assert "2 of 300 events show it:" in out
    assert "they came as 1; (lost and restored) 2" in out


def test_a_mapper_that_counts_in_its_module_gives_something_else_when_it_runs_again(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = topology(
        folder,
        """
  numbered: {input: readings, operator: "checked_code:Numbered"}
  largest: {input: numbered, key: plug, operator: "checked_code:Largest"}
""",
        "largest",
    )
    code, out, error = checked(capsys, monkeypatch, path)
    assert code == 1
    assert "numbered  failed       gives something else when it runs again" in out
    assert "largest   ok " in out
    assert "1 of 2 operators failed: numbered" in error


def test_what_is_not_checked_is_named_with_the_reason(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    live = """
  live: {type: tcp, bind: "127.0.0.1:5999", format: json, schema: {ts: int64}, ingest_log: log}
"""
    path = topology(
        folder,
        """
  honest: {input: readings, operator: "checked_code:Honest"}
  none: {input: readings, filter: "value > 1000"}
  after_none: {input: none, filter: "value > 1"}
  unused: {input: readings, filter: "value > 1"}
  behind_live: {input: live, filter: "ts > 1"}
""",
        "honest",
        "after_none",
        "behind_live",
        epoch="{time: 5s, column: ts}",
        sources=SOURCES + live.lstrip("\n"),
    )
    code, out, _ = checked(capsys, monkeypatch, path, "--json")
    (line,) = out.splitlines()
    found = json.loads(line)
    assert code == 0, out
    assert (found["checked"], found["failed"]) == (1, 0)
    notes = {
        each["operator"]: each["note"]
        for each in found["operators"]
        if each["status"] == "not checked"
    }
    assert notes == {
        "honest": "it says of itself that it is not deterministic",
        "after_none": "no row of the sample reaches it; take more (--rows)",
        "unused": "it leads to no sink, so it is not run",
        "behind_live": "there is no sample of the live source 'live'",
    }


def test_json_holds_the_problem_of_an_operator_that_failed(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = topology(
        folder, '  sums: {input: readings, key: plug, operator: "checked_code:FloatSum"}', "sums"
    )
    code, out, _ = checked(capsys, monkeypatch, path, "--json", "--rows", "150", "--seed", "3")
    (found,) = json.loads(out)["operators"]
    assert code == 1
    assert found["status"] == "failed"
    assert found["events"] == 150
    assert "shuffled" in found["problem"]


def test_code_that_raises_on_the_sample_is_named_with_the_event(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    raises = '  raises: {input: readings, operator: "checked_code:Raises"}\n'
    path = topology(folder, raises, "raises")
    code, out, _ = checked(capsys, monkeypatch, path)
    assert code == 1
    assert "raises  failed       raises while its events come in order" in out
    assert "RuntimeError: no plug today" in out
    path = topology(folder, raises.replace(":Raises", ":Rises"), "raises")
    code, out, _ = checked(capsys, monkeypatch, path)
    assert code == 1
    assert "raises  failed       can't be made" in out
    assert "has no 'Rises'; did you mean 'Raises'?" in out
    # in front of another operator there is nothing to check that one with
    path = topology(folder, raises + '  after: {input: raises, filter: "plug > 1"}\n', "after")
    code, out, error = checked(capsys, monkeypatch, path)
    assert code == 1
    assert "operator 'raises'" in error
    assert "no plug today" in error
    assert "Traceback" not in error


def test_a_union_is_passed_over_and_what_reads_it_is_checked(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = topology(
        folder,
        """
  high: {input: readings, filter: value > 20}
  route: {input: readings, split: {one: plug = 1, others: else}}
  both: {union: [high, route.one]}
  best: {input: both, key: plug, top: {count: 2, by: value desc}}
""",
        "best",
    )
    code, out, _ = checked(capsys, monkeypatch, path)
    assert code == 0, out
    assert "not checked  it passes on the rows of 2 inputs" in out
    for name in ("route", "best"):
        assert re.search(rf"^{name} +ok", out, re.MULTILINE), out


def test_what_goes_by_event_time_is_passed_over(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = topology(
        folder,
        """
  lately: {input: readings, key: plug, recent: {times: count()}, within: 5s}
  few: {input: lately, filter: times < 3}
""",
        "few",
        epoch="{time: 10s, column: ts}",
    )
    code, out, _ = checked(capsys, monkeypatch, path)
    assert code == 0, out
    assert "lately  not checked  it goes by the time and place of each event" in out
    assert re.search("^few +ok", out, re.MULTILINE), out
