"""What a person is told when something is wrong, and that nothing is left hanging.

Most cases share one cluster: a job that fails there must leave it as good as before.
"""

from __future__ import annotations

import gzip
import json
import re
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from streammine.model.document import parse_topology
from streammine.model.errors import InputError, OutputError, StreammineError, UserCodeError
from streammine.model.job import JobOutcome
from streammine.runtime.jobs import JobRun
from streammine.runtime.results import Summary, summarize
from streammine.runtime.standing import StandingCluster
from tests.integration.workplace import WORDCOUNT, Workplace, standing

pytestmark = pytest.mark.slow

USER_CODE = """
import os
import sys

import streammine


class Fussy(streammine.Mapper):
    output = {"word": "string"}

    def map(self, event):
        if "ba" in event.line:
            raise ValueError("no ba, please")
        return event.line.split()


class Quitter(streammine.Mapper):
    output = {"word": "string"}

    def map(self, event):
        sys.exit("that is all")


class Crasher(streammine.Mapper):
    output = {"word": "string"}

    def map(self, event):
        os.abort()
"""


class Bench:
    """Runs topologies on the shared cluster from within the test, where everything is loaded."""

    def __init__(self, place: Workplace) -> None:
        self.place = place
        self.folder = place.folder
        self.cluster = place.home / ".streammine" / "clusters" / "default"

    def run(self, **changes: Any) -> tuple[JobOutcome, Summary | None]:
        """Run the word count with these fields changed; see Workplace.topology."""
        path = self.place.topology(WORDCOUNT, **changes)
        topology = parse_topology(path.read_text(), str(path), ())
        with JobRun(topology, self.folder, cluster=StandingCluster(self.cluster)) as job:
            submission = job.prepare()
            outcome = job.run()
            done = outcome.status == "finished"
            return outcome, summarize(submission, outcome, 0.0) if done else None

    def failure(self, **changes: Any) -> str:
        """Why the job failed once it ran."""
        outcome, _ = self.run(**changes)
        assert outcome.status == "failed"
        assert outcome.reason is not None
        return outcome.reason

    def summary(self, **changes: Any) -> Summary:
        outcome, summary = self.run(**changes)
        assert summary is not None, outcome.reason
        return summary


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with standing(tmp_path_factory.mktemp("bench")) as place:
        (place.folder / "fussy_code.py").write_text(USER_CODE)
        made = Bench(place)
        before = made.summary(sinks__result__path="before")
        yield made
        assert made.summary(sinks__result__path="after").output_digest == before.output_digest


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workplace]:
    with Workplace(tmp_path) as made:
        yield made


def csv_source(prepare: str) -> dict[str, Any]:
    return {
        "sources": {
            "rows": {
                "files": "rows.csv",
                "prepare": prepare,
                "schema": {"key": "string", "value": "int64"},
            }
        },
        "operators": {
            "sums": {"input": "rows", "key": "key", "aggregate": {"total": "sum(value)"}}
        },
        "sinks": {
            "result": {"input": "sums", "format": "csv", "path": f"rows-{prepare}"},
        },
    }


@pytest.mark.parametrize("prepare", ["none", "spark"])
def test_rows_that_cannot_be_used_become_dead_letters_and_the_sum_is_right(
    bench: Bench, prepare: str
) -> None:
    lines = [f"a{row % 7},{row}" for row in range(1000)]
    lines[17] = "a3,seventeen"
    lines[400] = "a1,400,and more"
    (bench.folder / "rows.csv").write_text("\n".join(["key,value", *lines]) + "\n")
    summary = bench.summary(**csv_source(prepare))
    assert (summary.events_in, summary.events_dead) == (1000, 2)
    written = bench.folder / f"rows-{prepare}" / "dead-letters"
    text = "".join(path.read_text() for path in sorted(written.glob("*.jsonl")))
    letters = [json.loads(line) for line in text.splitlines()]
    assert [(letter["origin"], letter["row"], letter["text"]) for letter in letters] == [
        ("rows", 17, "a3,seventeen"),
        ("rows", 400, "a1,400,and more"),
    ]
    assert {letter["file"] for letter in letters} == {str(bench.folder / "rows.csv")}
    assert letters[0]["reason"] == 'column "value": "seventeen" is not a value of type int64'
    assert "3" in letters[1]["reason"]


