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
from dataclasses import asdict

from streammine.model.ingest_log import Receipt
from streammine.runtime.keys import ClusterKeys
from streammine.runtime.sources.live.addresses import Address
from streammine.runtime.sources.live.messages import Message, checked_id
from streammine.runtime.sources.live.receiver import EndedError, Gate
from streammine.runtime.sources.live.router import Router

END = b"!end"
QUEUED_MESSAGES = 16


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
        self._router = Router()

    @property
    def address(self) -> str:
        return str(self._address)

    async def open(self, gate: Gate) -> None:
        """See Endpoint."""
        ipv6 = ":" in self._address.host
        self._router.open(self._longest_message_bytes, QUEUED_MESSAGES, ipv6, self._keys)
        failing = f"can't listen at {self._address}"
        bound = await self._router.bind(f"tcp://{self._address}", failing)
        self._address = Address(self._address.host, int(bound.rpartition(":")[2]))
        self._router.serve(self._serve(gate))

    async def close(self) -> None:
        """See Endpoint. What is durable is still answered."""
        await self._router.close()

    async def _serve(self, gate: Gate) -> None:
        while True:
            try:
                await gate.room()
            except EndedError:
                return
            frames = await self._router.receive()
            # A REQ socket puts an empty frame in front, and expects it back.
            envelope = 2 if len(frames) > 2 and not frames[1] else 1
            await self._take(gate, frames[:envelope], frames[envelope:])

    async def _take(self, gate: Gate, envelope: list[bytes], content: list[bytes]) -> None:
        client = content[0] if len(content) == 2 else b""
        name = checked_id(client) if client else None
        error = None
        if content == [END]:
            if self._may_end:
                self._router.start(self._end(gate, envelope))
                return
            error = "clients may not end this source; see `end` in its topology"
        elif len(content) not in (1, 2):
            error = "a message is [rows] or [id, rows]"
        elif client and name is None:
            error = "an id is 1 to 128 visible ASCII characters"
        if error is not None:
            await self._router.send([*envelope, client, _json({"error": error})])
            return
        done = gate.offer([Message(content[-1], name)])
        self._router.start(self._acknowledge(done, [*envelope, client]))

    async def _acknowledge(
        self, done: asyncio.Future[list[Receipt]], envelope: list[bytes]
    ) -> None:
        (receipt,) = await done
        await self._router.send([*envelope, _json(asdict(receipt))])

    async def _end(self, gate: Gate, envelope: list[bytes]) -> None:
        await gate.end()
        await self._router.send([*envelope, b"", _json({"ended": True})])


def _json(answer: dict[str, object]) -> bytes:
    return json.dumps(answer).encode()
