"""Doing what a fault plan says, when it says so, and undoing it when it is over."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from streammine.simulation.faults import Fault, FaultKind, FaultPlan
from streammine.simulation.network import Breaking, Disturbance

if TYPE_CHECKING:
    from streammine.simulation.cluster import Cluster
    from streammine.simulation.coordinator import Session
    from streammine.simulation.node import VirtualNode

Undo = Callable[[], None]


class FaultInjector:
    """Applies a plan to a cluster. `effective` counts the faults that changed something, by kind.

    A crash counts where the node had part in a job that was not over; a disturbance of the network where it
    touched a message; a session's where a call failed or an event stayed away. What is over, or healed, is
    undone. `over_at_seconds`: when the last fault so far was over.
    """

    def __init__(self, cluster: Cluster, plan: FaultPlan) -> None:
        self.effective: Counter[FaultKind] = Counter()
        self.healed = False
        self.over_at_seconds = 0.0
        self._cluster = cluster
        self._world = cluster.world
        self._coming = deque(enumerate(plan.faults))
        self._left = len(plan.faults)
        self._standing: dict[int, Undo] = {}
        self._struck: set[int] = set()
        self._joined: dict[int, str] = {}
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
            FaultKind.CROWDED: self._crowd,
            FaultKind.DISK_FAILED: self._fail_disk,
            FaultKind.DISK_SLOW: self._slow_disk,
            FaultKind.DISK_TORN: self._tear,
            FaultKind.CORRUPT: self._corrupt,
            FaultKind.JOIN: self._join,
            FaultKind.MOVE: self._move,
            FaultKind.DRAIN: self._drain,
            FaultKind.SCHEME: self._change_scheme,
        }

    def advance(self, closes: int) -> None:
        """The job's slices have closed so many epochs: the faults that waited for that come."""
        while self._coming and self._coming[0][1].after_closes <= closes:
            number, fault = self._coming.popleft()
            self._world.clock.after(fault.at_seconds, partial(self._strike, number, fault))

    def heal(self) -> None:
        """End every fault that stands; no further one comes."""
        if self.healed:
            return
        self.healed = True
        self.over_at_seconds = self._world.clock.now_seconds
        for number in sorted(self._standing):
            self._standing.pop(number)()
        for number, name in self._joined.items():
            node = self._cluster.nodes.get(name)
            if node is not None and node.tasks:
                self._took_effect(number, FaultKind.JOIN)
        self._cluster.repopulate()

    def _strike(self, number: int, fault: Fault) -> None:
        if self.healed:
            return
        self._world.tell("fault", str(fault))
        self._strikes[fault.kind](number, fault)
        over = self._world.clock.now_seconds + fault.seconds
        self.over_at_seconds = max(self.over_at_seconds, over)
        self._left -= 1
        if self._left == 0:
            self._world.clock.at(self.over_at_seconds, self._cluster.repopulate)

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
        """A node that has a part in the job, as long as there is one."""
        living = self._cluster.living()
        concerned = [node for node in living if node.concerned]
        chosen = concerned or living
        return chosen[fault.node % len(chosen)] if chosen else None

    # --- processes -------------------------------------------------------------------------------

    def _crash(self, number: int, fault: Fault) -> None:
        node = self._target(fault)
        if node is not None:
            self._kill(number, fault, node)

    def _manager(self) -> VirtualNode | None:
        """The process of the manager, as long as it lives."""
        members = self._world.coordinator.members()
        node = self._cluster.nodes.get(members[0].name) if members else None
        return node if node is not None and node.process.alive else None

    def _crash_manager(self, number: int, fault: Fault) -> None:
        node = self._manager()
        if node is not None:
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

    def _crowd(self, number: int, fault: Fault) -> None:
        node = self._target(fault)
        if node is None:
            return
        node.crowded += 1

        def undo() -> None:
            node.crowded -= 1
            if self._world.monitor.seen_crowded(node.name):
                self._took_effect(number, fault.kind)

        self._until_over(number, fault, undo)

    def _join(self, number: int, fault: Fault) -> None:
        self._joined[number] = self._cluster.add()

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
        if node is not None:
            self._cut(number, fault, node.session.cut(), (node.session,))

    def _coordinator_down(self, number: int, fault: Fault) -> None:
        coordinator = self._world.coordinator
        connected = tuple(each for each in coordinator.sessions if each.connected)
        self._cut(number, fault, coordinator.outage(), connected)

    def _cut(self, number: int, fault: Fault, mend: Undo, sessions: tuple[Session, ...]) -> None:
        """Sessions are cut off until it is over; somebody may notice."""
        before = sum(session.missed for session in sessions)

        def undo() -> None:
            if sum(session.missed for session in sessions) > before:
                self._took_effect(number, fault.kind)
            mend()

        self._until_over(number, fault, undo)

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
        hosts = [node.name for node in self._cluster.living() if node.concerned]
        # two of those that have a part in the job are on different sides
        first, last = (hosts[0], hosts[-1]) if len(hosts) > 1 else (names[:1] or [""])[0:1] * 2
        group = frozenset(
            name
            for place, name in enumerate(names)
            if name == first or (fault.node >> place % 6 & 1 and name != last)
        )
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
        if node is None:
            return
        breaking = Breaking(node.name)
        self._world.network.breaking.append(breaking)

        def undo() -> None:
            self._world.network.breaking.remove(breaking)
            if breaking.lost and self._cluster.busy:
                self._took_effect(number, fault.kind)

        self._until_over(number, fault, undo)

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
        """`other` says whether it is to be the manager's next manifest of a checkpoint."""
        manifest = fault.other % 3 == 0
        node = self._manager() if manifest else self._target(fault)
        if node is None:
            return
        torn = self._world.disk.torn.setdefault(node.name, [])
        prefix = "checkpoints/" if manifest else ""
        torn.append(prefix)

        def undo() -> None:
            if prefix in torn:
                torn.remove(prefix)

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

    def _change_scheme(self, number: int, fault: Fault) -> None:
        if self._cluster.ask_scheme(fault.node, fault.other):
            self._took_effect(number, fault.kind)

    def _drain(self, number: int, fault: Fault) -> None:
        node = self._target(fault)
        if node is not None and self._cluster.ask_drain(node):
            self._took_effect(number, fault.kind)
