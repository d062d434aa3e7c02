"""`streammine replay` on Spark, into eight slices on a cluster of two nodes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from streammine.model.epochs import EpochDefinition
from streammine.model.replay_job import ReplayReport
from streammine.runtime.replaying import job_named, replay_request, replay_target
from tests.integration.disturbed import Watched, figures, nodes_of
from tests.integration.workplace import ROOT, Workplace, eventually, standing
from tests.unit.test_log_source import write_log

pytestmark = pytest.mark.slow

EPOCHS = 24
EPOCH_SECONDS = 1000
SLICES = 8
MASTER = "local[2]"
SPARK_SECONDS = 300.0

JOB: dict[str, Any] = {
    "name": "direct",
    "epoch": {"time": f"{EPOCH_SECONDS}s", "column": "ts"},
    "nodes": 2,
    "snapshot": {"every": "400ms"},
    "sources": {"readings": {"log": "log", "slices": SLICES}},
    "operators": {
        "sums": {
            "input": "readings",
            "key": "ts",
            "window": f"{2 * EPOCH_SECONDS}s",
            "aggregate": {"n": "count()", "most": "max(v)"},
        }
    },
    "sinks": {
        "result": {"input": "sums", "format": "parquet", "path": "direct-out"},
        "rows": {"input": "readings", "format": "parquet", "path": "direct-rows"},
    },
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    """A cluster of two nodes is up, and there is a log of time epochs in eight partitions."""
    with standing(tmp_path_factory.mktemp("replay"), at_once=False) as made:
        epochs = {epoch: 300 + 25 * (epoch % 5) for epoch in range(EPOCHS)}
        definition = EpochDefinition("time", EPOCH_SECONDS * 1_000_000, "ts")
        write_log(made.folder / "log", SLICES, epochs, definition=definition)
        yield made


@pytest.fixture(scope="module")
def known(place: Workplace) -> dict[str, Any]:
    """What the job comes to that reads the log directly."""
    return figures(place.result("submit", place.topology(JOB)))


@pytest.fixture
def cluster(place: Workplace) -> Iterator[Watched]:
    watched = Watched(place)
    watched.wait_for_members(lambda members: len(members) == 2)
    yield watched
    watched.close()


class Receiving:
    """A job with a replay source, running."""

    def __init__(self, place: Workplace, name: str) -> None:
        self.place = place
        self.name = name
        source = {
            "type": "replay",
            "ingest_log": f"{name}-ingest",
            "slices": SLICES,
            "schema": {"ts": "int64", "v": "float64"},
        }
        topology = place.topology(
            JOB,
            file=name,
            name=name,
            sources__readings=source,
            sinks__result__path=f"{name}-out",
            sinks__rows__path=f"{name}-rows",
        )
        self.process = place.start("submit", topology, "--json")

    def replay(self, log: object, *options: object) -> subprocess.CompletedProcess[str]:
        self.wait_until_it_runs()
        into = ("--into", f"{self.name}/readings", "--spark-master", MASTER)
        with self.place.start("replay", log, *into, *options) as process:
            output, errors = process.communicate(timeout=SPARK_SECONDS)
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def wait_until_it_runs(self) -> None:
        folder = self.place.folder / f"{self.name}-ingest"
        eventually(
            lambda: len(list(folder.glob("slice-*/addresses/*"))) >= SLICES,
            lambda: f"not all slices listen: {list(folder.glob('slice-*/addresses/*'))}",
        )

    def finished(self) -> dict[str, Any]:
        output, errors = self.process.communicate(timeout=SPARK_SECONDS)
        assert self.process.returncode == 0, errors
        return figures(json.loads(output))

    def close(self) -> None:
        with self.process:
            self.process.kill()


@pytest.fixture
def receiving(place: Workplace) -> Iterator[Callable[[str], Receiving]]:
    started: list[Receiving] = []

    def start(name: str) -> Receiving:
        started.append(Receiving(place, name))
        return started[-1]

    yield start
    for each in started:
        each.close()


def test_a_replayed_log_comes_to_what_it_does_when_read_directly(
    place: Workplace, receiving: Callable[[str], Receiving], known: dict[str, Any]
) -> None:
    """In two parts, of epochs; the first leaves the source open."""
    job = receiving("parts")
    first = job.replay("log", "--to-epoch", 9, "--keep-open", "--json")
    assert first.returncode == 0, first.stderr
    report = ReplayReport.model_validate_json(first.stdout)
    assert (report.first_epoch, report.last_epoch, report.tasks, report.slices) == (0, 9, 2, SLICES)
    assert not report.ended
    eventually(
        lambda: len(rows_of(place.folder / "parts-rows")) == report.rows_sent,
        lambda: f"{len(rows_of(place.folder / 'parts-rows'))} of {report.rows_sent} rows",
    )
    assert job.process.poll() is None
    done = job.replay("log")
    assert done.returncode == 0, done.stderr
    assert "readings has epochs 0 to 23 of it" in done.stdout
    assert "the source is over" in done.stdout
    assert job.finished() == known
    total = len(rows_of(place.folder / "direct-rows"))
    assert f"{total - report.rows_sent:,} rows" in done.stdout


def rows_of(folder: Path) -> list[Any]:
    """What is in a sink's folder up to now."""
    return [row for path in folder.rglob("*.parquet") for row in pq.read_table(path).to_pylist()]


