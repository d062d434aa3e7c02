"""Which operator an aggregate's window asks for, what it gives, and what explain says of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from streammine.cli.explain_command import explain
from streammine.model.contracts import Flushes, Forgets, HoldsWindows, SetsAside
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import TopologyError
from streammine.model.topology import AggregateOperator
from streammine.operators.aggregate import KeyedAggregate
from streammine.operators.aggregate_windows import WindowedAggregate, built_aggregate
from streammine.operators.global_aggregate import GlobalAggregate
from streammine.operators.session_aggregate import SessionAggregate
from streammine.operators.site import Site
from streammine.operators.sliding_aggregate import SlidingAggregate
from streammine.operators.windows import AlignedWindows

SECOND = EpochDefinition("time", 1_000_000, "ts")
ROWS = EpochDefinition("count", 100)
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("window_start", pa.int64())])
SPANNED = ["epoch", "window_start", "window_end", "k", "n"]
PLAIN = ["epoch", "k", "n"]


def settings(window: Any, **others: Any) -> AggregateOperator:
    document = {"input": "rows", "key": "k", "aggregate": {"n": "count()"}, "window": window}
    return AggregateOperator.model_validate(document | others)


def built(window: Any, epoch: EpochDefinition = SECOND, **others: Any) -> WindowedAggregate:
    return built_aggregate(settings(window, **others), Site("busy", [SCHEMA], epoch))


@pytest.mark.parametrize(
    ("window", "epoch", "kind", "columns"),
    [
        (None, SECOND, KeyedAggregate, PLAIN),
        ("1s", SECOND, KeyedAggregate, SPANNED),
        ("5 epochs", SECOND, KeyedAggregate, SPANNED),
        ("5 epochs", ROWS, KeyedAggregate, PLAIN),
        ({"length": "5s"}, SECOND, KeyedAggregate, SPANNED),
        ({"length": "5s", "slide": "5s"}, SECOND, KeyedAggregate, SPANNED),
        ({"length": "5s", "slide": "2s"}, SECOND, SlidingAggregate, SPANNED),
        ({"length": "5 epochs", "slide": "1 epoch"}, ROWS, SlidingAggregate, PLAIN),
        ({"session": "1500ms"}, SECOND, SessionAggregate, SPANNED),
        ("global", SECOND, GlobalAggregate, PLAIN),
        ("global", ROWS, GlobalAggregate, PLAIN),
    ],
)
def test_the_window_says_which_operator_and_which_columns(
    window: Any, epoch: EpochDefinition, kind: type, columns: list[str]
) -> None:
    operator = built(window, epoch)
    assert type(operator) is kind
    assert operator.output.names == columns


def test_what_the_engine_must_know_of_each() -> None:
    sliding = built({"length": "6s", "slide": "2s"})
    assert isinstance(sliding, Forgets)
    assert isinstance(sliding, SlidingAggregate)
    assert (sliding.window_epochs, sliding.slide_epochs) == (6, 2)
    session, whole = built({"session": "3s"}), built("global")
    assert not isinstance(session, Forgets)
    assert not isinstance(whole, Forgets)
    assert isinstance(session, HoldsWindows)
    assert isinstance(session, SetsAside)
    assert isinstance(whole, Flushes)
    assert settings({"session": "3s"}).sets_aside
    assert not settings("3s").sets_aside


def test_the_ends_of_a_window_are_nobody_elses_names() -> None:
    message = "operator 'busy': column 'window_start' says when the window starts or ends"
    schema = pa.schema([("window_start", pa.int64())])
    calls = settings(None).aggregate
    with pytest.raises(TopologyError, match=message):
        KeyedAggregate("busy", schema, ["window_start"], calls, spans=True)
    KeyedAggregate("busy", schema, ["window_start"], calls)


def test_a_global_window_has_no_ends_whose_names_are_taken() -> None:
    named = {"input": "a", "aggregate": {"window_start": "count()"}}
    assert AggregateOperator.model_validate({**named, "window": "global"}).window is not None
    with pytest.raises(ValidationError, match="use another name"):
        AggregateOperator.model_validate({**named, "window": "3s"})


def test_sessions_combine_nothing() -> None:
    named = {"input": "a", "aggregate": {"n": "count()"}, "window": {"session": "3s"}}
    assert AggregateOperator.model_validate({**named, "combine": False}).combine is False
    with pytest.raises(ValidationError, match="take combine out"):
        AggregateOperator.model_validate({**named, "combine": True})


def test_sessions_need_a_column_of_event_time() -> None:
    with pytest.raises(TopologyError, match="'busy': time: unknown column 'at'"):
        built({"session": "3s"}, time="at")
    with pytest.raises(TopologyError, match="'k' has type string"):
        built({"session": "3s"}, time="k")


def test_windows_are_written_as_they_were_read() -> None:
    for window in (
        "5m",
        "10 epochs",
        {"length": "10m", "slide": "1s"},
        {"length": "4 epochs", "slide": "1 epoch"},
        {"session": "30s"},
        "global",
    ):
        written = settings(window).model_dump(mode="json", exclude_unset=True)
        assert written["window"] == window
        assert settings(written["window"]).window == settings(window).window


@pytest.mark.parametrize(
    ("epochs", "slide", "ends", "needed"),
    [(6, 2, {-1, 1, 3, 5}, {0: -4, 1: -2, 2: -2}), (5, 3, {-2, 1, 4}, {0: -3, 1: 0, 3: 0})],
)
def test_windows_begin_with_multiples_of_the_slide(
    epochs: int, slide: int, ends: set[int], needed: dict[int, int]
) -> None:
    window = AlignedWindows(epochs, slide)
    assert {epoch for epoch in range(-2, 6) if window.ends_with(epoch)} == ends
    for epoch, first in needed.items():
        assert window.first_needed(epoch) == first
        assert window.ends_with(window.next_end(epoch))


TOPOLOGY = """\
epoch: {time: 10s, column: ts}
recovery: {max_time: 5s, semantics: %s}
sources:
  lines: {files: lines.csv, schema: {ts: int64, word: string}, prepare: none}
