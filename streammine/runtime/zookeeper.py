"""A ZooKeeper server of our own, out of the jars that come with PySpark (DESIGN §6)."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import time
from pathlib import Path
from types import TracebackType

from streammine.model.errors import ClusterError
from streammine.runtime.java import find_java
from streammine.runtime.processes import ChildProcess
from streammine.runtime.serving import serves

_JARS = (
    "zookeeper-[0-9]*.jar",
    "zookeeper-jute-*.jar",
    "slf4j-api-*.jar",
    "log4j-api-*.jar",
    "log4j-core-*.jar",
    "log4j-slf4j2-impl-*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
    "commons-io-*.jar",
    "netty-buffer-*.jar",
    "netty-codec-base-*.jar",
    "netty-common-*.jar",
    "netty-handler-[0-9]*.jar",
    "netty-resolver-[0-9]*.jar",
    "netty-transport-[0-9]*.jar",
)
"""The jars of PySpark that the server needs, as patterns that each match one file."""

_TICK_MILLISECONDS = 250
"""The server looks for sessions that ran out so often, and grants none shorter than two ticks."""

LOOPBACK = "127.0.0.1"
_ATTEMPTS = 5
_POLL_SECONDS = 0.02

_SETTINGS = """\
dataDir={folder}/data
clientPort={port}
clientPortAddress={host}
tickTime={tick}
minSessionTimeout={shortest}
maxSessionTimeout=60000
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=ruok,srvr
autopurge.snapRetainCount=3
autopurge.purgeInterval=1
"""

_LOGGING = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""

_JVM_OPTIONS = (
    "-Xms16m",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
    "-Dzookeeper.jmx.log4j.disable=true",
    "-Dzookeeper.admin.enableServer=false",
    "-Dlog4j2.disableJmx=true",
    # The server lives no longer than its cluster, and a dead machine ends both: no need to wait for
    # the disk, or to take 64 MB of it at once.
    "-Dzookeeper.forceSync=no",
    "-Dzookeeper.preAllocSize=1024",
)


class ZooKeeperServer:
    """A server on loopback, with its data and log in `folder`, which stays when it is closed.

    Start it again with the same folder and port (`port` given) after it died, and sessions live on. `host`
    is another address of this machine to listen on: whoever reaches it can read all but what is secret.
    """

    def __init__(
        self, folder: str | os.PathLike[str], port: int | None = None, host: str = LOOPBACK
    ) -> None:
        self.folder = Path(folder).absolute()
        self.port = port
        self.host = host
        self._process: ChildProcess | None = None

    @property
    def hosts(self) -> str:
        """What clients connect to: HOST:PORT. Only after `start`."""
        assert self.port is not None, "started"
        return f"{self.host}:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / "zookeeper.log"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.exit_code is None

    @property
    def pid(self) -> int:
        """The server's process id. Only after `start`."""
        return self.process.pid

    @property
    def process(self) -> ChildProcess:
        """The server's process. Only after `start`."""
        assert self._process is not None, "started"
        return self._process

    def start(self, timeout_seconds: float = 60.0) -> None:
        """Start it and wait until it answers. Raises ClusterError with the end of its log."""
        assert not self.running, "a server is started once"
        command = self._command()
        deadline = time.monotonic() + timeout_seconds
        for _ in range(_ATTEMPTS):
            port = self.port or _free_port(self.host)
            self._write_settings(port)
            # Kept before anything can fail or interrupt the wait, so that `close` ends it.
            if self._process is not None:
                self._process.close()
            self._process = ChildProcess("ZooKeeper", command, self.log)
            if self._wait_until_ready(self._process, port, deadline, timeout_seconds):
                self.port = port
                return
            if self._process.exit_code == -signal.SIGKILL:
                # by someone else, so the next one may live
                continue
            tail = self._process.output_tail()
            if self.port is not None:
                break
            if "BindException" not in tail and "already in use" not in tail:
                break
        tail = self._process.output_tail() if self._process else ""
        self.close()
        raise ClusterError(f"ZooKeeper did not start; the end of its log, {self.log}:\n{tail}")

    def close(self) -> None:
        """Stop it. May be called more than once."""
        if self._process is not None:
            self._process.close(grace_seconds=3.0)
            self._process = None

    def discard(self) -> None:
        """End it at once, for when its folder is thrown away: nothing is left to be written."""
        if self._process is not None:
            self._process.kill()
            self.close()

    def _command(self) -> list[str]:
        return [
            str(find_java()),
            *_JVM_OPTIONS,
            f"-Djava.io.tmpdir={self.folder}",
            f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
            "-cp",
            os.pathsep.join(str(jar) for jar in find_jars()),
            "org.apache.zookeeper.server.ZooKeeperServerMain",
            str(self.folder / "zoo.cfg"),
        ]

    def _write_settings(self, port: int) -> None:
        settings = _SETTINGS.format(
            folder=self.folder,
            host=self.host,
            port=port,
            tick=_TICK_MILLISECONDS,
            shortest=2 * _TICK_MILLISECONDS,
        )
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            (self.folder / "zoo.cfg").write_text(settings, encoding="utf-8")
            (self.folder / "log4j2.properties").write_text(_LOGGING, encoding="utf-8")
        except OSError as error:
            raise ClusterError(
                f"cannot write ZooKeeper's settings in {self.folder}: {error.strerror}"
            ) from None

    def _wait_until_ready(
        self, process: ChildProcess, port: int, deadline: float, timeout_seconds: float
    ) -> bool:
        """True when it answers, False when it ended; ClusterError when neither comes in time."""
        while process.wait(_POLL_SECONDS) is None:
            if serves((self.host, port)):
                return process.exit_code is None
            if time.monotonic() > deadline:
                tail = process.output_tail()
                self.close()
                raise ClusterError(
                    f"ZooKeeper did not answer on port {port} within {timeout_seconds:g} s;"
                    f" the end of its log, {self.log}:\n{tail}"
                )
        return False

    def __enter__(self) -> ZooKeeperServer:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def find_jars() -> list[Path]:
    """The jars that the server needs, from the installed PySpark, which is not imported for it.

    Raises ClusterError when PySpark or one of the jars is missing.
    """
    found = importlib.util.find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        raise ClusterError("ZooKeeper's jars come with pyspark, which is not installed")
    folder = Path(found.submodule_search_locations[0], "jars")
    jars = []
    for pattern in _JARS:
        matches = sorted(folder.glob(pattern))
        if not matches:
            raise ClusterError(
                f"no {pattern} in {folder}: ZooKeeper can't be run from this version of pyspark;"
                f" give an ensemble with --zookeeper HOST:PORT instead"
            )
        jars.append(matches[-1])
    return jars


def _free_port(host: str) -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port
