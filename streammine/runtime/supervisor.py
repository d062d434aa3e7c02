"""The process behind `streammine up`: it owns ZooKeeper and the nodes, and they end with it."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from streammine.model.coordination import CoordinationEvent, JobEnded
from streammine.model.errors import ClusterError
from streammine.runtime import scratch
from streammine.runtime.client import Client
from streammine.runtime.cluster import LocalCluster
from streammine.runtime.coordinator import Coordinator
from streammine.runtime.detached import remove_finished
from streammine.runtime.processes import ChildProcess
from streammine.runtime.standing import (
    LOG_FILE,
    ClusterSettings,
    ClusterState,
    held,
    is_up,
    write_state,
)

logger = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
END_SECONDS = 20.0
READY = "ready"


def start_supervisor(folder: Path, settings: ClusterSettings) -> None:
    """Start a supervisor that outlives this process, and wait until its cluster is up.

    Raises ClusterError with the reason when it isn't; then nothing is left.
    """
    reader, writer = os.pipe()
    try:
        with open(folder / LOG_FILE, "ab") as log:
            process = subprocess.Popen(
                [
                    sys.executable,
                    *("-m", "streammine.cli.main", "supervise"),
                    *("--folder", str(folder)),
                    *("--settings", json.dumps(asdict(settings))),
                    *("--ready", str(writer)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                pass_fds=[writer],
                start_new_session=True,
            )
    except OSError as error:
        os.close(reader)
        raise ClusterError(f"cannot start the cluster's supervisor: {error.strerror}") from None
    finally:
        os.close(writer)
    with open(reader, encoding="utf-8") as answers:
        try:
            answer = answers.read()
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if answer != READY:
        process.wait()
        scratch.remove(folder)
        raise ClusterError(answer or f"the cluster's supervisor ended with {process.returncode}")
    # It is to live on: not waiting for it is no mistake.
    process.returncode = 0


def end_supervisor(folder: Path, state: ClusterState) -> None:
    """End a cluster that is up and wait until nothing is left of it. Raises ClusterError."""
    try:
        descriptor = os.pidfd_open(state.supervisor)
    except ProcessLookupError:
        return
    try:
        if not is_up(folder):
            return
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        if not select.select([descriptor], [], [], END_SECONDS)[0]:
            # Its children and its folder go with it, even so.
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            select.select([descriptor], [], [], END_SECONDS)
    except PermissionError:
        raise ClusterError(f"the cluster in {folder} belongs to another user") from None
    finally:
        os.close(descriptor)


class Supervisor:
    """Runs a cluster in `folder`, which it has to itself and removes at the end.

    To be made and run in the main thread: SIGTERM and SIGINT end it.
    """

    def __init__(self, folder: Path, settings: ClusterSettings) -> None:
        self.folder = folder
        self.settings = settings
        self._stopping = threading.Event()
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._woken.setblocking(False)

    def run(self, ready: Callable[[], None]) -> None:
        """Returns after a signal. `ready` is called when all nodes have joined.

        Raises ClusterError when the cluster can't be started, or can't be kept up.
        """
        signal.set_wakeup_fd(self._woken.fileno())
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        settings = self.settings
        with held(self.folder):
            scratch.guard(self.folder)
            try:
                with LocalCluster(
                    settings.nodes,
                    settings.zookeeper,
                    settings.threads,
                    folder=self.folder,
                    listen=settings.listen,
                ) as cluster:
                    self._keep_up(cluster, ready)
            finally:
                scratch.remove(self.folder)
                signal.set_wakeup_fd(-1)

    def _stop(self, number: int, frame: object) -> None:
        self._stopping.set()

    def _keep_up(self, cluster: LocalCluster, ready: Callable[[], None]) -> None:
        cluster.start()
        with Client(cluster.address) as client:
            client.wait_for_members(cluster.nodes, lambda: self._still_wanted(cluster))
        address = cluster.address
        write_state(
            self.folder,
            ClusterState(address.name, address.zookeeper, cluster.nodes, os.getpid()),
        )
        ready()
        service = Coordinator(
            address.zookeeper, address.name, address.keys().zookeeper_secret, self._told
        )
        with service:
            service.start()
            self._tend(cluster, service)

    def _told(self, event: CoordinationEvent) -> None:
        """Called on threads of the coordinator."""
        if isinstance(event, JobEnded):
            # where the buffer is full, someone has been woken already
            with contextlib.suppress(BlockingIOError):
                self._woken.send(b"\0")

    def _tend(self, cluster: LocalCluster, service: Coordinator) -> None:
        """Until the cluster is told to end: replace what dies, and remove what jobs left behind."""
        while not self._stopping.is_set():
            self._wait(cluster)
            if self._stopping.is_set():
                return
            remove_finished(self.folder, service.read_outcome)
            if cluster.revive_server():
                logger.warning("ZooKeeper died and was started again")
            endings = cluster.bury_nodes()
            for ending in endings:
                logger.warning("%s", ending)
            for name in cluster.replace_nodes():
                logger.warning("%s takes the place of one that is gone", name)
            if endings and cluster.lacking:
                logger.warning("too many nodes died lately; %d are started later", cluster.lacking)

    def _still_wanted(self, cluster: LocalCluster) -> None:
        if self._stopping.is_set():
            raise ClusterError("the cluster was told to end before it was up")
        cluster.check()

    def _wait(self, cluster: LocalCluster) -> None:
        """Until a process or job has ended or a signal has come, or some seconds are over."""
        watched: list[socket.socket | ChildProcess] = [self._wake, *cluster.watched]
        if self._wake in select.select(watched, [], [], LOOK_SECONDS)[0]:
            self._wake.recv(4096)
