"""A cluster on this machine: ZooKeeper, unless one is given, and node processes.

Everything it starts or writes lies in one private folder and ends with `close`, whatever happened.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from streammine.model.errors import ClusterError
from streammine.runtime import scratch
from streammine.runtime.coordinator import Coordinator
from streammine.runtime.departures import DepartureWatch
from streammine.runtime.endpoints import SocketFolder, is_loopback
from streammine.runtime.fork_server import Program, pool_sizes, server_kept
from streammine.runtime.hash_seed import HASH_SEED
from streammine.runtime.java import find_java
from streammine.runtime.keys import ClusterKeys
from streammine.runtime.processes import (
    ChildProcess,
    close_all,
    preload,
    signals_deferred,
)
from streammine.runtime.workers import usable_cores
from streammine.runtime.zookeeper import ZooKeeperServer

KEY_FILE = "cluster.key"
PROGRAM = "streammine.cli.main"
NODE_MODULES = (PROGRAM, "streammine.cli.node_command", "partitioners.kernels")
"""What a node loads to begin with."""

REACH_SECONDS = 5.0

DEATHS_PER_NODE = 5
DEATHS_SECONDS = 30.0
"""Where more processes than that die in so short a time, new ones would die as well."""


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

    With no node of its own, the cluster is there for those that join from elsewhere. `zookeeper` is
    "HOST:PORT,…" of an ensemble to use, or None to start one. Nodes talk over Unix
    sockets, or, with `listen`, over TCP on that host.
    """

    def __init__(
        self,
        nodes: int,
        zookeeper: str | None = None,
        threads: int | None = None,
        folder: Path | None = None,
        listen: str | None = None,
    ) -> None:
        self.nodes = nodes
        self.threads = threads or shared_threads(nodes)
        self._own_folder: scratch.ScratchFolder | None = None
        if folder is None:
            self._own_folder = scratch.ScratchFolder()
            folder = self._own_folder.path
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.name = f"run-{secrets.token_hex(6)}"
        self.processes: dict[str, ChildProcess] = {}
        self._zookeeper = zookeeper
        self._listen = listen
        self._keys = ClusterKeys.create()
        self._server: ZooKeeperServer | None = None
        self._departures: DepartureWatch | None = None
        self._sockets: SocketFolder | None = None
        self._loaded = ExitStack()
        self._numbered = 0
        self._deaths: deque[float] = deque()
        self._gone: deque[str] = deque()
        self._reached = False

    @property
    def lacking(self) -> int:
        """How many nodes are gone that nothing has taken the place of yet."""
        return len(self._gone)

    @property
    def address(self) -> ClusterAddress:
        hosts = self._zookeeper
        if hosts is None:
            assert self._server is not None, "the cluster has not been started"
            hosts = self._server.hosts
        return ClusterAddress(hosts, self.name, self.folder / KEY_FILE)

    @property
    def greeting(self) -> str:
        """What is said while it starts."""
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes} nodes"
        return f"starting {nodes}" if self._zookeeper else f"starting ZooKeeper and {nodes}"

    def sign(self, data: bytes) -> bytes:
        """The cluster key's signature, by which nodes accept code."""
        return self._keys.sign(data)

    def require_parts(self) -> None:
        """Raises ClusterError when ZooKeeper, or the Java to run it, is not there."""
        if self._zookeeper is None:
            find_java()
        elif not self._reached:
            with self._session() as service:
                service.start(REACH_SECONDS, watch=False)
                self._reached = True

    def start(self) -> None:
        """Start everything; nodes are on their way when it returns. Raises ClusterError."""
        self.require_parts()
        self._keys.save(self.folder / KEY_FILE)
        if self._listen is None:
            self._sockets = SocketFolder(self.folder)
            scratch.guard(self._sockets.path)
        if self.nodes:
            # the nodes' libraries are loaded while ZooKeeper starts
            environment = _environment(self.threads)
            self._loaded.enter_context(server_kept(NODE_MODULES, environment))
            preload(NODE_MODULES, environment)
        if self._zookeeper is None:
            self._server = ZooKeeperServer(self.folder / "zookeeper")
            self._server.start()
        self._departures = DepartureWatch(self._session())
        self._departures.start()
        for _ in range(self.nodes):
            self.start_node()

    def start_node(self) -> str:
        """Start one more node process in the running cluster; gives its name."""
        # A name is never used again: the session of a node that died may outlive it.
        self._numbered += 1
        name = f"node-{self._numbered}"
        begin = ("node", "run", "--name", name)
        arguments = (
            *begin,
            *("--zookeeper", self.address.zookeeper),
            *("--cluster", self.name),
            *("--keys", str(self.folder / KEY_FILE)),
            *self._where(),
            *("--folder", str(self.folder / name)),
            *("--threads", str(self.threads)),
            "--quiet",
        )
        title = f"streammine {' '.join(begin)}"
        environment = _environment(self.threads)
        # here, where signals are not deferred
        preload(NODE_MODULES, environment).wait_until_loaded()
        with signals_deferred():
            process = self.processes[name] = ChildProcess(
                name,
                [sys.executable, "-m", PROGRAM, *arguments],
                self.folder / f"{name}.log",
                environment=environment,
                loaded=Program(title, PROGRAM, "main", arguments, NODE_MODULES),
            )
        if self._departures is not None:
            self._departures.watch(process)
        return name

    def _where(self) -> tuple[str, str]:
        if self._listen is not None:
            return ("--listen", self._listen)
        assert self._sockets is not None
        return ("--sockets", str(self._sockets.path))

    def check(self) -> None:
        """Raises ClusterError, with the end of its log, when a node process has ended by itself.

        For the start: what ends then would do so again. What was killed is replaced, as by `tend`.
        """
        for process in self.processes.values():
            if process.exit_code not in (None, -signal.SIGKILL):
                raise ClusterError(f"{process.ending()}\n{process.output_tail()}".rstrip())
        self.tend()

    def tend(self) -> list[str]:
        """Start again what has died: our ZooKeeper, and a new node for each that is gone.

        Gives a line about each. Raises ClusterError, with the end of a log, when too much dies too fast.
        """
        lines = []
        if self.revive_server():
            lines.append("ZooKeeper died and was started again")
        self.bury_nodes()
        gone = list(self._gone)
        names = self.replace_nodes()
        if self.lacking:
            raise ClusterError(
                f"{gone[-1]}\nnodes die faster than they can be replaced; see above for the last "
                "one's end"
            )
        lines += [
            f"{ending}; {name} takes its place" for ending, name in zip(gone, names, strict=True)
        ]
        return lines

    def revive_server(self) -> bool:
        """Start a ZooKeeper of our own again when it died; whether it had.

        Port and data are those of before, so sessions live on. Raises ClusterError when it does not
        start, or dies again and again.
        """
        if self._server is None or self._server.running:
            return False
        self._note_death()
        if self._too_many_died():
            process = self._server.process
            raise ClusterError(
                f"{process.ending()}, again and again\n{process.output_tail()}".rstrip()
            )
        self._server.start()
        return True

    def bury_nodes(self) -> list[str]:
        """Forget the node processes that have ended; how each did, after the end of its log."""
        ended = [process for process in self.processes.values() if process.exit_code is not None]
        lines = []
        for process in ended:
            lines.append(f"{process.output_tail()}\n{process.ending()}".lstrip())
            del self.processes[process.name]
            process.close()
            self._note_death()
        self._gone += lines
        return lines

    def replace_nodes(self) -> list[str]:
        """Start a node for each that is gone, or none where too many died lately; their names.

        Those that are still lacking are started by a later call.
        """
        names = []
        while self.lacking and not self._too_many_died():
            names.append(self.start_node())
            self._gone.popleft()
        return names

    def _note_death(self) -> None:
        self._deaths.append(time.monotonic())

    def _too_many_died(self) -> bool:
        while self._deaths and self._deaths[0] < time.monotonic() - DEATHS_SECONDS:
            self._deaths.popleft()
        return len(self._deaths) > DEATHS_PER_NODE * self.nodes

    @property
    def watched(self) -> list[ChildProcess]:
        """The processes; `select` finds those readable that have ended."""
        server = [] if self._server is None else [self._server.process]
        return [*server, *self.processes.values()]

    def close(self) -> None:
        """End every process and remove every file."""
        if self._departures is not None:
            self._departures.close()
            self._departures = None
        close_all(list(self.processes.values()))
        self.processes.clear()
        self._loaded.close()
        if self._server is not None:
            self._server.discard()
            self._server = None
        elif self._reached and self._zookeeper is not None:
            self._forget()
        if self._sockets is not None:
            self._sockets.close()
            scratch.release(self._sockets.path)
            self._sockets = None
        if self._own_folder is not None:
            self._own_folder.close()

    def _session(self) -> Coordinator:
        hosts = self._zookeeper or self.address.zookeeper
        return Coordinator(hosts, self.name, self._keys.zookeeper_secret, lambda event: None)

    def _forget(self) -> None:
        """Remove our paths from an ensemble that others use, too."""
        self._reached = False
        try:
            with self._session() as service:
                service.start(REACH_SECONDS, watch=False)
                service.remove_cluster()
        except ClusterError:
            # It can't be reached any more. The paths do no harm: their names are never used again.
            return

    def __enter__(self) -> LocalCluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def require_listening(host: str | None, zookeeper: str | None, nodes: int) -> None:
    """Raises ClusterError when nodes on `host` could be reached from elsewhere but ZooKeeper not, or when
    all `nodes` come from elsewhere and can't reach it."""
    if nodes == 0 and zookeeper is None:
        raise ClusterError(
            "with --nodes 0 all nodes are started on other machines, and an own ZooKeeper listens on this "
            "machine alone: give --zookeeper HOST:PORT of one that they reach, too"
        )
    if host is not None and zookeeper is None and not is_loopback(host):
        raise ClusterError(
            f"nodes that listen on {host} need a ZooKeeper that their peers reach, too, and an own "
            "one listens on this machine alone: give --zookeeper HOST:PORT, or --listen 127.0.0.1"
        )


def shared_threads(nodes: int) -> int:
    """How many threads each of that many nodes has where nobody says so: the usable cores, shared out."""
    return max(1, usable_cores() // max(1, nodes))


def _environment(threads: int) -> dict[str, str]:
    """This process's, with this package found, HASH_SEED, and thread pools of the node's size.

    Libraries that size their pools by the machine would fight over its cores.
    """
    package = str(Path(__file__).parents[2])
    paths = [package, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        **HASH_SEED,
        **pool_sizes(threads),
    }
