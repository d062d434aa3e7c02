"""Replicas that choose without agreeing: each takes the bags that it is told of first.

That is the yardstick of `consensus`: no other replica is told, waited for or bound by anything, nothing is
stored, and nothing is promised. Replicas may go on from different bags, and one that is restored from others
than before. So receivers can't be told what is unwanted, and send all that they have.
"""

from __future__ import annotations

from streammine.model import agreement as words
from streammine.model.agreement import AgreementSettings, Bag, BagSet, Decision
from streammine.model.epochs import BEGINNING


class FirstBags:
    """Implements `Agreement`."""

    binds_all = False
    spent_plan = 0

    def __init__(
        self,
        generation: int,
        settings: AgreementSettings,
        covered: int = BEGINNING,
        processed: int = BEGINNING,
    ) -> None:
        self.decided = processed
        self._first: dict[int, dict[int, Bag]] = {}

    def handle(self, stimulus: words.AgreementStimulus) -> list[words.AgreementEffect]:
        match stimulus:
            case words.Together(parts):
                return [effect for each in parts for effect in self.handle(each)]
            case words.BagHeld(channel, epoch, bag) if epoch > self.decided:
                self._first.setdefault(epoch, {}).setdefault(channel, bag)
            case words.EpochEnded(epoch):
                bags = tuple(sorted(self._first.pop(epoch, {}).items()))
                decision = Decision(self.decided, BagSet(epoch, bags))
                self.decided = epoch
                return [words.Decided(decision), words.Process(decision)]
        return []
