"""The receiver of one live source slice: a thread that logs what its endpoint takes in.

Messages that arrive within a linger of each other are logged in one record with one sync, then all
of them are acknowledged (group commit). While a record is written, on a thread of its own, the
next ones arrive. A receiver that may not hand on more, because the engine lags, takes nothing in:
endpoints then stop reading from their sockets, and clients feel it as TCP's own back-pressure.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from streammine.model.errors import InputError
from streammine.model.ingest_log import End, Entry, Idle, LogState, Receipt
from streammine.runtime.sources.live.handover import Handover
from streammine.runtime.sources.live.log_writer import LogWriter
from streammine.runtime.sources.live.messages import Message

LINGER_SECONDS = 0.002
"""Arrivals of about this long share a record and a sync."""

GROUP_BYTES = 1 << 20
"""So much that waits is logged without lingering, and about so much at once."""

PENDING_BYTES = 4 << 20
"""So much may wait to be logged; with more, endpoints stop reading."""

ENTRY_BYTES = 512
"""What an entry costs in memory besides its rows."""

LOOK_SECONDS = 1.0
"""How often a receiver to which nothing comes looks whether it was replaced."""

BIND_PATIENCE_SECONDS = 30.0
BIND_RETRY_SECONDS = 0.1
"""A slice that moves is brought up while the old copy may still hold the address: it lets go when it
sees that it was replaced."""


class EndedError(InputError):
    """The source is over or being closed: nothing is taken in any more."""


class AddressTakenError(InputError):
    """Another process listens at the address, perhaps not for long."""


class Gate(Protocol):
    """What an endpoint sees of its receiver. Everything on the receiver's loop."""

    async def room(self) -> None:
        """Wait until more may be offered. Raises EndedError when nothing will be taken any more."""
        ...

    def offer(self, messages: Sequence[Message]) -> asyncio.Future[list[Receipt]]:
        """Messages to be logged; the future is done when they are durable, and cancelled when that
        will never be said."""
        ...

    async def end(self) -> None:
        """The source is over; returns when that is durable. Everything offered before is logged
        first."""
        ...


class Judge(Protocol):
    """Makes log entries of messages. Everything on the receiver's disk thread or loop, one call at a
    time; `intake.Intake` says what the arguments are."""

    def take(
        self, messages: Sequence[Message], state: LogState, time_of_day: int
    ) -> tuple[Entry | None, list[Receipt]]:
        """(the entry, None where nothing is new; a receipt for each message)."""
        ...

    def reference(self, state: LogState, time_of_day: int) -> int:
        """The event time from which a silence that begins now is counted."""
        ...

    def idle(self, state: LogState, reference: int, silence: int) -> tuple[Idle | None, int | None]:
        """(the entry that moves the clock on, if one is due; the silence at which the next is)."""
        ...


class Endpoint(Protocol):
    """Takes messages in at an address."""

    @property
    def address(self) -> str: ...

    async def open(self, gate: Gate) -> None:
        """Bind and begin. Raises InputError when the address can't be had, and AddressTakenError
        when it may be had later."""
        ...

    async def close(self) -> None: ...


@dataclass
class _Offer:
    messages: Sequence[Message]
    nbytes: int
    done: asyncio.Future[list[Receipt]]
    ends: bool = False


@dataclass(frozen=True)
class Clock:
    """Where time comes from: monotonic seconds, and the time of day in microseconds."""

    monotonic: Callable[[], float] = time.monotonic
    time_of_day: Callable[[], int] = lambda: time.time_ns() // 1000


