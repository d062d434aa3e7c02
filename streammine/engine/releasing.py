"""The output channels of a slice together: what leaves them, and which are held up.

There may be a thousand channels, and credit comes for each of them. So what is asked of all is noted of each,
whenever something may leave it.
"""

from __future__ import annotations

from collections.abc import Mapping

from streammine.engine.output_channel import OutputChannel
from streammine.engine.stimuli import Effect, SendFrame, ToDisk
from streammine.model.epochs import BEGINNING


class Releasing:
    """Lets frames leave. To be asked whenever a channel was changed. `retained_bytes`: what all may keep in
    memory."""

    def __init__(self, channels: Mapping[int, OutputChannel], retained_bytes: int) -> None:
        self._channels = channels
        self._share_bytes = retained_bytes // max(1, len(channels))
        self._blocked: set[int] = set()
        self._credited = dict.fromkeys(channels, BEGINNING)

    @property
    def blocked(self) -> bool:
        """Output waits for credit, and not the credit for this slice."""
        return bool(self._blocked)

    @property
    def credited(self) -> int:
        """The highest frontier that a receiver has told."""
        return max(self._credited.values(), default=BEGINNING)

    def all(self) -> list[Effect]:
        """What may leave, of every channel."""
        return [effect for channel in self._channels.values() for effect in self.one(channel)]

    def one(self, channel: OutputChannel) -> list[Effect]:
        """What may leave, of a channel that alone has changed."""
        effects: list[Effect] = [SendFrame(frame) for frame in channel.sendable()]
        if channel.memory_bytes > self._share_bytes:
            effects.append(ToDisk(tuple(channel.to_spill(self._share_bytes))))
        self._credited[channel.number] = channel.credited
        if channel.blocked:
            self._blocked.add(channel.number)
        else:
            self._blocked.discard(channel.number)
        return effects
