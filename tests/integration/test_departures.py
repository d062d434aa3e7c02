"""Members whose processes end are gone at once, whatever their sessions' time."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from streammine.model.coordination import Member
from streammine.runtime.coordinator import Coordinator
from streammine.runtime.departures import DepartureWatch
from streammine.runtime.processes import ChildProcess
from streammine.runtime.zookeeper import ZooKeeperServer
from tests.integration.workplace import eventually

SESSION_SECONDS = 60.0
"""No session of these tests runs out."""


def child(folder: Path, name: str) -> ChildProcess:
    """A process that ends when the pipe of its name is opened for writing."""
    os.mkfifo(folder / name)
    wait = f"open({str(folder / name)!r}).read()"
    return ChildProcess(name, [sys.executable, "-I", "-S", "-c", wait], folder / f"{name}.log")


def test_the_membership_of_a_process_ends_with_it(tmp_path: Path) -> None:
    threads = set(threading.enumerate())
    host = os.uname().nodename
    with ZooKeeperServer(tmp_path / "zookeeper") as server:

        def session() -> Coordinator:
            return Coordinator(server.hosts, "c", None, lambda event: None, SESSION_SECONDS)

        sessions = {name: session() for name in ("early", "killed", "ended", "stays")}
        watch = DepartureWatch(session())
        processes = {name: child(tmp_path, name) for name in sessions}
        try:
            for name, service in sessions.items():
                service.start(watch=False)
                service.join(Member(name, "d", "c", host, processes[name].pid))

            def members() -> set[str]:
                return {each.name for each in sessions["stays"].members()}

            # it has ended, and is buried, before anyone looks
            watch.watch(processes["early"])
            processes["early"].close()
            watch.start()
            for name in ("killed", "ended", "stays"):
                watch.watch(processes[name])
            eventually(lambda: members() == {"killed", "ended", "stays"}, lambda: str(members()))
            os.kill(processes["killed"].pid, 9)
            (tmp_path / "ended").write_text("")
            eventually(lambda: members() == {"stays"}, lambda: str(members()))
        finally:
            watch.close()
            watch.close()
            for process in processes.values():
                process.close()
            for service in sessions.values():
                service.close()
    assert set(threading.enumerate()) <= threads
