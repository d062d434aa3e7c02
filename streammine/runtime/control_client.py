"""A client's connection to one node: ask and wait for the answer."""

from __future__ import annotations

import struct
import time
from types import TracebackType

import zmq

from streammine.model.control import MAXIMUM_MESSAGE_BYTES
from streammine.model.errors import ClusterError
from streammine.runtime.identities import CLIENT, new_identity
from streammine.runtime.keys import ClusterKeys
from streammine.runtime.links import set_tcp_options

_NUMBER = struct.Struct("<Q")


class ControlClient:
    """Asks the node at a control endpoint. One request at a time, from one thread."""

    def __init__(self, endpoint: str, keys: ClusterKeys | None = None) -> None:
        self.endpoint = endpoint
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._last_number = 0
        socket = self._context.socket(zmq.DEALER)
        socket.routing_id = new_identity(CLIENT, "cli")
        socket.immediate = True
        socket.linger = 0
        socket.maxmsgsize = MAXIMUM_MESSAGE_BYTES
        if endpoint.startswith("tcp://"):
            set_tcp_options(socket)
            if keys is not None:
                socket.curve_serverkey = keys.server.public
                socket.curve_publickey = keys.client.public
                socket.curve_secretkey = keys.client.secret
        socket.connect(endpoint)
        self._socket = socket

    def request(self, payload: bytes, timeout_seconds: float = 10.0) -> bytes:
        """The node's answer. Raises ClusterError when none comes in time.

        The node may have got the request all the same.
        """
        assert len(payload) <= MAXIMUM_MESSAGE_BYTES
        deadline = time.monotonic() + timeout_seconds
        self._last_number += 1
        number = _NUMBER.pack(self._last_number)
        if not self._wait(zmq.POLLOUT, deadline):
            raise ClusterError(
                f"cannot connect to the node at {self.endpoint} within {timeout_seconds:g} s;"
                f" it is gone, or does not accept these keys"
            )
        self._socket.send_multipart([number, payload], zmq.DONTWAIT)
        while self._wait(zmq.POLLIN, deadline):
            parts = self._socket.recv_multipart(zmq.DONTWAIT)
            # An answer to an earlier request, which we gave up waiting for, is passed over.
            if len(parts) == 2 and parts[0] == number:
                return parts[1]
        raise ClusterError(f"no answer from the node at {self.endpoint} in {timeout_seconds:g} s")

    def _wait(self, events: int, deadline: float) -> bool:
        remaining_seconds = max(0.0, deadline - time.monotonic())
        return bool(self._socket.poll(int(remaining_seconds * 1000), events))

    def close(self) -> None:
        """Close the connection. May be called more than once."""
        self._socket.close(0)
        self._context.term()

    def __enter__(self) -> ControlClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
