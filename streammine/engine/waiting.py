"""What has arrived at a slice and waits to be handed to its operator, by epoch and in order."""

from __future__ import annotations

import math
from collections import deque

from streammine.engine.open_shares import OpenShares
from streammine.engine.stimuli import Accumulate, Discard, Work

MOST_PER_RUN = 64


class WaitingWork:
    """`nbytes` counts all that waits, `added_bytes` all that ever did but what was discarded, here or at the
    operator. Of one epoch the work stands in the order in which it came."""

    def __init__(self) -> None:
        self.nbytes = 0
        self.added_bytes = 0
        self._added = OpenShares()
        self._epochs: dict[int, deque[tuple[Accumulate | Discard, int]]] = {}

    def __contains__(self, epoch: int) -> bool:
        return epoch in self._epochs

    def __len__(self) -> int:
        return sum(map(len, self._epochs.values()))

    @property
    def epochs(self) -> tuple[int, ...]:
        return tuple(self._epochs)

    def reaches(self, epoch: int) -> bool:
        """Whether anything of that epoch or of one before it waits."""
        return any(each <= epoch for each in self._epochs)

    def of(self, epoch: int) -> tuple[Accumulate, ...]:
        """The batches of an epoch that wait, in their order."""
        works = (work for work, _ in self._epochs.get(epoch, ()))
        return tuple(work for work in works if isinstance(work, Accumulate))

    def give(self, epoch: int) -> list[tuple[Accumulate, int]]:
        """All batches of an epoch, with their sizes; nothing of it waits any more."""
        given: list[tuple[Accumulate, int]] = []
        for work, nbytes in self._epochs.pop(epoch, ()):
            self.nbytes -= nbytes
            if isinstance(work, Accumulate):
                given.append((work, nbytes))
        return given

    def forget(self, epoch: int) -> None:
        """Nothing of that epoch and of those before it is needed any more."""
        for each in [each for each in self._epochs if each <= epoch]:
            self.give(each)
        self._added.close(epoch)

    def add(self, work: Accumulate, nbytes: int) -> None:
        self._epochs.setdefault(work.epoch, deque()).append((work, nbytes))
        self.nbytes += nbytes
        self.added_bytes += nbytes
        self._added.add(work.epoch, work.channel, nbytes)

    def discard(self, channel: int, epoch: int) -> None:
        """What a channel gave of an epoch is thrown away, here and at the operator."""
        self.added_bytes -= self._added.take_out(epoch, channel)
        kept: deque[tuple[Accumulate | Discard, int]] = deque()
        for work, nbytes in self._epochs.get(epoch, ()):
            if work.channel == channel:
                self.nbytes -= nbytes
            else:
                kept.append((work, nbytes))
        kept.append((Discard(channel, epoch), 0))
        self._epochs[epoch] = kept

    def take(
        self, closing: int | None, enough_bytes: float = math.inf, most: int = MOST_PER_RUN
    ) -> list[Work]:
        """Work for one run, lowest epochs first; nothing beyond the epoch that can be closed next, or once
        there is enough; `most` items of it. All channels have ended the epoch that can be closed: nothing of
        it is discarded any more."""
        if closing is not None:
            self._added.close(closing)
        taken: list[Work] = []
        left = self.nbytes - enough_bytes
        while self._epochs and len(taken) < most and self.nbytes > left:
            lowest = min(self._epochs)
            waiting = self._epochs[lowest]
            while waiting and len(taken) < most and self.nbytes > left:
                work, nbytes = waiting.popleft()
                self.nbytes -= nbytes
                taken.append(work)
            if not waiting:
                del self._epochs[lowest]
                if closing == lowest:
                    break
        return taken
