"""The two ends of a channel: a FIFO from one slice to one slice over a transport that may lose.

House rules
-----------
* The sender numbers the frames of one generation from 0; the receiver takes them in that order only.
* A frame that arrives again is dropped; a frame that arrives too early shows a gap, and the receiver asks
  for everything from the number it waits for (go-back-N). A tail that is lost shows when the sender
  announces the number it has reached.
* The sender keeps what it sent until the receiver's frontier has passed the frame's epoch, so what is
  asked for again is always there.
* Credit is in bytes and speaks of *later* epochs only: a frame of the receiver's frontier epoch (or an
  earlier one) may always be sent, for holding it back could deadlock a diamond. Of later epochs at most
  `budget` bytes are on their way or waiting there.
* A source with rows out of order makes frames of later epochs before it can end the receiver's frontier
  epoch. What the receiver waits for takes them along, budget or not, because the channel is a FIFO.

Invariants (checked by the simulation after every step)
-------------------------------------------------------
* sender: sent frames + held frames are consecutive in sequence; held frames are a suffix.
* receiver: `expected` never falls; `open_epoch` never falls; after END(e) no frame of an epoch ≤ e counts.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from enum import Enum

from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.errors import ProtocolError
from streammine.model.frames import ENDS_EPOCH, FrameHeader, FrameKind


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A frame and its body; `body` is opaque here (a record batch, or None for an epoch end)."""

    header: FrameHeader
    body: object
    nbytes: int


class OutputChannel:
    """The sending end."""

    def __init__(self, job: int, number: int, generation: int, budget: int) -> None:
        assert budget > 0
        self.job = job
        self.number = number
        self.generation = generation
        self.budget = budget
        self.frontier = BEGINNING
        self.next_sequence = 0
        self.ended = BEGINNING
        self.ended_sent = BEGINNING
        self.later_bytes = 0
        self._retained: deque[Outgoing] = deque()
        self._held: deque[Outgoing] = deque()

    @property
    def held(self) -> int:
        """Frames that wait for credit."""
        return len(self._held)

    @property
    def retained(self) -> int:
        return len(self._retained)

    def data(self, epoch: int, rows: int, body: object, nbytes: int, round_: int = 0) -> None:
        """Append a batch of an epoch that this channel has not ended."""
        assert epoch > self.ended, f"channel {self.number}: data of epoch {epoch} after its end"
        self._append(epoch, rows, FrameKind.DATA, body, nbytes, 0, round_)

    def end(self, epoch: int, watermark: int) -> None:
        """Append the end of all epochs up to `epoch`; a no-op when they are ended already."""
        if epoch <= self.ended:
            return
        self.ended = epoch
        last = self._held[-1] if self._held else None
        if last is not None and last.header.epoch == epoch:
            header = replace(last.header, flags=ENDS_EPOCH, watermark=watermark)
            self._held[-1] = Outgoing(header, last.body, last.nbytes)
            return
        self._append(epoch, 0, FrameKind.EPOCH_END, None, 0, watermark, 0)

    def _append(
        self,
        epoch: int,
        rows: int,
        kind: FrameKind,
        body: object,
        nbytes: int,
        watermark: int,
        round_: int,
    ) -> None:
        header = FrameHeader(
            self.job,
            self.number,
            self.generation,
            epoch,
            round_,
            self.next_sequence,
            rows,
            kind,
            0,
            watermark,
        )
        self.next_sequence += 1
        self._held.append(Outgoing(header, body, nbytes))

    def sendable(self) -> list[Outgoing]:
        """The frames that may leave now, in order. They count as sent."""
        frames: list[Outgoing] = []
        awaited = 0
        while self._held:
            frame = self._held[0]
            later = frame.nbytes > 0 and frame.header.epoch > self.frontier
            if later and self.later_bytes > 0 and self.later_bytes + frame.nbytes > self.budget:
                awaited = awaited or self._awaited_frames()
                if not awaited:
                    break
            awaited = max(0, awaited - 1)
            if later:
                self.later_bytes += frame.nbytes
            if frame.header.ends:
                self.ended_sent = frame.header.epoch
            self._held.popleft()
            self._retained.append(frame)
            frames.append(frame)
        return frames

    @property
    def awaited(self) -> bool:
        """The receiver can't move before the end of its frontier epoch is sent here."""
        return self.ended_sent < self.frontier or self.ended_sent == BEGINNING

    def _awaited_frames(self) -> int:
        """How many of the held frames lead up to what the receiver waits for, that included."""
        if not self.awaited:
            return 0
        awaited = 0
        for place, frame in enumerate(self._held, start=1):
            ends = frame.header.ends
            if ends or frame.header.epoch <= self.frontier:
                awaited = place
            if ends and frame.header.epoch >= self.frontier:
                break
        return awaited

    def credit(self, frontier: int) -> None:
        """The receiver has processed every epoch below `frontier`."""
        if frontier <= self.frontier:
            return
        self.frontier = frontier
        while self._retained and self._retained[0].header.epoch < frontier:
            self._retained.popleft()
        self.later_bytes = sum(
            frame.nbytes for frame in self._retained if frame.header.epoch > frontier
        )

    def resend(self, sequence: int) -> list[Outgoing]:
        """The sent frames from `sequence` on. Raises ProtocolError when they are pruned."""
        if self._retained and self._retained[0].header.sequence > sequence:
            raise ProtocolError(
                f"channel {self.number}: frames from {sequence} were asked for, "
                f"the oldest kept is {self._retained[0].header.sequence}"
            )
        return [frame for frame in self._retained if frame.header.sequence >= sequence]

    def announced(self) -> int:
        """The number that follows the last frame sent."""
        return self.next_sequence - len(self._held)


class Verdict(Enum):
    """What a receiver does with a frame."""

    TAKE = "take"
    REPEATED = "repeated"
    EARLY = "early"


class InputChannel:
    """The receiving end."""

    def __init__(self, number: int, port: int, generation: int) -> None:
        self.number = number
        self.port = port
        self.generation = generation
        self.expected = 0
        self.open_epoch = BEGINNING
        self.last_epoch = BEGINNING
        self.asked_for: int | None = None

    def receive(self, header: FrameHeader) -> Verdict:
        """Judge a frame and, if it is taken, move on. Raises ProtocolError on a broken order."""
        if header.generation != self.generation:
            return Verdict.REPEATED
        if header.sequence != self.expected:
            return Verdict.REPEATED if header.sequence < self.expected else Verdict.EARLY
        if header.epoch < self.open_epoch:
            raise ProtocolError(
                f"channel {self.number}: frame of epoch {header.epoch} after the end of "
                f"epoch {self.open_epoch - 1}"
            )
        self.expected = header.sequence + 1
        self.asked_for = None
        if header.ends:
            self.open_epoch = _after(header.epoch)
            if header.epoch == INFINITY:
                self.last_epoch = header.watermark
        return Verdict.TAKE

    def missing(self, announced: int) -> int | None:
        """The number to ask for when the sender has reached `announced`, or None."""
        return self.expected if announced > self.expected else None


def _after(epoch: int) -> int:
    """The epoch that follows; the last one stays the last."""
    return epoch if epoch == INFINITY else epoch + 1