def wait_for_commit(folder: Path) -> None:
    """As `wait_for_output`, and Spark has to start before."""
    eventually(
        lambda: any((folder / "manifests").glob("*.json")),
        lambda: f"nothing comes in {folder}",
        SPARK_SECONDS,
    )


def test_a_killed_node_and_tasks_that_die_are_made_up_for_and_nothing_counts_twice(
    place: Workplace,
    cluster: Watched,
    receiving: Callable[[str], Receiving],
    known: dict[str, Any],
) -> None:
    """Four of the slices come up on the other node; the replay finds them there. Then the job's own
    ingest log is replayed into another job, by tasks that each die once."""
    job = receiving("killed")
    job.wait_until_it_runs()
    into = ("--into", "killed/readings", "--spark-master", MASTER)
    speed = EPOCH_SECONDS / 0.5
    with place.start("replay", "log", *into, "--speed", speed) as running:
        wait_for_commit(place.folder / "killed-rows")
        number = cluster.job()
        victim = list(cluster.members())[-1]
        cluster.kill(victim)
        cluster.wait_for_plan(number, lambda plan: victim not in nodes_of(plan))
        assert running.poll() is None, "the replay was still under way"
        output, errors = running.communicate(timeout=SPARK_SECONDS)
    assert running.returncode == 0, errors
    assert "the source is over" in output
    assert job.finished() == known
    again = receiving("again")
    again.wait_until_it_runs()
    dead = replayed_by_dying_tasks(place, cluster, "again", "killed-ingest")
    assert dead == {"dead-0", "dead-1"}
    assert again.finished() == known


def replayed_by_dying_tasks(place: Workplace, cluster: Watched, job: str, log: str) -> set[str]:
    """Replay a log into a job; returns what tasks that died have left."""
    target = replay_target(job_named(job, cluster.client.jobs()), "readings")
    request = replay_request(str(place.folder / log), target, master=MASTER)
    file = place.folder / "dying" / "request.json"
    file.parent.mkdir()
    file.write_text(request.model_dump_json())
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.failing_replay", str(file)],
        cwd=ROOT,
        env=place.environment,
        capture_output=True,
        text=True,
        timeout=SPARK_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {path.name for path in file.parent.glob("dead-*")}


def test_what_cannot_be_is_said(
    place: Workplace, cluster: Watched, receiving: Callable[[str], Receiving]
) -> None:
    job = receiving("faults")
    job.wait_until_it_runs()

    def fault(*arguments: object, **changes: str) -> str:
        done = place.run("replay", *arguments, **changes)
        assert done.returncode in (1, 2)
        return done.stderr

    assert "should be JOB/SOURCE" in fault("log", "--into", "faults")
    assert "runs no job 'nobody'; it runs" in fault("log", "--into", "nobody/readings")
    message = fault("log", "--into", "faults/reading")
    assert "has no source 'reading'" in message
    assert "did you mean 'readings'" in message
    assert "nowhere: there is no log" in fault("nowhere", "--into", "faults/readings")
    without = {"JAVA_HOME": str(place.folder), "PATH": os.path.dirname(sys.executable)}
    assert "Java" in fault("log", "--into", "faults/readings", **without)
    assert place.run("stop", cluster.job()).returncode == 0


def test_a_job_that_is_stopped_ends_the_replay(
    place: Workplace, cluster: Watched, receiving: Callable[[str], Receiving]
) -> None:
    job = receiving("stopped")
    job.wait_until_it_runs()
    into = ("--into", "stopped/readings", "--spark-master", MASTER)
    with place.start("replay", "log", *into, "--speed", "100") as running:
        wait_for_commit(place.folder / "stopped-rows")
        assert place.run("stop", cluster.job()).returncode == 0
        _, errors = running.communicate(timeout=SPARK_SECONDS)
    assert running.returncode == 1
    assert "while it was replayed into" in errors
