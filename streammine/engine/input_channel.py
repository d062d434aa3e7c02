"""The receiving end of a channel: a feed from each living replica of the sender, of which one leads.

Theory: replicas of a deterministic sender make equal bags, so the first complete bag of an epoch is as
good as any (Martin 2015, chapter 5). The leader's frames are used as they come; those of the others
wait. When another feed completes an epoch first, what the leader gave of it is thrown away and the
complete bag taken in its place: accumulators never mix generations.

House rules
-----------
* Frames of a link are taken in the order of their sequence numbers, from 0. One that comes again is dropped;
  one that comes too early shows a gap, and everything from the awaited number on is asked for again. A lost
  tail shows when the sender announces that it is ahead, and again after beats of this node between which
  nothing came. Announcements overtake frames, and both lie in a heap before a node that was busy; so it is
  beats that count, not announcements, and twice as many after each wish: what is only slow is not asked for.
* What a sender keeps no more was processed here, from another feed; its frame that resumes is awaited then.
* A feed counts once it is confirmed by a frame or an announcement; until then the subscription is repeated.
* Frames of a generation that the plan does not list (any more) are dropped: that is the fence.
* Frames of epochs that this channel has completed are dropped.

Invariants (checked by the simulation after every step)
-------------------------------------------------------
* `open_epoch` never falls; within a feed `expected` falls only where a feed takes over the lead.
* the leader's open epochs are the only ones with an open accumulator of this channel.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from streammine.engine.stimuli import FrameArrived
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.errors import ProtocolError
from streammine.model.frames import LOST, RESUMES, FrameHeader

PATIENCE = 2
LONGEST_PATIENCE = 4
"""Beats without a frame until a tail that was announced counts as lost, at first and at most."""


class Verdict(Enum):
    """What a receiver does with a frame."""

    TAKE = "take"
    """Use it now."""
    WAIT = "wait"
    """It is kept until its feed leads."""
    TAKE_OVER = "take over"
    """Its feed has completed an epoch first: see `take_over`."""
    DROPPED = "dropped"
    EARLY = "early"


@dataclass(slots=True)
class Feed:
    """What comes from one replica of the sender.

    `open_epoch`: it has ended every epoch below. `whole_from`: its frames of epochs from there on were all
    kept or used; below, some were thrown away. `first_of` knows the number of the first frame of each epoch
    that may still be asked for again. `behind_at`: the number that is awaited since the beat `behind_since`,
    when the sender announced that it was ahead; it is asked for `patience` beats after that.
    """

    generation: int
    confirmed: bool = False
    expected: int = 0
    asked_for: int | None = None
    behind_at: int | None = None
    behind_since: int = 0
    patience: int = PATIENCE
    open_epoch: int = BEGINNING
    whole_from: int = BEGINNING
    waiting: list[FrameArrived] = field(default_factory=list)
    first_of: dict[int, int] = field(default_factory=dict)


class InputChannel:
    """The receiving end of channel `number`, in the replica of generation `generation`.

    `senders`: generations whose feeds stand from the start, without a subscription. `restored_after`: the
    epoch that this replica was restored to. `lost`: ranges of epochs that came as lost; who uses the frames
    takes them from here.
    """

    def __init__(
        self,
        number: int,
        port: int,
        generation: int,
        senders: tuple[int, ...] = (),
        restored_after: int = BEGINNING,
    ) -> None:
        self.number = number
        self.port = port
        self.generation = generation
        self.open_epoch = BEGINNING if restored_after == BEGINNING else after(restored_after)
        self.last_epoch = BEGINNING
        self.feeds = {sender: Feed(sender, confirmed=True) for sender in senders}
        self.leader: int | None = min(senders, default=None)
        self.lost: list[tuple[int, int]] = []
        self._streamed: set[int] = set()

    def receive(self, frame: FrameArrived) -> Verdict:
        """Judge a frame and move on. Raises ProtocolError on a broken order."""
        header = frame.header
        feed = self.feeds.get(header.sender)
        if feed is None or header.receiver != self.generation:
            return Verdict.DROPPED
        feed.confirmed = True
        if header.sequence > feed.expected and header.flags & RESUMES:
            feed.expected = header.sequence
        if header.sequence != feed.expected:
            return Verdict.DROPPED if header.sequence < feed.expected else Verdict.EARLY
        if header.epoch < feed.open_epoch:
            raise ProtocolError(
                f"channel {self.number}: frame of epoch {header.epoch} after the end of "
                f"epoch {feed.open_epoch - 1}"
            )
        feed.expected += 1
        feed.asked_for = None
        epoch = header.epoch
        if epoch >= self.open_epoch and epoch not in feed.first_of:
            feed.first_of[epoch] = header.sequence
        if header.ends:
            feed.open_epoch = after(epoch)
        if epoch < self.open_epoch or (epoch == INFINITY and self.open_epoch == INFINITY):
            return Verdict.DROPPED
        if header.sender == self.leader:
            self.take(header)
            return Verdict.TAKE
        feed.waiting.append(frame)
        overtakes = feed.open_epoch > self.open_epoch and feed.whole_from <= self.open_epoch
        return Verdict.TAKE_OVER if overtakes else Verdict.WAIT

    def take(self, header: FrameHeader) -> None:
        """The leader's frame is used now."""
        if not header.ends:
            self._streamed.add(header.epoch)
            return
        if header.flags & LOST:
            self.lost.append((self.open_epoch, header.epoch))
        self.open_epoch = after(header.epoch)
        if header.epoch == INFINITY:
            self.last_epoch = header.watermark
        if self._streamed:
            self._streamed = {epoch for epoch in self._streamed if epoch > header.epoch}
        self._forget(header.epoch)

    def _forget(self, done: int) -> None:
        """What feeds keep of epochs up to this one is not needed any more."""
        for feed in self.feeds.values():
            if feed.first_of:
                feed.first_of = {
                    epoch: first for epoch, first in feed.first_of.items() if epoch > done
                }
            if feed.waiting:
                feed.waiting = [each for each in feed.waiting if each.header.epoch > done]

    def pass_over(self, epoch: int) -> None:
        """Nobody wants what it gives of epochs up to this one."""
        if epoch < self.open_epoch:
            return
        self.open_epoch = after(epoch)
        self._streamed = {each for each in self._streamed if each > epoch}
        self._forget(epoch)

    def take_over(self, sender: int) -> tuple[list[int], list[FrameArrived]]:
        """Let a feed lead: open epochs whose accumulators must go, and its frames to be used now.

        The caller takes the frames in order and calls `take` for each that is of an open epoch.
        """
        discarded = self._step_down()
        feed = self.feeds[sender]
        self.leader = sender
        frames, feed.waiting = feed.waiting, []
        return discarded, frames

    def _step_down(self) -> list[int]:
        """The leader leads no more; returns the open epochs that it gave frames of."""
        discarded = sorted(self._streamed)
        self._streamed = set()
        old = self.feeds.get(self.leader) if self.leader is not None else None
        if old is not None and discarded:
            old.whole_from = discarded[-1] + 1
        self.leader = None
        return discarded

    def keep_feeds(self, senders: tuple[int, ...]) -> list[int]:
        """The plan lists these generations of the sender now.

        Returns the open epochs whose accumulators must go, because the leader is lost.
        """
        for gone in self.feeds.keys() - set(senders):
            del self.feeds[gone]
        for sender in senders:
            if sender not in self.feeds:
                self.feeds[sender] = Feed(sender)
        discarded: list[int] = []
        if self.leader is not None and self.leader not in self.feeds:
            discarded = self._step_down()
        return discarded

    def elect(self) -> Feed | None:
        """Where nobody leads, let the oldest feed lead, from the first frame of an open epoch on.

        Returns the feed if it must be asked for frames again that were thrown away.
        """
        if self.leader is not None or not self.feeds:
            return None
        feed = self.feeds[min(self.feeds)]
        self.leader = feed.generation
        feed.waiting = []
        first = min(feed.first_of.values(), default=feed.expected)
        feed.first_of = {}
        feed.whole_from = BEGINNING
        if first == feed.expected:
            return None
        feed.expected = first
        # ends of epochs that are complete here may stand between the frames that come again
        feed.open_epoch = BEGINNING
        feed.asked_for = first
        feed.behind_at = None
        return feed

    def gap(self, sender: int) -> int | None:
        """From which number on to ask again, after an early frame. None where it was asked for already."""
        feed = self.feeds[sender]
        if feed.asked_for == feed.expected:
            return None
        feed.asked_for = feed.expected
        return feed.expected

    def missing(self, sender: int, announced: int, beat: int) -> int | None:
        """The number to ask for when the sender's link has reached `announced`, or None.

        `beat` counts this node's beats. Frames may be on their way, and a wish brings all of them once more.
        So nothing is asked for while they come.
        """
        feed = self.feeds.get(sender)
        if feed is None:
            return None
        feed.confirmed = True
        if announced <= feed.expected:
            return None
        if feed.behind_at != feed.expected:
            feed.behind_at, feed.behind_since = feed.expected, beat
            feed.patience = PATIENCE
        if beat - feed.behind_since < feed.patience:
            return None
        feed.behind_since = beat
        feed.patience = min(2 * feed.patience, LONGEST_PATIENCE)
        return feed.expected


def after(epoch: int) -> int:
    """The epoch that follows; the last one stays the last."""
    return epoch if epoch == INFINITY else epoch + 1
