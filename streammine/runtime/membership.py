"""A node process's life in its cluster: it joins, and joins anew whenever its session was lost.

A node whose session is over has been given up by the others. It drops all that it hosts and comes back as
a new member with new sockets, under its old name.
"""

from __future__ import annotations

import itertools
import logging
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace

from streammine.model.coordination import Member
from streammine.model.errors import ClusterError
from streammine.model.suggestions import listed
from streammine.runtime.coordinator import Coordinator
from streammine.runtime.endpoints import Endpoints
from streammine.runtime.keys import ClusterKeys
from streammine.runtime.node import Node, NodeSettings
from streammine.runtime.places import try_lock
from streammine.runtime.transport import Transport

logger = logging.getLogger(__name__)

SESSION_SECONDS = 4.0
"""A node that ZooKeeper hears nothing of for so long is lost. An ensemble may ask for more.

Long enough that a busy machine's node is not taken for a dead one; whose process has ended loses its
membership at once, from whoever started it.
"""

SESSION = "session-"
LOCK_FILE = "lock"

REACH_SECONDS = 15.0
REJOIN_SECONDS = 120.0
"""How long a node that was a member looks for ZooKeeper before it gives up."""


class Membership:
    """Keeps a node in `cluster`, at the ensemble `zookeeper` ("HOST:PORT,…"), until `stop`.

    `endpoints` gives addresses that were not used before. `tell` hears in a line what is worth knowing to
    whoever started the node.
    """

    def __init__(
        self,
        settings: NodeSettings,
        endpoints: Callable[[], Endpoints],
        keys: ClusterKeys,
        zookeeper: str,
        cluster: str,
        tell: Callable[[str], None] = logger.info,
    ) -> None:
        self._settings = settings
        self._endpoints = endpoints
        self._keys = keys
        self._zookeeper = zookeeper
        self._cluster = cluster
        self._tell = tell
        self._stopped = threading.Event()
        self._node: Node | None = None

    def stop(self) -> None:
        """Make `run` return; safe from any thread and from a signal handler."""
        self._stopped.set()
        if self._node is not None:
            self._node.stop()

    def run(self) -> None:
        """Take part until stopped, or the cluster is over.

        Raises ClusterError when ZooKeeper can't be reached, or another node uses the folder.
        """
        folder = self._settings.folder
        with open(folder / LOCK_FILE, "a") as file:
            if not try_lock(file):
                raise ClusterError(
                    f"another node uses the folder {folder}; give each one of its own"
                )
            for left in folder.glob(f"{SESSION}*"):
                shutil.rmtree(left, ignore_errors=True)
            for number in itertools.count(1):
                self._live(number)
                if self._stopped.is_set():
                    return

    def _live(self, number: int) -> None:
        """From joining to the loss of the session, or to the end."""
        name = self._settings.name
        transport = Transport(name, self._endpoints(), self._keys)
        folder = self._settings.folder / f"{SESSION}{number}"
        folder.mkdir(mode=0o700)
        node = Node(replace(self._settings, folder=folder), transport)
        self._node = node
        if self._stopped.is_set():
            node.stop()
        service = Coordinator(
            self._zookeeper,
            self._cluster,
            self._keys.zookeeper_secret,
            node.listen,
            SESSION_SECONDS,
        )
        try:
            service.start(REACH_SECONDS if number == 1 else REJOIN_SECONDS)
            service.join(
                Member(
                    name,
                    transport.data_endpoint,
                    transport.control_endpoint,
                    os.uname().nodename,
                    os.getpid(),
                    transport.public_key,
                )
            )
            others = [each.name for each in service.members() if each.name != name]
            beside = f"beside {listed(others)}" if others else "as its only node so far"
            self._tell(f"node {name} takes part in cluster {self._cluster}, {beside}")
            node.run(service)
            if node.over:
                self._tell(f"cluster {self._cluster} is over")
                self._stopped.set()
        except ClusterError as error:
            if node.lost is None:
                raise
            logger.warning("%s; it joins again", error)
        finally:
            service.close()
            transport.close()
            shutil.rmtree(folder, ignore_errors=True)
