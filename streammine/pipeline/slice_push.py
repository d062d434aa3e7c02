"""Pushing one slice's stream: find the slice, greet it, send within its window, and again if it moves.

::

    seek ──address──> greet ──Welcome──> push ──all sent and held──> leave ──Done──> over
      ^                 │                  │                           │
      └─────────────────┴── silence, or Refused(again), or a newer address ──┘

A slice that was killed or moved comes up elsewhere with what is durable in its log, and says in its
Welcome from where to go on.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import zmq

from streammine.model.errors import ClusterError, InputError, ProtocolError
from streammine.model.replay import (
    MAXIMUM_BODY_BYTES,
    REPLAY_WORDS,
    SOURCE_WORDS,
    Alive,
    Bye,
    Done,
    Finish,
    FromReplay,
    Held,
    HeldLog,
    Hello,
    Mark,
    ParcelHead,
    Refused,
    Welcome,
)
from streammine.pipeline.ingest_log_parcels import SliceLog
from streammine.pipeline.parcels import Content, with_open_epochs
from streammine.pipeline.source_slices import CurveKeys, SliceAddress, find_slice, state_of

SAY_SECONDS = 1.0
"""How often a replay says that it lives, and so asks whether the slice does."""

SILENCE_SECONDS = 5.0
"""A slice that does not answer for so long is looked for anew."""

SEEK_SECONDS = 0.2
LOOK_SECONDS = 1.0
"""How often a slice's address is looked up, while there is none, and while it is silent."""

Contents = Callable[[Mark | None], Iterator[Content]]
"""The slice's stream behind a mark."""


@dataclass
class Sent:
    """What a task has sent, resent parcels counted once."""

    rows: int = 0
    dead: int = 0


@dataclass(frozen=True)
class _Next:
    """What is sent next; with it all epochs below `open_epoch` are complete."""

    content: Content
    open_epoch: int
    body: pa.Buffer


