"""Doing what a fault plan says, when it says so, and undoing it when it is over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from streammine.simulation.faults import Fault, FaultKind, FaultPlan
from streammine.simulation.network import Disturbance

if TYPE_CHECKING:
    from streammine.simulation.cluster import Cluster
    from streammine.simulation.node import VirtualNode

Undo = Callable[[], None]


class FaultInjector:
    """Applies a plan to a cluster. `effective` counts the faults that changed something, by kind.

    A crash counts where the node had part in a job that was not over; a disturbance of the network where it
    touched a message; and so on. What is over, or healed, is undone.
    """

    def __init__(self, cluster: Cluster, plan: FaultPlan) -> None:
        self.effective: Counter[FaultKind] = Counter()
        self.healed = False
        self._cluster = cluster
        self._world = cluster.world
        self._plan = plan
        self._standing: dict[int, Undo] = {}
        self._struck: set[int] = set()
        self._strikes: dict[FaultKind, Callable[[int, Fault], None]] = {
            FaultKind.CRASH: self._crash,
            FaultKind.MANAGER: self._crash_manager,
            FaultKind.PAUSE: self._pause,
            FaultKind.EXPIRE: self._expire,
            FaultKind.SUSPEND: self._suspend,
            FaultKind.COORDINATOR: self._coordinator_down,
            FaultKind.SPLIT: self._split,
            FaultKind.ONE_WAY: self._split,
            FaultKind.RECONNECT: self._reconnect,
            FaultKind.LOSS: self._lose,
            FaultKind.DUPLICATES: self._double,
            FaultKind.DELAY: self._delay,
            FaultKind.SLOW: self._slow,
            FaultKind.DISK_FAILED: self._fail_disk,
            FaultKind.DISK_SLOW: self._slow_disk,
            FaultKind.DISK_TORN: self._tear,
            FaultKind.CORRUPT: self._corrupt,
            FaultKind.JOIN: self._join,
            FaultKind.MOVE: self._move,
        }

    def start(self) -> None:
        clock = self._world.clock
        for number, fault in enumerate(self._plan.faults):
            clock.at(fault.at_seconds, partial(self._strike, number, fault))
        clock.at(self._plan.quiet_from_seconds, self.heal)

    def heal(self) -> None:
        """End every fault that stands; no further one comes."""
        if self.healed:
            return
        self.healed = True
        for number in sorted(self._standing):
            self._standing.pop(number)()
        self._cluster.repopulate()

    def _strike(self, number: int, fault: Fault) -> None:
        if self.healed:
            return
        self._world.tell("fault", str(fault))
        self._strikes[fault.kind](number, fault)

    def _took_effect(self, number: int, kind: FaultKind) -> None:
        if number not in self._struck:
            self._struck.add(number)
            self.effective[kind] += 1

    def _until_over(self, number: int, fault: Fault, undo: Undo) -> None:
        self._standing[number] = undo

        def over() -> None:
            if (standing := self._standing.pop(number, None)) is not None:
                self._world.tell("over", str(fault))
                standing()

        self._world.clock.after(fault.seconds, over)

    def _target(self, fault: Fault) -> VirtualNode | None:
        living = self._cluster.living()
        return living[fault.node % len(living)] if living else None

    # --- processes -------------------------------------------------------------------------------

    def _crash(self, number: int, fault: Fault) -> None:
        node = self._target(fault)
        if node is not None:
            self._kill(number, fault, node)

    def _crash_manager(self, number: int, fault: Fault) -> None:
        members = self._world.coordinator.members()
        node = self._cluster.nodes.get(members[0].name) if members else None
        if node is not None and node.process.alive:
            self._kill(number, fault, node)

    def _kill(self, number: int, fault: Fault, node: VirtualNode) -> None:
        if node.concerned or self._cluster.is_manager(node):
            self._took_effect(number, fault.kind)
        random = Random(f"{self._world.seed}/crash/{number}")
        self._cluster.crash(node, random)
        self._cluster.replace(node, fault.seconds, same_name=fault.other % 2 == 0)

    def _pause(self, number: int, fault: Fault) -> None:
        node = self._target(fault)
        if node is None:
            return
        mend = node.session.cut()
        node.process.stop()

        def undo() -> None:
            if node.process.waiting and node.concerned:
                self._took_effect(number, fault.kind)
            mend()
            if node.process.alive:
                node.process.go_on()

        self._until_over(number, fault, undo)

    def _slow(self, number: int, fault: Fault) -> None:
        node = self._target(fault)
        if node is None:
            return
        node.slowness *= fault.amount
        before = node.tasks

        def undo() -> None:
            node.slowness /= fault.amount
            if node.tasks > before:
                self._took_effect(number, fault.kind)

        self._until_over(number, fault, undo)

    def _join(self, number: int, fault: Fault) -> None:
        self._took_effect(number, fault.kind)
        self._cluster.add()

    # --- the coordination service ----------------------------------------------------------------

    def _expire(self, number: int, fault: Fault) -> None:
        node = self._target(fault)
        if node is None or not self._world.coordinator.expire(node.session):
            return
        if node.concerned or self._cluster.is_manager(node):
            self._took_effect(number, fault.kind)
        self._until_over(number, fault, node.session.hear_of_expiry)

    def _suspend(self, number: int, fault: Fault) -> None:
        node = self._target(fault)
        if node is None:
            return
        if node.concerned:
            self._took_effect(number, fault.kind)
        self._until_over(number, fault, node.session.cut())

    def _coordinator_down(self, number: int, fault: Fault) -> None:
        if self._cluster.busy:
            self._took_effect(number, fault.kind)
        self._until_over(number, fault, self._world.coordinator.outage())

    # --- the network -----------------------------------------------------------------------------

    def _disturb(self, number: int, fault: Fault, disturbances: list[Disturbance]) -> None:
        network = self._world.network
        network.disturbances.extend(disturbances)

        def undo() -> None:
            for each in disturbances:
                network.disturbances.remove(each)
                if each.hits and self._cluster.busy:
                    self._took_effect(number, fault.kind)

        self._until_over(number, fault, undo)

    def _split(self, number: int, fault: Fault) -> None:
        """`node` gives the members of the group bit by bit; `other` says whether that group loses the
        coordination service, too, and whether messages are lost or held back until it is over."""
        names = [node.name for node in self._cluster.living()]
        group = frozenset(
            name for place, name in enumerate(names) if fault.node >> place % 6 & 1
        ) or frozenset(names[:1])
        rest = frozenset(names) - group
        if not rest:
            return
        held = fault.other % 4 == 3
        until = self._world.clock.now_seconds + fault.seconds if held else 0.0
        cuts = [Disturbance(group, rest, loss=0.0 if held else 1.0, held_until_seconds=until)]
        if fault.kind is FaultKind.SPLIT:
            cuts.append(Disturbance(rest, group, cuts[0].loss, held_until_seconds=until))
        self._disturb(number, fault, cuts)
        if fault.other % 2 == 0:
            return
        mends = [node.session.cut() for node in self._cluster.living() if node.name in group]
        mended = self._standing[number]

        def undo() -> None:
            mended()
            for mend in mends:
                mend()

        self._standing[number] = undo

    def _reconnect(self, number: int, fault: Fault) -> None:
        node = self._target(fault)
        if node is not None and self._world.network.reconnect(node.name) and self._cluster.busy:
            self._took_effect(number, fault.kind)

    def _lose(self, number: int, fault: Fault) -> None:
        self._disturb(number, fault, [Disturbance(loss=fault.amount)])

    def _double(self, number: int, fault: Fault) -> None:
        self._disturb(number, fault, [Disturbance(duplication=fault.amount)])

    def _delay(self, number: int, fault: Fault) -> None:
        node = self._target(fault)
        if node is not None:
            slow = Disturbance(frozenset({node.name}), slowness=fault.amount)
            self._disturb(number, fault, [slow])

    # --- disks -----------------------------------------------------------------------------------

    def _watch_disk(self, number: int, fault: Fault, name: str, undo: Undo) -> None:
        """Undo a disk's fault when its time is over, and see whether it has hit anything."""
        hits = self._world.disk.hits
        before = hits[name]

        def over() -> None:
            undo()
            if hits[name] > before:
                self._took_effect(number, fault.kind)

        self._until_over(number, fault, over)

    def _fail_disk(self, number: int, fault: Fault) -> None:
        node = self._target(fault)
        if node is not None:
            failing = self._world.disk.failing
            failing.add(node.name)
            self._watch_disk(number, fault, "failed", lambda: failing.discard(node.name))

    def _slow_disk(self, number: int, fault: Fault) -> None:
        node = self._target(fault)
        if node is None:
            return
        node.disk_slowness *= fault.amount
        before = node.snapshots

        def undo() -> None:
            node.disk_slowness /= fault.amount
            if node.snapshots > before:
                self._took_effect(number, fault.kind)

        self._until_over(number, fault, undo)

    def _tear(self, number: int, fault: Fault) -> None:
        node = self._target(fault)
        if node is None:
            return
        torn = self._world.disk.torn
        torn[node.name] = torn.get(node.name, 0) + 1

        def undo() -> None:
            torn.pop(node.name, None)

        self._watch_disk(number, fault, "torn", undo)

    def _corrupt(self, number: int, fault: Fault) -> None:
        disk = self._world.disk
        disk.corrupt += 1

        def undo() -> None:
            disk.corrupt = 0

        self._watch_disk(number, fault, "corrupt", undo)

    # --- users -----------------------------------------------------------------------------------

    def _move(self, number: int, fault: Fault) -> None:
        if self._cluster.ask_move(fault.node, fault.other):
            self._took_effect(number, fault.kind)
