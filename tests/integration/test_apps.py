"""The applications, as their users start them, against references that know nothing of the engine."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
import sys
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


ODD_LINES = {
    "wordcount": (
        "words.txt",
        b"One tw\xc3\xb6 three\r\n\xff not this\n\n\xe2\x84\xaaelvin" + b"\nword" * 2_000,
        "input",
        1,
    ),
    "similarity": (
        "messages.csv",
        b"\xef\xbb\xbfts, message ,text,area\r\n60,1,ships boats,a\n"
        b"61,2,\xe2\x84\xaanot knot boats,a\n59,3,ships boats late,a\n"
        b'62,4,"knot\n""boats""",a\n63,5,,a\n64,6,ships boats,\n65,,ships boats,a\n'
        b'66,7,ships boats,""\n67,8,boats ships,""\n68,9,caf\xe9 boats ships,a\n'
        b"661,10,boats knot,a\n662,11,a",
        "input",
        3,
    ),
    "components": (
        "edges.txt",
        b"# an edge per line\n"
        + b"".join(b"%d  %d\n" % (n, n * 7 % 100) for n in range(60))
        + b"1 a\n5 5 5\n9 0x5",
        "edges",
        3,
    ),
    "trends": (
        "edits.jsonl",
        b"".join(
            b'{"time": "2015-06-01T%02d:%02d:%02d.123Z", "channel": "#a", "user": "b", "added": %d}\n'
            % (n // 60, n % 60, 59 - n % 50, n - 50)
            for n in range(99)
        )
        + b'{"time": "2015-06-01T00:59:00Z", "channel": "#late", "user": "b", "added": 1}\nnot json',
        "edits",
        2,
    ),
}
"""By application: the name and the bytes of an input, the setting that names it, and its dead letters."""


@pytest.mark.parametrize("app", ODD_LINES, indirect=True)
def test_odd_lines_are_judged_as_the_application_says(
    app: Path, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.params["app"]
    file, content, setting, dead = ODD_LINES[name]
    (app / f"{file}.gz").write_bytes(gzip.compress(content))
    files = app / f"*{Path(file).suffix}.gz"
    summary = run(app / "topology.yaml", "--set", f"{setting}={files}")
    assert summary["events_dead"] == dead
    checked = command(f"apps.{name}.check", "--output", app / "out", f"--{setting}", files)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert " yes: every" in checked.stdout


@needs_wikiticker
@pytest.mark.parametrize("app", ["trends"], indirect=True)
def test_the_trends_of_a_real_day_are_right(app: Path) -> None:
    summary = run(app / "topology.yaml", "--set", f"edits={WIKITICKER}")
    assert summary["events_in"] == 39_244
    found = trends_check.committed(str(app / "out"))
    expected = trends_check.trends_by_epoch(trends_check.edits_of(WIKITICKER), 60, 1200)
    assert found == expected


@pytest.mark.parametrize("app", ["equijoin"], indirect=True)
def test_the_join_finds_the_pairs_that_plain_python_finds(app: Path) -> None:
    summary = run(app / "topology.yaml")
    assert summary["events_out"] > 1_000
    checked = command("apps.equijoin.check", "--output", app / "out")
    assert checked.returncode == 0, checked.stdout
    assert f"pairs     {summary['events_out']:,}" in checked.stdout
    assert "yes: every pair" in checked.stdout

    other = run(app / "topology.yaml", "--nodes", "3", "--set", "operators.matches.slices=5")
    assert other["output_digest"] == summary["output_digest"]

    wrong = command(
        "apps.equijoin.check", "--output", app / "out", "--orders", app / "data" / "payments.csv"
    )
    assert wrong.returncode == 2
    assert wrong.stderr.endswith("payments.csv: has no column cents\n")


@pytest.mark.parametrize("app", ["equijoin"], indirect=True)
def test_the_exceptions_are_those_of_plain_python(app: Path) -> None:
    summary = run(app / "exceptions.yaml")
    payments = app / "data" / "payments.csv"
    arguments = ("--payments", payments, "--output", app / "out-exceptions")
    checked = command("apps.equijoin.check_exceptions", *arguments)
    assert checked.returncode == 0, checked.stdout
    assert "yes: every row" in checked.stdout
    other = run(app / "exceptions.yaml", "--nodes", "3", "--set", "operators.belated.slices=5")
    assert other["output_digest"] == summary["output_digest"]

    payments.write_text("ts,order,paid\n")
    wrong = command("apps.equijoin.check_exceptions", *arguments)
    assert wrong.returncode == 1
    assert "equal     NO" in wrong.stdout


@pytest.mark.parametrize("app", ["equijoin"], indirect=True)
@pytest.mark.parametrize("topology", ["topology", "exceptions"])
def test_odd_orders_and_payments_are_judged_as_the_application_says(
    app: Path, topology: str
) -> None:
    orders = """ts,order,cents
        60,1,100|61,1,100|61,1,100|62,2,|63,,300|64,3,1.5|"65",4,400|119,5,500|120,6,600
        119,7,700|180,8,800|x,9,900|,10,1000|200,11|0xC8,12,1200|-5,13,1300|200,14,"1400"""
    payments = """ts,order,paid
        60,1,50|60,1,50|61,2,10|62,2,20|63,,30|64,3,40|65,4,|121,1,60|122,1,61|179,5,70
        119,6,80|180,6,80|181,6,81|240,8,90|241,8,91|261,12,92"""
    given: list[object] = []
    settings = []
    for name, text in (("orders", orders), ("payments", payments)):
        path = app / f"odd-{name}.csv"
        path.write_text("\n".join(line.strip() for line in re.split(r"[|\n]", text)))
        given += [f"--{name}", path]
        settings += ["--set", f"{name}={path}"]
    summary = run(app / f"{topology}.yaml", *settings)
    assert summary["events_dead"] == 8
    module, output = {
        "topology": ("check", "out"),
        "exceptions": ("check_exceptions", "out-exceptions"),
    }[topology]
    checked = command(f"apps.equijoin.{module}", "--output", app / output, *given)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "equal     yes" in checked.stdout


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
