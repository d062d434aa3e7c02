"""What receivers of one feed need not give, because another one was chosen: at both ends of their channels.

Theory: of each epoch one receiver's bag counts, and mostly it is the same one's as before. What the others
have of that epoch would be parted, sent and thrown away. So who chooses tells them which epochs are decided,
and they pass over these; and while the one that was chosen last gives epoch after epoch, they read no
further. As soon as there is nothing left to process and it gives nothing more, all of them may give what they
have, and the first one to end an epoch is heard first.

House rules
-----------
* An epoch is called unwanted only once it is decided, so whoever chooses later, and be it after a loss,
  chooses nothing else. A source passes over what nobody wants, of all who choose.
* What a source has made stays as it is; its ends of epochs always come, and so do dead rows. A source passes
  over nothing where an operator behind it may set rows aside (see `chosen_among`).
"""

from __future__ import annotations

from collections.abc import Sequence

from streammine.engine.feed_bags import Feeds
from streammine.engine.input_channel import after
from streammine.engine.output_channel import OutputChannel
from streammine.engine.stimuli import Effect, TellUnwanted
from streammine.model.agreement import Decision
from streammine.model.epochs import BEGINNING

EpochsBelow = tuple[int, int]
"""From the first one to below the other one; none, where they are equal."""

NONE: EpochsBelow = (BEGINNING, BEGINNING)


class UnwantedEpochs:
    """What a source need not give, as those who choose have told its `channels` to them."""

    def __init__(self, channels: Sequence[OutputChannel]) -> None:
        self._channels = channels

    @property
    def epochs(self) -> EpochsBelow:
        """Those that no channel needs."""
        told = [_told(each) for each in self._channels]
        first = max((first for first, _ in told), default=BEGINNING)
        return first, max(first, min((below for _, below in told), default=first))

    @property
    def held(self) -> bool:
        """Nobody waits for this source; another one was chosen, everywhere."""
        return bool(self._channels) and all(
            each.links and all(_some(link.unwanted) for link in each.links.values())
            for each in self._channels
        )

    def holds_back(self, open_epoch: int) -> bool:
        """A source that is so far need not read on for now."""
        return self.held and open_epoch >= min(_told(each)[1] for each in self._channels)


def _told(channel: OutputChannel) -> EpochsBelow:
    """What the receiver's replica said that knows most; what is decided is so for all of them."""
    return max((link.unwanted for link in channel.links.values()), key=_below, default=NONE)


def _below(epochs: EpochsBelow) -> int:
    return epochs[1]


def _some(epochs: EpochsBelow) -> bool:
    return epochs[0] < epochs[1]


class UnwantedFeeds:
    """What one who chooses tells its channels' sources. `feeds`: those of each input; `decided`: the epoch
    behind which this replica knows all decisions. `goes_on`: there is something to process, or something was
    decided just now."""

    def __init__(self, generation: int, feeds: Sequence[Feeds], decided: int) -> None:
        self.goes_on = False
        self._generation = generation
        self._channels = {
            channel.number: channel for each in feeds for channel in each.channels if each.several
        }
        self._below = after(decided)
        self._firsts = dict.fromkeys(self._channels, self._below)
        self._inputs = [each for each in feeds if each.several]
        self._told: dict[int, EpochsBelow] = {}

    def decided(self, decision: Decision) -> None:
        """To be told of each, in order, behind `Feeds.prefer`."""
        if decision.after >= self._below:
            # what was decided in between is not known here
            self._firsts = dict.fromkeys(self._channels, after(decision.after))
        self._below = after(decision.chosen.epoch)
        for _, bag in decision.chosen.bags:
            if int(bag.digest) in self._firsts:
                self._firsts[int(bag.digest)] = self._below

    def news(self) -> list[Effect]:
        """What has changed since it was told."""
        effects: list[Effect] = []
        for feeds in self._inputs:
            for channel in feeds.channels:
                epochs = self._epochs(feeds, channel.number)
                if self._told.get(channel.number, NONE) != epochs:
                    self._told[channel.number] = epochs
                    effects += self._tell(channel.number)
        return effects

    def again(self) -> list[Effect]:
        """Once more what was told, for it may have got lost, or somebody is new there."""
        return [effect for number in self._told for effect in self._tell(number)]

    def _epochs(self, feeds: Feeds, number: int) -> EpochsBelow:
        epochs = self._firsts[number], self._below
        waits = self.goes_on and number != feeds.preferred.number
        return epochs if waits and _some(epochs) else NONE

    def _tell(self, number: int) -> list[Effect]:
        return [
            TellUnwanted(number, sender, self._generation, *self._told[number])
            for sender in self._channels[number].feeds
        ]