class Receiver:
    """Runs from `start` to `close`. Entries go to `handover` once they are durable."""

    def __init__(
        self,
        writer: LogWriter,
        intake: Judge,
        endpoint: Endpoint,
        handover: Handover,
        clock: Clock | None = None,
    ) -> None:
        self._writer = writer
        self._intake = intake
        self._endpoint = endpoint
        self._handover = handover
        self._clock = clock or Clock()
        self._offers: deque[_Offer] = deque()
        self._offered_bytes = 0
        self._closing = False
        self._ended = False
        self._refused: InputError | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live-source", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Bind and begin to take in; an address that is taken is tried for again meanwhile. Raises
        InputError when it can't be had at all."""
        self._thread.start()
        self._ready.wait()
        if self._refused is not None:
            self._thread.join()
            raise self._refused

    @property
    def address(self) -> str:
        return self._endpoint.address

    def close(self) -> None:
        """Stop at once: what is not durable is neither handed on nor acknowledged."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stop)
            self._thread.join()
        self._writer.close()

    # --- what endpoints call ----------------------------------------------------------------------

    async def room(self) -> None:
        """See Gate."""
        while self._offered_bytes >= PENDING_BYTES and not self._over:
            self._room.clear()
            await self._room.wait()
        if self._over:
            raise EndedError("the source takes nothing in any more")

    def offer(self, messages: Sequence[Message]) -> asyncio.Future[list[Receipt]]:
        """See Gate."""
        return self._offer(messages)

    async def end(self) -> None:
        """See Gate."""
        await self._offer((), ends=True)

    def _offer(
        self, messages: Sequence[Message], ends: bool = False
    ) -> asyncio.Future[list[Receipt]]:
        done: asyncio.Future[list[Receipt]] = asyncio.get_running_loop().create_future()
        if self._over:
            done.cancel()
            return done
        nbytes = sum(len(message.body) + ENTRY_BYTES for message in messages)
        self._offers.append(_Offer(messages, nbytes, done, ends))
        self._offered_bytes += nbytes
        self._arrived.set()
        if self._offered_bytes >= GROUP_BYTES or ends:
            self._enough.set()
        return done

    @property
    def _over(self) -> bool:
        return self._closing or self._ended

    # --- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._arrived, self._enough = asyncio.Event(), asyncio.Event()
        self._room, self._drained = asyncio.Event(), asyncio.Event()
        self._stopped = asyncio.Event()
        loop = self._loop

        def on_room() -> None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._drained.set)

        self._handover.on_room = on_room
        self._begin_silence()
        with ThreadPoolExecutor(1, "ingest-log") as self._disk:
            try:
                await self._open()
                self._ready.set()
                await self._log_until_over()
            except Exception as error:
                self._handover.fail(error)
                if not self._ready.is_set() and isinstance(error, InputError):
                    self._refused = error
            finally:
                self._ready.set()
                self._closing = True
                self._give_up()
                await self._endpoint.close()

    async def _open(self) -> None:
        deadline = self._loop_time() + BIND_PATIENCE_SECONDS
        while not self._closing:
            try:
                await self._endpoint.open(self)
                return
            except AddressTakenError:
                if self._loop_time() >= deadline:
                    raise
            self._ready.set()
            await _until(self._stopped, BIND_RETRY_SECONDS)

    def _loop_time(self) -> float:
        return asyncio.get_running_loop().time()

    def _stop(self) -> None:
        self._closing = True
        for event in (self._arrived, self._enough, self._room, self._drained, self._stopped):
            event.set()

    def _give_up(self) -> None:
        """Nothing that still waits will be acknowledged."""
        self._room.set()
        for offer in self._offers:
            offer.done.cancel()
        self._offers.clear()

    async def _log_until_over(self) -> None:
        while not self._over:
            await self._until_handover()
            timeout_seconds = await self._log_silence()
            await _until(self._arrived, timeout_seconds)
            if self._offers and not self._closing:
                if self._offered_bytes < GROUP_BYTES and not self._offers[-1].ends:
                    await _until(self._enough, LINGER_SECONDS)
                await self._until_handover()
                if not self._closing:
                    await self._log_offers()

    async def _until_handover(self) -> None:
        """Wait while the engine lags; a silence that we caused is none."""
        waited = False
        while self._handover.full and not self._closing:
            waited = True
            self._drained.clear()
            if self._handover.full:
                await self._drained.wait()
        if waited:
            self._begin_silence()

    def _begin_silence(self) -> None:
        self._silent_since = self._clock.monotonic()
        self._reference = self._intake.reference(self._writer.state, self._clock.time_of_day())

    async def _log_silence(self) -> float:
        """Log that the clock has moved if it is time; how many seconds to wait for the next look."""
        if self._offers:
            return 0.0
        assert self._loop is not None
        silence = int((self._clock.monotonic() - self._silent_since) * 1e6)
        entry, due = self._intake.idle(self._writer.state, self._reference, silence)
        if entry is not None:
            await self._write(entry, ENTRY_BYTES)
        elif silence >= LOOK_SECONDS * 1e6:
            await self._loop.run_in_executor(self._disk, self._writer.refuse_if_replaced)
        wait_seconds = LOOK_SECONDS if due is None else max(0.0, (due - silence) / 1e6)
        return min(wait_seconds, LOOK_SECONDS)

    async def _log_offers(self) -> None:
        """Log one group of what was offered, hand it on, and acknowledge it."""
        group: list[_Offer] = []
        nbytes = 0
        while self._offers and (not group or nbytes + self._offers[0].nbytes <= GROUP_BYTES):
            group.append(self._offers.popleft())
            nbytes += group[-1].nbytes
            if group[-1].ends:
                break
        messages = [message for offer in group for message in offer.messages]
        try:
            receipts = await self._log_messages(messages, nbytes)
            if group[-1].ends:
                await self._write(End(), ENTRY_BYTES)
                self._ended = True
        except BaseException:
            for offer in group:
                offer.done.cancel()
            raise
        self._offered_bytes -= nbytes
        if not self._offers:
            self._arrived.clear()
            self._enough.clear()
        self._room.set()
        self._begin_silence()
        at = 0
        for offer in group:
            if not offer.done.done():
                offer.done.set_result(receipts[at : at + len(offer.messages)])
            at += len(offer.messages)

    async def _log_messages(self, messages: list[Message], nbytes: int) -> list[Receipt]:
        if not messages:
            return []
        assert self._loop is not None
        entry, receipts = await self._loop.run_in_executor(
            self._disk,
            self._intake.take,
            messages,
            self._writer.state,
            self._clock.time_of_day(),
        )
        if entry is not None:
            await self._write(entry, nbytes)
        return receipts

    async def _write(self, entry: Entry, nbytes: int) -> None:
        assert self._loop is not None
        behind = await self._loop.run_in_executor(self._disk, self._writer.append, entry)
        self._handover.put(entry, behind, nbytes)


async def _until(event: asyncio.Event, timeout_seconds: float | None) -> None:
    """Wait for the event or for so long."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), timeout_seconds)
