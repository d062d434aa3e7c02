"""What is counted of epochs that are still open, so that what a channel gave can be taken out again."""

from __future__ import annotations


class OpenShares:
    """Amounts by epoch and channel."""

    def __init__(self) -> None:
        self._epochs: dict[int, dict[int, int]] = {}

    @property
    def total(self) -> int:
        return sum(sum(shares.values()) for shares in self._epochs.values())

    def add(self, epoch: int, channel: int, amount: int) -> None:
        shares = self._epochs.setdefault(epoch, {})
        shares[channel] = shares.get(channel, 0) + amount

    def take_out(self, epoch: int, channel: int) -> int:
        """What a channel has given of an epoch, and does not count."""
        return self._epochs.get(epoch, {}).pop(channel, 0)

    def close(self, epoch: int) -> int:
        """Of epochs up to this one nothing is taken out any more; returns what they had."""
        over = [each for each in self._epochs if each <= epoch]
        return sum(sum(self._epochs.pop(each).values()) for each in over)
