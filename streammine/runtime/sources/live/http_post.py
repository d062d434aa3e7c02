"""Rows by HTTP/1.1: POST with rows as the body, DELETE to end the source.

Written on asyncio's streams: of HTTP it takes the little that is needed and refuses the rest, so
there is no dependency for it, and one limit and one deadline cover a whole request, which
`http.server` has not. Bodies need a Content-Length.

======  ==========================================================================================
answer  when
======  ==========================================================================================
200     the rows are durable: ``{"accepted": …, "dead": …, "first_position": …}``; also for DELETE
400     no request that we understand, or an Idempotency-Key that is no id
401     no token, or not ours
403     a browser's page sent it (Origin), or DELETE where clients may not end the source
405     neither POST nor DELETE
408     the request was not whole in time
411     no Content-Length
413     the body is too long
503     the source is over or being closed, or too much is being sent at once: nothing was taken
======  ==========================================================================================
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from dataclasses import asdict, dataclass
from typing import Any

from streammine.runtime.sources.live.addresses import Address, Token
from streammine.runtime.sources.live.listener import Listener
from streammine.runtime.sources.live.messages import Message, checked_id
from streammine.runtime.sources.live.receiver import EndedError, Gate

HEADER_BYTES = 16 << 10
REQUEST_PATIENCE_SECONDS = 30.0
"""A request that was begun must be whole within this time; so long is a connection kept without
one."""

BODIES_BYTES = 64 << 20
"""Bodies that are being received or logged, together, at most (one longest body at least)."""

_REQUEST_LINE = re.compile(rb"([A-Z]{1,16}) [\x21-\x7e]{1,4096} HTTP/1\.([01])")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}):[ \t]*([\x20-\x7e\t\x80-\xff]*?)[ \t]*")
_LENGTH = re.compile(rb"[0-9]{1,15}")
_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    405: "Method Not Allowed",
    408: "Request Timeout",
    411: "Length Required",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


class _RefusedError(Exception):
    """A request that is answered with an error; the connection is closed behind it."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class _Request:
    method: bytes
    headers: dict[bytes, bytes]
    keeps: bool
    """The client may send another one on this connection."""


