"""Takes the membership of node processes away the moment they end.

ZooKeeper notices a dead node when its session has run out, seconds later. Whoever started the process
knows at once, so it removes the member's znode itself, and the others begin to make up for the node.
The session's time is then only for processes that were started elsewhere, or that hang.
"""

from __future__ import annotations

import logging
import os
import select
import threading

from streammine.model.errors import ClusterError
from streammine.runtime.coordinator import Coordinator
from streammine.runtime.processes import ChildProcess

logger = logging.getLogger(__name__)

REACH_SECONDS = 15.0


class DepartureWatch:
    """Watches child processes that are members of a cluster, on a thread of its own.

    `service` is a session with the cluster's ZooKeeper that is for this watch alone; `close` ends it.
    """

    def __init__(self, service: Coordinator) -> None:
        self._service = service
        self._ends = select.epoll()
        self._lock = threading.Lock()
        self._watched: dict[int, tuple[str, int]] = {}
        self._closing = os.eventfd(0, os.EFD_CLOEXEC)
        self._ends.register(self._closing, select.EPOLLIN)
        self._thread = threading.Thread(target=self._run, name="departures", daemon=True)
        self._closed = False

    def start(self) -> None:
        """Connect, and begin to watch. Raises ClusterError."""
        self._service.start(REACH_SECONDS, watch=False)
        self._thread.start()

    def watch(self, process: ChildProcess) -> None:
        """The child `process` takes part, or will, under its name. One that has ended is found, too."""
        # A descriptor of our own: the child's is closed by whoever buries it.
        descriptor = os.dup(process.fileno())
        with self._lock:
            self._watched[descriptor] = (process.name, process.pid)
        self._ends.register(descriptor, select.EPOLLIN)

    def close(self) -> None:
        """End the thread and the session. May be called more than once."""
        if self._closed:
            return
        self._closed = True
        os.eventfd_write(self._closing, 1)
        # cuts a call that waits
        self._service.close()
        if self._thread.ident is not None:
            self._thread.join()
        self._ends.close()
        for descriptor in (self._closing, *self._watched):
            os.close(descriptor)

    def _run(self) -> None:
        while True:
            for descriptor, _ in self._ends.poll():
                if descriptor == self._closing:
                    return
                self._ends.unregister(descriptor)
                with self._lock:
                    name, pid = self._watched.pop(descriptor)
                # only now: its number is given to the next process that is watched
                os.close(descriptor)
                self._expel(name, pid)

    def _expel(self, name: str, pid: int) -> None:
        try:
            self._service.expel(name, os.uname().nodename, pid)
        except ClusterError as error:
            if not self._closed:
                # the end of its session does the same, later
                logger.warning("%s is left to its session's end: %s", name, error)
