"""The sockets of a node (DESIGN §4, §7).

::

    node A                                node B
    DEALER ──── data ────────────────────> ROUTER    one per pair of nodes: all their channels
    DEALER ──── control ─────────────────> ROUTER    never queued behind data
                                 client <─> ROUTER    requests and answers, on the control socket

A receiver always drains: no socket has a high-water mark, credit above bounds what is under way.
The node's loop is one thread and owns the sockets; `wake` alone may be called from another one.

Over `ipc://` the private folder vouches for the sender's name, over TCP its CURVE key does
(`admission`); a message that claims another name than its key's is refused and counted.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import zmq

from streammine.model.control import MAXIMUM_MESSAGE_BYTES
from streammine.model.coordination import Member
from streammine.model.errors import ClusterError, ProtocolError
from streammine.runtime.admission import CONTROL_DOMAIN, DATA_DOMAIN, Admission
from streammine.runtime.endpoints import Endpoints, check_private
from streammine.runtime.identities import NODE, Identity, new_identity, read_identity
from streammine.runtime.keys import ClusterKeys
from streammine.runtime.links import Link, set_tcp_options

logger = logging.getLogger(__name__)

_MAXIMUM_BODY_BYTES = 1 << 30
_MAXIMUM_HEADER_BYTES = 256
_WAITING_DATA_BYTES = 64 << 20
_WAITING_CONTROL_BYTES = MAXIMUM_MESSAGE_BYTES
_DATA_FRAMES_PER_POLL = 256
_DATA_BYTES_PER_POLL = 32 << 20
_CONTROL_MESSAGES_PER_POLL = 1024
_OWN_MESSAGES = 1024
_REFUSALS_LOGGED = 16

_COPIED_BODY_BYTES = 16 * 1024
"""Smaller bodies may share ZeroMQ's receive buffer, unaligned; they are copied out of it."""

_BINDING_HINTS = {
    zmq.EADDRINUSE: "another program has it",
    zmq.EADDRNOTAVAIL: "that is no address of this machine",
    errno.ENODEV: "this machine has no such address or interface",
}

_Context = zmq.Context[zmq.Socket[bytes]]


@dataclass(frozen=True, slots=True)
class DataReceived:
    """A data frame. `body` (None where there is none) is the received memory itself, not a copy,
    aligned
    to 8 bytes; `header` is the header frame as it came."""

    sender: str
    header: bytes
    body: pa.Buffer | None


@dataclass(frozen=True, slots=True)
class ControlReceived:
    """A control message from a node."""

    sender: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class RequestReceived:
    """A client's request; `token` goes into `Transport.reply`."""

    token: tuple[bytes, bytes]
    payload: bytes


Received = DataReceived | ControlReceived | RequestReceived


