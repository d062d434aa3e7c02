"""What the monitor knows of a replica that agrees with others on whose bags count."""

from __future__ import annotations

from collections.abc import Mapping

from streammine.assembly import store_decisions
from streammine.engine.agreeing_slice import AgreeingSlice
from streammine.model.agreement import Bag, BagSet, Decision, StoredDecision
from streammine.model.contracts import Store
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.ids import SliceId
from streammine.simulation.books import ReplicaBook
from streammine.simulation.contents import BagContents

Choices = dict[int, dict[int, int]]
"""By epoch: by input the channel whose bag was processed. All replicas of a slice share them."""


def keep_choices(store: Store, choices: Mapping[SliceId, Choices]) -> None:
    """Put a run's choices where replicas find them: what they process of these epochs is decided."""
    for slice_id, epochs in choices.items():
        after, decided = BEGINNING, []
        for epoch, chosen in sorted(epochs.items()):
            bags = tuple((number, Bag(str(channel))) for number, channel in sorted(chosen.items()))
            decision = Decision(after, BagSet(epoch, bags))
            decided.append(StoredDecision(0, decision))
            after = epoch
        if decided:
            store_decisions(store, slice_id, 0, tuple(decided))


class AgreedBook(ReplicaBook):
    """`choices` is the slice's."""

    choices: Choices

    @property
    def _agreeing(self) -> AgreeingSlice:
        assert isinstance(self.machine, AgreeingSlice)
        return self.machine

    def must_have_ended(self, channel: int, epoch: int) -> int:
        """Of several channels of an input one will do."""
        feeds = next(
            each
            for each in self._agreeing.feeds
            if any(channel == one.number for one in each.channels)
        )
        return epoch if len(feeds.channels) == 1 else BEGINNING

    def _closes(self, epoch: int, contents: BagContents) -> None:
        """Of each input all of one bag was accumulated, the same one as in every other replica."""
        assert epoch > self.closed_up_to, f"{self.name}: {epoch} closed after {self.closed_up_to}"
        if epoch == INFINITY:
            return
        chosen: dict[int, int] = {}
        for feeds in self._agreeing.feeds:
            for channel in feeds.channels:
                bag = self.taken.get(channel.number, {}).pop(epoch, None)
                if bag is not None:
                    assert feeds.number not in chosen, f"{self.name}: two bags of epoch {epoch}"
                    chosen[feeds.number] = channel.number
                    contents.taken(channel.number, epoch, bag, self.name)
        known = self.choices.setdefault(epoch, chosen)
        assert known == chosen, f"{self.name} takes {chosen} of epoch {epoch}, another {known}"
