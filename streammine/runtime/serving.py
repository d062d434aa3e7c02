"""Asks a ZooKeeper server whether it serves, before a session is asked for.

A server that is starting listens before it serves. It should turn sessions away then, but where its
database is not loaded yet it fails to close the connection, and the client waits for an answer until
its own session has run out. So clients ask first ("srvr"), and try again if the server is not ready.
"""

from __future__ import annotations

import socket
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

_ANSWER_SECONDS = 1.0
_NOT_SERVING = b"not currently serving"


def serves(address: tuple[str, int], timeout_seconds: float = _ANSWER_SECONDS) -> bool:
    """Whether the server there serves. One that does not want to say so is taken to serve."""
    try:
        with socket.create_connection(address, timeout=timeout_seconds) as connection:
            connection.sendall(b"srvr")
            answer = b""
            while part := connection.recv(4096):
                answer += part
    except OSError:
        return False
    return bool(answer) and _NOT_SERVING not in answer


class ServingHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads and sockets, with connections to servers that serve only."""

    def create_connection(self, *arguments: Any, **settings: Any) -> Any:
        """As kazoo's. Raises OSError when the server does not serve; kazoo then tries again."""
        address = settings["address"]
        if not serves(address):
            raise ConnectionRefusedError(f"ZooKeeper at {address[0]}:{address[1]} does not serve")
        return super().create_connection(*arguments, **settings)
