"""A ROUTER socket of a live source, and the tasks that serve and answer its clients."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import zmq
import zmq.asyncio
from zmq.auth.asyncio import AsyncioAuthenticator

from streammine.model.errors import InputError
from streammine.runtime.keys import ClusterKeys
from streammine.runtime.sources.live.listener import CLOSE_PATIENCE_SECONDS
from streammine.runtime.sources.live.receiver import AddressTakenError

_DOMAIN = "live"


class Router:
    """A client that sends a longer frame than allowed is disconnected."""

    def __init__(self) -> None:
        self._context: zmq.asyncio.Context | None = None
        self._authenticator: AsyncioAuthenticator | None = None
        self._serving: asyncio.Task[None] | None = None
        self._answers: set[asyncio.Task[None]] = set()

    def open(
        self,
        longest_frame_bytes: int,
        queued_messages: int,
        ipv6: bool = False,
        keys: ClusterKeys | None = None,
    ) -> None:
        """Make the socket, which queues so many messages of one client before it stops reading from it.
        With `keys` only clients with the key file's client key get in (CURVE)."""
        self._context = zmq.asyncio.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.maxmsgsize = longest_frame_bytes
        self._socket.rcvhwm = queued_messages
        self._socket.linger = int(CLOSE_PATIENCE_SECONDS * 1000)
        self._socket.heartbeat_ivl = 5_000
        self._socket.heartbeat_timeout = 15_000
        self._socket.handshake_ivl = 10_000
        if ipv6:
            self._socket.ipv6 = True
        if keys is not None:
            self._authenticator = AsyncioAuthenticator(self._context)
            self._authenticator.start()
            self._authenticator.configure_curve_callback(_DOMAIN, _OneKey(keys.client.public))
            self._socket.zap_domain = _DOMAIN.encode()
            self._socket.curve_server = True
            self._socket.curve_publickey = keys.server.public
            self._socket.curve_secretkey = keys.server.secret

    async def bind(self, endpoint: str, failing: str) -> str:
        """Listen; the endpoint with the port that was given. Where that fails it is closed, and `failing`
        begins the message. Raises AddressTakenError and InputError."""
        try:
            self._socket.bind(endpoint)
        except zmq.ZMQError as error:
            await self.close()
            text = f"{failing}: {error}"
            if error.errno == zmq.EADDRINUSE:
                raise AddressTakenError(
                    f"{text}; end what listens there, or choose another port"
                ) from None
            raise InputError(f"{text}; `bind` names an address of the source's node") from None
        return self._socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def serve(self, serving: Coroutine[Any, Any, None]) -> None:
        """Let this take what clients send, until the router is closed."""
        self._serving = asyncio.ensure_future(serving)

    def start(self, answer: Coroutine[Any, Any, None]) -> None:
        """Let this answer a client meanwhile."""
        task = asyncio.ensure_future(answer)
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def receive(self) -> list[bytes]:
        frames: list[bytes] = await self._socket.recv_multipart()
        return frames

    async def send(self, frames: list[bytes]) -> None:
        await self._socket.send_multipart(frames)

    async def close(self) -> None:
        """Serve no more; answers under way still have a moment."""
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


class _OneKey:
    """Lets one public key in."""

    def __init__(self, public: bytes) -> None:
        self._public = public

    def callback(self, domain: str, key: bytes) -> bool:
        """Whether a client's key (Z85) is the one."""
        return key == self._public
