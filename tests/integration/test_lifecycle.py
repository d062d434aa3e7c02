"""From the first process to the last: what runs, how it is ended, and that nothing is left."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from streammine.runtime.zookeeper import ZooKeeperServer
from tests.integration.workplace import (
    SLOW,
    Workplace,
    eventually,
    wait_for_output,
)

pytestmark = pytest.mark.slow

SUMMARY_FIELDS = {
    "events_in",
    "events_out",
    "events_dead",
    "seconds",
    "wall_seconds",
    "epochs",
    "output_digest",
    "epochs_lost",
    "lost",
}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workplace]:
    with Workplace(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    """A workplace where a cluster is up."""
    with Workplace(tmp_path_factory.mktemp("standing")) as made:
        done = made.run("up", "--threads", "1")
        assert done.returncode == 0, done.stderr
        assert "streammine submit TOPOLOGY.yaml" in done.stdout
        yield made


@pytest.fixture(scope="module")
def digest(standing: Workplace) -> str:
    """What the word count comes to."""
    found = standing.result("submit", standing.topology(file="known", sinks__result__path="known"))
    return str(found["output_digest"])


def temporaries(folder: Path) -> list[Path]:
    return [path for path in folder.rglob(".*") if path.suffix == ".tmp"]


def test_a_run_ends_with_one_line_of_json_and_leaves_nothing(place: Workplace) -> None:
    done = place.run("run", place.topology(), "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert len(lines) == 1
    summary = json.loads(lines[0])
    assert summary.keys() == SUMMARY_FIELDS
    assert (summary["events_in"], summary["epochs"], summary["events_dead"]) == (5000, 10, 0)
    assert 0 < summary["seconds"] < summary["wall_seconds"]
    assert re.fullmatch("[0-9a-f]{64}", summary["output_digest"])
    assert not place.left_over(), "gone when the command ends, not some time later"


@pytest.mark.parametrize(
    ("number", "to_group", "code"),
    [
        (signal.SIGINT, False, 130),
        (signal.SIGINT, True, 130),
        (signal.SIGTERM, False, 143),
        (signal.SIGKILL, False, -9),
    ],
    ids=["ctrl-c", "ctrl-c to the group", "terminate", "kill"],
)
def test_a_run_that_is_ended_leaves_nothing(
    place: Workplace, number: signal.Signals, to_group: bool, code: int
) -> None:
    with place.start("run", place.topology(**SLOW)) as process:
        wait_for_output(place.folder / "out")
        assert len(place.processes("ZooKeeperServerMain")) == 1
        assert len(place.processes("node", "--name")) == 2
        (os.killpg if to_group else os.kill)(process.pid, number)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == code, errors
    if number != signal.SIGKILL:
        assert errors.splitlines()[-1] == ("interrupted" if code == 130 else "terminated")
        assert "Traceback" not in errors
        assert not place.left_over()
        assert not temporaries(place.folder)
    place.require_nothing_left()


def test_ctrl_c_while_the_cluster_starts_leaves_nothing(place: Workplace) -> None:
    with place.start("run", place.topology()) as process:
        eventually(lambda: bool(place.processes("node", "--name")), lambda: "no node is started")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert not place.left_over()


ENDING = {"sources.lines.rows": 20_000, "sources.lines.rate": "4000/s"}
"""Ends by itself after some seconds."""

UNHURRIED = {"sources.lines.rows": 20_000, "sources.lines.rate": "500/s"}
"""The same rows, with time for several commands in between on a busy machine."""


def test_a_run_goes_on_when_all_its_nodes_and_zookeeper_are_killed(place: Workplace) -> None:
    known = place.result("run", place.topology(file="known", **ENDING, sinks__result__path="known"))
    with place.start("run", place.topology(**ENDING), "--json") as process:
        wait_for_output(place.folder / "out")
        for victim in place.processes("node", "--name") + place.processes("ZooKeeperServerMain"):
            victim.kill()
        output, errors = process.communicate(timeout=90)
    assert process.returncode == 0, errors
    assert "node-2 was ended by SIGKILL (by someone, or because memory ran out); node-" in errors
    assert json.loads(output)["output_digest"] == known["output_digest"]
    assert not place.left_over()


def test_an_interrupted_run_is_kept_and_goes_on_with_another_number_of_nodes(
    place: Workplace,
) -> None:
    known = place.result("run", place.topology(file="known", **ENDING, sinks__result__path="known"))
    runs = place.folder / ".streammine" / "runs"
    assert not list(runs.iterdir()), "the job has finished"
    path = place.topology(**ENDING)
    with place.start("run", path) as process:
        wait_for_output(place.folder / "out")
        process.kill()
        process.communicate(timeout=20)
    place.require_nothing_left()
    assert [each.name for each in runs.iterdir()] == ["words-1"]
    changed = place.topology(file="changed", **ENDING, epoch__count=400)
    refused = place.run("run", changed, "--resume", "words-1")
    assert refused.returncode == 1
    assert "the topology is not that of run words-1: epoch.count changed" in refused.stderr
    resumed = place.result("run", path, "--resume", "words-1", "--nodes", "1")
    assert resumed["output_digest"] == known["output_digest"]
    assert not list(runs.iterdir())


def test_two_jobs_at_a_time_and_one_after_another_come_to_the_same(
    standing: Workplace, digest: str
) -> None:
    found: dict[str, Any] = {}

    def submit(name: str) -> None:
        path = standing.topology(file=name, sinks__result__path=name)
        found[name] = standing.result("submit", path)

    threads = [threading.Thread(target=submit, args=(name,)) for name in ("first", "second")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    submit("first")
    assert {name: each["output_digest"] for name, each in found.items()} == {
        "first": digest,
        "second": digest,
    }
    assert found["first"].keys() == SUMMARY_FIELDS


def test_a_job_that_is_left_to_the_cluster_can_be_seen_and_stopped(standing: Workplace) -> None:
    path = standing.topology(file="left", sinks__result__path="left", **SLOW)
    left = standing.result("submit", path, "--detach")
    number = left["job"]
    wait_for_output(standing.folder / "left")
    resumed = standing.run("submit", path, "--resume", left["run"])
    assert f"is going on as job {number}" in resumed.stderr
    status = standing.result("status")
    assert [node["name"] for node in status["nodes"]] == ["node-1", "node-2"]
    assert status["manager"] in ("node-1", "node-2")
    assert all(node["memory_bytes"] > 1e6 for node in status["nodes"])
    job = next(each for each in status["jobs"] if each["job"] == number)
    assert (job["name"], job["state"]) == ("words", "running")
    operators = {each["name"]: each for each in job["operators"]}
    assert operators["lines"]["rows_in"] > 0
    assert operators["counts"]["places"] == "node-1: 1, node-2: 1"

    shown = standing.run("status", number)
    assert f"job {number} words: running" in shown.stdout
    assert re.search(r"^ *counts +\d+ +[\d,]+ ", shown.stdout, re.MULTILINE), shown.stdout

    assert standing.run("stop", number).stdout == f"job {number} is stopped\n"
    again = standing.run("stop", number)
    assert (again.returncode, again.stderr) == (
        1,
        f"streammine: job {number} is over already: it stopped\n",
    )
    assert "stopped by its user" in standing.run("status", number).stdout
    assert "knows no job 99" in standing.run("status", "99").stderr
    assert "there is no job 99" in standing.run("stop", "99").stderr


def test_ctrl_c_while_a_submitted_job_runs_stops_it(standing: Workplace, digest: str) -> None:
    path = standing.topology(file="cut", sinks__result__path="cut", **SLOW)
    with standing.start("submit", path) as process:
        wait_for_output(standing.folder / "cut")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert re.search(r"^words: job \d+ is stopped\n\ninterrupted$", errors, re.MULTILINE), errors
    states = [each["state"] for each in standing.result("status")["jobs"]]
    assert "running" not in states
    # The cluster does as well as before.
    after = standing.result("submit", standing.topology(file="b", sinks__result__path="b"))
    assert after["output_digest"] == digest


def test_a_console_sink_shows_its_rows_while_the_job_runs(standing: Workplace) -> None:
    path = standing.topology(file="shown", sinks__result={"input": "counts", "format": "console"})
    done = standing.run("submit", path, "--quiet")
    assert done.returncode == 0, done.stderr
    epochs = re.findall(r"^result, epoch (\d+): [\d,]+ rows$", done.stdout, re.MULTILINE)
    assert epochs == [str(epoch) for epoch in range(10)]
    assert "5,000 events in" in done.stdout
    refused = standing.run("submit", path, "--detach")
    assert refused.returncode == 1
    assert "sink 'result' writes to the console, where nobody reads" in refused.stderr


def test_a_second_cluster_of_the_same_name_is_refused(standing: Workplace) -> None:
    done = standing.run("up")
    assert done.returncode == 1
    assert "a cluster is up already" in done.stderr
    assert "streammine down" in done.stderr


def test_a_folder_with_something_else_in_it_is_refused(place: Workplace) -> None:
    (place.folder / "mine.txt").write_text("dear diary")
    done = place.run("up", "--folder", place.folder)
    assert done.returncode == 1
    assert "is not empty, and what is in it belongs to no cluster" in done.stderr
    assert (place.folder / "mine.txt").exists()


def test_a_killed_node_is_replaced_and_its_job_goes_on(standing: Workplace) -> None:
    known = standing.topology(file="whole", sinks__result__path="whole", **ENDING)
    digest = standing.result("submit", known)["output_digest"]
    path = standing.topology(file="torn", sinks__result__path="torn", **ENDING)
    with standing.start("submit", path, "--json") as process:
        wait_for_output(standing.folder / "torn")
        standing.processes("node", "--name node-1")[0].kill()
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert json.loads(output)["output_digest"] == digest
    eventually(
        lambda: (
            {"node-2", "node-3"} <= {node["name"] for node in standing.result("status")["nodes"]}
        ),
        lambda: standing.run("status").stdout,
    )
    assert "node-1 was ended by SIGKILL" in standing.run("status").stdout


def test_commands_on_running_jobs_say_what_would_be_right(standing: Workplace) -> None:
    def refusal(*arguments: object) -> str:
        done = standing.run(*arguments)
        assert done.returncode == 1, done.stdout
        return done.stderr

    assert "those that run are none" in refusal("savepoint")
    path = standing.topology(file="unsafe", sinks__result__path="unsafe", snapshot="none", **SLOW)
    number = standing.result("submit", path, "--detach")["job"]
    wait_for_output(standing.folder / "unsafe")
    assert "makes no snapshots (snapshot: none)" in refusal("savepoint")
    nodes = sorted(node["name"] for node in standing.result("status")["nodes"])
    assert "counts has partitions counts/0 to counts/1" in refusal(
        *("migrate", "counts/7", "--to", nodes[0])
    )
    assert "did you mean 'counts'?" in refusal("migrate", "count/0", "--to", nodes[0])
    assert "as counts/0" in refusal("migrate", "counts", "--to", nodes[0])
    assert f"Nodes: {', '.join(nodes)}" in refusal("migrate", "counts/0", "--to", "nowhere")
    assert "there is no node 'nowhere'" in refusal("node", "drain", "nowhere")
    assert "knows no job 99" in refusal("savepoint", "99")
    assert standing.run("stop", number).returncode == 0


def test_the_run_of_a_job_that_is_left_to_the_cluster_goes_when_it_has_finished(
    standing: Workplace,
) -> None:
    path = standing.topology(file="detached", sinks__result__path="detached", **ENDING)
    left = standing.result("submit", path, "--detach")
    run = standing.folder / ".streammine" / "runs" / left["run"]
    assert run.is_dir()
    eventually(lambda: not run.exists(), lambda: str(standing.result("status")))
    jobs = {job["job"]: job["state"] for job in standing.result("status")["jobs"]}
    assert jobs[left["job"]] == "finished"


def test_a_savepointed_job_goes_on_where_it_was(standing: Workplace) -> None:
    known = standing.topology(file="straight", sinks__result__path="straight", **ENDING)
    digest = standing.result("submit", known)["output_digest"]
    path = standing.topology(file="saved", sinks__result__path="saved", **UNHURRIED)
    detached = standing.result("submit", path, "--detach")
    wait_for_output(standing.folder / "saved")
    done = standing.run("savepoint", detached["job"])
    assert (done.returncode, done.stderr) == (0, "")
    assert f"job {detached['job']} is saved and stopped" in done.stdout
    resumed = standing.result("submit", path, "--resume", detached["run"])
    assert resumed["output_digest"] == digest


def move_away(standing: Workplace, slice_name: str, nodes: list[str], mode: str) -> None:
    """Move a slice to the first node that it is not on already."""
    for node in nodes:
        done = standing.run("migrate", slice_name, "--to", node, "--mode", mode)
        if done.returncode == 0:
            return
        assert f"{slice_name} is on {node} already" in done.stderr, (mode, done.stderr)
    raise AssertionError(f"{slice_name} can't be on all of {nodes}")


def test_a_slice_moves_and_a_node_is_drained_while_the_job_runs(standing: Workplace) -> None:
    known = standing.topology(file="still", sinks__result__path="still", **ENDING)
    digest = standing.result("submit", known)["output_digest"]
    path = standing.topology(file="moved", sinks__result__path="moved", **UNHURRIED)
    with standing.start("submit", path, "--json") as process:
        wait_for_output(standing.folder / "moved")
        nodes = sorted(node["name"] for node in standing.result("status")["nodes"])
        for mode in ("live", "state-transfer"):
            move_away(standing, "counts/0", nodes, mode)
        done = standing.run("node", "drain", nodes[0])
        assert (done.returncode, done.stdout) == (0, f"{nodes[0]} is drained\n"), done.stderr
        output, errors = process.communicate(timeout=90)
    assert process.returncode == 0, errors
    assert json.loads(output)["output_digest"] == digest


def test_down_ends_everything(standing: Workplace) -> None:
    """Last of those that share the cluster: it takes the cluster down under a running job."""
    path = standing.topology(file="last", sinks__result__path="last", **SLOW)
    with standing.start("submit", path) as process:
        wait_for_output(standing.folder / "last")
        done = standing.run("down")
        _, errors = process.communicate(timeout=20)
    assert (done.returncode, done.stderr) == (0, "")
    assert process.returncode == 1
    assert "ended while the job ran" in errors
    assert not standing.left_over()
    for command in ("down", "status", "submit"):
        arguments = [path] if command == "submit" else []
        refused = standing.run(command, *arguments)
        assert refused.returncode == 1
        assert "no cluster is up in" in refused.stderr
        assert "streammine up" in refused.stderr


def test_a_killed_supervisor_takes_its_cluster_with_it(place: Workplace) -> None:
    assert place.run("up", "--name", "mine", "--nodes", "1").returncode == 0
    supervisor = place.processes("supervise")
    assert len(supervisor) == 1
    supervisor[0].kill()
    place.require_nothing_left()
    assert "no cluster is up" in place.run("status", "--cluster", "mine").stderr


def test_over_tcp_and_on_a_given_ensemble_the_output_is_the_same(
    place: Workplace, tmp_path: Path
) -> None:
    path = place.topology()
    with ZooKeeperServer(tmp_path / "zookeeper") as server:
        alone = place.result("run", path, "--zookeeper", server.hosts)
        assert not place.left_over()
        folder = place.folder / "cluster"
        up = place.run(
            *("up", "--zookeeper", server.hosts, "--listen", "127.0.0.1", "--folder", folder)
        )
        assert up.returncode == 0, up.stderr
        assert folder.stat().st_mode & 0o777 == 0o700
        listening = [
            connection.laddr
            for node in place.processes("node", "--name")
            for connection in node.net_connections("tcp")
            if connection.status == "LISTEN"
        ]
        assert len(listening) == 4, "two nodes with two sockets each"
        assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}
        over_tcp = place.result("submit", path, "--folder", folder)
        down = place.run("down", "--folder", folder)
        assert down.returncode == 0, down.stderr
        assert not place.left_over()
        assert not folder.exists()
        client = KazooClient(server.hosts, timeout=5)
        client.start(timeout=5)
        assert client.get_children("/streammine") == [], "nothing is left in the ensemble either"
        client.stop()
        client.close()
    assert over_tcp["output_digest"] == alone["output_digest"]


def test_the_live_view_leaves_a_clean_screen(place: Workplace) -> None:
    changes: dict[str, Any] = {"sources.lines.rows": 12_000, "sources.lines.rate": "6000/s"}
    path = place.topology(**changes)
    command = shlex.join([sys.executable, "-m", "streammine.cli.main", "run", str(path)])
    done = subprocess.run(
        ["script", "-qec", command, "/dev/null"],
        cwd=place.folder,
        env={**place.environment, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    screen = done.stdout
    for drawn in ("starting ZooKeeper and 2 nodes", "of the input", "│ counts", "│ node-2"):
        assert drawn in screen
    # What comes last is the summary; the view was wiped out and the cursor is shown again.
    hidden, shown = screen.rfind("\x1b[?25l"), screen.rfind("\x1b[?25h")
    assert 0 <= hidden < shown
    after = screen[shown:]
    assert "\x1b[2K" in after, "the lines of the view are erased"
    assert "│" not in after
    assert "12,000 events in" in after
    assert not place.left_over()
