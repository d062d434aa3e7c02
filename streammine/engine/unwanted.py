"""What receivers of one feed need not give, because another one was chosen: at both ends of their channels.

Theory: of each epoch one receiver's bag counts, and mostly it is the same one's as before. What the others
have of that epoch would be parted, sent and thrown away. So who chooses tells them which epochs are decided,
and they pass over these; and while the one that was chosen last gives epoch after epoch, they read no
further. As soon as there is nothing left to process and it has given nothing for longer than is usual, each
of them is to give an epoch more, and the first one to end it is heard first. Who is chosen gives all it has.
So a pause does not make everybody read ahead as far as there is credit.

House rules
-----------
* An epoch is called unwanted only once it is decided, so whoever chooses later, and be it after a loss,
  chooses nothing else. A source passes over what nobody wants, of all who choose.
* What a source has made stays as it is; its ends of epochs always come, and so do dead rows. A source passes
  over nothing where an operator behind it may set rows aside (see `chosen_among`).
* Nobody is chosen for an epoch that is empty. So where the one that was chosen last is overtaken by empty
  epochs the others are to give twice as much with each, for it may be over, or have gone for good.
"""

from __future__ import annotations

from collections.abc import Sequence

from streammine.engine.feed_bags import Feeds
from streammine.engine.input_channel import after
from streammine.engine.output_channel import NOTHING_UNWANTED, OutputChannel, UnwantedRange
from streammine.engine.stimuli import Effect, TellUnwanted
from streammine.model.agreement import BagSet, Decision
from streammine.model.epochs import BEGINNING, INFINITY


class UnwantedEpochs:
    """What a source need not give, as those who choose have told its `channels` to them."""

    def __init__(self, channels: Sequence[OutputChannel]) -> None:
        self._channels = channels

    @property
    def epochs(self) -> tuple[int, int]:
        """From the first one to below the other one: those that no channel needs."""
        told = [_told(each) for each in self._channels]
        first = max((each.first for each in told), default=BEGINNING)
        return first, max(first, min((each.below for each in told), default=first))

    @property
    def held(self) -> bool:
        """Nobody wants all that it has."""
        return bool(self._channels) and all(
            each.links and all(link.unwanted.until < INFINITY for link in each.links.values())
            for each in self._channels
        )

    def holds_back(self, open_epoch: int) -> bool:
        """A source that is so far need not read on for now."""
        if not self.held:
            return False
        reached = min(_told(each).below for each in self._channels)
        told = (link.unwanted for each in self._channels for link in each.links.values())
        return open_epoch >= max(
            [reached, *(each.until for each in told if each.until > each.below)]
        )


def _told(channel: OutputChannel) -> UnwantedRange:
    """What the receiver's replica said that knows most; what is decided is so for all of them."""
    return max(
        (link.unwanted for link in channel.links.values()), key=_below, default=NOTHING_UNWANTED
    )


def _below(epochs: UnwantedRange) -> int:
    return epochs.below


class UnwantedFeeds:
    """What one who chooses tells its channels' sources. `feeds`: those of each input; `decided`: the epoch
    behind which this replica knows all decisions; `agrees`: they are so for all replicas, else what another
    one takes is not to be called unwanted. `goes_on`: there is something to process, or something was decided
    just now."""

    def __init__(self, generation: int, feeds: Sequence[Feeds], decided: int, agrees: bool) -> None:
        self.goes_on = False
        self._agrees = agrees
        self._generation = generation
        self._channels = {
            channel.number: channel for each in feeds for channel in each.channels if each.several
        }
        self._below = after(decided)
        self._firsts = dict.fromkeys(self._channels, self._below)
        self._inputs = [each for each in feeds if each.several]
        self._more = dict.fromkeys((each.number for each in self._inputs), 1)
        self._told: dict[int, UnwantedRange] = {}

    def decided(self, decision: Decision) -> None:
        """To be told of each, in order, behind `Feeds.prefer`."""
        if decision.after >= self._below:
            # what was decided in between is not known here
            self._firsts = dict.fromkeys(self._channels, after(decision.after))
        self._below = after(decision.chosen.epoch)
        for _, bag in decision.chosen.bags:
            if int(bag.digest) in self._firsts:
                self._firsts[int(bag.digest)] = self._below
        self.goes_on |= bool(decision.chosen.bags)
        self._note_empty(decision.chosen)

    def _note_empty(self, chosen: BagSet) -> None:
        """Inputs without a bag there whose preferred channel was overtaken."""
        given = {number for number, _ in chosen.bags}
        for feeds in self._inputs:
            overtaken = feeds.number not in given and feeds.lags(chosen.epoch)
            more = 2 * self._more[feeds.number] if overtaken else 1
            self._more[feeds.number] = min(more, INFINITY)

    def news(self) -> list[Effect]:
        """What has changed since it was told."""
        effects: list[Effect] = []
        for feeds in self._inputs:
            for channel in feeds.channels:
                epochs = self._epochs(feeds, channel.number)
                if self._told.get(channel.number, NOTHING_UNWANTED) != epochs:
                    self._told[channel.number] = epochs
                    effects += self._tell(channel.number)
        return effects

    def again(self) -> list[Effect]:
        """Once more what was told, for it may have got lost, or somebody is new there."""
        return [effect for number in self._told for effect in self._tell(number)]

    def _epochs(self, feeds: Feeds, number: int) -> UnwantedRange:
        if not self._agrees or number == feeds.preferred.number:
            return NOTHING_UNWANTED
        more = 0 if self.goes_on else self._more[feeds.number]
        until = min(self._below + more, INFINITY)
        return UnwantedRange(self._firsts[number], self._below, until)

    def _tell(self, number: int) -> list[Effect]:
        return [
            TellUnwanted(number, sender, self._generation, self._told[number])
            for sender in self._channels[number].feeds
        ]
