"""Nodes on hosts of their own: whatever their network does, the output is that of an undisturbed run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from chaos_run.machines import ENSEMBLE, Machines
from chaos_run.network import CUT, Cable, Network, obstacle

from streammine.runtime.processes import ChildProcess
from tests.integration.disturbed import LOAD, figures
from tests.integration.workplace import ROOT, eventually

OBSTACLE = obstacle()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(OBSTACLE is not None, reason=OBSTACLE or ""),
]

NODES = ("one", "two", "three")
LONGEST_SECONDS = 60.0


class Job:
    """The job at work, once it has committed something."""

    def __init__(self, machines: Machines, name: str, **changes: Any) -> None:
        tree = json.loads(json.dumps(LOAD))
        tree["nodes"] = len(NODES)
        tree["sources"]["readings"] |= {"rows": 12_000, "rate": "4000/s"} | changes
        for sink, settings in tree["sinks"].items():
            settings["path"] = f"{name}-{sink}"
        topology = machines.folder / f"{name}.yaml"
        topology.write_text(yaml.safe_dump(tree))
        self.output = machines.folder / f"{name}-result"
        self.process: ChildProcess = machines.submit(str(topology), "--json", log=name)

    def at_work(self) -> Job:
        eventually(
            lambda: any(self.output.glob("manifests/*.json")),
            lambda: f"nothing comes: {self.process.output_tail()}",
        )
        return self

    def finished(self) -> dict[str, Any]:
        with self.process:
            code = self.process.wait(LONGEST_SECONDS)
            tail = self.process.output_tail()
            assert code == 0, tail
        return figures(json.loads(tail.splitlines()[-1]))


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp") as folder:
        paths = os.pathsep.join([str(ROOT), str(ROOT / "scripts")])
        environment = {**os.environ, "PYTHONPATH": paths, "HOME": folder, "TMPDIR": folder}
        environment.pop("XDG_RUNTIME_DIR", None)
        with Machines(Path(folder), NODES, environment) as made:
            yield made
        # what is left are the logs, the topologies and the output
        assert not [each for each in Path(folder).iterdir() if each.name in (*NODES, "cluster")]


@pytest.fixture(scope="module")
def known(machines: Machines) -> dict[str, Any]:
    """What the job comes to on a sound network."""
    return Job(machines, "known", rate=None).finished()


@pytest.fixture
def network(machines: Machines) -> Iterator[Network]:
    yield machines.network
    machines.network.heal()


def test_a_slow_and_lossy_network(
    machines: Machines, network: Network, known: dict[str, Any]
) -> None:
    network.everywhere(Cable(delay_seconds=0.01, jitter_seconds=0.02, loss=0.03))
    dropped = sum(network.dropped.values())
    assert Job(machines, "lossy").finished() == known
    assert sum(network.dropped.values()) > dropped


def test_a_node_that_is_cut_off_past_its_session_is_replaced_and_joins_again(
    machines: Machines, network: Network, known: dict[str, Any]
) -> None:
    job = Job(machines, "cut", rate="1500/s").at_work()
    network.split(["two"])
    eventually(lambda: "two" not in machines.members(), lambda: "two is still a member")
    network.heal()
    eventually(lambda: "two" in machines.members(), lambda: "two does not come back")
    assert job.finished() == known


def test_two_nodes_of_which_one_does_not_hear_the_other(
    machines: Machines, network: Network, known: dict[str, Any]
) -> None:
    job = Job(machines, "deaf").at_work()
    network.lay(CUT, ["one"], ["three"])
    time.sleep(2.0)
    network.heal()
    assert job.finished() == known


def test_a_manager_that_only_zookeeper_does_not_hear(
    machines: Machines, network: Network, known: dict[str, Any]
) -> None:
    job = Job(machines, "deposed", rate="2000/s").at_work()
    manager = machines.members()[0]
    network.lay(CUT, [manager], [ENSEMBLE])
    eventually(lambda: machines.members()[:1] not in ([], [manager]), lambda: "it manages on")
    network.heal()
    assert job.finished() == known


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["kill", "terminate"])
def test_nothing_is_left_of_hosts_whose_owner_ends(number: signal.Signals) -> None:
    duration = f"1000.{number}{os.getpid()}"
    script = (
        "import subprocess, sys, time\n"
        "from chaos_run.network import Network\n"
        "network = Network(['a', 'b'])\n"
        "subprocess.Popen(network.on('a', ['sleep', sys.argv[1]]), start_new_session=True)\n"
        "time.sleep(1000)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, duration],
        env={**os.environ, "PYTHONPATH": str(ROOT / "scripts")},
    ) as owner:
        try:
            eventually(lambda: len(_with(duration)) == 1, lambda: "no process on the host")
            owner.send_signal(number)
            eventually(lambda: not _with(duration), lambda: f"left: {_with(duration)}")
        finally:
            owner.kill()


def _with(word: str) -> list[str]:
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().decode().split("\0")
        except OSError:
            continue
        if words[:1] == ["sleep"] and word in words:
            found.append(place.parent.name)
    return found
