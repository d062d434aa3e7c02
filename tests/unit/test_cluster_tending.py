"""Dead nodes are replaced, but not for ever."""

import sys
from unittest.mock import MagicMock

import psutil
import pytest

from streammine.model.errors import ClusterError
from streammine.runtime.cluster import DEATHS_PER_NODE, DEATHS_SECONDS, LocalCluster
from streammine.runtime.processes import ChildProcess


class ClusterOfShortLives(LocalCluster):
    """Its nodes say a word and end."""

    def start_node(self):
        self._numbered += 1
        name = f"node-{self._numbered}"
        self.processes[name] = ChildProcess(
            name,
            [sys.executable, "-I", "-S", "-c", "print('no memory for me'); raise SystemExit(3)"],
            self.folder / f"{name}.log",
        )
        return name


@pytest.fixture
def cluster(tmp_path):
    with ClusterOfShortLives(1, "127.0.0.1:1", folder=tmp_path) as made:
        made.start_node()
        yield made


def wait_for_the_end(cluster):
    for process in cluster.processes.values():
        process.wait(20)


def test_a_cluster_without_nodes_of_its_own_loads_nothing_for_them(tmp_path, monkeypatch):
    def fail(*_):
        raise AssertionError("nobody needs it")

    monkeypatch.setattr("streammine.runtime.cluster.preload", fail)
    monkeypatch.setattr(LocalCluster, "require_parts", lambda _: None)
    monkeypatch.setattr("streammine.runtime.cluster.DepartureWatch", MagicMock())
    with LocalCluster(0, "127.0.0.1:1", folder=tmp_path) as cluster:
        cluster.start()
        assert not cluster.processes


def test_a_closed_cluster_keeps_no_process_though_somebody_keeps_it(tmp_path, monkeypatch):
    monkeypatch.setattr("streammine.runtime.cluster.NODE_MODULES", ("json",))
    monkeypatch.setattr(LocalCluster, "require_parts", lambda _: None)
    monkeypatch.setattr("streammine.runtime.cluster.DepartureWatch", MagicMock())
    before = set(psutil.Process().children())
    monkeypatch.setattr(LocalCluster, "start_node", lambda _: None)
    cluster = LocalCluster(1, "127.0.0.1:1", folder=tmp_path)
    cluster.start()
    servers = set(psutil.Process().children()) - before
    assert servers
    cluster.close()
    assert not set(psutil.Process().children()) - before


def test_at_the_start_a_dead_node_is_an_error(cluster):
    wait_for_the_end(cluster)
    with pytest.raises(ClusterError, match="node-1 ended with exit code 3\nno memory for me"):
        cluster.check()


def test_at_the_start_a_killed_node_is_replaced(cluster):
    wait_for_the_end(cluster)
    cluster.tend()
    patient = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"]
    killed = ChildProcess("node-9", patient, cluster.folder / "node-9.log")
    for process in cluster.processes.values():
        process.close()
    cluster.processes = {"node-9": killed}
    cluster.check()
    assert list(cluster.processes) == ["node-9"]
    killed.kill()
    cluster.check()
    assert list(cluster.processes) == ["node-3"]


def test_later_a_new_one_with_a_new_name_takes_its_place(cluster):
    wait_for_the_end(cluster)
    assert cluster.tend() == [
        "no memory for me\nnode-1 ended with exit code 3; node-2 takes its place"
    ]
    assert list(cluster.processes) == ["node-2"]


def test_when_too_many_die_the_last_one_s_words_are_told(cluster):
    for _ in range(DEATHS_PER_NODE):
        wait_for_the_end(cluster)
        assert len(cluster.tend()) == 1
    wait_for_the_end(cluster)
    with pytest.raises(ClusterError, match="no memory for me\nnode-6 ended with exit code 3\n"):
        cluster.tend()


def test_it_is_an_error_as_long_as_nodes_are_lacking(cluster):
    for _ in range(DEATHS_PER_NODE):
        wait_for_the_end(cluster)
        cluster.tend()
    wait_for_the_end(cluster)
    for _ in range(2):
        with pytest.raises(ClusterError, match="node-6 ended with exit code 3\nnodes die faster"):
            cluster.tend()


def test_a_node_that_could_not_be_started_is_started_later(cluster, monkeypatch):
    def fail():
        raise ClusterError("no room")

    wait_for_the_end(cluster)
    with monkeypatch.context() as patch:
        patch.setattr(cluster, "start_node", fail)
        with pytest.raises(ClusterError, match="no room"):
            cluster.tend()
    assert cluster.lacking == 1
    assert cluster.tend() == [
        "no memory for me\nnode-1 ended with exit code 3; node-2 takes its place"
    ]
    assert cluster.lacking == 0


def test_a_cluster_that_stays_up_starts_the_missing_ones_later(cluster, monkeypatch):
    now = 100.0
    monkeypatch.setattr("streammine.runtime.cluster.time.monotonic", lambda: now)
    for _ in range(DEATHS_PER_NODE):
        wait_for_the_end(cluster)
        assert len(cluster.bury_nodes()) == len(cluster.replace_nodes()) == 1
    wait_for_the_end(cluster)
    assert len(cluster.bury_nodes()) == 1
    assert (cluster.replace_nodes(), cluster.lacking) == ([], 1)
    now += DEATHS_SECONDS + 1
    assert (cluster.replace_nodes(), cluster.lacking) == (["node-7"], 0)
