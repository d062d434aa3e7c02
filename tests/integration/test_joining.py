"""Nodes started by hand, as on several machines: they join, hear what is wrong, end with the cluster."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streammine.runtime.keys import ClusterKeys
from streammine.runtime.zookeeper import ZooKeeperServer
from tests.integration.disturbed import load
from tests.integration.workplace import Workplace, eventually

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    with Workplace(tmp_path_factory.mktemp("joining")) as made:
        yield made
        assert not made.left_over()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


class Elsewhere:
    """What `up` said is to be done on another machine, which is this one here."""

    def __init__(self, place: Workplace, told: str) -> None:
        self.place = place
        (self.key,) = re.findall(r"copy (\S+) to other machines", told)
        (line,) = re.findall(r"streammine (node run .*)", told)
        self.words = line.split()

    def start(self, name: str, **changes: str) -> subprocess.Popen[str]:
        said = {
            "NAME": name,
            "cluster.key": self.key,
            "ADDRESS": "127.0.0.1",
            "SCRATCH": str(self.place.folder / name),
        } | changes
        return self.place.start(*(said.get(word, word) for word in self.words))

    def refused(self, name: str, **changes: str) -> str:
        with self.start(name, **changes) as process:
            output, errors = process.communicate(timeout=30)
        assert process.returncode == 1, errors
        assert output == ""
        assert "Traceback" not in errors
        return errors


@pytest.fixture(scope="module")
def elsewhere(place: Workplace, server: ZooKeeperServer) -> Iterator[Elsewhere]:
    folder = place.folder / "cluster"
    up = place.run("up", "--nodes", "0", "--zookeeper", server.hosts, "--folder", folder)
    assert up.returncode == 0, up.stderr
    yield Elsewhere(place, up.stdout)
    place.run("down", "--folder", folder)


def test_without_nodes_of_its_own_a_cluster_needs_a_zookeeper_for_all(place: Workplace) -> None:
    refused = place.run("up", "--nodes", "0")
    assert refused.returncode == 1
    assert "give --zookeeper HOST:PORT" in refused.stderr


def test_mistakes_are_named(elsewhere: Elsewhere, tmp_path: Path) -> None:
    wrong = elsewhere.refused("wrong", ADDRESS="203.0.113.1")
    assert "cannot listen on tcp://203.0.113.1:*: that is no address of this machine" in wrong
    foreign = tmp_path / "foreign.key"
    ClusterKeys.create().save(foreign)
    assert "belong to another secret" in elsewhere.refused("wrong", **{"cluster.key": str(foreign)})


def test_replicas_without_a_node_are_told_of_and_come_when_nodes_join(
    place: Workplace, elsewhere: Elsewhere
) -> None:
    cluster = place.folder / "cluster"

    def told(number: int) -> dict[str, Any]:
        jobs = place.result("status", "--folder", cluster, number)["jobs"]
        return next(dict(each) for each in jobs if each["job"] == number)

    def replicas(number: int) -> set[int]:
        return {len(each["replicas"]) for each in told(number)["slices"].values()}

    def at_most_one(text: str) -> bool:
        return "2 replicas of each slice wanted, 1 placed: only 1 node is there for them" in text

    with elsewhere.start("alone") as first:
        eventually(lambda: "alone" in shown(place, cluster), lambda: shown(place, cluster))
        topology = load(place, "paired", replicas=2, sources__readings__rate="200/s")
        done = place.run("submit", topology, "--folder", cluster, "--detach", "--json")
        assert done.returncode == 0, done.stderr
        assert at_most_one(done.stderr)
        number = json.loads(done.stdout.splitlines()[-1])["job"]
        eventually(lambda: replicas(number) == {1}, lambda: str(told(number)))
        assert [each["placed"] for each in told(number)["lacking"]] == [1]
        assert at_most_one(shown(place, cluster, number))
        with elsewhere.start("paired") as second:
            eventually(lambda: replicas(number) == {2}, lambda: str(told(number)))
            assert told(number)["lacking"] == []
            assert place.run("stop", number, "--folder", cluster).returncode == 0
            for process in (second, first):
                process.terminate()
                _, errors = process.communicate(timeout=30)
                assert process.returncode == 0, errors
    assert at_most_one(errors)
    assert "all replicas have a node again" in errors


def test_nodes_join_by_what_up_says_die_come_back_and_end_with_the_cluster(
    place: Workplace, elsewhere: Elsewhere
) -> None:
    cluster = place.folder / "cluster"
    first = elsewhere.start("one")
    eventually(lambda: nodes(place, cluster) == {"one"}, lambda: str(nodes(place, cluster)))
    second = elsewhere.start("two")
    eventually(lambda: nodes(place, cluster) == {"one", "two"}, lambda: "two does not join")
    assert "another node uses the folder" in elsewhere.refused("two")
    second.kill()
    second.communicate()
    # at once, and where the one before it left its files
    with elsewhere.start("two") as again:
        done = place.run("submit", place.topology(), "--folder", cluster, "--json")
        assert done.returncode == 0, done.stderr
        assert place.run("down", "--folder", cluster).returncode == 0
        for process in (first, again):
            output, errors = process.communicate(timeout=30)
            assert process.returncode == 0, errors
            assert re.fullmatch(r"node \w+ takes part in .*\ncluster \S+ is over\n", output)
            assert "Traceback" not in errors


def shown(place: Workplace, cluster: Path, *job: int) -> str:
    return place.run("status", "--folder", cluster, *job).stdout


def nodes(place: Workplace, cluster: Path) -> set[str]:
    return set(re.findall(r"^  (one|two) ", shown(place, cluster), re.MULTILINE))
