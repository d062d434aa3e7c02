"""Who may connect to a node over TCP, and as whom (ZeroMQ RFC 27, the authentication protocol).

ZeroMQ asks on a socket inside the process before it lets a CURVE peer in. We answer from the node's
own loop, so no thread is needed. The answer names the peer ("node:NAME" or "client"); ZeroMQ puts
that name on every message of the connection, where it is held against the identity that the message
claims.
"""

from __future__ import annotations

import zmq
from zmq.utils import z85

from streammine.model.errors import ClusterError
from streammine.runtime.keys import ClusterKeys

DATA_DOMAIN = "data"
CONTROL_DOMAIN = "control"
CLIENT = "client"

_ENDPOINT = "inproc://zeromq.zap.01"
_VERSION = b"1.0"


class Admission:
    """Answers ZeroMQ's questions from a list of keys: those of the nodes admitted, and the
    client's.

    A key that is not on the list is turned away without a reason and may try again: a node may know
    us before we know it.
    """

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], keys: ClusterKeys) -> None:
        self._keys = keys
        self._names = {z85.decode(keys.client.public): CLIENT}
        self.socket = context.socket(zmq.REP)
        self.socket.linger = 0
        self.socket.bind(_ENDPOINT)

    def admit(self, node: str, public_key: str | None) -> None:
        """Let a node in. Raises ClusterError when its published key is not of this cluster."""
        expected = self._keys.node(node).public
        if public_key is not None and public_key.encode() != expected:
            raise ClusterError(
                f"node {node} does not have the key that this cluster's key file gives it; start it"
                f" with the same key file"
            )
        self._names[z85.decode(expected)] = node_user(node)

    def dismiss(self, node: str) -> None:
        """No new connections of that node."""
        self._names.pop(z85.decode(self._keys.node(node).public), None)

    def answer(self) -> None:
        """Answer all questions that wait."""
        while True:
            try:
                request = self.socket.recv_multipart(zmq.DONTWAIT)
            except zmq.Again:
                return
            self.socket.send_multipart(self._decided(request))

    def _decided(self, request: list[bytes]) -> list[bytes]:
        assert len(request) >= 6, "the library speaks its own protocol"
        version, number, domain, _address, _identity, mechanism, *credentials = request
        assert version == _VERSION
        user = self._names.get(credentials[0]) if mechanism == b"CURVE" else None
        if user == CLIENT and domain != CONTROL_DOMAIN.encode():
            user = None
        if user is None:
            return [_VERSION, number, b"300", b"not admitted", b"", b""]
        return [_VERSION, number, b"200", b"OK", user.encode(), b""]

    def close(self) -> None:
        self.socket.close(0)


def node_user(node: str) -> str:
    """The name by which a node's connections are known."""
    return f"node:{node}"
