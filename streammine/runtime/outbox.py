"""What waits to leave a node by its sockets, which belong to another thread than those that leave it here."""

from __future__ import annotations

from dataclasses import replace

from streammine.engine.node_stimuli import TransmitControl, TransmitFrame
from streammine.model import control
from streammine.model.agreement import newest
from streammine.model.ids import SliceId

_Replica = tuple[str, int, SliceId, int]
"""The node where it is, its job, its slice and its generation."""


class Outbox:
    """Frames and messages in their order, behind them what replicas that agree tell each other of where they
    stand, of which the newest counts (a pulse says less than a report), and behind that credits, of which the
    furthest on a link counts.

    Its user keeps threads out of each other's way.
    """

    def __init__(self) -> None:
        self._effects: list[TransmitFrame | TransmitControl] = []
        self._standings: dict[_Replica, control.StandingTold | control.PulseTold] = {}
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
            case TransmitControl(
                node,
                control.StandingTold(job, slice_id, receiver)
                | control.PulseTold(job, slice_id, receiver) as told,
            ):
                self._put_standing((node, job, slice_id, receiver), told)
            case _:
                self._effects.append(effect)

    def _put_standing(self, to: _Replica, told: control.StandingTold | control.PulseTold) -> None:
        waits = self._standings.get(to)
        if isinstance(waits, control.StandingTold):
            if isinstance(told, control.PulseTold):
                return
            told = replace(told, message=newest(waits.message, told.message))
        self._standings[to] = told

    def take(self) -> list[TransmitFrame | TransmitControl]:
        """Everything, which is then gone from here."""
        taken, self._effects = self._effects, []
        taken += [TransmitControl(to[0], told) for to, told in self._standings.items()]
        self._standings.clear()
        for (node, job), frontiers in self._frontiers.items():
            links = [(*link, frontier) for link, frontier in frontiers.items()]
            for credits in control.in_messages(control.Credits, job, links):
                taken.append(TransmitControl(node, credits))
        self._frontiers.clear()
        return taken
