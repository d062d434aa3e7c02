"""Bags of several feeds of one input that wait for the replicas' agreement (used by `agreeing_slice`)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass, field

from streammine.engine.input_channel import InputChannel
from streammine.engine.stimuli import Accumulate
from streammine.model.epochs import BEGINNING, INFINITY

Work = list[tuple[Accumulate, int]]


class FeedBags:
    """Batches with their sizes, by channel and epoch, in the order in which they came."""

    def __init__(self) -> None:
        self.nbytes = 0
        self._bags: dict[tuple[int, int], Work] = {}
        self._epochs: dict[int, list[int]] = {}

    def add(self, work: Accumulate, nbytes: int) -> None:
        bag = work.channel, work.epoch
        if bag not in self._bags:
            self._bags[bag] = []
            insort(self._epochs.setdefault(work.channel, []), work.epoch)
        self._bags[bag].append((work, nbytes))
        self.nbytes += nbytes

    def take(self, channel: int, epoch: int) -> Work:
        if (channel, epoch) not in self._bags:
            return []
        taken = self._bags.pop((channel, epoch))
        epochs = self._epochs[channel]
        del epochs[bisect_left(epochs, epoch)]
        self.nbytes -= sum(nbytes for _, nbytes in taken)
        return taken

    def size(self, channel: int, epoch: int) -> int:
        return sum(nbytes for _, nbytes in self._bags[channel, epoch])

    def between(self, channel: int, after: int, below: int) -> list[int]:
        """The epochs above `after` and below `below` of which a channel has given anything, ascending.

        There may be thousands that wait: nothing here looks at all of them.
        """
        epochs = self._epochs.get(channel, [])
        return epochs[bisect_right(epochs, after) : bisect_left(epochs, below)]

    def forget(self, epoch: int) -> None:
        """Nothing of epochs up to this one is wanted any more."""
        for channel in self._epochs:
            for each in self.between(channel, BEGINNING, epoch + 1):
                self.take(channel, each)


@dataclass
class Feeds:
    """The channels of one input, of which each gives what one receiver of a feed has; mostly it is one.

    `number` is the lowest channel's, `preferred` the one that was chosen last. `waited`: how many ticks
    another one was ahead of it, and it was waited for.
    """

    channels: tuple[InputChannel, ...]
    preferred: InputChannel = field(init=False)
    waited: int = 0

    def __post_init__(self) -> None:
        self.preferred = self.channels[0]

    @property
    def number(self) -> int:
        return self.channels[0].number

    @property
    def several(self) -> bool:
        """There is something to choose."""
        return len(self.channels) > 1

    @property
    def best_first(self) -> list[InputChannel]:
        others = [each for each in self.channels if each is not self.preferred]
        return [self.preferred, *others]

    def prefer(self, number: int) -> None:
        self.preferred = next(each for each in self.channels if each.number == number)

    def lags(self, epoch: int) -> bool:
        """The preferred channel has not ended that epoch."""
        return _open_epoch(self.preferred) <= epoch

    @property
    def open_epoch(self) -> int:
        """Some channel has ended every epoch below. The input is over when all channels are."""
        if all(each.open_epoch == INFINITY for each in self.channels):
            return INFINITY
        return max(map(_open_epoch, self.channels))

    def named_below(self, patience: int) -> int:
        """Epochs below are named now: those that the preferred channel has ended, or, where that one is so
        much slower, any one."""
        reached = self.open_epoch
        if self.waited >= patience or reached == INFINITY:
            return reached
        return min(reached, _open_epoch(self.preferred))

    def tick(self) -> None:
        behind = _open_epoch(self.preferred) < self.open_epoch
        self.waited = self.waited + 1 if behind else 0


def _open_epoch(channel: InputChannel) -> int:
    """One that is over has ended the last epoch that held anything, and says nothing of what comes."""
    if channel.open_epoch != INFINITY:
        return channel.open_epoch
    return BEGINNING if channel.last_epoch == BEGINNING else channel.last_epoch + 1
