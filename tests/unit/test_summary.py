"""What a run says at its end of rows that it could not use."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from streammine.cli.summary import REASON_CHARACTERS, print_summary
from streammine.model.job import DEAD_LETTERS, SinkTarget
from streammine.runtime.results import Summary
from streammine.runtime.stores import open_store
from tests.unit.sink_bench import Sink

SCHEMA = pa.schema([("origin", pa.string()), ("reason", pa.string())])


def printed(
    folder: Path,
    reasons: list[str],
    capsys: pytest.CaptureFixture[str],
    kept: bool = True,
    events_in: int = 10,
) -> str:
    """The last line of the text for people."""
    store = open_store(str(folder / "dead-letters"))
    sink = Sink(store, SCHEMA, file_format="json")
    rows = pa.record_batch([["trips"] * len(reasons), reasons], schema=SCHEMA)
    sink.epoch(0, [rows] if reasons else [])
    sink.finish(0)
    submission: Any = SimpleNamespace(
        spec=SimpleNamespace(
            targets={DEAD_LETTERS: SinkTarget(str(folder / "dead-letters"), "json", 1)}
        ),
        compiled=SimpleNamespace(topology=SimpleNamespace(sinks={})),
    )
    if kept:
        kept_sink = Sink(open_store(str(folder / "out")), SCHEMA)
        kept_sink.epoch(0, [])
        kept_sink.finish(0)
        submission.spec.targets["out"] = SinkTarget(str(folder / "out"), "parquet", 1)
        submission.compiled.topology.sinks["out"] = SimpleNamespace(path="out")
    summary = Summary(events_in, 3, len(reasons), 1.0, 2.0, 1, "0123")
    print_summary(summary, submission, as_json=False)
    return capsys.readouterr().out.strip().splitlines()[-1]


def test_the_first_reason_and_the_folder_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = printed(tmp_path, ["has 3 values, expected 7", "another one"], capsys)
    folder = tmp_path / "dead-letters"
    assert line == f"the first dead letter, from trips: has 3 values, expected 7, all in {folder}"


def test_a_folder_that_goes_with_the_run_is_not_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = printed(tmp_path, ["empty"], capsys, kept=False)
    assert line == "the first dead letter, from trips: empty"


def test_a_reason_is_short_and_no_command_of_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = printed(tmp_path, ["\x1b[2J\n" + "x" * 1_000], capsys, kept=False)
    shown = "\ufffd[2J\ufffd" + "x" * (REASON_CHARACTERS - 5) + "…"
    assert line == f"the first dead letter, from trips: {shown}"


def test_where_all_could_be_used_nothing_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(tmp_path, [], capsys) == "digest 0123"


def test_a_run_without_any_row_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(tmp_path, [], capsys, events_in=0).startswith("no source had a row")
    assert printed(tmp_path / "dead", ["empty"], capsys, events_in=0).startswith(
        "the first dead letter"
    )
