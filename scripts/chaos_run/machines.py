"""A cluster of several machines: every node, ZooKeeper and the user on a host of its own, over TCP.

It is started as a person does it: `up --nodes 0` on one machine, `node run` on the others. Whatever dies is
started again, as a service manager would.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from chaos_run.ensemble import PORT, READY
from chaos_run.network import Network
from streammine.runtime.cluster import KEY_FILE
from streammine.runtime.processes import ChildProcess, close_all
from streammine.runtime.standing import STATE_FILE

DESK = "desk"
"""The host of who uses the cluster."""

ENSEMBLE = "zookeeper"
LOOKOUT = "lookout"
UP_SECONDS = 120.0
_LOOK_SECONDS = 0.05
_COMMAND = (sys.executable, "-m", "streammine.cli.main")


class MachinesError(Exception):
    """The cluster did not come up."""


class Machines:
    """`names` of the nodes' hosts; `folder` for files that all of them see, with a short path."""

    def __init__(
        self, folder: Path, names: Sequence[str], environment: Mapping[str, str], seed: int = 0
    ) -> None:
        self.folder = folder
        self.names = tuple(names)
        self.cluster = folder / "cluster"
        self._environment = dict(environment)
        self.processes: dict[str, ChildProcess] = {}
        self.network = Network((DESK, ENSEMBLE, *names), seed)
        self._told: dict[str, str] = {}

    def start(self) -> None:
        """Returns when all nodes have joined. Raises MachinesError."""
        server = self.network.address(ENSEMBLE)
        ensemble = (sys.executable, "-m", "chaos_run.ensemble", server)
        self._launch(ENSEMBLE, [*ensemble, str(self.folder / "zookeeper")])
        deadline = time.monotonic() + UP_SECONDS
        self._wait_until_told(ENSEMBLE, READY, deadline)
        server = f"{server}:{PORT}"
        up = self.run("up", "--nodes", "0", "--zookeeper", server, "--folder", str(self.cluster))
        if up.returncode != 0:
            raise MachinesError(up.stderr)
        self._told = json.loads((self.cluster / STATE_FILE).read_text(encoding="utf-8"))
        # a copy of it is on every machine
        shutil.copy(self.cluster / KEY_FILE, self.folder / KEY_FILE)
        for name in self.names:
            self._start_node(name)
        lookout = (sys.executable, "-m", "chaos_run.lookout", str(self.cluster))
        self.processes[LOOKOUT] = self._child(LOOKOUT, DESK, lookout)
        for name in self.names:
            self._wait_until_told(name, "takes part", deadline)

    def _wait_until_told(self, host: str, words: str, deadline: float) -> None:
        process = self.processes[host]
        while words not in process.output_tail():
            if process.wait(_LOOK_SECONDS) is not None or time.monotonic() > deadline:
                raise MachinesError(f"{host} does not come up:\n{process.output_tail()}")

    def _start_node(self, name: str) -> None:
        words = [
            *("node", "run", "--name", name),
            *("--zookeeper", self._told["zookeeper"]),
            *("--cluster", self._told["cluster"]),
            *("--keys", str(self.folder / KEY_FILE)),
            *("--listen", self.network.address(name)),
            *("--folder", str(self.folder / name)),
        ]
        self._launch(name, [*_COMMAND, *words])

    def _launch(self, host: str, command: Sequence[str]) -> None:
        self.processes[host] = self._child(host, host, command)

    def _child(self, name: str, host: str, command: Sequence[str]) -> ChildProcess:
        return ChildProcess(
            name,
            self.network.on(host, command),
            self.folder / f"{name}.log",
            folder=self.folder,
            environment=self._environment,
        )

    # --- use ------------------------------------------------------------------------------------

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A `streammine` command at the desk, to its end."""
        return subprocess.run(
            self.network.on(DESK, [*_COMMAND, *words]),
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def submit(self, *words: str, log: str = "submit") -> ChildProcess:
        """`streammine submit` at the desk, which waits for the job's end."""
        command = ("submit", "--folder", str(self.cluster), *words)
        return self._child(log, DESK, [*_COMMAND, *command])

    def members(self) -> list[str]:
        """The members' names, the manager's first, as ZooKeeper tells the desk."""
        for line in reversed(self.processes[LOOKOUT].output_tail(5).splitlines()):
            if line.startswith("["):
                return [str(name) for name in json.loads(line)]
        return []

    def tend(self) -> list[str]:
        """Start again the nodes that have died; their names."""
        dead = [name for name in self.names if self.processes[name].exit_code is not None]
        for name in dead:
            self.processes.pop(name).close()
            self._start_node(name)
        return dead

    def close(self) -> None:
        """End everything. May be called more than once."""
        # nobody is asked: with its host everything on it is gone
        self.network.close()
        close_all(list(self.processes.values()), grace_seconds=0.0)
        self.processes.clear()
        for place in (self.cluster, self.folder / ENSEMBLE, *(self.folder / n for n in self.names)):
            shutil.rmtree(place, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.folder / KEY_FILE)

    def __enter__(self) -> Machines:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