class HttpPost:
    """An Endpoint for POST requests. `longest_body_bytes`: a longer body is refused."""

    def __init__(
        self,
        address: Address,
        longest_body_bytes: int,
        may_end: bool = False,
        token: Token | None = None,
        patience_seconds: float = REQUEST_PATIENCE_SECONDS,
    ) -> None:
        self._listener = Listener(address, HEADER_BYTES)
        self._longest_body_bytes = longest_body_bytes
        self._may_end = may_end
        self._token = token
        self._patience_seconds = patience_seconds
        self._bodies_bytes = 0
        self._answering: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        return str(self._listener.address)

    async def open(self, gate: Gate) -> None:
        """See Endpoint."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            # A client that leaves may send again what it was not answered.
            while await self._exchange(gate, reader, writer):
                continue

        await self._listener.open(serve)

    async def close(self) -> None:
        """See Endpoint. Requests whose rows are durable are still answered."""
        self._listener.refuse()
        for task in set(self._listener.tasks) - self._answering:
            task.cancel()
        await self._listener.close()

    async def _exchange(
        self, gate: Gate, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """One request and its answer; whether another may follow."""
        task = asyncio.current_task()
        assert task is not None
        length = 0
        try:
            try:
                async with asyncio.timeout(self._patience_seconds):
                    request = await self._head(reader)
                    length = self._reserve(request)
                    body = await self._body(request, length, reader, writer)
            except TimeoutError:
                raise _RefusedError(408, "the request was not whole in time") from None
            self._answering.add(task)
            answer = await self._answer(gate, request, body)
            await self._send(writer, 200, answer, request.keeps)
            return request.keeps
        except _RefusedError as error:
            await self._send(writer, error.status, {"error": str(error)}, False)
            return False
        finally:
            self._bodies_bytes -= length
            self._answering.discard(task)

    async def _head(self, reader: asyncio.StreamReader) -> _Request:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            raise _RefusedError(431, f"headers of more than {HEADER_BYTES:,} bytes") from None
        request = _parsed(head)
        self._admit(request)
        return request

    def _reserve(self, request: _Request) -> int:
        """Bytes of the body, for which there is room."""
        if request.method == b"DELETE" and b"content-length" not in request.headers:
            return 0
        length = self._length(request)
        if self._bodies_bytes and self._bodies_bytes + length > BODIES_BYTES:
            raise _RefusedError(503, "too much is being sent at once; send it again in a moment")
        self._bodies_bytes += length
        return length

    async def _body(
        self,
        request: _Request,
        length: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bytes:
        if request.headers.get(b"expect", b"").lower() == b"100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return await reader.readexactly(length)

    def _admit(self, request: _Request) -> None:
        """Who may ask for what; judged before any of the body is read."""
        if b"origin" in request.headers or b"sec-fetch-site" in request.headers:
            raise _RefusedError(403, "pages in browsers may not send to this source")
        if self._token is not None:
            scheme, _, shown = request.headers.get(b"authorization", b"").partition(b" ")
            if scheme.lower() != b"bearer" or not self._token.fits(shown.strip()):
                raise _RefusedError(401, "needs the header Authorization: Bearer TOKEN")
        if request.method not in (b"POST", b"DELETE"):
            raise _RefusedError(405, "POST takes rows in; DELETE ends the source")
        if request.method == b"DELETE" and not self._may_end:
            raise _RefusedError(403, "clients may not end this source; see `end` in its topology")

    def _length(self, request: _Request) -> int:
        if b"transfer-encoding" in request.headers:
            raise _RefusedError(411, "send a Content-Length, not Transfer-Encoding")
        text = request.headers.get(b"content-length")
        if text is None:
            raise _RefusedError(411, "send a Content-Length")
        if _LENGTH.fullmatch(text) is None:
            raise _RefusedError(400, "Content-Length is no number")
        if int(text) > self._longest_body_bytes:
            raise _RefusedError(413, f"a body has at most {self._longest_body_bytes:,} bytes")
        return int(text)

    async def _answer(self, gate: Gate, request: _Request, body: bytes) -> dict[str, Any]:
        try:
            if request.method == b"DELETE":
                await gate.end()
                return {"ended": True}
            message = Message(body, _client_id(request))
            await gate.room()
            (receipt,) = await gate.offer([message])
            return asdict(receipt)
        except EndedError:
            raise _RefusedError(503, "the source takes nothing in any more") from None
        except asyncio.CancelledError:
            raise _RefusedError(503, "the source is being closed; nothing was promised") from None

    async def _send(
        self, writer: asyncio.StreamWriter, status: int, answer: dict[str, Any], keeps: bool
    ) -> None:
        body = json.dumps(answer).encode() + b"\n"
        challenge = "WWW-Authenticate: Bearer\r\n" if status == 401 else ""
        head = (
            f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: application/json\r\n{challenge}"
            f"Content-Length: {len(body)}\r\nConnection: {'keep-alive' if keeps else 'close'}\r\n"
            "\r\n"
        )
        writer.write(head.encode() + body)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience_seconds):
                await writer.drain()


def _parsed(head: bytes) -> _Request:
    """Request line and headers. Refuses whatever could be understood in two ways."""
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    found = _REQUEST_LINE.fullmatch(first)
    if found is None:
        raise _RefusedError(400, "this is no request of HTTP/1.1")
    headers: dict[bytes, bytes] = {}
    for line in lines:
        header = _HEADER.fullmatch(line)
        if header is None:
            raise _RefusedError(400, "a header can't be understood")
        name = header[1].lower()
        if name in headers and name in (b"content-length", b"authorization", b"idempotency-key"):
            raise _RefusedError(400, f"the header {name.decode()} stands there twice")
        headers[name] = header[2]
    keeps = found[2] == b"1" and headers.get(b"connection", b"").lower() != b"close"
    return _Request(found[1], headers, keeps)


def _client_id(request: _Request) -> str | None:
    key = request.headers.get(b"idempotency-key")
    if key is None:
        return None
    name = checked_id(key)
    if name is None:
        raise _RefusedError(400, "an Idempotency-Key is 1 to 128 visible ASCII characters")
    return name
