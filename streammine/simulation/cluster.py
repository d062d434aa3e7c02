"""The virtual cluster: processes that start, die and are replaced, and a client that submits the job."""

from __future__ import annotations

from functools import partial
from random import Random

from streammine.model import control
from streammine.model.coordination import Member
from streammine.model.job import JobSpec
from streammine.model.job_codec import encode_spec
from streammine.model.schemes import Scheme
from streammine.simulation.node import VirtualNode
from streammine.simulation.world import World


class Cluster:
    """Nodes by name. `start` lets `count` of them join at times of their own."""

    def __init__(self, world: World, spec: JobSpec, count: int) -> None:
        self.world = world
        self.nodes: dict[str, VirtualNode] = {}
        self.busy = True
        self._spec = spec
        self._count = count
        self._random = Random(f"{world.seed}/cluster")
        self._wanted = self._random.choice((count, count, count, self._random.randint(1, count)))
        self._made = 0
        self._expected: set[str] = set()
        self._submitted = False

    def start(self) -> None:
        for _ in range(self._count):
            self.add()

    def living(self) -> list[VirtualNode]:
        """In the order of their names."""
        return [node for _, node in sorted(self.nodes.items()) if node.process.alive]

    def is_manager(self, node: VirtualNode) -> bool:
        members = self.world.coordinator.members()
        return bool(members) and members[0].session == node.session.number

    # --- processes -------------------------------------------------------------------------------

    def add(self) -> str:
        """One more node, under a name of its own, which is returned."""
        name = f"node-{self._made}"
        self._made += 1
        self._boot(name, self._random.uniform(0.0, self.world.settings.join_delay_seconds))
        return name

    def crash(self, node: VirtualNode, random: Random) -> None:
        """End a node's process. What it was writing may be half there."""
        node.crash(random)
        node.session.close()
        self.world.network.detach(node.name)

    def replace(self, node: VirtualNode, seconds: float, same_name: bool) -> None:
        """Start a process in the place of one that is gone."""
        if same_name:
            self._boot(node.name, seconds)
            return
        name = f"node-{self._made}"
        self._made += 1
        self._boot(name, seconds)

    def repopulate(self) -> None:
        """See to it that somebody is there, or will be."""
        if not self.living() and not self._expected:
            self.add()

    def rejoin(self, node: VirtualNode) -> None:
        """A process that has lost its session ends itself, and whoever supervises it starts another."""
        self.crash(node, Random(f"{self.world.seed}/fence/{node.session.number}"))
        delay = self._random.uniform(0.0, self.world.settings.join_delay_seconds)
        self.replace(node, delay, same_name=True)

    def _boot(self, name: str, delay_seconds: float) -> None:
        self._expected.add(name)
        self.world.clock.after(delay_seconds, partial(self._booted, name))

    def _booted(self, name: str) -> None:
        self._expected.discard(name)
        standing = self.nodes.get(name)
        if standing is not None and standing.process.alive:
            return
        node = VirtualNode(name, self.world, self.rejoin)
        self.nodes[name] = node
        self.world.tell(name, "starts")
        node.start(Member(name, name, name, "virtual", node.session.number), self._joined)

    def _joined(self) -> None:
        if self._submitted or self.world.coordinator.joined < self._wanted:
            return
        self._submitted = True
        delay = self._random.uniform(0.0, self.world.settings.join_delay_seconds)
        self.world.clock.after(delay, self._submit)

    # --- the client ------------------------------------------------------------------------------

    def _submit(self) -> None:
        self.world.progressed()
        self.world.coordinator.submit_job(encode_spec(self._spec))

    def _manager(self) -> VirtualNode | None:
        """Who a client reaches, as long as there is something to ask for."""
        managers = [node for node in self.living() if self.is_manager(node)]
        if not self._submitted or not self.busy or not managers or managers[0].process.paused:
            return None
        return managers[0]

    def ask_move(self, slice_choice: int, node_choice: int) -> bool:
        """Ask the manager to move a slice: the first, from a chosen one on, that it would move. False when it
        refuses them all, or can't be asked."""
        manager = self._manager()
        if manager is None:
            return False
        slices, nodes = self._spec.graph.slices, self.living()
        mode = "live" if slice_choice % 3 else "state-transfer"
        for place in range(len(slices) * len(nodes)):
            slice_id = slices[(slice_choice + place // len(nodes)) % len(slices)]
            name = nodes[(node_choice + place) % len(nodes)].name
            wish = control.MoveRequest(job=1, slice=str(slice_id), node=name, mode=mode)
            if manager.machine.refusal(wish) is None:
                manager.ask(wish)
                return True
        return False

    def ask_scheme(self, slice_choice: int, scheme_choice: int) -> bool:
        """Ask the manager for another scheme of a slice, or of all of a vertex. False when it won't, or can't
        be asked."""
        manager = self._manager()
        slices = self._spec.graph.slices
        chosen = slices[slice_choice % len(slices)]
        named = str(chosen) if scheme_choice % 2 else chosen.vertex
        scheme = tuple(Scheme)[scheme_choice // 2 % len(Scheme)]
        wish = control.SchemeRequest(1, named, scheme.value)
        if manager is None or manager.machine.refusal(wish) is not None:
            return False
        manager.ask(wish)
        return True

    def ask_drain(self, node: VirtualNode) -> bool:
        """Ask the manager to move everything away from a node. False when it won't, or can't be asked."""
        manager = self._manager()
        wish = control.DrainRequest(node.name)
        if manager is None or manager.machine.refusal(wish) is not None:
            return False
        manager.ask(wish)
        return True
