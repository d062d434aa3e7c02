"""The applications, as their users start them, against references that know nothing of the engine."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import streammine
from apps.equijoin import make_input
from apps.similarity import make_messages
from apps.trends import check as trends_check
from apps.trends import make_edits
from apps.wordcount import make_text

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
WIKIPEDIA = ROOT.parent / "shared" / "data" / "wikipedia"
WIKIPEDIA_WORDS = 16_306_168
WIKIPEDIA_DISTINCT = 223_537

WIKITICKER = ROOT.parent / "shared" / "data" / "wikiticker" / "wikiticker-2015-09-12.json.gz"

needs_wikiticker = pytest.mark.skipif(
    not WIKITICKER.is_file(), reason=f"the edits of a real day are not in {WIKITICKER}"
)
needs_wikipedia = pytest.mark.skipif(
    not WIKIPEDIA.is_dir(), reason=f"the Wikipedia text is not in {WIKIPEDIA}"
)


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def run(topology: Path, *arguments: str) -> dict[str, Any]:
    done = command("streammine.cli.main", "run", topology, "--json", *arguments)
    assert done.returncode == 0, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return summary


@pytest.fixture
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of an application's folder, so that no log or output of the checkout's is used."""
    ignored = shutil.ignore_patterns("out", "out-*", ".streammine", "__pycache__")
    return Path(shutil.copytree(ROOT / "apps" / request.param, tmp_path / "app", ignore=ignored))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_shipped_inputs_are_what_their_scripts_write(tmp_path: Path) -> None:
    make_text.write_text(tmp_path / "text")
    make_input.write_input(tmp_path / "data")
    make_edits.write_edits(tmp_path / "edits")
    make_messages.write_messages(tmp_path / "messages")
    assert contents(tmp_path / "text") == contents(make_text.FOLDER)
    assert contents(tmp_path / "data") == contents(make_input.FOLDER)
    assert contents(tmp_path / "edits") == contents(make_edits.FOLDER)
    assert contents(tmp_path / "messages") == contents(make_messages.FOLDER)


@pytest.mark.parametrize("app", ["wordcount"], indirect=True)
def test_the_first_command_counts_raw_text_and_the_second_proves_it_right(app: Path) -> None:
    summary = run(app / "topology.yaml")
    lines = sum(len(path.read_text().splitlines()) for path in (app / "text").iterdir())
    assert summary["events_in"] == lines
    assert summary["events_dead"] == 0
    checked = command("apps.wordcount.check", "--output", app / "out")
    assert checked.returncode == 0, checked.stdout
    assert "equal     yes" in checked.stdout

    # The epoch log is reused, and neither nodes nor slices change a byte.
    again = run(app / "topology.yaml", "--nodes", "1", "--set", "operators.counts.slices=3")
    assert again["output_digest"] == summary["output_digest"]
    direct = run(app / "topology.yaml", "--set", "sources.lines.prepare=none")
    assert direct["output_digest"] == summary["output_digest"]


@pytest.mark.parametrize("app", ["wordcount"], indirect=True)
def test_the_proof_fails_for_a_text_that_is_not_the_one_counted(app: Path) -> None:
    missing = command("apps.wordcount.check", "--output", app / "out")
    assert missing.returncode == 1
    assert "no committed output" in missing.stderr

    run(app / "topology.yaml", "--set", "sources.lines.prepare=none")
    changed = app / "text" / "3-autumn.txt"
    changed.write_text(changed.read_text().replace("stormy", "story", 1))
    checked = command(
        "apps.wordcount.check", "--output", app / "out", "--input", app / "text" / "*.txt"
    )
    assert checked.returncode == 1
    assert "equal     NO" in checked.stdout
    assert "'stormy'" in checked.stdout


@pytest.mark.parametrize("app", ["trends"], indirect=True)
def test_the_trends_are_those_of_plain_python_at_any_speed(app: Path) -> None:
    summary = run(app / "topology.yaml")
    assert summary["events_in"] == make_edits.EDITS
    checked = command("apps.trends.check", "--output", app / "out")
    assert checked.returncode == 0, checked.stdout
    assert "equal       yes" in checked.stdout

    played = run(
        app / "topology.yaml",
        "--nodes",
        "3",
        "--set",
        "operators.trends.slices=3",
        "--set",
        "sources.edits.speed=10000",
    )
    assert played["output_digest"] == summary["output_digest"]
    assert played["seconds"] > 8, "a day, ten thousand times as fast"

    other = command("apps.trends.check", "--output", app / "out", "--epoch", "120")
    assert other.returncode == 1
    assert "equal       NO" in other.stdout


@pytest.mark.parametrize("app", ["wordcount"], indirect=True)
def test_the_most_frequent_words_of_every_window_are_those_of_plain_python(app: Path) -> None:
    summary = run(app / "top.yaml")
    checked = command("apps.wordcount.check_top", "--output", app / "out-top")
    assert checked.returncode == 0, checked.stdout
    assert "yes: every rank" in checked.stdout
    slices = ("--set", "operators.counts.slices=1", "--nodes", "3")
    assert run(app / "top.yaml", *slices)["output_digest"] == summary["output_digest"]

    run(app / "top.yaml", "--set", "operators.counts.window={length: 9 epochs, slide: 1 epochs}")
    wrong = command("apps.wordcount.check_top", "--output", app / "out-top")
    assert wrong.returncode == 1
    assert "NO: epoch" in wrong.stdout