class SlicePush:
    """One slice's share of a replay. `finish`: end the source instead of leaving it open.

    Raises InputError when the slice refuses for good, ClusterError when it is out of reach for
    `patience_seconds`.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        name: str,
        log: SliceLog,
        hello: Hello,
        contents: Contents,
        keys: CurveKeys | None,
        patience_seconds: float,
        finish: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context = context
        self._name = name
        self._log = log
        self._hello = hello
        self._contents = contents
        self._keys = keys
        self._patience_seconds = patience_seconds
        self._finish = finish
        self._clock = clock
        self.phase: Literal["seek", "greet", "push", "leave", "over"] = "seek"
        self.socket: zmq.Socket[bytes] | None = None
        self.sent = Sent()
        self._address: SliceAddress | None = None
        self._session = 0
        self._window_bytes = 0
        self._stream: Iterator[tuple[Content, int]] = iter(())
        self._next: _Next | None = None
        self._sequence = 0
        self._under_way: deque[int] = deque()
        self._under_way_bytes = 0
        self._counted: Mark | None = None
        self._reached = self._said = clock()
        self._unanswered_since: float | None = None
        self._looked = -SEEK_SECONDS
        self._reason = "no address of it is known"

    # --- what to send -----------------------------------------------------------------------------

    @property
    def next_epoch(self) -> int | None:
        """The epoch of what may be sent now; None when nothing may."""
        if self.phase != "push" or self._next is None:
            return None
        if (
            self._under_way_bytes
            and self._under_way_bytes + self._next.body.size > self._window_bytes
        ):
            return None
        return self._next.content.mark.epoch

    def send_next(self) -> None:
        """Send what `next_epoch` tells of."""
        assert self._next is not None
        assert self.socket is not None
        content, body = self._next.content, self._next.body
        head = ParcelHead(
            self._session, self._sequence, content.mark, self._next.open_epoch, content.dead
        )
        self._asked()
        self.socket.send_multipart([REPLAY_WORDS.encode(head), body], copy=False)
        self._sequence += 1
        self._under_way.append(body.size)
        self._under_way_bytes += body.size
        self._count(content)
        self._advance()

    def _count(self, content: Content) -> None:
        if self._counted is None or content.mark > self._counted:
            self._counted = content.mark
            self.sent.rows += content.rows
            self.sent.dead += len(content.dead)

    def _advance(self) -> None:
        following = next(self._stream, None)
        self._next = None
        if following is not None:
            self._next = _Next(*following, _body(self._name, following[0]))
        self._leave_if_done()

    def _leave_if_done(self) -> None:
        if self._next is None and not self._under_way:
            self.phase = "leave"
            self._say(Finish(self._session) if self._finish else Bye(self._session))

    # --- time -------------------------------------------------------------------------------------

    def tend(self) -> None:
        """What time brings: called every fraction of a second, after `receive`.

        What counts is how long a question is open, not how long nothing was heard: the task may have
        been busy with another slice, and have asked nothing.
        """
        now = self._clock()
        if self.phase == "over":
            return
        if self._unanswered_since is None and self.phase != "seek":
            self._reached = now
        if now - self._reached > self._patience_seconds:
            raise ClusterError(
                f"{self._name} has been out of reach for {self._patience_seconds:g} s: "
                f"{self._reason}; `streammine status` tells whether its job runs"
            )
        if self.phase == "seek":
            if now - self._looked >= SEEK_SECONDS:
                self._seek(now)
            return
        silence = 0.0 if self._unanswered_since is None else now - self._unanswered_since
        if silence > SILENCE_SECONDS:
            self._lose(f"it says nothing at {self._endpoint}")
        elif silence > LOOK_SECONDS and now - self._looked > LOOK_SECONDS:
            self._looked = now
            if find_slice(self._log) != self._address:
                self._lose("it has moved")
        elif self.phase in ("push", "leave") and now - self._said >= SAY_SECONDS:
            self._say(Alive(self._session))

    @property
    def _endpoint(self) -> str:
        return "" if self._address is None else self._address.endpoint

    def _seek(self, now: float) -> None:
        self._looked = now
        before, self._address = self._address, find_slice(self._log)
        if self._address in (None, before) or before is None:
            # perhaps nobody is there because the source is over
            state = state_of(self._log)
            if state.ended:
                self._require_all_held(state.replayed)
                self._end()
                return
        if self._address is None:
            return
        self.socket = self._context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.maxmsgsize = MAXIMUM_BODY_BYTES
        self.socket.sndhwm = 0
        if self._address.endpoint.startswith("tcp://"):
            if self._keys is None:
                raise InputError(f"{self._name} listens at {self._endpoint}, and has no keys")
            self._keys.apply(self.socket)
        self.socket.connect(self._address.endpoint)
        self.phase = "greet"
        self._say(self._hello)

    def _require_all_held(self, held: HeldLog | None) -> None:
        """The source is over: fine where what is replayed is what it was given."""
        if held is None or held.log != self._hello.log or any(self._contents(held.mark)):
            raise InputError(
                f"{self._name} is over already, and it was not this replay that ended it; start the "
                "job anew with another ingest_log"
            )

    def _say(self, message: FromReplay) -> None:
        assert self.socket is not None
        self._asked()
        self.socket.send(REPLAY_WORDS.encode(message))

    def _asked(self) -> None:
        self._said = self._clock()
        if self._unanswered_since is None:
            self._unanswered_since = self._said

    def _lose(self, reason: str) -> None:
        """Begin anew: what was not acknowledged is sent again."""
        self._reason = reason
        self._unanswered_since = None
        self._drop_socket()
        self.phase = "seek"
        self._under_way.clear()
        self._under_way_bytes = 0
        self._next = None
        self._stream = iter(())

    def _end(self) -> None:
        self._drop_socket()
        self.phase = "over"

    def _drop_socket(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None

    def close(self) -> None:
        """Let go of the slice, whatever it still has to say."""
        self._drop_socket()

    # --- what the slice says ----------------------------------------------------------------------

    def receive(self) -> None:
        """Take what has arrived."""
        while self.socket is not None and self.socket.poll(0):
            try:
                answer = SOURCE_WORDS.decode(self.socket.recv())
            except ProtocolError as error:
                raise ClusterError(f"{self._name} answers what no source may: {error}") from None
            self._unanswered_since = None
            if not isinstance(answer, Refused):
                self._reached = self._clock()
            match answer:
                case Welcome():
                    self._welcomed(answer)
                case Held():
                    self._acknowledged(answer)
                case Done():
                    if answer.session == self._session:
                        self._end()
                case Refused():
                    if not answer.again:
                        raise InputError(f"{self._name}: {answer.reason}")
                    self._lose(answer.reason)

    def _welcomed(self, welcome: Welcome) -> None:
        if self.phase != "greet":
            return
        self._session = welcome.session
        self._window_bytes = welcome.window_bytes
        self._sequence = 0
        self._stream = with_open_epochs(self._contents(welcome.held))
        self.phase = "push"
        self._advance()

    def _acknowledged(self, held: Held) -> None:
        if held.session != self._session or self.phase != "push":
            return
        while self._under_way and self._sequence - len(self._under_way) < held.sequence:
            self._under_way_bytes -= self._under_way.popleft()
        self._leave_if_done()


def _body(name: str, content: Content) -> pa.Buffer:
    if content.batch is None:
        return pa.py_buffer(b"")
    body = content.batch.serialize()
    if body.size > MAXIMUM_BODY_BYTES:
        raise InputError(
            f"{name}: a row of epoch {content.mark.epoch} has {body.size:,} bytes; a replay takes "
            f"rows of up to {MAXIMUM_BODY_BYTES:,}"
        )
    return body
