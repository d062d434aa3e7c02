"""What a replica has of its input: the bags it holds, and the chain of decisions (used by `consensus`).

::

    covered ──> 4 ──> 5 ──────> 7 ──> 8 ──> …          decisions: each names the epoch that follows the last
                    processed       decided

Everything up to `covered` is forgotten, for nobody is restored to an older checkpoint. What is kept is
bounded by what lies between complete checkpoints, like the upstream's retention, and by credit.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from streammine.model.agreement import Bag, BagSet, Decision


class Bags:
    """Complete bags that are held, and which epochs all channels have ended."""

    def __init__(self, covered: int) -> None:
        self._held: dict[int, dict[int, list[Bag]]] = {}
        self._ended: list[int] = []
        self._covered = covered
        self._decided = covered

    def hold(self, channel: int, epoch: int, bag: Bag) -> None:
        if epoch <= self._covered:
            return
        bags = self._held.setdefault(epoch, {}).setdefault(channel, [])
        if bag not in bags:
            bags.append(bag)

    def end(self, epoch: int) -> None:
        assert not self._ended or epoch > self._ended[-1], "epochs end in ascending order"
        if epoch > self._decided:
            self._ended.append(epoch)

    def next_set(self, after: int) -> BagSet | None:
        """The first epoch after that one that has ended, with the bags that were complete first."""
        place = bisect_right(self._ended, after)
        if place == len(self._ended):
            return None
        epoch = self._ended[place]
        held = self._held.get(epoch, {})
        return BagSet(epoch, tuple((channel, held[channel][0]) for channel in sorted(held)))

    def lacking(self, wanted: BagSet) -> list[tuple[int, Bag]]:
        """Bags by channel that are not held."""
        held = self._held.get(wanted.epoch, {})
        return [(channel, bag) for channel, bag in wanted.bags if bag not in held.get(channel, ())]

    def settle(self, decision: Decision) -> None:
        """Of the epoch only the chosen bags count any more, and of those it passes over none."""
        chosen = decision.chosen
        self._decided = chosen.epoch
        self._ended = [each for each in self._ended if each > chosen.epoch]
        self._drop(decision.after + 1, chosen.epoch)
        kept = {
            channel: [bag for bag in self._held.get(chosen.epoch, {}).get(channel, ()) if bag == of]
            for channel, of in chosen.bags
        }
        self._held[chosen.epoch] = {channel: bags for channel, bags in kept.items() if bags}

    def forget(self, covered: int) -> None:
        self._covered = max(self._covered, covered)
        self._decided = max(self._decided, covered)
        self._ended = [each for each in self._ended if each > covered]
        self._held = {epoch: bags for epoch, bags in self._held.items() if epoch > covered}

    def _drop(self, start: int, stop: int) -> None:
        passed = range(start, stop)
        # mostly few are passed over, and many are held
        for epoch in passed if stop - start < len(self._held) else list(self._held):
            if epoch in passed:
                self._held.pop(epoch, None)


class Chain:
    """What was decided, how far it is processed here, and which of it is in the store."""

    def __init__(self, covered: int, processed: int) -> None:
        assert covered <= processed, "a snapshot is never older than the checkpoint that covers it"
        self.covered = covered
        self.processed = processed
        self.decided = covered
        self._decisions: dict[int, Decision] = {}
        self._delivered = covered
        self._stored: set[int] = set()
        # By the epoch before: what is in the store, and not appended yet.
        self._stored_ahead: dict[int, BagSet] = {}

    def append(self, decision: Decision) -> None:
        assert decision.after == self.decided < decision.chosen.epoch
        self._decisions[decision.after] = decision
        self.decided = decision.chosen.epoch
        if decision.after in self._stored_ahead:
            self._stored.add(decision.after)
        self._forget_passed()

    def following(self, after: int, limit: int) -> Iterator[Decision]:
        """Decisions in order, from what follows epoch `after`."""
        for _ in range(limit):
            decision = self._decisions.get(after)
            if decision is None:
                return
            yield decision
            after = decision.chosen.epoch

    def next_to_process(self) -> Decision | None:
        while (decision := self._decisions.get(self._delivered)) is not None:
            if decision.chosen.epoch > self.processed:
                return decision
            self._delivered = decision.chosen.epoch
        return None

    def process(self, decision: Decision) -> None:
        self._delivered = self.processed = decision.chosen.epoch

    def note_stored(self, decision: Decision) -> None:
        """It is in the store, be it its turn to be appended or not."""
        if decision.after >= self.decided:
            self._stored_ahead[decision.after] = decision.chosen
        elif decision.after in self._decisions:
            self._stored.add(decision.after)

    def stored_ahead(self, after: int) -> BagSet | None:
        """What the store has for the place behind that epoch, where nothing is appended yet."""
        return self._stored_ahead.get(after)

    def is_stored(self, after: int) -> bool:
        return after in self._stored

    def not_stored(self) -> list[Decision]:
        return [each for after, each in self._decisions.items() if after not in self._stored]

    def cover(self, epoch: int) -> None:
        """Forget what a complete checkpoint covers."""
        self.covered = max(self.covered, epoch)
        self._decisions = {
            after: each for after, each in self._decisions.items() if each.chosen.epoch > epoch
        }
        self._stored &= self._decisions.keys()
        self._delivered = max(self._delivered, epoch)
        self.decided = max(self.decided, epoch)
        self._forget_passed()

    def _forget_passed(self) -> None:
        self._stored_ahead = {
            after: each for after, each in self._stored_ahead.items() if after >= self.decided
        }