@pytest.mark.parametrize("app", ["similarity"], indirect=True)
def test_similar_messages_are_those_of_plain_python(app: Path) -> None:
    summary = run(app / "topology.yaml")
    assert summary["events_in"] == make_messages.MESSAGES
    checked = command("apps.similarity.check", "--output", app / "out")
    assert checked.returncode == 0, checked.stdout
    assert "yes: every pair" in checked.stdout

    slices = ("--set", "operators.shared.slices=1", "--set", "operators.best.slices=5")
    assert (
        run(app / "topology.yaml", "--nodes", "3", *slices)["output_digest"]
        == (summary["output_digest"])
    )
    other = run(app / "topology.yaml", "--set", "epoch.time=7s")
    assert other["output_digest"] != summary["output_digest"], "rows are of other epochs"
    assert command("apps.similarity.check", "--output", app / "out").returncode == 0

    run(
        app / "topology.yaml",
        "--set",
        "operators.shared.join.when=left.ts between right.ts and right.ts + 9m",
    )
    wrong = command("apps.similarity.check", "--output", app / "out")
    assert wrong.returncode == 1
    assert "NO: message" in wrong.stdout


@needs_wikiticker
@pytest.mark.parametrize("app", ["trends"], indirect=True)
def test_the_trends_of_a_real_day_are_right(app: Path) -> None:
    summary = run(app / "topology.yaml", "--set", f"edits={WIKITICKER}")
    assert summary["events_in"] == 39_244
    found = trends_check.committed(str(app / "out"))
    expected = trends_check.trends_by_epoch(trends_check.edits_of(WIKITICKER), 60, 1200)
    assert found == expected


def joined_in_plain_python(data: Path) -> Counter[tuple[int, ...]]:
    """(minute, order, cents, paid, seconds), each as often as it must be in the output."""
    orders: dict[tuple[int, int], list[tuple[int, int]]] = {}
    with (data / "orders.csv").open() as file:
        for row in csv.DictReader(file):
            ts, order, cents = int(row["ts"]), int(row["order"]), int(row["cents"])
            orders.setdefault((ts // 60, order), []).append((ts, cents))
    pairs: Counter[tuple[int, ...]] = Counter()
    with (data / "payments.csv").open() as file:
        for row in csv.DictReader(file):
            ts, order, paid = int(row["ts"]), int(row["order"]), int(row["paid"])
            for ordered, cents in orders.get((ts // 60, order), []):
                pairs[ts // 60, order, cents, paid, ts - ordered] += 1
    return pairs


@pytest.mark.parametrize("app", ["equijoin"], indirect=True)
def test_the_join_finds_the_pairs_that_plain_python_finds(app: Path) -> None:
    expected = joined_in_plain_python(app / "data")
    summary = run(app / "topology.yaml")
    assert summary["events_out"] == expected.total() > 1_000
    found: Counter[tuple[int, ...]] = Counter()
    for epoch, table in streammine.read_output(app / "out"):
        for row in table.to_pylist():
            assert row["minute"] == epoch
            found[tuple(row.values())] += 1
    assert found == expected

    other = run(app / "topology.yaml", "--nodes", "3", "--set", "operators.matches.slices=5")
    assert other["output_digest"] == summary["output_digest"]


@pytest.mark.parametrize("app", ["equijoin"], indirect=True)
def test_the_exceptions_are_those_of_plain_python(app: Path) -> None:
    summary = run(app / "exceptions.yaml")
    arguments = ("--input", app / "data", "--output", app / "out-exceptions")
    checked = command("apps.equijoin.check_exceptions", *arguments)
    assert checked.returncode == 0, checked.stdout
    assert "yes: every row" in checked.stdout
    other = run(app / "exceptions.yaml", "--nodes", "3", "--set", "operators.belated.slices=5")
    assert other["output_digest"] == summary["output_digest"]

    (app / "data" / "payments.csv").write_text("ts,order,paid\n")
    wrong = command("apps.equijoin.check_exceptions", *arguments)
    assert wrong.returncode == 1
    assert "equal     NO" in wrong.stdout


def expected_counts() -> dict[str, int]:
    with gzip.open(WIKIPEDIA / "expected_wordcount_ascii_lower.tsv.gz", "rt") as file:
        return {word: int(count) for word, count in (line.split("\t") for line in file)}


@needs_wikipedia
@pytest.mark.parametrize("app", ["wordcount"], indirect=True)
@pytest.mark.parametrize("prepare", ["none", "spark"])
def test_the_words_of_wikipedia_are_counted_right(app: Path, prepare: str) -> None:
    expected = expected_counts()
    assert (sum(expected.values()), len(expected)) == (WIKIPEDIA_WORDS, WIKIPEDIA_DISTINCT)
    run(
        app / "topology.yaml",
        "--set",
        f"input={WIKIPEDIA}/wiki-*.txt.gz",
        "--set",
        f"sources.lines.prepare={prepare}",
        "--set",
        "epoch.count=50000",
    )
    tables = [table for _, table in streammine.read_output(app / "out")]
    totals = pa.concat_tables(tables).group_by("word").aggregate([("count", "sum")])
    words, counts = totals["word"].to_pylist(), totals["count_sum"].to_pylist()
    assert dict(zip(words, counts, strict=True)) == expected
