"""The checks of words, messages, orders and payments: their references, and what commands say of mistakes."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from apps import reading
from apps.equijoin import check as pair_check
from apps.equijoin import check_exceptions
from apps.equijoin import draw as draw_pairs
from apps.similarity import check as similarity_check
from apps.wordcount import check as word_check
from apps.wordcount import check_top, draw_top

APPS = Path(__file__).resolve().parents[2] / "apps"
CHECKS = sorted(path for path in APPS.rglob("*.py") if "check" in path.stem)
DRAWS = sorted(path for path in APPS.rglob("*.py") if "draw" in path.stem.split("_"))


def command(path: Path, monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """The exit status of an application's module, run as a command."""
    module = importlib.import_module(f"apps.{path.parent.name}.{path.stem}")
    monkeypatch.setattr(sys, "argv", [path.stem, *map(str, arguments)])
    return reading.exit_status(module.main)


def test_every_application_has_a_check_and_a_picture() -> None:
    folders = {path.parent for path in APPS.glob("*/*.yaml")}
    assert {path.parent for path in CHECKS} == folders
    assert {path.parent for path in DRAWS} == folders


@pytest.mark.parametrize("path", CHECKS + DRAWS, ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_output_that_is_not_there_is_told_in_a_sentence(
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "sys.exit(reading.exit_status(main))" in path.read_text()
    (tmp_path / "file").write_text("text")
    for output in (tmp_path / "none", tmp_path / "file"):
        assert command(path, monkeypatch, "--output", output) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert str(output) in line


@pytest.mark.parametrize("path", CHECKS, ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_input_that_is_not_there_is_told_in_a_sentence(
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("streammine.read_output", lambda folder: iter([]))
    text = path.read_text() + (path.parent / "check.py").read_text()
    (option,) = {f"--{name}" for name in ("input", "trips", "edits", "edges") if f'"--{name}"' in text} or {
        "--orders"
    }  # fmt: skip
    assert command(path, monkeypatch, option, tmp_path / "none*.csv") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("none*.csv: no such file")


def test_words_are_runs_of_ascii_letters() -> None:
    # the sign of Kelvin becomes a k in lower case, and is no ASCII letter
    assert word_check.words_of("Grün 12\u212aelvin's ICE\r") == ["gr", "n", "elvin", "s", "ice"]
    assert word_check.words_of(None) == []


def test_dead_and_empty_lines_count_where_epochs_are_cut() -> None:
    lines = ["word", None, *[""] * 998, "word"]
    assert word_check.counted(lines) == {(0, "word"): 1, (1, "word"): 1}


def test_windows_of_words_reach_behind_the_text() -> None:
    found = check_top.most_frequent(["many more words, some more", *[""] * 99, "words"])
    assert found[0] == [("more", 2), ("many", 1), ("some", 1), ("words", 1)]
    assert found[1] == [("more", 2), ("words", 2), ("many", 1), ("some", 1)]
    assert found[10] == [("words", 1)]
    assert max(found) == 10
    assert check_top.most_frequent([]) == check_top.most_frequent(["a"]) == {}


def test_the_picture_colours_words_that_come_and_go() -> None:
    counts = draw_top.counts_of({0: [("tide", 3), ("spring", 2)], 1: [("tide", 3), ("summer", 4)]})
    assert repr(counts["spring"]) == "[2, nan]"
    assert draw_top.telling(counts) == ["summer", "spring"]


def test_messages_have_the_words_and_areas_that_the_engine_sees(tmp_path: Path) -> None:
    lines = [
        "message,ts,area,text",
        '1,60,a,"ships, boats"',
        "2,60,a,\u212anot ships BOATS",
        "3,60,,ships boats",
        ",60,a,ships boats",
        "4,59,a,ships boats",  # late
        "5,60,b,ships boats",
        "6,660,a,ships boats",
        "7,661,a,ships boats knot",
    ]
    path = tmp_path / "messages.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    messages = list(similarity_check.messages_of(path))
    assert [message.number for message in messages] == [1, 2, 3, None, 5, 6, 7]
    assert messages[1].words == {"ships", "boats"}
    assert similarity_check.most_similar(messages) == {2: (1, 2), 6: (2, 2), 7: (6, 2)}


def test_pairs_are_of_one_minute_and_number() -> None:
    orders = [(59, 1, 100), (60, 2, 200), (60, 2, 200), (60, None, 300)]
    payments = [(60, 1, 100), (61, 2, 50), (61, None, 300)]
    found = pair_check.pairs(orders, payments)
    assert found == {(1, 2, 200, 50, 1): 2}
    assert draw_pairs.payments_by_second(found) == [0, 2, *[0] * 58]
    assert draw_pairs.cents_by_minute(found) == {1: 100}


def test_sixty_seconds_are_in_time_and_the_second_before_is_not() -> None:
    orders = [(100, 1, 10), (100, 2, 20), (100, 3, 30), (100, None, 40), (100, 5, 50), (90, 5, 50)]
    payments = [(160, 1, 10), (161, 2, 20), (99, 3, 30), (100, None, 40), (160, 5, 50)]
    assert check_exceptions.exceptions(orders, payments) == {
        (100, 2, "unpaid", 20): 1,
        (100, 3, "unpaid", 30): 1,
        (100, None, "unpaid", 40): 1,
        (90, 5, "unpaid", 50): 1,
        (161, 2, "belated", 20): 1,
        (99, 3, "belated", 30): 1,
        (100, None, "belated", 40): 1,
    }


SMALLEST = {
    "components": ("draw", {"epoch": [3], "node": [5], "component": [5]}),
    "equijoin": (
        "draw",
        {"minute": [3], "order": [1], "cents": [9], "paid": [None], "seconds": [0]},
    ),
    "similarity": ("draw", {"shared": [2]}),
    "smartgrid": (
        "outliers_draw",
        {"ts_start": [0], "ts_stop": [9], "house_id": [1], "percentage": [50.0]},
    ),
    "trends": ("draw", {"channel": ["#a"], "edits": [1], "users": [1], "added": [1]}),
    "wordcount": ("draw_top", {"rank": [1], "word": ["tide"], "count": [2]}),
}
"""By application: a picture, and an output of one row."""


@pytest.mark.parametrize("app", SMALLEST)
def test_pictures_of_one_row_are_drawn(
    app: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("matplotlib")
    module, columns = SMALLEST[app]
    monkeypatch.setattr("streammine.read_output", lambda folder: iter([(3, pa.table(columns))]))
    picture = tmp_path / "picture.png"
    path = APPS / app / f"{module}.py"
    assert command(path, monkeypatch, "--output", tmp_path, "--picture", picture) == 0
    assert capsys.readouterr().out.startswith(f"{picture}: ")
    monkeypatch.setattr("streammine.read_output", lambda folder: iter([]))
    assert command(path, monkeypatch, "--output", tmp_path) == 1
    assert "there are no rows to draw" in capsys.readouterr().err
