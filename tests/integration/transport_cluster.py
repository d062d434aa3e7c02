"""Transports for tests: one cluster of them, opened on any kind of address."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from streammine.model.coordination import Member
from streammine.runtime.endpoints import Endpoints, ipc_endpoints, tcp_endpoints
from streammine.runtime.keys import ClusterKeys
from streammine.runtime.transport import Received, Transport

WAIT_SECONDS = 20.0


def member(transport: Transport) -> Member:
    return Member(
        transport.name,
        transport.data_endpoint,
        transport.control_endpoint,
        "here",
        os.getpid(),
        transport.public_key,
    )


def gather(count: int, *transports: Transport) -> list[Received]:
    """Poll all in turn until `count` messages have come."""
    received: list[Received] = []
    deadline = time.monotonic() + WAIT_SECONDS
    while len(received) < count:
        assert time.monotonic() < deadline, f"only {len(received)} of {count}: {received[:3]}"
        for transport in transports:
            received += transport.poll(5)
    return received


def own_threads() -> set[threading.Thread]:
    """pyzmq keeps one thread per process that frees lent memory; it is not a transport's."""
    return {thread for thread in threading.enumerate() if "Garbage" not in type(thread).__name__}


class Cluster:
    """Transports of one kind, closed and checked at the end."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder = folder
        self.keys = ClusterKeys.create() if kind == "curve" else None
        self.kind = kind
        self.opened: list[Transport] = []

    def endpoints(self) -> Endpoints:
        if self.kind == "ipc":
            return ipc_endpoints(self.folder)
        return tcp_endpoints("127.0.0.1", self.keys)

    def open(self, name: str) -> Transport:
        transport = Transport(name, self.endpoints(), self.keys)
        self.opened.append(transport)
        return transport

    def pair(self) -> tuple[Transport, Transport]:
        first, second = self.open("a"), self.open("b")
        first.connect(member(second))
        second.connect(member(first))
        return first, second