def disordered_times() -> list[int]:
    """Time goes on by a second every third row, and most rows lie a little, some far behind it."""
    return [row // 3 - (row * 7 % 5) - (35 if row % 50 == 49 else 0) for row in range(600)]


def late_by(lateness: int, times: list[int]) -> list[int]:
    """The rows whose epoch of ten seconds is over when they come."""
    late, latest = [], -1000
    for row, time_ in enumerate(times):
        if time_ // 10 < (latest - lateness) // 10:
            late.append(row)
        latest = max(latest, time_)
    return late


@pytest.mark.parametrize(
    ("prepare", "lateness"), [("none", 0), ("none", 5), ("none", 60), ("spark", 0)]
)
def test_an_epoch_is_held_open_for_late_rows_and_later_ones_are_dead_letters(
    bench: Bench, prepare: str, lateness: int
) -> None:
    """What is prepared is sorted, so that no row of it is late."""
    times = disordered_times()
    (bench.folder / "late.csv").write_text("ts\n" + "".join(f"{time_}\n" for time_ in times))
    path = f"late-{prepare}-{lateness}"
    source = {
        "files": "late.csv",
        "schema": {"ts": "int64"},
        "prepare": prepare,
        "lateness": f"{lateness}s",
    }
    counts = {"input": "rows", "window": "20s", "aggregate": {"n": "count()"}}
    summary = bench.summary(
        epoch={"time": "10s", "column": "ts"},
        sources={"rows": source},
        operators={"counts": counts},
        sinks={"result": {"input": "counts", "format": "csv", "path": path}},
    )
    late = late_by(lateness, times) if prepare == "none" else []
    assert bool(late) == (lateness < 60 and prepare == "none")
    assert (summary.events_in, summary.events_dead) == (len(times), len(late))
    folder = bench.folder / path
    letters = [
        json.loads(line)
        for each in sorted((folder / "dead-letters").glob("*.jsonl"))
        for line in each.read_text().splitlines()
    ]
    assert sorted(letter["row"] for letter in letters) == late
    assert all(letter["reason"].startswith("late: ") for letter in letters)
    used = [time_ for row, time_ in enumerate(times) if row not in late]
    rows = [
        line.split(",")
        for each in sorted(folder.glob("*.csv"))
        for line in each.read_text().splitlines()[1:]
    ]
    assert {int(row[0]): int(row[-1]) for row in rows} == Counter(
        time_ // 20 * 2 + 1 for time_ in used
    )


@pytest.mark.parametrize("prepare", ["none", "spark"])
def test_a_half_written_gzip_is_named(bench: Bench, prepare: str) -> None:
    data = gzip.compress(b"".join(b"some words and %d\n" % row for row in range(20_000)))
    (bench.folder / "half.txt.gz").write_bytes(data[: len(data) // 2])
    try:
        message = bench.failure(sources__lines={"files": "half.txt.gz", "prepare": prepare})
    except InputError as error:
        message = str(error)
    assert f"{bench.folder / 'half.txt.gz'}: can't be read on after" in message
    assert "ends before its end mark" in message or "Truncated" in message


def test_an_exception_in_user_code_names_operator_slice_epoch_and_event(bench: Bench) -> None:
    words = {"input": "lines", "operator": "fussy_code:Fussy"}
    message = bench.failure(operators__words=words)
    first, event, *frames = message.splitlines()
    assert first.startswith("operator 'words', slice ")
    assert ", epoch " in first
    assert first.endswith("Fussy.map raised ValueError: no ba, please")
    assert event.strip().startswith("event: line='")
    assert "ba" in event
    assert re.search(f'File "{bench.folder}/fussy_code.py", line \\d+, in map$', frames[0])
    assert 'raise ValueError("no ba, please")' in frames[1]


def test_events_that_user_code_fails_on_may_go_to_the_dead_letters(bench: Bench) -> None:
    words = {"input": "lines", "operator": "fussy_code:Fussy", "on_error": "dead_letter"}
    summary = bench.summary(operators__words=words, sinks__result__path="tolerant")
    assert 0 < summary.events_dead < summary.events_in == 5000


def test_user_code_that_exits_fails_its_job_and_no_more(bench: Bench) -> None:
    message = bench.failure(operators__words={"input": "lines", "operator": "fussy_code:Quitter"})
    assert "SystemExit('that is all')" in message
    assert "fussy_code.py" in message


@pytest.mark.parametrize(
    ("code", "content", "expected"),
    [
        ("fussy_code:Fusy", "", "has no 'Fusy'; did you mean 'Fussy'?"),
        ("fusy_code:Fussy", "", "no module 'fusy_code': looked in"),
        ("needy_code:X", "import no_such_thing\n", "No module named 'no_such_thing'"),
        ("wrong_code:X", "def f(:\n", "SyntaxError: invalid syntax"),
    ],
)
def test_user_code_that_cannot_be_imported_is_refused_before_anything_runs(
    bench: Bench, code: str, content: str, expected: str
) -> None:
    if content:
        (bench.folder / f"{code.partition(':')[0]}.py").write_text(content)
    with pytest.raises(UserCodeError) as refused:
        bench.run(operators__words={"input": "lines", "operator": code})
    assert expected in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"sources.lines": {"files": "none/*.txt", "prepare": "none"}},
            "'none/*.txt' matches no file under",
        ),
        (
            {"sources.lines": {"files": "folder.txt", "prepare": "none"}},
            "is a folder; name its files, as in 'folder.txt/*'",
        ),
        (
            {"sources.lines": {"files": "x.parquet", "prepare": "none"}},
            "can't be read as Parquet",
        ),
        ({"operators.counts.key": "wrod"}, "unknown column 'wrod'; did you mean 'word'?"),
        (
            {"operators.counts.aggregate": {"total": "sum(word)"}},
            "sum takes numbers; column 'word' has type string",
        ),
        ({"operators.counts.input": "wrods"}, "no source or operator 'wrods'; did you mean"),
        ({"sinks.result.path": "x.parquet/out"}, "part of the path is a file"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_what_can_be_known_beforehand_is_refused_before_anything_runs(
    bench: Bench, changes: dict[str, Any], expected: str
) -> None:
    (bench.folder / "folder.txt").mkdir(exist_ok=True)
    (bench.folder / "x.parquet").write_bytes(b"PAR1 no, not really")
    with pytest.raises(StreammineError) as refused:
        bench.run(**changes)
    assert expected in str(refused.value)


def test_a_folder_with_the_output_of_another_job_is_refused(bench: Bench) -> None:
    bench.summary(sinks__result__path="taken")
    with pytest.raises(OutputError) as refused:
        bench.run(name="other", sinks__result__path="taken")
    assert "holds the output of job 'words', sink 'result'; choose another `path`" in str(
        refused.value
    )


def test_a_folder_that_can_not_be_written_is_refused(bench: Bench) -> None:
    # nobody can make a file there, root neither
    with pytest.raises(OutputError, match=r"sink 'result' can't write /proc/new: /proc takes no"):
        bench.run(sinks__result__path="/proc/new")


def test_a_full_disk_fails_the_job_and_is_named(bench: Bench) -> None:
    tiny = bench.folder / "tiny"
    tiny.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", tiny], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("no right to mount a small disk")
    try:
        message = bench.failure(sinks__result={**WORDCOUNT["sinks"]["result"], "path": "tiny/out"})
        assert f"in {tiny / 'out'}: No space left on device; the disk is full" in message
        assert not list(tiny.rglob("*.tmp"))
    finally:
        subprocess.run(["umount", tiny], check=True)


def test_a_typo_costs_no_process_and_is_shown_with_its_place(place: Workplace) -> None:
    path = place.topology(yaml.safe_dump(WORDCOUNT).replace("flat_map", "flatmap"))
    done = place.run("run", path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(f"streammine: {path}:")
    assert "unknown field 'flatmap'; did you mean 'flat_map'?" in done.stderr
    assert not place.left_over()


def test_an_exception_in_user_code_ends_the_run_with_its_text(place: Workplace) -> None:
    (place.folder / "fussy_code.py").write_text(USER_CODE)
    path = place.topology(operators__words={"input": "lines", "operator": "fussy_code:Fussy"})
    done = place.run("run", path, "--json", "--quiet")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("streammine: words failed: operator 'words', slice ")
    assert "internal error" not in done.stderr
    assert "Traceback" not in done.stderr
    assert not place.left_over()


def test_user_code_that_crashes_its_process_ends_the_run_with_what_it_said(
    place: Workplace,
) -> None:
    (place.folder / "fussy_code.py").write_text(USER_CODE)
    path = place.topology(operators__words={"input": "lines", "operator": "fussy_code:Crasher"})
    done = place.run("run", path)
    assert done.returncode == 1
    assert "was ended by SIGABRT" in done.stderr
    assert not place.left_over()


def test_an_ensemble_that_does_not_answer_is_said_within_seconds(place: Workplace) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        closed = f"127.0.0.1:{probe.getsockname()[1]}"
    begin = time.monotonic()
    done = place.run("run", place.topology(), "--zookeeper", closed)
    assert time.monotonic() - begin < 15
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        f"streammine: ZooKeeper at {closed} cannot be reached; tried for 5 s."
    )
    assert not place.left_over()


def test_a_machine_without_java_is_told_what_to_install(place: Workplace) -> None:
    done = place.run("run", place.topology(), PATH="/nowhere", JAVA_HOME="")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "streammine: ZooKeeper and Spark need Java 17 or newer; there is no java in JAVA_HOME or on "
        "PATH. Install one, for instance `apt-get install default-jre-headless`, or set JAVA_HOME"
    )
    assert not place.left_over()