operators:
  counts: {input: lines, key: word, window: %s, aggregate: {n: count()}}
sinks:
  result: {input: counts, format: console}
"""


@pytest.mark.parametrize(
    ("window", "semantics", "said"),
    [
        ("60s", "precise", "window: tumbling, 1m (6 epochs)"),
        ("{length: 1m, slide: 10s}", "precise", "sliding, 1m (6 epochs) every 10s (1 epoch)"),
        ("{length: 6 epochs, slide: 2 epochs}", "precise", "sliding, 6 epochs every 2 epochs"),
        ("{session: 30s}", "precise", "sessions of each key, which 30s of silence end; late rows"),
        ("global", "precise", "window: all rows, until the input is over"),
        ("{length: 1m, slide: 10s}", "gap", "with all the windows of 6 epochs that they lie in"),
    ],
)
def test_explain_shows_the_window(tmp_path: Path, window: str, semantics: str, said: str) -> None:
    (tmp_path / "lines.csv").write_text("ts,word\n1,a\n")
    path = tmp_path / "t.yaml"
    path.write_text(TOPOLOGY % (semantics, window))
    done = CliRunner().invoke(explain, [str(path)])
    assert done.exit_code == 0, done.exception
    assert said in done.output


@pytest.mark.parametrize("window", ["{session: 30s}", "global"])
def test_what_never_forgets_may_lose_nothing(tmp_path: Path, window: str) -> None:
    (tmp_path / "lines.csv").write_text("ts,word\n1,a\n")
    path = tmp_path / "t.yaml"
    path.write_text(TOPOLOGY % ("gap", window))
    done = CliRunner().invoke(explain, [str(path)])
    assert isinstance(done.exception, TopologyError)
    assert "'counts' would lose for ever, since it keeps state without end" in str(done.exception)
