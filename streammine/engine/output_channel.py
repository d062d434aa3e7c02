"""The sending end of a channel: one log of what was sent, and a link to each replica that takes it.

Theory: upstream backup with a log per channel (Martin 2015, chapter 4). What is sent stays in the log until a
complete checkpoint covers it, so that a replica which comes to life later, from an older snapshot, gets it
again from here and nobody else needs to go back.

House rules
-----------
* A *link* goes to one replica of the receiver and is known by its generation. Frames of a link are numbered
  from 0; the receiver takes them in that order only and asks again from the first one it misses (go-back-N).
* A link begins with the first frame of the epoch that its receiver asked for; what comes before is
  passed over.
* Credit is in bytes and speaks of *later* epochs only: a frame of the receiver's frontier epoch (or an
  earlier one) may always be sent, for holding it back could deadlock a diamond. Of later epochs at most
  `budget` bytes are on their way or waiting there.
* What another link was sent before goes to a newer one in portions: at most `REPLAYED_FRAMES` of later epochs
  are on their way there. It comes on top of what is sent anyway, and nobody waits for it but that receiver.
* A source with rows out of order makes frames of later epochs before it can end the receiver's frontier
  epoch. What the receiver waits for takes them along, budget or not, because a link is a FIFO.
* The log is pruned by `prune` alone where checkpoints are made, else as soon as no link needs it.
* With several links the fastest one sets the pace; a slower one reads the log. Without any, at most
  `budget` bytes are made ahead. One whose receiver only queues what comes sets no pace.
* A *silent* channel is that of a replica which only stands by: its log is kept, its links stand, and what its
  receivers have processed is known, but nothing leaves. When it speaks, it begins with what each receiver
  lacks. What has spoken never falls silent: a receiver would wait for the rest. What has not is made at most
  `budget` bytes ahead of the fastest receiver, or whoever stands by would fill the disk with it.

Invariants (checked by the simulation after every step)
-------------------------------------------------------
* a link's cursor lies in the log or at its end; everything from the cursor on is unsent there.
* every epoch above `retained_after` is whole in the log, as far as it was made.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from streammine.engine.kept import Kept
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.frames import CHECKPOINT, ENDS_EPOCH, LOST, RESUMES, FrameHeader, FrameKind

REPLAYED_FRAMES = 64

FREED_AT_ONCE = 4
FREED_AT_A_BEAT = 256
FREED_LATER_BYTES = 64 << 10
"""A checkpoint drops what a second has made; to free thousands of small frames at once would hold everybody
else up for milliseconds. So some of them go with each frame that is made, and with each beat."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A frame and its body; `body` is opaque here (a batch in memory or on disk, or None)."""

    header: FrameHeader
    body: object
    nbytes: int


class Entry(Kept):
    """A frame of the log, not yet numbered: the number is the link's."""

    __slots__ = ("epoch", "flags", "kind", "round", "rows", "watermark")

    def __init__(
        self,
        epoch: int,
        rows: int,
        kind: FrameKind,
        body: object,
        nbytes: int,
        flags: int,
        watermark: int,
        round_: int,
    ) -> None:
        super().__init__(body, nbytes)
        self.epoch = epoch
        self.rows = rows
        self.kind = kind
        self.flags = flags
        self.watermark = watermark
        self.round = round_

    @property
    def ends(self) -> bool:
        return self.kind is FrameKind.EPOCH_END or bool(self.flags & ENDS_EPOCH)


class UnwantedRange(NamedTuple):
    """Epochs from `first` to below `below` that a receiver has taken from another source; none, where `first`
    is not below `below`. The sender need not read on once all epochs below `until` are over; INFINITY: it is
    to give all that it has."""

    first: int = BEGINNING
    below: int = BEGINNING
    until: int = INFINITY


NOTHING_UNWANTED = UnwantedRange()


