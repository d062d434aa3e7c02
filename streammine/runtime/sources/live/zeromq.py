"""Rows as ZeroMQ messages: a ROUTER, so that each message can be acknowledged.

A PULL socket could not say what became durable, so what lay in its queues when the process died
would be lost without anyone knowing. Clients use DEALER (or REQ). A message is ``[rows]`` or
``[id, rows]``; the answer is ``[id or nothing, JSON]`` with `accepted`, `dead` and
`first_position`, or `error`. ``[!end]`` ends the source where that is allowed. A client whose
answer does not come sends the message again, with the same id where it must not count twice; a
ROUTER drops an answer to a client that is gone or does not read, and that client does so, too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from dataclasses import asdict
from typing import Any

import zmq
import zmq.asyncio
from zmq.auth.asyncio import AsyncioAuthenticator

from streammine.model.errors import InputError
from streammine.model.ingest_log import Receipt
from streammine.runtime.keys import ClusterKeys
from streammine.runtime.sources.live.addresses import Address
from streammine.runtime.sources.live.messages import Message, checked_id
from streammine.runtime.sources.live.receiver import AddressTakenError, EndedError, Gate

END = b"!end"
QUEUED_MESSAGES = 16
"""Of one client, before ZeroMQ stops reading from it."""

CLOSE_PATIENCE_SECONDS = 1.0
_DOMAIN = "live"


class ZeroMq:
    """An Endpoint for ZeroMQ clients. A client that sends a longer frame is disconnected."""

    def __init__(
        self,
        address: Address,
        longest_message_bytes: int,
        may_end: bool = False,
        keys: ClusterKeys | None = None,
    ) -> None:
        self._address = address
        self._longest_message_bytes = longest_message_bytes
        self._may_end = may_end
        self._keys = keys
        self._context: zmq.asyncio.Context | None = None
        self._answers: set[asyncio.Task[None]] = set()
        self._serving: asyncio.Task[None] | None = None
        self._authenticator: AsyncioAuthenticator | None = None

    @property
    def address(self) -> str:
        return str(self._address)

    async def open(self, gate: Gate) -> None:
        """See Endpoint."""
        self._context = zmq.asyncio.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.maxmsgsize = self._longest_message_bytes
        self._socket.rcvhwm = QUEUED_MESSAGES
        self._socket.linger = int(CLOSE_PATIENCE_SECONDS * 1000)
        self._socket.heartbeat_ivl = 5_000
        self._socket.heartbeat_timeout = 15_000
        self._socket.handshake_ivl = 10_000
        if ":" in self._address.host:
            self._socket.ipv6 = True
        if self._keys is not None:
            self._authenticator = require_keys(self._context, self._socket, self._keys)
        try:
            self._socket.bind(f"tcp://{self._address}")
        except zmq.ZMQError as error:
            await self.close()
            text = f"can't listen at {self._address}: {error}"
            if error.errno == zmq.EADDRINUSE:
                raise AddressTakenError(
                    f"{text}; end what listens there, or choose another port"
                ) from None
            raise InputError(f"{text}; `bind` names an address of the source's node") from None
        bound = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self._address = Address(self._address.host, int(bound.rpartition(":")[2]))
        self._serving = asyncio.ensure_future(self._serve(gate))

    async def close(self) -> None:
        """See Endpoint. What is durable is still answered."""
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)
        if self._answers:
            await asyncio.wait(self._answers, timeout=CLOSE_PATIENCE_SECONDS)
            for task in self._answers:
                task.cancel()
            await asyncio.gather(*self._answers, return_exceptions=True)
        if self._authenticator is not None:
            self._authenticator.stop()
            self._authenticator = None
        if self._context is not None:
            self._socket.close()
            self._context.term()
            self._context = None

    async def _serve(self, gate: Gate) -> None:
        while True:
            try:
                await gate.room()
            except EndedError:
                return
            frames: list[bytes] = await self._socket.recv_multipart()
            # A REQ socket puts an empty frame in front, and expects it back.
            envelope = 2 if len(frames) > 2 and not frames[1] else 1
            await self._take(gate, frames[:envelope], frames[envelope:])

    async def _take(self, gate: Gate, envelope: list[bytes], content: list[bytes]) -> None:
        client = content[0] if len(content) == 2 else b""
        name = checked_id(client) if client else None
        error = None
        if content == [END]:
            if self._may_end:
                self._start(self._end(gate, envelope))
                return
            error = "clients may not end this source; see `end` in its topology"
        elif len(content) not in (1, 2):
            error = "a message is [rows] or [id, rows]"
        elif client and name is None:
            error = "an id is 1 to 128 visible ASCII characters"
        if error is not None:
            await self._send([*envelope, client, _json({"error": error})])
            return
        done = gate.offer([Message(content[-1], name)])
        self._start(self._acknowledge(done, [*envelope, client]))

    def _start(self, answer: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(answer)
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _acknowledge(
        self, done: asyncio.Future[list[Receipt]], envelope: list[bytes]
    ) -> None:
        (receipt,) = await done
        await self._send([*envelope, _json(asdict(receipt))])

    async def _end(self, gate: Gate, envelope: list[bytes]) -> None:
        await gate.end()
        await self._send([*envelope, b"", _json({"ended": True})])

    async def _send(self, frames: list[bytes]) -> None:
        await self._socket.send_multipart(frames)


def require_keys(
    context: zmq.asyncio.Context, socket: zmq.asyncio.Socket, keys: ClusterKeys
) -> AsyncioAuthenticator:
    """Let only clients with the key file's client key in (CURVE), until the result is stopped."""
    authenticator = AsyncioAuthenticator(context)
    authenticator.start()
    authenticator.configure_curve_callback(_DOMAIN, _OneKey(keys.client.public))
    socket.zap_domain = _DOMAIN.encode()
    socket.curve_server = True
    socket.curve_publickey = keys.server.public
    socket.curve_secretkey = keys.server.secret
    return authenticator


class _OneKey:
    """Lets one public key in."""

    def __init__(self, public: bytes) -> None:
        self._public = public

    def callback(self, domain: str, key: bytes) -> bool:
        """Whether a client's key (Z85) is the one."""
        return key == self._public


def _json(answer: dict[str, object]) -> bytes:
    return json.dumps(answer).encode()