class Transport:
    """Binds a node's two addresses and connects to its peers.

    `keys` are used on TCP, where they are required beyond loopback. Raises ClusterError when an
    address can't be bound.
    """

    def __init__(self, name: str, endpoints: Endpoints, keys: ClusterKeys | None = None) -> None:
        self.name = name
        self.refused = 0
        self._endpoints = endpoints
        self._keys = keys
        self._identity = new_identity(NODE, name)
        self._peers: dict[str, Member] = {}
        self._data_links: dict[str, Link] = {}
        self._control_links: dict[str, Link] = {}
        self._own: deque[bytes] = deque()
        self._wake_lock = threading.Lock()
        self._closed = False
        self._context: _Context = zmq.Context()
        self._wake_reader, self._wake_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._admission: Admission | None = None
        self._sockets: list[zmq.Socket[bytes]] = []
        try:
            if keys is not None:
                self._admission = Admission(self._context, keys)
            self._data = self._bound(endpoints.data, DATA_DOMAIN, _MAXIMUM_BODY_BYTES)
            self._control = self._bound(endpoints.control, CONTROL_DOMAIN, MAXIMUM_MESSAGE_BYTES)
            # An answer to a client that has gone raises instead of vanishing.
            self._control.router_mandatory = True
        except BaseException:
            self.close(linger_seconds=0)
            raise
        self._poller = zmq.Poller()
        for item in (self._wake_reader, self._data, self._control):
            self._poller.register(item, zmq.POLLIN)
        if self._admission is not None:
            self._poller.register(self._admission.socket, zmq.POLLIN)

    @property
    def data_endpoint(self) -> str:
        """What peers connect to for data."""
        return self._endpoints.advertised(_endpoint(self._data))

    @property
    def control_endpoint(self) -> str:
        """What peers and clients connect to for control."""
        return self._endpoints.advertised(_endpoint(self._control))

    @property
    def public_key(self) -> str | None:
        """This node's CURVE key, for its Member record."""
        return None if self._keys is None else self._keys.node(self.name).public.decode()

    @property
    def peers(self) -> tuple[str, ...]:
        """Names of the nodes connected to, in alphabetical order."""
        return tuple(sorted(self._peers))

    def connect(self, peer: Member) -> None:
        """Connect to a node, and let it connect to us. Returns at once; may be said again.

        A peer of a known name at new addresses replaces the one before. Connecting to ourselves is
        allowed and does nothing. Raises ClusterError when its key is not of this cluster.
        """
        known = self._peers.get(peer.name)
        if peer.name == self.name or (
            known is not None
            and (known.data_endpoint, known.control_endpoint)
            == (peer.data_endpoint, peer.control_endpoint)
        ):
            return
        self.disconnect(peer.name)
        if self._admission is not None:
            self._admission.admit(peer.name, peer.public_key)
        self._data_links[peer.name] = self._linked(peer.data_endpoint, _WAITING_DATA_BYTES)
        self._control_links[peer.name] = self._linked(peer.control_endpoint, _WAITING_CONTROL_BYTES)
        self._peers[peer.name] = peer

    def disconnect(self, name: str) -> None:
        """Forget a node that is gone, with everything that still waits for it."""
        if self._peers.pop(name, None) is None:
            return
        for links in (self._data_links, self._control_links):
            link = links.pop(name)
            if link.socket in self._poller:
                self._poller.unregister(link.socket)
            link.close(0)
        if self._admission is not None:
            self._admission.dismiss(name)

    def send_data(self, peer: str, header: bytes, body: pa.Buffer | None) -> bool:
        """Send a data frame. `body` is lent, not copied: it must not change any more.

        False when it was not taken: the peer is not (or no longer) known, or is not connected and
        too much waits for it already. The receiver then finds the gap.
        """
        assert len(header) <= _MAXIMUM_HEADER_BYTES
        assert body is None or body.size <= _MAXIMUM_BODY_BYTES
        return self._sent(self._data_links.get(peer), (header, body))

    def send_control(self, peer: str, payload: bytes) -> bool:
        """Send a control message; to ourselves, too. False as for `send_data`."""
        if len(payload) > MAXIMUM_MESSAGE_BYTES:
            raise ProtocolError(
                f"a control message has at most {MAXIMUM_MESSAGE_BYTES} bytes, not {len(payload)}"
            )
        if peer == self.name:
            if len(self._own) >= _OWN_MESSAGES:
                return False
            self._own.append(payload)
            return True
        return self._sent(self._control_links.get(peer), (payload,))

    def reply(self, token: tuple[bytes, bytes], payload: bytes) -> bool:
        """Answer a client's request. False when the client has gone."""
        if len(payload) > MAXIMUM_MESSAGE_BYTES:
            raise ProtocolError(
                f"an answer has at most {MAXIMUM_MESSAGE_BYTES} bytes, not {len(payload)}"
            )
        try:
            self._control.send_multipart([*token, payload], zmq.DONTWAIT)
        except (zmq.Again, zmq.ZMQError) as error:
            if error.errno not in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                raise
            return False
        return True

    def poll(self, timeout_milliseconds: int) -> list[Received]:
        """What has come: control before data, each in the order of its sender, in bounded batches.

        Waits until something comes, `wake` is called or the time is over. More may be there than is
        given: call again. The list is empty after a mere `wake`.
        """
        events = dict(self._poller.poll(0 if self._own else timeout_milliseconds))
        received: list[Received] = [
            ControlReceived(self.name, self._own.popleft()) for _ in range(len(self._own))
        ]
        if self._wake_reader in events:
            self._drain_wake()
        if self._admission is not None and self._admission.socket in events:
            self._admission.answer()
        if self._control in events:
            self._receive_control(received)
        if self._data in events:
            self._receive_data(received)
        if len(events) > 0:
            self._flush_links(events)
        return received

    def wake(self) -> None:
        """Make `poll` return. May be called from any thread, also after `close`."""
        with self._wake_lock:
            if self._closed:
                return
            try:
                os.write(self._wake_writer, b"\0")
            except BlockingIOError:
                # The pipe is full of calls that poll has yet to see: it will wake.
                return

    def close(self, linger_seconds: float = 1.0) -> None:
        """Close all sockets; what was sent to living peers still leaves, within the linger."""
        with self._wake_lock:
            if self._closed:
                return
            self._closed = True
            os.close(self._wake_reader)
            os.close(self._wake_writer)
        for link in (*self._data_links.values(), *self._control_links.values()):
            link.flush()
            link.close(int(linger_seconds * 1000))
        for socket in self._sockets:
            socket.close(int(linger_seconds * 1000))
        if self._admission is not None:
            self._admission.close()
        self._context.term()
        for endpoint in (self._endpoints.data, self._endpoints.control):
            if endpoint.startswith("ipc://"):
                Path(endpoint.removeprefix("ipc://")).unlink(missing_ok=True)

    def _bound(self, endpoint: str, domain: str, limit_bytes: int) -> zmq.Socket[bytes]:
        socket = self._context.socket(zmq.ROUTER)
        self._sockets.append(socket)
        socket.sndhwm = 0
        socket.rcvhwm = 0
        socket.maxmsgsize = limit_bytes
        # A peer that comes back before we noticed its going takes its place again. Its identity has
        # a number that no one else knows.
        socket.router_handover = True
        if endpoint.startswith("ipc://"):
            check_private(Path(endpoint.removeprefix("ipc://")).parent)
        else:
            set_tcp_options(socket)
            if self._keys is not None:
                socket.curve_server = True
                socket.curve_secretkey = self._keys.server.secret
                socket.zap_domain = domain.encode()
        try:
            socket.bind(endpoint)
        except zmq.ZMQError as error:
            raise ClusterError(
                f"node {self.name} cannot listen on {endpoint}: "
                + _BINDING_HINTS.get(error.errno or 0, f"{error.strerror}; check it")
            ) from None
        return socket

    def _linked(self, endpoint: str, limit_bytes: int) -> Link:
        try:
            return Link(self._context, endpoint, self._identity, self.name, self._keys, limit_bytes)
        except zmq.ZMQError as error:
            raise ClusterError(f"cannot connect to {endpoint}: {error.strerror}") from None

    def _sent(
        self, link: Link | None, parts: tuple[bytes] | tuple[bytes, pa.Buffer | None]
    ) -> bool:
        if link is None:
            return False
        waited = link.waiting
        taken = link.send(parts)
        if link.waiting and not waited:
            self._poller.register(link.socket, zmq.POLLOUT)
        return taken

    def _flush_links(self, events: dict[object, int]) -> None:
        for links in (self._data_links, self._control_links):
            for link in links.values():
                if link.socket in events:
                    link.flush()
                    if not link.waiting:
                        self._poller.unregister(link.socket)

    def _drain_wake(self) -> None:
        try:
            while len(os.read(self._wake_reader, 4096)) == 4096:
                continue
        except BlockingIOError:
            return

    def _receive_control(self, received: list[Received]) -> None:
        for _ in range(_CONTROL_MESSAGES_PER_POLL):
            try:
                parts = self._control.recv_multipart(zmq.DONTWAIT, copy=False)
            except zmq.Again:
                return
            sender = self._sender(parts, self._control)
            if sender is None:
                continue
            if sender.kind == NODE and len(parts) == 2:
                received.append(ControlReceived(sender.name, parts[1].bytes))
            elif sender.kind != NODE and len(parts) == 3:
                token = (parts[0].bytes, parts[1].bytes)
                received.append(RequestReceived(token, parts[2].bytes))
            else:
                self._refuse(parts[0].bytes, f"sent {len(parts) - 1} parts on the control socket")

    def _receive_data(self, received: list[Received]) -> None:
        size = 0
        for _ in range(_DATA_FRAMES_PER_POLL):
            try:
                parts = self._data.recv_multipart(zmq.DONTWAIT, copy=False)
            except zmq.Again:
                return
            sender = self._sender(parts, self._data)
            if sender is None:
                continue
            if (
                sender.kind != NODE
                or len(parts) not in (2, 3)
                or len(parts[1]) > _MAXIMUM_HEADER_BYTES
            ):
                self._refuse(parts[0].bytes, "sent what is no data frame")
                continue
            body = _body(parts[2]) if len(parts) == 3 else None
            received.append(DataReceived(sender.name, parts[1].bytes, body))
            size += 0 if body is None else body.size
            if size >= _DATA_BYTES_PER_POLL:
                return

    def _sender(self, parts: list[zmq.Frame], socket: zmq.Socket[bytes]) -> Identity | None:
        """Who sent a message; None, and counted, where name and key do not agree."""
        claimed = read_identity(parts[0].bytes)
        if claimed is None:
            self._refuse(parts[0].bytes, "has no identity of this cluster")
            return None
        if socket.mechanism == zmq.CURVE:
            user = parts[-1].get("User-Id")
            if user != claimed.user:
                self._refuse(parts[0].bytes, f"has the key of {user}")
                return None
        return claimed

    def _refuse(self, identity: bytes, reason: str) -> None:
        self.refused += 1
        if self.refused <= _REFUSALS_LOGGED:
            logger.warning("node %s refused a message: %r %s", self.name, identity[:96], reason)


def _endpoint(socket: zmq.Socket[bytes]) -> str:
    """The address that a socket was bound to."""
    bound = socket.getsockopt(zmq.LAST_ENDPOINT)
    assert isinstance(bound, bytes)
    return bound.rstrip(b"\0").decode()


def _body(frame: zmq.Frame) -> pa.Buffer:
    """A frame's memory as an Arrow buffer, which keeps it alive."""
    if len(frame) < _COPIED_BODY_BYTES:
        return pa.py_buffer(frame.bytes)
    buffer = pa.py_buffer(frame.buffer)
    return buffer if buffer.address % 8 == 0 else pa.py_buffer(frame.bytes)