@dataclass(slots=True)
class Link:
    """The way to one replica. `cursor` is the place in the log of the next frame; `base` that of frame 0,
    None until there is one. `later` holds what is under way by epoch above the frontier: bytes, frames.
    `unwanted`: what the receiver has taken from another source."""

    generation: int
    from_epoch: int
    cursor: int
    frontier: int = BEGINNING
    base: int | None = None
    ended_sent: int = BEGINNING
    highest_sent: int = BEGINNING
    later_bytes: int = 0
    later_frames: int = 0
    later: dict[int, tuple[int, int]] = field(default_factory=dict)
    unwanted: UnwantedRange = NOTHING_UNWANTED

    @property
    def unconfirmed(self) -> bool:
        """The receiver has not said that it has processed all that was sent: it may miss some."""
        return self.base is not None and self.highest_sent >= self.frontier

    @property
    def awaited(self) -> bool:
        """The receiver can't move before the end of its frontier epoch is sent here."""
        return self.ended_sent < self.frontier or self.ended_sent == BEGINNING

    def sent(self, entry: Entry) -> None:
        if entry.nbytes > 0 and entry.epoch > self.frontier:
            nbytes, frames = self.later.get(entry.epoch, (0, 0))
            self.later[entry.epoch] = nbytes + entry.nbytes, frames + 1
            self.later_bytes += entry.nbytes
            self.later_frames += 1
        if entry.epoch > self.highest_sent:
            self.highest_sent = entry.epoch
        if entry.ends:
            self.ended_sent = max(self.ended_sent, entry.epoch)

    def credited(self, frontier: int) -> None:
        if frontier <= self.frontier:
            return
        self.frontier = frontier
        for epoch in [epoch for epoch in self.later if epoch <= frontier]:
            nbytes, frames = self.later.pop(epoch)
            self.later_bytes -= nbytes
            self.later_frames -= frames


