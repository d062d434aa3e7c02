"""The real ZooKeeper server, Java, and child processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from kazoo.client import KazooClient

from streammine.model.errors import ClusterError
from streammine.runtime import java, zookeeper
from streammine.runtime.processes import ChildProcess, close_all
from streammine.runtime.zookeeper import ZooKeeperServer, find_jars

SLEEPER = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
STUBBORN = [
    sys.executable,
    "-S",
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    " print('ready', flush=True); time.sleep(600)",
]


def ends(pid: int, timeout_seconds: float = 10.0) -> bool:
    """Whether the process is gone within the time; it need not be our child."""
    try:
        process = psutil.Process(pid)
        descriptor = os.pidfd_open(pid)
    except (psutil.NoSuchProcess, ProcessLookupError):
        return True
    try:
        deadline = time.monotonic() + timeout_seconds
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
    except psutil.NoSuchProcess:
        return True
    finally:
        os.close(descriptor)
    return True


def test_the_server_serves_as_soon_as_it_is_started_and_leaves_nothing(tmp_path: Path) -> None:
    loaded = "pyspark" in sys.modules
    with ZooKeeperServer(tmp_path / "new") as server:
        pid = server.pid
        client = KazooClient(server.hosts, timeout=2)
        client.start(timeout=2)
        client.create("/a", b"content")
        client.stop()
        client.close()
        listening = {
            connection.laddr.ip
            for connection in psutil.Process(pid).net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
        }
        assert {address.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}
    assert not psutil.pid_exists(pid)
    assert not server.running
    assert ("pyspark" in sys.modules) == loaded
    assert {path.name for path in tmp_path.iterdir()} == {"new"}


def test_a_server_started_again_in_its_folder_has_its_content(tmp_path: Path) -> None:
    server = ZooKeeperServer(tmp_path)
    for _ in range(2):
        server.start()
        client = KazooClient(server.hosts, timeout=2)
        client.start(timeout=5)
        client.ensure_path("/kept")
        existed = client.exists("/kept/before") is not None
        client.ensure_path("/kept/before")
        client.stop()
        client.close()
        server.close()
    assert existed


def test_a_taken_port_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = zookeeper._free_port(zookeeper.LOOPBACK)
        ports = iter([taken.getsockname()[1], free])
        monkeypatch.setattr(zookeeper, "_free_port", lambda host: next(ports))
        with ZooKeeperServer(tmp_path) as server:
            assert server.port == free


def test_one_that_is_killed_while_it_starts_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = zookeeper._free_port(zookeeper.LOOPBACK)
    started: list[int] = []
    wait = ZooKeeperServer._wait_until_ready

    def kill_the_first(server: ZooKeeperServer, process: ChildProcess, *rest: Any) -> bool:
        started.append(process.pid)
        if len(started) == 1:
            process.kill()
        return wait(server, process, *rest)

    monkeypatch.setattr(ZooKeeperServer, "_wait_until_ready", kill_the_first)
    with ZooKeeperServer(tmp_path, port) as server:
        assert [server.pid] == started[1:]


def test_a_failure_shows_the_end_of_the_log(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = ZooKeeperServer(tmp_path, taken.getsockname()[1])
        with pytest.raises(ClusterError, match=r"BindException|already in use"):
            server.start()
    assert not server.running


def test_a_jar_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(jar.is_file() for jar in find_jars())
    monkeypatch.setattr(zookeeper, "_JARS", ("nothing-*.jar",))
    with pytest.raises(ClusterError, match=r"nothing-\*\.jar.*--zookeeper"):
        find_jars()


def fake_java(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return program


def test_java_is_found_in_java_home_before_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = fake_java(tmp_path / "old", "1.8.0_402")
    new = fake_java(tmp_path / "new", "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "new"))
    monkeypatch.setenv("PATH", f"{old.parent}{os.pathsep}/bin")
    assert java.find_java() == new
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", f"{new.parent}{os.pathsep}/bin")
    assert java.find_java() == new
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError, match=r"Java 17 or newer; JAVA_HOME=.* has version 8"):
        java.find_java()
    monkeypatch.delenv("JAVA_HOME")
    with pytest.raises(ClusterError, match=r"no java in JAVA_HOME or on PATH.*apt-get install"):
        java.find_java()


def test_a_child_writes_to_its_file_and_its_exit_code_is_known(tmp_path: Path) -> None:
    output = tmp_path / "out"
    with ChildProcess("c", ["sh", "-c", "echo one; echo two >&2; exit 7"], output) as child:
        assert child.wait(10) == 7
        assert child.exit_code == 7
        assert child.output_tail(1) == "two"
    assert output.read_text() == "one\ntwo\n"


def test_a_child_can_be_read_through_a_pipe() -> None:
    with ChildProcess("c", ["sh", "-c", "echo $WORD"], "pipe", environment={"WORD": "hi"}) as child:
        assert child.pipe.read() == b"hi\n"


def test_a_program_that_does_not_exist_says_so(tmp_path: Path) -> None:
    with ChildProcess("c", ["/no/such/program"], tmp_path / "out") as child:
        assert child.wait(10) == 1
        assert "cannot start /no/such/program" in child.output_tail()


def test_a_child_that_ignores_politeness_is_killed() -> None:
    child = ChildProcess("c", STUBBORN, "pipe")
    assert child.pipe.readline() == b"ready\n"
    child.close(grace_seconds=0.1)
    child.close()
    assert child.exit_code == -signal.SIGKILL


def test_several_children_share_one_grace(tmp_path: Path) -> None:
    children = [ChildProcess(f"c{n}", SLEEPER, tmp_path / f"{n}") for n in range(3)]
    close_all(children)
    assert [child.exit_code for child in children] == [-signal.SIGTERM] * 3


def test_what_a_child_started_itself_ends_with_it() -> None:
    script = "sleep 600 & echo $!; wait"
    with ChildProcess("c", ["sh", "-c", script], "pipe") as child:
        grandchild = int(child.pipe.readline())
        assert psutil.pid_exists(grandchild)
    assert ends(grandchild)


def test_a_child_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    children: list[ChildProcess] = []
    starter = threading.Thread(
        target=lambda: children.append(ChildProcess("c", SLEEPER, tmp_path / "out"))
    )
    starter.start()
    starter.join()
    with children[0] as child:
        assert child.wait(0.3) is None


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_child_is_left_when_its_parent_is_ended(number: int) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from streammine.runtime.processes import ChildProcess\n"
        f"child = ChildProcess('c', {SLEEPER!r}, Path('/dev/null'))\n"
        "print(child.pid, flush=True)\n"
        "try:\n    child.wait()\nexcept KeyboardInterrupt:\n    sys.exit(3)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert psutil.pid_exists(pid)
        parent.send_signal(number)
    assert ends(pid)
