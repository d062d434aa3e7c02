"""One outgoing connection to a peer.

ZeroMQ loses silently what it queued for a peer that is not there, or grows without bound. So
nothing is given to it before the connection stands (ZMQ_IMMEDIATE); until then frames wait here, up
to a bound, and beyond it the sender is told. What was under way when a peer died is lost: the
receiver sees the gap in the sequence numbers and asks again.
"""

from __future__ import annotations

from collections import deque

import pyarrow as pa
import zmq

from streammine.runtime.keys import ClusterKeys

ZERO_COPY_BYTES = 64 * 1024
"""Bodies of this size and above are lent to ZeroMQ; below it, copying is faster than lending."""

_LONGEST_WAITING_FRAMES = 65_536
_RECONNECT_MILLISECONDS = 20
_LONGEST_RECONNECT_MILLISECONDS = 1_000
_HANDSHAKE_MILLISECONDS = 1_000
"""A peer that does not know our key yet never answers the handshake, and ZeroMQ's own limit before
the next try is half a minute."""

Parts = tuple[bytes] | tuple[bytes, pa.Buffer | None]


class Link:
    """A DEALER socket to one endpoint of a peer. `identity` names us to the peer's ROUTER.

    `limit_bytes` bounds what waits while the peer is not connected; a single larger message passes
    when nothing else waits.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        endpoint: str,
        identity: bytes,
        node: str,
        keys: ClusterKeys | None,
        limit_bytes: int,
    ) -> None:
        self._waiting: deque[tuple[Parts, int]] = deque()
        self._waiting_bytes = 0
        self._limit_bytes = limit_bytes
        socket = context.socket(zmq.DEALER)
        socket.routing_id = identity
        socket.immediate = True
        socket.sndhwm = 0
        socket.rcvhwm = 0
        socket.reconnect_ivl = _RECONNECT_MILLISECONDS
        socket.reconnect_ivl_max = _LONGEST_RECONNECT_MILLISECONDS
        if endpoint.startswith("tcp://"):
            set_tcp_options(socket)
            socket.handshake_ivl = _HANDSHAKE_MILLISECONDS
            if keys is not None:
                pair = keys.node(node)
                socket.curve_serverkey = keys.server.public
                socket.curve_publickey = pair.public
                socket.curve_secretkey = pair.secret
        socket.connect(endpoint)
        self.socket = socket

    @property
    def waiting(self) -> bool:
        """Whether messages wait for the connection to stand."""
        return bool(self._waiting)

    def send(self, parts: Parts) -> bool:
        """Send, or keep until the peer is there; False when too much is kept already."""
        self.flush()
        if not self._waiting and self._try(parts):
            return True
        size = sum(memoryview(part).nbytes for part in parts if part is not None)
        full = self._waiting_bytes + size > self._limit_bytes
        if self._waiting and (full or len(self._waiting) >= _LONGEST_WAITING_FRAMES):
            return False
        self._waiting.append((parts, size))
        self._waiting_bytes += size
        return True

    def flush(self) -> None:
        """Send what waits, as far as the connection takes it."""
        while self._waiting and self._try(self._waiting[0][0]):
            _, size = self._waiting.popleft()
            self._waiting_bytes -= size

    def _try(self, parts: Parts) -> bool:
        """False when there is no connection. A message cut short by its end can be sent again
        whole,
        because it has two parts at most."""
        body = parts[1] if len(parts) == 2 else None
        try:
            if body is None:
                self.socket.send(parts[0], zmq.DONTWAIT)
                return True
            self.socket.send(parts[0], zmq.DONTWAIT | zmq.SNDMORE)
            self.socket.send(body, zmq.DONTWAIT, copy=body.size < ZERO_COPY_BYTES)
        except zmq.Again:
            return False
        return True

    def close(self, linger_milliseconds: int) -> None:
        """Close the socket; what it took still leaves within the linger, if the peer lives."""
        self._waiting.clear()
        self.socket.close(linger_milliseconds)


def set_tcp_options(socket: zmq.Socket[bytes]) -> None:
    """Notice in about half a minute that the machine on the other side is gone."""
    socket.tcp_keepalive = 1
    socket.tcp_keepalive_idle = 10
    socket.tcp_keepalive_intvl = 5
    socket.tcp_keepalive_cnt = 4
    socket.tcp_maxrt = 30_000
    socket.ipv6 = True