class OutputChannel:
    """The sending end of channel `number`, in the replica of generation `generation`.

    `receivers`: generations whose links stand from the start, with everything on them. `restored_after`: the
    epoch that the sender was restored to; it makes everything above. `checkpointed`: complete checkpoints
    prune the log. `queueing`: receivers that take all that comes, and do no work. Counted are the bytes made,
    and the rows sent, each on the first link.
    """

    def __init__(
        self,
        job: int,
        number: int,
        generation: int,
        budget: int,
        receivers: tuple[int, ...] = (),
        restored_after: int = BEGINNING,
        checkpointed: bool = False,
    ) -> None:
        assert budget > 0
        self.job = job
        self.number = number
        self.generation = generation
        self.budget = budget
        self.checkpointed = checkpointed
        self.silent = False
        self.queueing: tuple[int, ...] = ()
        self.ended = restored_after
        self.retained_after = restored_after
        self.memory_bytes = 0
        self.made_bytes = 0
        self.sent_rows = 0
        self.receivers = receivers
        self.links: dict[int, Link] = {
            receiver: Link(receiver, BEGINNING, 0) for receiver in receivers
        }
        self._log: list[Entry] = []
        self._dropped: deque[Entry] = deque()
        self._first = 0
        self._furthest = 0
        self._unsent_bytes = 0
        self._spilled_below = 0

    @property
    def end(self) -> int:
        """The place in the log that comes next."""
        return self._first + len(self._log)

    @property
    def entries(self) -> list[Entry]:
        """What is kept, oldest first; not to be changed."""
        return self._log

    def held(self, link: Link) -> int:
        """Frames that wait for credit on a link."""
        return self.end - link.cursor

    @property
    def credited(self) -> int:
        """The highest frontier that a receiver has told."""
        return max((link.frontier for link in self.links.values()), default=BEGINNING)

    @property
    def unconfirmed(self) -> list[int]:
        """The receivers that may miss some of what was sent."""
        return [receiver for receiver, link in self.links.items() if link.unconfirmed]

    @property
    def blocked(self) -> bool:
        """Output waits for credit on every link, and on none of them for that of its own receiver."""
        if self.silent:
            return self._unsent_bytes > self.budget and self.ended >= self.credited
        links: Collection[Link] = self.links.values()
        if self.queueing:
            links = [link for link in links if link.generation not in self.queueing] or links
        if not links:
            return self._unsent_bytes > self.budget
        return all(link.cursor < self.end and not link.awaited for link in links)

    # --- what the slice makes -------------------------------------------------------------------

    def data(self, epoch: int, rows: int, body: object, nbytes: int, round_: int = 0) -> None:
        """Append a batch of an epoch that this channel has not ended."""
        assert epoch > self.ended, f"channel {self.number}: data of epoch {epoch} after its end"
        self._append(Entry(epoch, rows, FrameKind.DATA, body, nbytes, 0, 0, round_))

    def close(
        self, epoch: int, watermark: int, checkpoint: bool = False, lost: bool = False
    ) -> None:
        """Append the end of all epochs up to `epoch`; a no-op when they are ended already."""
        if epoch <= self.ended:
            return
        self.ended = epoch
        flags = (CHECKPOINT if checkpoint else 0) | (LOST if lost else 0)
        last = self._log[-1] if self.end > self._furthest else None
        if last is not None and last.epoch == epoch and last.kind is FrameKind.DATA:
            last.flags |= ENDS_EPOCH | flags
            last.watermark = watermark
            return
        self._append(Entry(epoch, 0, FrameKind.EPOCH_END, None, 0, flags, watermark, 0))

    def _append(self, entry: Entry) -> None:
        self._log.append(entry)
        if self._dropped:
            self.free(FREED_AT_ONCE)
        self._unsent_bytes += entry.nbytes
        self.memory_bytes += entry.nbytes
        self.made_bytes += entry.nbytes

    # --- links ----------------------------------------------------------------------------------

    def subscribe(self, receiver: int, from_epoch: int, frontier: int) -> bool:
        """Open a link for the replica of generation `receiver`; once it stands nothing changes.

        Returns whether it stands. It does not where an epoch that is asked for is not kept any more: what was
        asked is old then, or another of the sender's replicas leads the receiver up to what is kept here. It
        asks again with each of its beats, from where it is by then.
        """
        if receiver in self.links:
            return True
        if from_epoch <= self.retained_after and self.retained_after != BEGINNING:
            return False
        self.links[receiver] = Link(receiver, from_epoch, self._first, frontier)
        return True

    def keep_links(self, receivers: tuple[int, ...]) -> None:
        """Forget the links of replicas that live no more. `receivers` are those that do, linked or not."""
        self.receivers = receivers
        for gone in self.links.keys() - set(receivers):
            del self.links[gone]
        self._prune_sent()

    def sendable(self) -> list[Outgoing]:
        """The frames that may leave now, link by link, in order. They count as sent."""
        frames: list[Outgoing] = []
        if self.silent:
            return frames
        for link in self.links.values():
            if link.cursor < self.end:
                self._send_on(link, frames)
        return frames

    def _send_on(self, link: Link, frames: list[Outgoing]) -> None:
        awaited = 0
        end = self.end
        while link.cursor < end:
            entry = self._log[link.cursor - self._first]
            if link.base is None:
                if entry.epoch < link.from_epoch:
                    link.cursor += 1
                    continue
                link.base = link.cursor
            if entry.nbytes > 0 and entry.epoch > link.frontier and self.full(link, entry):
                awaited = awaited or self._awaited_frames(link)
                if not awaited:
                    break
            awaited = max(0, awaited - 1)
            frames.append(self._frame(link, entry, link.cursor - link.base))
            link.sent(entry)
            if link.cursor >= self._furthest:
                self.sent_rows += entry.rows
            link.cursor += 1
        self._passed(link.cursor)

    def full(self, link: Link, entry: Entry) -> bool:
        """As much of later epochs is on its way to the receiver as may be."""
        if not link.later_frames:
            return False
        replayed = link.cursor < self._furthest and link.later_frames >= REPLAYED_FRAMES
        return replayed or link.later_bytes + entry.nbytes > self.budget

    def _passed(self, cursor: int) -> None:
        """Some link has come as far as `cursor`."""
        if cursor > self._furthest:
            for entry in self._log[self._furthest - self._first : cursor - self._first]:
                self._unsent_bytes -= entry.nbytes
            self._furthest = cursor

    def _frame(self, link: Link, entry: Entry, sequence: int) -> Outgoing:
        header = FrameHeader(
            self.job,
            self.number,
            self.generation,
            link.generation,
            entry.epoch,
            entry.round,
            sequence,
            entry.rows,
            entry.kind,
            entry.flags,
            entry.watermark,
        )
        return Outgoing(header, entry.body, entry.nbytes)

    def _awaited_frames(self, link: Link) -> int:
        """How many of a link's unsent frames lead up to what its receiver waits for, that included."""
        if not link.awaited:
            return 0
        awaited = 0
        for place in range(link.cursor - self._first, len(self._log)):
            entry = self._log[place]
            if entry.ends or entry.epoch <= link.frontier:
                awaited = place + 1 - (link.cursor - self._first)
            if entry.ends and entry.epoch >= link.frontier:
                break
        return awaited

    def credit(self, receiver: int, frontier: int) -> None:
        """The replica has processed every epoch below `frontier`."""
        link = self.links.get(receiver)
        if link is not None:
            link.credited(frontier)
            if self.silent:
                self._skip(frontier)
            self._prune_sent()

    def unwanted(self, receiver: int, epochs: UnwantedRange) -> None:
        """The replica has taken these epochs from another source, be it none."""
        link = self.links.get(receiver)
        if link is not None:
            link.unwanted = epochs

    def resend(self, receiver: int, sequence: int) -> list[Outgoing]:
        """The link's sent frames from `sequence` on, as far as they are kept."""
        link = self.links.get(receiver)
        if link is None or link.base is None:
            return []
        wanted = link.base + sequence
        place = max(wanted, self._first)
        frames = [
            self._frame(link, self._log[at - self._first], at - link.base)
            for at in range(place, link.cursor)
        ]
        if frames and place > wanted:
            # what is pruned was processed by all who live, if not as it came on this link
            header = frames[0].header
            frames[0] = replace(frames[0], header=replace(header, flags=header.flags | RESUMES))
        return frames

    def announced(self, link: Link) -> int:
        """The number that follows the last frame sent on a link."""
        return 0 if link.base is None else link.cursor - link.base

    # --- standing by ----------------------------------------------------------------------------

    def hush(self) -> None:
        """Nothing leaves until it speaks."""
        assert all(link.base is None for link in self.links.values()), "it has spoken"
        self.silent = True

    def speak(self) -> None:
        """Begin with what each receiver lacks."""
        self.silent = False
        for link in self.links.values():
            link.from_epoch = max(link.from_epoch, link.frontier)

    def _skip(self, frontier: int) -> None:
        """A receiver has got every epoch below it from another replica."""
        place = self._furthest
        while place < self.end and self._log[place - self._first].epoch < frontier:
            place += 1
        self._passed(place)

    def lacked(self, epoch: int) -> bool:
        """Some receiver may still need an epoch up to this one, as anybody may who has no link yet."""
        unlinked = any(receiver not in self.links for receiver in self.receivers)
        return unlinked or any(link.frontier <= epoch for link in self.links.values())

    def restart(self, epoch: int) -> None:
        """State was taken in as it stood after `epoch`: what is made comes after it."""
        assert self.silent, "what has spoken goes on where it is"
        self.ended = self.retained_after = epoch
        self._first = self.end
        self._log.clear()
        self._dropped.clear()
        self._furthest = self._spilled_below = self._first
        self._unsent_bytes = self.memory_bytes = 0
        for link in self.links.values():
            link.cursor = self._first

    # --- retention ------------------------------------------------------------------------------

    def prune(self, retain_after: int) -> None:
        """A complete checkpoint covers every epoch up to `retain_after`."""
        if retain_after <= self.retained_after or not self.checkpointed:
            return
        self.retained_after = retain_after
        self._drop(retain_after)

    def _prune_sent(self) -> None:
        """Without checkpoints nobody asks for what all live receivers have processed."""
        if self.checkpointed or not self.links:
            return
        processed = min(link.frontier for link in self.links.values())
        if processed not in (BEGINNING, INFINITY):
            self.retained_after = max(self.retained_after, processed - 1)
        if processed != BEGINNING:
            self._drop(processed - 1)

    def _drop(self, epoch: int) -> None:
        links = () if self.silent else self.links.values()
        reached = min((link.cursor for link in links), default=self.end)
        count = 0
        for entry in self._log[: reached - self._first]:
            if entry.epoch > epoch:
                break
            if self._first + count >= self._spilled_below:
                self.memory_bytes -= entry.nbytes
            count += 1
        if count:
            self._passed(self._first + count)
            self._dropped += [
                each for each in self._log[:count] if each.nbytes <= FREED_LATER_BYTES
            ]
            del self._log[:count]
            self._first += count
            for link in self.links.values():
                link.cursor = max(link.cursor, self._first)

    def free(self, most: int) -> None:
        """Let go of some of what was dropped."""
        for _ in range(min(most, len(self._dropped))):
            self._dropped.popleft()

    def to_spill(self, limit: int) -> list[Kept]:
        """The oldest bodies in memory beyond `limit` bytes, each named once; they stay in the log."""
        chosen: list[Kept] = []
        self._spilled_below = max(self._spilled_below, self._first)
        while self.memory_bytes > limit and self._spilled_below < self.end:
            entry = self._log[self._spilled_below - self._first]
            self._spilled_below += 1
            if entry.nbytes:
                self.memory_bytes -= entry.nbytes
                chosen.append(entry)
        return chosen
