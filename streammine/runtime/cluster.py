"""A cluster on this machine: ZooKeeper, unless one is given, and node processes.

Everything it starts or writes lies in one private folder and ends with `close`, whatever happened.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from streammine.model.errors import ClusterError
from streammine.runtime.endpoints import SocketFolder
from streammine.runtime.keys import ClusterKeys
from streammine.runtime.processes import ChildProcess, close_all
from streammine.runtime.zookeeper import ZooKeeperServer

KEY_FILE = "cluster.key"


@dataclass(frozen=True)
class ClusterAddress:
    """What a client needs to reach a cluster."""

    zookeeper: str
    name: str
    key_file: Path

    def keys(self) -> ClusterKeys:
        return ClusterKeys.load(self.key_file)


class LocalCluster:
    """`nodes` node processes with `threads` workers each; cores are shared out when it is None.

    `zookeeper` is "HOST:PORT,…" of an ensemble to use, or None to start one.
    """

    def __init__(
        self,
        nodes: int,
        zookeeper: str | None = None,
        threads: int | None = None,
        folder: Path | None = None,
    ) -> None:
        assert nodes > 0
        self.nodes = nodes
        self.threads = threads or max(1, (os.cpu_count() or 1) // nodes)
        self._own_folder = folder is None
        self.folder = Path(tempfile.mkdtemp(prefix="streammine-")) if folder is None else folder
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.name = f"run-{secrets.token_hex(6)}"
        self._zookeeper = zookeeper
        self._keys = ClusterKeys.create()
        self._server: ZooKeeperServer | None = None
        self._sockets: SocketFolder | None = None
        self.processes: dict[str, ChildProcess] = {}

    @property
    def address(self) -> ClusterAddress:
        hosts = self._zookeeper
        if hosts is None:
            assert self._server is not None, "the cluster has not been started"
            hosts = self._server.hosts
        return ClusterAddress(hosts, self.name, self.folder / KEY_FILE)

    def sign(self, data: bytes) -> bytes:
        """The cluster key's signature, by which nodes accept code."""
        return self._keys.sign(data)

    def start(self) -> None:
        """Start everything; nodes are on their way when it returns. Raises ClusterError."""
        self._keys.save(self.folder / KEY_FILE)
        if self._zookeeper is None:
            self._server = ZooKeeperServer(self.folder / "zookeeper")
            self._server.start()
        self._sockets = SocketFolder(self.folder)
        for number in range(1, self.nodes + 1):
            self.start_node(f"node-{number}")

    def start_node(self, name: str) -> None:
        """Start one more node process."""
        assert self._sockets is not None
        command = [
            sys.executable,
            "-m",
            "streammine.cli.main",
            "node",
            *("--name", name),
            *("--zookeeper", self.address.zookeeper),
            *("--cluster", self.name),
            *("--keys", str(self.folder / KEY_FILE)),
            *("--sockets", str(self._sockets.path)),
            *("--folder", str(self.folder / name)),
            *("--threads", str(self.threads)),
        ]
        environment = dict(os.environ)
        # libraries that size their thread pools by the machine would fight over its cores
        for variable in ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
            environment[variable] = str(self.threads)
        self.processes[name] = ChildProcess(
            name, command, self.folder / f"{name}.log", environment=environment
        )

    def check(self) -> None:
        """Raises ClusterError, with the end of its log, when a node process has ended."""
        for name, process in self.processes.items():
            code = process.exit_code
            if code is not None:
                raise ClusterError(
                    f"{name} ended with exit code {code}:\n{process.output_tail()}".rstrip()
                )

    def close(self) -> None:
        """End every process and remove every file."""
        close_all(list(self.processes.values()))
        self.processes.clear()
        if self._server is not None:
            self._server.close()
        if self._sockets is not None:
            self._sockets.close()
        if self._own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> LocalCluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
