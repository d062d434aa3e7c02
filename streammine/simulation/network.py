"""The virtual network: per pair of nodes a FIFO for frames and another for control messages.

Each pair has a pace of its own, so that some are always behind, and every message a delay of its own;
so what goes over different pairs, or over both FIFOs of one, interleaves in any way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

from streammine.simulation.clock import VirtualClock
from streammine.simulation.settings import SimulationSettings

_PACES = (0.01, 0.1, 0.3, 1.0)

Body: TypeAlias = Any
"""A buffer, a record batch where nothing is serialised, or None."""


@dataclass(frozen=True)
class Receiver:
    """Where a node takes messages: (sender, header, body) and (sender, message)."""

    data: Callable[[str, bytes, Body], None]
    control: Callable[[str, bytes], None]


class VirtualNetwork:
    """Delivers bytes. Data frames may get lost or come twice, and control messages get lost, as the
    settings say."""

    def __init__(self, clock: VirtualClock, random: Random, settings: SimulationSettings) -> None:
        self._clock = clock
        self._random = random
        self._settings = settings
        self._receivers: dict[str, Receiver] = {}
        self._paces: dict[tuple[str, str], float] = {}
        self._last: dict[tuple[str, str, str], float] = {}
        self.frames_sent = 0
        self.frames_lost = 0
        self.frames_doubled = 0
        self.messages_lost = 0
        self.under_way = 0

    def attach(self, name: str, receiver: Receiver) -> None:
        self._receivers[name] = receiver

    def send_data(self, sender: str, receiver: str, header: bytes, body: Body) -> None:
        self.frames_sent += 1
        if self._random.random() < self._settings.frame_loss:
            self.frames_lost += 1
            return
        take = self._receivers[receiver].data
        self._deliver("data", sender, receiver, lambda: take(sender, header, body))
        if self._random.random() < self._settings.frame_duplication:
            # the second copy is a straggler: it keeps no order
            self.frames_doubled += 1
            self.under_way += 1
            late = self._random.uniform(0.0, 4.0 * self._settings.network_delay_seconds)
            self._clock.after(late, self._arrival(lambda: take(sender, header, body)))

    def send_control(self, sender: str, receiver: str, message: bytes) -> None:
        assert sender != receiver, f"{sender} sends to itself over the network"
        loss = self._settings.control_loss
        # no chance is drawn where none is lost: what a seed stands for stays the same
        if loss > 0.0 and self._random.random() < loss:
            self.messages_lost += 1
            return
        take = self._receivers[receiver].control
        self._deliver("control", sender, receiver, lambda: take(sender, message))

    def _deliver(self, kind: str, sender: str, receiver: str, take: Callable[[], None]) -> None:
        pair = (sender, receiver)
        if pair not in self._paces:
            self._paces[pair] = self._random.choice(_PACES)
        delay = self._random.uniform(0.0, self._settings.network_delay_seconds * self._paces[pair])
        fifo = (kind, sender, receiver)
        due = max(self._clock.now_seconds + delay, self._last.get(fifo, 0.0))
        self._last[fifo] = due
        self.under_way += 1
        self._clock.at(due, self._arrival(take))

    def _arrival(self, take: Callable[[], None]) -> Callable[[], None]:
        def arrive() -> None:
            self.under_way -= 1
            take()

        return arrive
