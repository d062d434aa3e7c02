"""What waits to leave a node by its sockets, which belong to another thread than those that leave it here."""

from __future__ import annotations

from streammine.engine.node_stimuli import TransmitControl, TransmitFrame
from streammine.model import control
from streammine.model.ids import SliceId


class Outbox:
    """Frames and messages in their order, behind them what replicas that agree tell each other of where they
    stand, of which the newest counts (a pulse says less than a report), and behind that credits, of which the
    furthest on a link counts.

    Its user keeps threads out of each other's way.
    """

    def __init__(self) -> None:
        self._effects: list[TransmitFrame | TransmitControl] = []
        self._standings: dict[tuple[str, int, SliceId, int], TransmitControl] = {}
        self._frontiers: dict[tuple[str, int], dict[tuple[int, int, int], int]] = {}

    def __bool__(self) -> bool:
        return self.urgent or bool(self._frontiers)

    @property
    def urgent(self) -> bool:
        """Something other than credits waits."""
        return bool(self._effects or self._standings)

    def put(self, effect: TransmitFrame | TransmitControl) -> None:
        match effect:
            case TransmitControl(node, control.Credits(job, links)):
                frontiers = self._frontiers.setdefault((node, job), {})
                for channel, sender, receiver, frontier in links:
                    link = (channel, sender, receiver)
                    frontiers[link] = max(frontier, frontiers.get(link, frontier))
            case TransmitControl(node, control.StandingTold(job, slice_id, receiver)):
                self._standings[node, job, slice_id, receiver] = effect
            case TransmitControl(node, control.PulseTold(job, slice_id, receiver)):
                self._put_pulse((node, job, slice_id, receiver), effect)
            case _:
                self._effects.append(effect)

    def _put_pulse(self, to: tuple[str, int, SliceId, int], effect: TransmitControl) -> None:
        waits = self._standings.get(to)
        if waits is None or isinstance(waits.message, control.PulseTold):
            self._standings[to] = effect

    def take(self) -> list[TransmitFrame | TransmitControl]:
        """Everything, which is then gone from here."""
        taken, self._effects = self._effects, []
        taken += self._standings.values()
        self._standings.clear()
        for (node, job), frontiers in self._frontiers.items():
            links = [(*link, frontier) for link, frontier in frontiers.items()]
            for credits in control.in_messages(control.Credits, job, links):
                taken.append(TransmitControl(node, credits))
        self._frontiers.clear()
        return taken
