"""Where a replay source's slice takes parcels in: a ROUTER, one session at a time (`model.replay`).

It binds a Unix socket in a folder that only its user can enter, or a TCP port with CURVE, and says
in the log's folder where that is, since the slice may run on any node and move.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from streammine.model.epoch_log import log_schema
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import InputError, ProtocolError
from streammine.model.ids import FILE_COLUMN, ROW_COLUMN
from streammine.model.ingest_log import LogState, Parcel, Receipt
from streammine.model.replay import (
    MAXIMUM_BODY_BYTES,
    PROTOCOL_VERSION,
    REPLAY_WORDS,
    SOURCE_WORDS,
    WINDOW_BYTES,
    Alive,
    Bye,
    Done,
    Finish,
    FromSource,
    Held,
    HeldLog,
    Hello,
    Mark,
    ParcelHead,
    Refused,
    Welcome,
    going_on,
    unfit,
)
from streammine.runtime import scratch
from streammine.runtime.endpoints import SocketFolder
from streammine.runtime.keys import ClusterKeys
from streammine.runtime.sources.live.addresses import Address
from streammine.runtime.sources.live.receiver import Gate
from streammine.runtime.sources.live.replay_intake import ParcelMessage
from streammine.runtime.sources.live.router import Router

logger = logging.getLogger(__name__)

SILENCE_SECONDS = 10.0
"""A replay that says nothing for so long is dead, and another one may begin. Replays say that they
live every second or two."""

QUEUED_MESSAGES = 64
"""Of one client, before ZeroMQ stops reading from it."""

_WILDCARDS = ("0.0.0.0", "::", "*")


@dataclass
class _Session:
    """A replay's hold of the slice.

    What it sends up to `had` came before. `taken` parcels came, of which `durable` are in the log;
    `last` is the mark of the last one.
    """

    number: int
    client: bytes
    hello: Hello
    since: int
    had: Mark | None
    heard: float
    last: Mark | None = None
    taken: int = 0
    durable: int = 0
    under_way_bytes: int = 0


class _RefusedError(Exception):
    """What a client sent is not taken."""

    def __init__(self, reason: str, again: bool = False) -> None:
        super().__init__(reason)
        self.again = again


class ReplayPort:
    """An Endpoint for replays. `state` is the log's as it stands when the port is opened.

    `address` None: a private socket on this machine; `keys` go with an address. `publish` is given
    the address's description and makes it known.
    """

    def __init__(
        self,
        source: str,
        schema: pa.Schema,
        epoch: EpochDefinition,
        state: LogState,
        publish: Callable[[bytes], None],
        address: Address | None = None,
        keys: ClusterKeys | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        assert (address is None) == (keys is None)
        self._source = source
        self._schema = schema
        self._epoch = epoch
        self._row_schema = log_schema(schema)
        self._held = state.replayed
        self._open_epoch = state.open_epoch
        self._publish = publish
        self._tcp = address
        self._keys = keys
        self._clock = clock
        self._session: _Session | None = None
        self._newest: asyncio.Future[list[Receipt]] | None = None
        self._folder: SocketFolder | None = None
        self._bound = ""
        self._router = Router()

    @property
    def address(self) -> str:
        return self._bound

    async def open(self, gate: Gate) -> None:
        """See Endpoint."""
        tcp = self._tcp
        assert tcp is None or self._keys is not None
        ipv6 = tcp is not None and ":" in tcp.host
        keys = None if tcp is None else self._keys
        self._router.open(MAXIMUM_BODY_BYTES, QUEUED_MESSAGES, ipv6, keys)
        await self._bind()
        about = {"endpoint": self._bound, "host": socket.gethostname()}
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._publish, json.dumps(about).encode())
        self._router.serve(self._serve(gate))

    async def _bind(self) -> None:
        failing = f"source '{self._source}' can't listen at {self._tcp}"
        if self._tcp is None:
            self._folder = SocketFolder()
            scratch.guard(self._folder.path)
            self._bound = f"ipc://{self._folder.path}/{secrets.token_hex(8)}"
            await self._router.bind(self._bound, failing)
            return
        await self._router.bind(f"tcp://{self._tcp}", failing)
        host = socket.getfqdn() if self._tcp.host in _WILDCARDS else self._tcp.host
        self._bound = f"tcp://{Address(host, self._tcp.port)}"

    async def close(self) -> None:
        """See Endpoint. What is durable is still acknowledged."""
        await self._router.close()
        if self._folder is not None:
            scratch.remove(self._folder.path)
            self._folder = None

    # --- what clients say -------------------------------------------------------------------------

    async def _serve(self, gate: Gate) -> None:
        while True:
            client, *content = await self._router.receive()
            try:
                self._take(gate, client, content)
            except ProtocolError as error:
                logger.warning("source '%s': a replay is refused: %s", self._source, error)
                self._send(client, Refused(str(error), again=False))
            except _RefusedError as refusal:
                self._send(client, Refused(str(refusal), refusal.again))

    def _take(self, gate: Gate, client: bytes, content: list[bytes]) -> None:
        if not content:
            raise ProtocolError("a replay sent a message of no frames")
        message = REPLAY_WORDS.decode(content[0])
        if len(content) != (2 if isinstance(message, ParcelHead) else 1):
            raise ProtocolError(f"{type(message).__name__} came with {len(content)} frames")
        if isinstance(message, Hello):
            self._begin(client, message)
            return
        session = self._session
        if session is None or (session.number, session.client) != (message.session, client):
            raise _RefusedError(
                "the session is over: another one began, or the slice moved", again=True
            )
        session.heard = self._clock()
        match message:
            case ParcelHead():
                self._take_parcel(gate, session, message, content[1])
            case Alive():
                self._send(client, Held(session.number, session.durable))
            case Finish():
                self._router.start(self._finish(gate, session))
            case Bye():
                self._router.start(self._settle(session))

    def _begin(self, client: bytes, hello: Hello) -> None:
        if hello.version != PROTOCOL_VERSION:
            raise _RefusedError(
                f"the replay speaks version {hello.version} of the protocol, the source's node "
                f"{PROTOCOL_VERSION}: use the same release of streammine"
            )
        self._refuse_beside(hello)
        try:
            log_columns = pa.ipc.read_schema(pa.py_buffer(hello.schema))
        except (pa.ArrowException, OSError) as error:
            raise ProtocolError(f"the schema that a replay sent can't be read: {error}") from None
        reason = unfit(self._source, self._schema, self._epoch, log_columns, hello.epoch)
        if reason is not None:
            raise _RefusedError(reason)
        try:
            since, last = going_on(self._held, self._open_epoch, hello.log, hello.from_epoch)
        except InputError as error:
            raise _RefusedError(f"source '{self._source}': {error}") from None
        under_way = self._newest is not None and not self._newest.done()
        mine = self._held is not None and (self._held.log, self._held.since) == (hello.log, since)
        if under_way and not mine:
            raise _RefusedError("what another replay sent is still being written", again=True)
        number = secrets.randbits(62)
        self._session = _Session(number, client, hello, since, last, self._clock())
        self._send(client, Welcome(number, WINDOW_BYTES, last))

    def _refuse_beside(self, hello: Hello) -> None:
        """Refuse a session where a better one is alive."""
        if self._session is None:
            return
        current = self._session.hello
        if current.replay == hello.replay:
            if hello.attempt < current.attempt:
                raise _RefusedError("a newer attempt of the same task has taken over")
        elif self._clock() - self._session.heard < SILENCE_SECONDS:
            raise _RefusedError("another replay is pushing into the source now", again=True)

    def _take_parcel(self, gate: Gate, session: _Session, head: ParcelHead, body: bytes) -> None:
        if head.sequence != session.taken:
            raise _RefusedError(f"parcel {session.taken} is missing", again=True)
        if session.under_way_bytes and session.under_way_bytes + len(body) > WINDOW_BYTES:
            raise ProtocolError("a replay sends more than it may")
        if session.last is not None and head.mark <= session.last:
            raise ProtocolError(f"a replay sends {head.mark} behind {session.last}")
        done = self._newest
        if session.had is None or head.mark > session.had:
            parcel = self._checked(session, head, body)
            held = HeldLog(session.hello.log, session.since, parcel.mark)
            self._held = held
            self._open_epoch = parcel.open_epoch
            done = gate.offer([ParcelMessage(body, parcel=parcel, held=held)])
            self._newest = done
        session.taken += 1
        session.under_way_bytes += len(body)
        session.last = head.mark
        self._router.start(self._acknowledge(session, done, session.taken, len(body)))

    def _checked(self, session: _Session, head: ParcelHead, body: bytes) -> Parcel:
        """The parcel, which is one that the log can go on with."""
        if not max(self._open_epoch, session.since) <= head.mark.epoch <= head.open_epoch:
            raise ProtocolError(
                f"a replay sends epoch {head.mark.epoch} with epochs open from {head.open_epoch} "
                f"on, where they are from {self._open_epoch} on"
            )
        data = pa.py_buffer(body)
        if not body:
            return Parcel(head.mark, head.open_epoch, 0, data, head.dead)
        try:
            batch = pa.ipc.read_record_batch(data, self._row_schema)
            batch.validate(full=True)
        except (pa.ArrowException, OSError) as error:
            raise ProtocolError(f"the rows of {head.mark} can't be read: {error}") from None
        if any(batch.column(name).null_count for name in (FILE_COLUMN, ROW_COLUMN)):
            raise ProtocolError(f"rows of {head.mark} have no position")
        return Parcel(head.mark, head.open_epoch, batch.num_rows, data, head.dead)

    # --- what they are answered -------------------------------------------------------------------

    async def _acknowledge(
        self,
        session: _Session,
        done: asyncio.Future[list[Receipt]] | None,
        durable: int,
        nbytes: int,
    ) -> None:
        """Tell when it is durable. `done` None: a parcel of before this port was opened."""
        if not await _came_true(done):
            return
        session.durable = max(session.durable, durable)
        session.under_way_bytes -= nbytes
        self._send(session.client, Held(session.number, session.durable))

    async def _finish(self, gate: Gate, session: _Session) -> None:
        await gate.end()
        self._send(session.client, Done(session.number))

    async def _settle(self, session: _Session) -> None:
        if await _came_true(self._newest):
            if self._session is session:
                self._session = None
            self._send(session.client, Done(session.number))

    def _send(self, client: bytes, message: FromSource) -> None:
        # A ROUTER drops what goes to a client that is gone or doesn't read; it asks again.
        self._router.start(self._router.send([client, SOURCE_WORDS.encode(message)]))


async def _came_true(done: asyncio.Future[list[Receipt]] | None) -> bool:
    """Wait for it; False when the slice closes before. The replay then finds the slice's next copy,
    and sends again what that one has not."""
    if done is None:
        return True
    await asyncio.wait([done])
    return not done.cancelled()
