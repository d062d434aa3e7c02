"""What waits to leave a node by its sockets, which belong to another thread than those that leave it here."""

from __future__ import annotations

from streammine.engine.node_stimuli import TransmitControl, TransmitFrame
from streammine.model import control


class Outbox:
    """Frames and messages in their order, and behind them credits, of which the furthest on a link counts.

    Its user keeps threads out of each other's way.
    """

    def __init__(self) -> None:
        self._effects: list[TransmitFrame | TransmitControl] = []
        self._frontiers: dict[tuple[str, int], dict[tuple[int, int, int], int]] = {}

    def __bool__(self) -> bool:
        return bool(self._effects or self._frontiers)

    @property
    def urgent(self) -> bool:
        """Something other than credits waits."""
        return bool(self._effects)

    def put(self, effect: TransmitFrame | TransmitControl) -> None:
        if isinstance(effect, TransmitControl) and isinstance(effect.message, control.Credits):
            frontiers = self._frontiers.setdefault((effect.node, effect.message.job), {})
            for channel, sender, receiver, frontier in effect.message.links:
                link = (channel, sender, receiver)
                frontiers[link] = max(frontier, frontiers.get(link, frontier))
            return
        self._effects.append(effect)

    def take(self) -> list[TransmitFrame | TransmitControl]:
        """Everything, which is then gone from here."""
        taken, self._effects = self._effects, []
        for (node, job), frontiers in self._frontiers.items():
            links = [(*link, frontier) for link, frontier in frontiers.items()]
            for credits in control.in_messages(control.Credits, job, links):
                taken.append(TransmitControl(node, credits))
        self._frontiers.clear()
        return taken
