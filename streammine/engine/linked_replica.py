"""What a slice's replica does about its links: who lives at the other ends, credit, and what got lost.

House rules
-----------
* Whatever may get lost is said again with each beat, until the other end shows that it has heard.
* What speaks of a replica that is not this one, or of one that the plan does not list, changes nothing.
"""

from __future__ import annotations

from streammine.engine.input_channel import InputChannel
from streammine.engine.losses import Losses
from streammine.engine.output_channel import FREED_AT_A_BEAT, OutputChannel
from streammine.engine.releasing import Releasing
from streammine.engine.slice_settings import RestoredTo, SliceSettings
from streammine.engine.stimuli import (
    Announce,
    Announced,
    AskResend,
    AskSubscription,
    Beat,
    CreditArrived,
    Effect,
    GrantCredit,
    ResendAsked,
    Rewired,
    SendFrame,
    Subscribed,
    UnwantedTold,
)
from streammine.engine.unwanted import UnwantedEpochs
from streammine.engine.waiting import WaitingWork
from streammine.model.epoch_ranges import EpochRange
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.ids import SliceId


class LinkedReplica:
    """One replica of a slice, and its channels. `processed_below`: every epoch below it is processed."""

    def __init__(
        self,
        slice_id: SliceId,
        generation: int,
        inputs: tuple[InputChannel, ...],
        outputs: tuple[OutputChannel, ...],
        settings: SliceSettings,
    ) -> None:
        self.slice_id = slice_id
        self.generation = generation
        self.inputs = {channel.number: channel for channel in inputs}
        self.outputs = {channel.number: channel for channel in outputs}
        self.settings = settings
        self.processed_below = BEGINNING
        self.losses = Losses(settings.window_epochs, settings.slide_epochs)
        self.waiting = WaitingWork()
        self._beats = 0
        self._releasing = Releasing(self.outputs, settings.retained_bytes)
        self._unwanted = UnwantedEpochs([self.outputs[each] for each in settings.chosen_among])

    @property
    def blocked(self) -> bool:
        """Output waits for credit, and not the credit for this slice."""
        return self._releasing.blocked

    @property
    def behind(self) -> bool:
        """A receiver has been given by another replica what is still to be made here."""
        return self._releasing.credited > self.processed_below

    def _beat(self, _: Beat) -> list[Effect]:
        """Repeat what nobody would miss if it got lost."""
        self._beats += 1
        outputs = self.outputs.values()
        for each in outputs:
            each.free(FREED_AT_A_BEAT)
        effects: list[Effect] = [
            self._announcement(each, receiver) for each in outputs for receiver in each.unconfirmed
        ]
        effects += self._subscriptions()
        effects += self._credits()
        return effects

    def _rewired(self, stimulus: Rewired) -> list[Effect]:
        effects: list[Effect] = []
        for number, receivers in stimulus.receivers.items():
            self.outputs[number].keep_links(receivers)
        for number, receivers in stimulus.queueing.items():
            self.outputs[number].queueing = receivers
        for number, senders in stimulus.senders.items():
            channel = self.inputs[number]
            self._discard(channel, channel.keep_feeds(senders))
            feed = channel.elect()
            if feed is not None:
                effects.append(AskResend(number, feed.generation, self.generation, feed.expected))
        return effects + self._subscriptions()

    def _discard(self, channel: InputChannel, epochs: list[int]) -> None:
        for epoch in epochs:
            self.waiting.discard(channel.number, epoch)

    def _close_outputs(self, epoch: int, checkpoint: bool = False) -> None:
        """End every epoch up to this one on all output channels; a barrier, if it is one, stands at the
        end.
        """
        runs = self.losses.up_to(epoch) if self.losses else ((epoch, False),)
        for last, lost in runs:
            watermark = self.settings.epoch.watermark(last)
            for channel in self.outputs.values():
                channel.close(last, watermark, checkpoint and last == epoch, lost)

    def _end_for_good(self, last_epoch: int) -> None:
        """Nothing comes after `last_epoch`, the last with output."""
        if self.losses:
            self._close_outputs(last_epoch)
        for channel in self.outputs.values():
            channel.close(INFINITY, last_epoch)

    def _begin_behind(self, restored: RestoredTo) -> None:
        """What was left out on the way to where the replica begins, and what its state lacks, is lost."""
        self.losses.missed(restored.epoch + 1, restored.left_out_until)
        self.losses.lost(restored.epoch + 1, restored.lost_until)

    def _note_lost(self, channel: InputChannel) -> bool:
        """Whether epochs came as lost on a channel."""
        if not channel.lost:
            return False
        for first, last in channel.lost:
            self.losses.missed(first, last)
        channel.lost.clear()
        return True

    def _lost_since(self, first: int, last: int) -> tuple[EpochRange, ...]:
        """What a committer, whom nobody takes epoch ends from, is told of the epochs from first to last."""
        return () if self.outputs else self.losses.epochs.between(first, last)

    def _ask(self, channel: InputChannel, sender: int, missing: int | None) -> list[Effect]:
        if missing is None:
            return []
        return [AskResend(channel.number, sender, self.generation, missing)]

    def _announced(self, stimulus: Announced) -> list[Effect]:
        channel = self.inputs[stimulus.channel]
        if stimulus.receiver != self.generation:
            return []
        missing = channel.missing(stimulus.sender, stimulus.next_sequence, self._beats)
        return self._ask(channel, stimulus.sender, missing)

    def _credit(self, stimulus: CreditArrived) -> list[Effect]:
        if stimulus.sender != self.generation:
            return []
        channel = self.outputs[stimulus.channel]
        channel.credit(stimulus.receiver, stimulus.frontier)
        return self._releasing.one(channel)

    def _unwanted_told(self, stimulus: UnwantedTold) -> list[Effect]:
        if stimulus.sender == self.generation:
            channel = self.outputs[stimulus.channel]
            channel.unwanted(stimulus.receiver, stimulus.epochs)
        return []

    def _subscribed(self, stimulus: Subscribed) -> list[Effect]:
        if stimulus.sender != self.generation:
            return []
        channel = self.outputs[stimulus.channel]
        if not channel.subscribe(stimulus.receiver, stimulus.from_epoch, stimulus.frontier):
            return []
        return [self._announcement(channel, stimulus.receiver), *self._releasing.one(channel)]

    def _resend(self, stimulus: ResendAsked) -> list[Effect]:
        if stimulus.sender != self.generation:
            return []
        frames = self.outputs[stimulus.channel].resend(stimulus.receiver, stimulus.sequence)
        return [SendFrame(frame) for frame in frames]

    def _announcement(self, channel: OutputChannel, receiver: int) -> Announce:
        reached = channel.announced(channel.links[receiver])
        return Announce(channel.number, self.generation, receiver, reached)

    def _subscriptions(self) -> list[Effect]:
        """Ask for every feed of which nothing was heard yet."""
        return [
            AskSubscription(
                channel.number,
                feed.generation,
                self.generation,
                channel.open_epoch,
                self._credit_on(channel),
            )
            for channel in self.inputs.values()
            for feed in channel.feeds.values()
            if not feed.confirmed
        ]

    def _credits(self) -> list[Effect]:
        """What each sender may send now, on channels that have got anywhere."""
        credits = ((channel, self._credit_on(channel)) for channel in self.inputs.values())
        return [
            GrantCredit(channel.number, sender, self.generation, frontier)
            for channel, frontier in credits
            if frontier > BEGINNING
            for sender in channel.feeds
        ]

    def _credit_on(self, _: InputChannel) -> int:
        return self.processed_below
