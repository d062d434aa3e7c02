"""Which bags a replica asks others for (used by `consensus`)."""

from __future__ import annotations

from collections.abc import Iterable

from replication.chain import Bags
from replication.peers import Peers
from streammine.model.agreement import AgreementSettings, BagSet, FetchBag


class Fetching:
    """Asks for each bag once, and then again with each `repeat`; for none where they come unasked."""

    def __init__(self, bags: Bags, peers: Peers, settings: AgreementSettings) -> None:
        self._bags = bags
        self._peers = peers
        self._bags_come = settings.bags_come
        self._asked: set[tuple[int, int, str]] = set()

    def repeat(self) -> bool:
        """Whether anything is to be asked for once more."""
        asked, self._asked = self._asked, set()
        return bool(asked)

    def ask(self, wanted: Iterable[tuple[int, BagSet]]) -> list[FetchBag]:
        """For what is lacking of these sets, each with the epoch that it follows."""
        wishes: list[FetchBag] = []
        if self._bags_come:
            return wishes
        for after, value in wanted:
            for channel, bag in self._bags.lacking(value):
                asked = (channel, value.epoch, bag.digest)
                if asked not in self._asked:
                    self._asked.add(asked)
                    holders = self._peers.holders(after, value)
                    wishes.append(FetchBag(channel, value.epoch, bag, holders))
        return wishes
