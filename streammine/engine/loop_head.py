"""The head of a loop: decides which round is closed next, and when an epoch is over (DESIGN §5, "Loops").

Every slice of the loop ends each stamp on all its channels, and each sender of a back-edge tells every
slice of the head how many rows it has sent in all. So all slices of the head add up the same numbers and
decide the same, without a word between them.

Phases, with the stamp that is closed on entering the next one::

    phase       waits until                                    closes         next phase
    opening     the outer channels have ended the epoch        (e, 0)         counting
    counting    the back-edges have ended (e, r), total > 0    (e, r)         counting, r + 1
    counting    ... total = 0                                  (e, final)     carrying
    counting    ... r = max_rounds: its rows are carried       (e, final)     carrying
    carrying    the back-edges have ended (e + 1, 0)                          opening
    opening     (the next epoch is n > e + 1)                  (n - 1, final) opening
    opening     (the next epoch is INFINITY)
                the outer channels are over                    everything     over

What is made in the final round lies in (e + 1, 0), and what `max_rounds` left over joins it; between
carrying and opening it is all there is on the way inside the loop, so there lies the barrier of a snapshot,
and the rows carried belong to it (Carbone et al. 2015, Algorithm 2: the back-edge log).

The next epoch is the lowest that any member has or may get anything in. It only ever is too low: an epoch
in which nothing happens costs three stamps and is seen by no operator. So slices of the head need not
even agree on it. One that was rebuilt may go through epochs that the others have jumped over; these have
said at once that there is nothing, so it waits for none of them, though they wait for the input of a later
epoch, and the input perhaps for the credit of this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from streammine.engine.loop_ends import Ends
from streammine.model.epochs import INFINITY
from streammine.model.stamps import LOWEST_EPOCH, final, stamp


class HeadPhase(StrEnum):
    OPENING = "opening"
    COUNTING = "counting"
    CARRYING = "carrying"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the slice stands: its outer channels have ended every epoch below `outer_below`, the back-edges
    every stamp below `back_below`; it has processed the stamps below `processed_below`. `barrier`: the
    lowest checkpoint epoch that is not frozen yet."""

    outer_below: int
    back_below: int
    processed_below: int
    barrier: int | None = None


@dataclass(frozen=True, slots=True)
class Carry:
    """What came at stamp `at` is put off until stamp `to`."""

    at: int
    to: int


@dataclass(frozen=True, slots=True)
class CloseStamp:
    """Everything up to stamp `at` is there and can be closed; INFINITY: the loop is over."""

    at: int


Decision = Carry | CloseStamp


class LoopHead:
    """One slice's share of the head's protocol. `epoch`: it is processed below that one; `closed`: the last
    epoch whose final stamp it has closed."""

    def __init__(
        self, max_rounds: int, epoch: int = LOWEST_EPOCH, closed: int = LOWEST_EPOCH - 1
    ) -> None:
        self.max_rounds = max_rounds
        self.phase = HeadPhase.OPENING
        self.epoch = epoch
        self.closed = closed
        self.round = 0

    def advance(self, now: Standing, ends: Ends) -> list[Decision]:
        """What follows; [] when there is nothing to be done. To be called again after every step.

        `ends`: what was said on the back-edges.
        """
        if self.phase is HeadPhase.CARRYING:
            self._carrying(now, ends)
        if self.phase is HeadPhase.OPENING:
            return self._opening(now)
        if self.phase is HeadPhase.COUNTING:
            return self._counting(now, ends)
        return []

    @property
    def may_freeze(self) -> bool:
        """Nothing of an epoch is on its way inside the loop but what is carried into the next."""
        return self.phase is HeadPhase.OPENING

    def _opening(self, now: Standing) -> list[Decision]:
        if now.barrier is not None and now.barrier < self.epoch:
            return []
        empty_below = min(self.epoch, now.outer_below)
        if empty_below == INFINITY:
            self.phase = HeadPhase.OVER
            return [CloseStamp(INFINITY)]
        if empty_below - 1 > self.closed:
            self.closed = empty_below - 1
            return [CloseStamp(final(self.closed))]
        if now.outer_below <= self.epoch or self.epoch == INFINITY:
            # at INFINITY others have heard of the end already
            return []
        self.phase = HeadPhase.COUNTING
        self.round = 1
        return [CloseStamp(stamp(self.epoch))]

    def _counting(self, now: Standing, ends: Ends) -> list[Decision]:
        at = stamp(self.epoch, self.round)
        if now.back_below <= at or now.processed_below < at:
            return []
        total = ends.total(at)
        if total and self.round < self.max_rounds:
            self.round += 1
            return [CloseStamp(at)]
        self.phase = HeadPhase.CARRYING
        self.closed = self.epoch
        over = CloseStamp(final(self.epoch))
        return [Carry(at, stamp(self.epoch + 1)), over] if total else [over]

    def _carrying(self, now: Standing, ends: Ends) -> None:
        next_stamp = final(self.epoch) + 1
        if now.back_below <= next_stamp or now.processed_below < next_stamp:
            return
        following = ends.next_epoch(next_stamp)
        assert following > self.epoch, f"epoch {following} follows epoch {self.epoch}"
        self.epoch = following
        self.round = 0
        self.phase = HeadPhase.OPENING
