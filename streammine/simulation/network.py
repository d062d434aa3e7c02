"""The virtual network: per pair of nodes a FIFO for frames and another for control messages.

Each pair has a pace of its own, so that some are always behind, and every message a delay of its own;
so what goes over different pairs, or over both FIFOs of one, interleaves in any way. Chance is drawn per
pair, so that what happens between two nodes changes nothing between two others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

from streammine.model import control
from streammine.simulation.clock import VirtualClock
from streammine.simulation.settings import MOST_SLOWNESS, SimulationSettings

_PACES = (0.01, 0.1, 0.3, 1.0)

Body: TypeAlias = Any
"""A buffer, a record batch where nothing is serialised, or None."""


Message: TypeAlias = control.ControlMessage | bytes
"""A control message, as bytes where everything is serialised."""


@dataclass(frozen=True)
class Receiver:
    """Where a node takes messages: (sender, header, body) and (sender, message)."""

    data: Callable[[str, bytes, Body], None]
    control: Callable[[str, Message], None]


@dataclass(eq=False)
class Disturbance:
    """What a fault does to messages as long as it lasts. None as `senders` or `receivers` means all.

    `loss` of 1 is a cut: what is under way when it comes is lost, too. `held_until_seconds`: nothing is
    lost, it arrives when the cut is over. `hits` counts the messages that it changed.
    """

    senders: frozenset[str] | None = None
    receivers: frozenset[str] | None = None
    loss: float = 0.0
    duplication: float = 0.0
    slowness: float = 1.0
    held_until_seconds: float = 0.0
    hits: int = 0

    def concerns(self, sender: str, receiver: str) -> bool:
        return (self.senders is None or sender in self.senders) and (
            self.receivers is None or receiver in self.receivers
        )


@dataclass(eq=False)
class Breaking:
    """The connections of a node are about to break; `lost` counts what was under way then."""

    name: str
    lost: int = 0


@dataclass
class _Pair:
    """What the network knows of one direction between two nodes."""

    random: Random
    pace: float
    last_seconds: dict[str, float]
    connection: int = 0
    under_way: int = 0


class VirtualNetwork:
    """Delivers bytes. Data frames may get lost or come twice, and control messages get lost, as the
    settings and the disturbances that are in force say."""

    def __init__(self, clock: VirtualClock, seed: int, settings: SimulationSettings) -> None:
        self._clock = clock
        self._seed = seed
        self._settings = settings
        self._receivers: dict[str, Receiver] = {}
        self._pairs: dict[tuple[str, str], _Pair] = {}
        self.disturbances: list[Disturbance] = []
        self.breaking: list[Breaking] = []
        self.frames_sent = 0
        self.frames_lost = 0
        self.frames_doubled = 0
        self.messages_lost = 0
        self.frames_under_way = 0

    def attach(self, name: str, receiver: Receiver) -> None:
        """A node takes messages from now on, in the place of any earlier one of its name."""
        self._receivers[name] = receiver

    def detach(self, name: str) -> None:
        """A node is gone; what is sent to it is lost."""
        self._receivers.pop(name, None)

    def reconnect(self, name: str) -> int:
        """Break every connection of a node: what is under way on it is lost. Returns how much that was."""
        lost = 0
        for pair in [pair for ends, pair in sorted(self._pairs.items()) if name in ends]:
            lost += pair.under_way
            pair.under_way = 0
            pair.connection += 1
        return lost

    def _break(self, *ends: str) -> None:
        """Something has set out between these two, and a connection that was to break does."""
        for each in self.breaking:
            if not each.lost and each.name in ends:
                each.lost = self.reconnect(each.name)

    def send_data(self, sender: str, receiver: str, header: bytes, body: Body) -> None:
        self.frames_sent += 1
        pair = self._pair(sender, receiver)
        if self._lost(pair, sender, receiver, self._settings.frame_loss):
            self.frames_lost += 1
            return

        def take() -> None:
            if (node := self._receivers.get(receiver)) is not None:
                node.data(sender, header, body)

        self._deliver(pair, "data", sender, receiver, take)
        if self._doubled(pair, sender, receiver):
            # the second copy is a straggler: it keeps no order
            self.frames_doubled += 1
            late = pair.random.uniform(0.0, 4.0 * self._settings.network_delay_seconds)
            self._clock.after(late, self._arrival("data", pair, sender, receiver, take))

    def send_control(self, sender: str, receiver: str, message: Message) -> None:
        assert sender != receiver, f"{sender} sends to itself over the network"
        pair = self._pair(sender, receiver)
        if self._lost(pair, sender, receiver, self._settings.control_loss):
            self.messages_lost += 1
            return

        def take() -> None:
            if (node := self._receivers.get(receiver)) is not None:
                node.control(sender, message)

        self._deliver(pair, "control", sender, receiver, take)

    def _pair(self, sender: str, receiver: str) -> _Pair:
        pair = self._pairs.get((sender, receiver))
        if pair is None:
            random = Random(f"{self._seed}/network/{sender}/{receiver}")
            pair = self._pairs[sender, receiver] = _Pair(random, random.choice(_PACES), {})
        return pair

    def _lost(self, pair: _Pair, sender: str, receiver: str, loss: float) -> bool:
        if loss > 0.0 and pair.random.random() < loss:
            return True
        for each in self.disturbances:
            if (
                each.loss > 0.0
                and each.concerns(sender, receiver)
                and (each.loss >= 1.0 or pair.random.random() < each.loss)
            ):
                each.hits += 1
                return True
        return False

    def _doubled(self, pair: _Pair, sender: str, receiver: str) -> bool:
        share = self._settings.frame_duplication
        if share > 0.0 and pair.random.random() < share:
            return True
        for each in self.disturbances:
            if (
                each.duplication > 0.0
                and each.concerns(sender, receiver)
                and pair.random.random() < each.duplication
            ):
                each.hits += 1
                return True
        return False

    def _deliver(
        self, pair: _Pair, kind: str, sender: str, receiver: str, take: Callable[[], None]
    ) -> None:
        delay = pair.random.uniform(0.0, self._settings.network_delay_seconds * pair.pace)
        slowness, earliest = 1.0, 0.0
        for each in self.disturbances:
            held = each.held_until_seconds > self._clock.now_seconds
            if (each.slowness > 1.0 or held) and each.concerns(sender, receiver):
                each.hits += 1
                slowness *= each.slowness
                earliest = max(earliest, each.held_until_seconds)
        delay *= min(slowness, MOST_SLOWNESS)
        due = max(self._clock.now_seconds + delay, earliest, pair.last_seconds.get(kind, 0.0))
        pair.last_seconds[kind] = due
        self._clock.at(due, self._arrival(kind, pair, sender, receiver, take))
        if self.breaking:
            self._break(sender, receiver)

    def _arrival(
        self, kind: str, pair: _Pair, sender: str, receiver: str, take: Callable[[], None]
    ) -> Callable[[], None]:
        connection = pair.connection
        frames = int(kind == "data")
        self.frames_under_way += frames
        pair.under_way += 1

        def arrive() -> None:
            self.frames_under_way -= frames
            if connection != pair.connection:
                return
            pair.under_way -= 1
            for each in self.disturbances:
                if each.loss >= 1.0 and each.concerns(sender, receiver):
                    each.hits += 1
                    return
            take()

        return arrive
