"""Rows as lines over TCP.

What a client sends: lines, each a row; with ids, ``ID<TAB>ROW``; where a token is asked for, first a
line ``!token TOKEN``; a line ``!end`` ends the source where that is allowed. What it gets: lines
``ok N``: the first N lines of this connection are durable (token and end lines don't count), and
``ended`` for an end that is. Several lines are acknowledged by one answer, and a client that reads
slowly gets only the latest.
"""

from __future__ import annotations

import asyncio

from streammine.model.ingest_log import Receipt
from streammine.runtime.sources.live.addresses import Address, Token
from streammine.runtime.sources.live.listener import CLOSE_PATIENCE_SECONDS, Listener
from streammine.runtime.sources.live.messages import Message, checked_id
from streammine.runtime.sources.live.receiver import EndedError, Gate

END_LINE = b"!end"
TOKEN_PREFIX = b"!token "
CHUNK_BYTES = 64 << 10
LINE_PATIENCE_SECONDS = 30.0
"""A line that was begun, and a token, must be whole within this time."""


class TcpLines:
    """An Endpoint for lines. `longest_line_bytes`: a longer line is one dead row."""

    def __init__(
        self,
        address: Address,
        longest_line_bytes: int,
        with_ids: bool = False,
        may_end: bool = False,
        token: Token | None = None,
        line_patience_seconds: float = LINE_PATIENCE_SECONDS,
    ) -> None:
        self._listener = Listener(address, CHUNK_BYTES)
        self.longest_line_bytes = longest_line_bytes
        self.with_ids = with_ids
        self.may_end = may_end
        self.token = token
        self.line_patience_seconds = line_patience_seconds
        self._connections: set[_Connection] = set()

    @property
    def address(self) -> str:
        return str(self._listener.address)

    async def open(self, gate: Gate) -> None:
        """See Endpoint."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            # Of a client that leaves, dawdles or is not let in, what is acknowledged stays so.
            connection = _Connection(self, gate, reader, writer)
            self._connections.add(connection)
            try:
                await connection.serve()
            finally:
                self._connections.discard(connection)

        await self._listener.open(serve)

    async def close(self) -> None:
        """See Endpoint. What was acknowledged is still told to clients that listen."""
        self._listener.refuse()
        for connection in self._connections:
            connection.over.set()
        await self._listener.close()


class _Connection:
    """One client."""

    def __init__(
        self,
        rules: TcpLines,
        gate: Gate,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._rules = rules
        self._gate = gate
        self._reader = reader
        self._writer = writer
        self._lines = _LineCutter(rules.longest_line_bytes)
        self._known = rules.token is None
        self._last: asyncio.Future[list[Receipt]] | None = None
        self._begun_at: float | None = None
        self._ended = False
        self._durable = 0
        self._news = asyncio.Event()
        self.over = asyncio.Event()

    async def serve(self) -> None:
        """Take lines in until the client has no more, and say what is durable."""
        answering = asyncio.ensure_future(self._answer())
        reading = asyncio.ensure_future(self._read())
        stopping = asyncio.ensure_future(self.over.wait())
        try:
            await asyncio.wait([reading, stopping, answering], return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
            self.over.set()
            self._news.set()
            await asyncio.wait_for(answering, CLOSE_PATIENCE_SECONDS)
        finally:
            for task in (reading, stopping, answering):
                task.cancel()
            await asyncio.gather(reading, stopping, answering, return_exceptions=True)

    async def _read(self) -> None:
        try:
            while await self._read_chunk():
                continue
        except EndedError:
            # What was offered before is either durable by now or never will be.
            return

    async def _read_chunk(self) -> bool:
        """Take in what has come; whether more may come."""
        await self._gate.room()
        chunk = await asyncio.wait_for(self._reader.read(CHUNK_BYTES), self._patience())
        lines, refused = self._lines.cut(chunk)
        if lines or not self._lines.begun:
            self._begun_at = None
        if await self._take(lines, refused):
            return False
        if not chunk and self._last is not None:
            await asyncio.wait([self._last])
        return bool(chunk)

    def _patience(self) -> float | None:
        """Seconds left for the line that was begun, or the token; None where nothing is due."""
        if self._known and not self._lines.begun:
            return None
        now = asyncio.get_running_loop().time()
        if self._begun_at is None:
            self._begun_at = now
        return max(0.0, self._begun_at + self._rules.line_patience_seconds - now)

    async def _take(self, lines: list[bytes], refused: dict[int, str]) -> bool:
        """Offer whole lines; whether one of them ended the source."""
        if not self._known and lines:
            self._check_token(lines.pop(0))
            refused = {index - 1: reason for index, reason in refused.items()}
        ending = None
        if self._rules.may_end and END_LINE in lines:
            ending = lines.index(END_LINE)
            lines = lines[:ending]
        if lines:
            self._offer(lines, refused)
        if ending is None:
            return False
        await self._gate.end()
        self._ended = True
        return True

    def _check_token(self, line: bytes) -> None:
        token = self._rules.token
        assert token is not None
        if not (line.startswith(TOKEN_PREFIX) and token.fits(line.removeprefix(TOKEN_PREFIX))):
            self._writer.write(b"error the first line must be: !token TOKEN\n")
            raise ConnectionAbortedError("a client without the token")
        self._known = True

    def _offer(self, lines: list[bytes], refused: dict[int, str]) -> None:
        messages: list[Message] = []
        plain: list[bytes] = []
        for index, line in enumerate(lines):
            if index not in refused and not self._rules.with_ids:
                plain.append(line + b"\n")
                continue
            if plain:
                messages.append(Message(b"".join(plain), by_line=True))
                plain = []
            messages.append(self._single(line, refused.get(index)))
        if plain:
            messages.append(Message(b"".join(plain), by_line=True))
        count = len(lines)
        self._last = self._gate.offer(messages)
        self._last.add_done_callback(lambda done: self._note(done, count))

    def _single(self, line: bytes, refused: str | None) -> Message:
        """A line that is a message of its own."""
        if refused is not None:
            return Message(line, refused=refused)
        client, tab, row = line.partition(b"\t")
        name = checked_id(client)
        if not tab or name is None:
            reason = "line has no id: expected ID<TAB>ROW, ID of 1 to 128 visible ASCII characters"
            return Message(line, refused=reason)
        return Message(row + b"\n", name, by_line=True)

    def _note(self, done: asyncio.Future[list[Receipt]], lines: int) -> None:
        if not done.cancelled():
            self._durable += lines
        self._news.set()

    async def _answer(self) -> None:
        told = 0
        while not self.over.is_set() or told < self._durable:
            await self._news.wait()
            self._news.clear()
            if told < self._durable:
                told = self._durable
                self._writer.write(b"ok %d\n" % told)
                await self._writer.drain()
        if self._ended:
            self._writer.write(b"ended\n")
            await self._writer.drain()


class _LineCutter:
    """Cuts a stream into lines without their ends; of a line that is too long it keeps the front."""

    def __init__(self, longest_bytes: int) -> None:
        self._longest_bytes = longest_bytes
        self._rest = b""
        self._skipping = False

    @property
    def begun(self) -> bool:
        """A line was begun that is not whole yet."""
        return bool(self._rest) or self._skipping

    def cut(self, chunk: bytes) -> tuple[list[bytes], dict[int, str]]:
        """(whole lines, why some of them can't be used by their index). An empty chunk is the
        stream's end: a line that was begun is whole no more."""
        if not chunk:
            return self._ended()
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if self._skipping and lines:
            lines.pop(0)
            self._skipping = False
        elif self._skipping:
            self._rest = b""
        refused = {}
        for index, line in enumerate(lines):
            if len(line) > self._longest_bytes:
                refused[index] = self._too_long
        if len(self._rest) > self._longest_bytes:
            refused[len(lines)] = self._too_long
            lines.append(self._rest)
            self._rest, self._skipping = b"", True
        return [line.removesuffix(b"\r") for line in lines], refused

    @property
    def _too_long(self) -> str:
        return f"line is longer than {self._longest_bytes:,} bytes"

    def _ended(self) -> tuple[list[bytes], dict[int, str]]:
        rest, self._rest, self._skipping = self._rest, b"", False
        if not rest:
            return [], {}
        return [rest], {0: "the connection ended inside this line"}
