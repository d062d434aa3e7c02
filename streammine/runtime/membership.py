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
from streammine.runtime.coordinator import Coordinator
from streammine.runtime.endpoints import Endpoints
from streammine.runtime.keys import ClusterKeys
from streammine.runtime.node import Node, NodeSettings
from streammine.runtime.transport import Transport

logger = logging.getLogger(__name__)

SESSION_SECONDS = 4.0
"""A node that ZooKeeper hears nothing of for so long is lost. An ensemble may ask for more.

Long enough that a busy machine's node is not taken for a dead one; whose process has ended loses its
membership at once, from whoever started it.
"""

REACH_SECONDS = 15.0
REJOIN_SECONDS = 120.0
"""How long a node that was a member looks for ZooKeeper before it gives up."""


class Membership:
    """Keeps a node in `cluster`, at the ensemble `zookeeper` ("HOST:PORT,…"), until `stop`.

    `endpoints` gives addresses that were not used before.
    """

    def __init__(
        self,
        settings: NodeSettings,
        endpoints: Callable[[], Endpoints],
        keys: ClusterKeys,
        zookeeper: str,
        cluster: str,
    ) -> None:
        self._settings = settings
        self._endpoints = endpoints
        self._keys = keys
        self._zookeeper = zookeeper
        self._cluster = cluster
        self._stopped = threading.Event()
        self._node: Node | None = None

    def stop(self) -> None:
        """Make `run` return; safe from any thread and from a signal handler."""
        self._stopped.set()
        if self._node is not None:
            self._node.stop()

    def run(self) -> None:
        """Take part until stopped. Raises ClusterError when ZooKeeper can't be reached."""
        for number in itertools.count(1):
            self._live(number)
            if self._stopped.is_set():
                return

    def _live(self, number: int) -> None:
        """From joining to the loss of the session, or to the end."""
        name = self._settings.name
        folder = self._settings.folder / f"session-{number}"
        folder.mkdir(parents=True, mode=0o700)
        transport = Transport(name, self._endpoints(), self._keys)
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
            node.run(service)
        except ClusterError as error:
            if node.lost is None:
                raise
            logger.warning("%s; it joins again", error)
        finally:
            service.close()
            transport.close()
            shutil.rmtree(folder, ignore_errors=True)
