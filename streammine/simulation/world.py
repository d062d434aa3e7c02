"""What all virtual nodes share: clock, chance, network, coordination service, disks, trace, monitor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa

from streammine.assembly import CompiledJob, Environment
from streammine.engine.node_stimuli import NodeEffect, NodeStimulus
from streammine.model.contracts import SourceReader
from streammine.model.job import JobSpec
from streammine.model.manifest import decode_manifest
from streammine.model.topology import Topology
from streammine.simulation.clock import VirtualClock
from streammine.simulation.coordinator import VirtualCoordinator
from streammine.simulation.disk import MemorySpill, VirtualDisk
from streammine.simulation.invariants import Monitor
from streammine.simulation.network import VirtualNetwork
from streammine.simulation.settings import SimulationSettings
from streammine.simulation.sources import OrderedRows, TableReader, shared_out
from streammine.simulation.trace import Trace

if TYPE_CHECKING:
    from streammine.simulation.node import VirtualNode

Loader = Callable[[str], object]


class World:
    """Everything around the machines, from one seed."""

    def __init__(
        self,
        seed: int,
        settings: SimulationSettings,
        sources: Mapping[str, OrderedRows],
        schemas: Mapping[str, pa.Schema],
        load_value: Loader,
    ) -> None:
        self.seed = seed
        self.settings = settings
        self.random = Random(f"{seed}/world")
        self.clock = VirtualClock()
        self.network = VirtualNetwork(self.clock, self.random, settings)
        self.coordinator = VirtualCoordinator(self.clock, self.random, settings)
        self.disk = VirtualDisk(self._written)
        self.trace = Trace()
        self.monitor = Monitor(settings.control_loss > 0.0)
        self.steps = 0
        self.tasks_under_way = 0
        self.progressed_at_seconds = 0.0
        self._sources = sources
        self._schemas = schemas
        self._load_value = load_value
        self._spec: JobSpec | None = None
        self._compiled: CompiledJob | None = None

    # --- steps ----------------------------------------------------------------------------------

    def step(self, node: VirtualNode, stimulus: NodeStimulus) -> list[NodeEffect]:
        """Let a node's machine take a stimulus: noted, and checked right behind."""
        self.steps += 1
        now = self.clock.now_seconds
        self.trace.note(now, node.name, "<", stimulus)
        effects = node.machine.handle(stimulus)
        for effect in effects:
            self.trace.note(now, node.name, ">", effect)
        self.monitor.after_step(node, stimulus, effects)
        return effects

    def progressed(self) -> None:
        """Something other than a message went on."""
        self.progressed_at_seconds = max(self.progressed_at_seconds, self.clock.now_seconds)

    def sleeping_until(self, seconds: float) -> None:
        """A source sleeps: until then, silence is no sign of being stuck."""
        self.progressed_at_seconds = max(self.progressed_at_seconds, seconds)

    def work_later(self, task: Callable[[], None]) -> None:
        """Run a task at the end of the time that it takes."""
        self.tasks_under_way += 1

        def done() -> None:
            self.tasks_under_way -= 1
            task()

        delay = self.random.uniform(0.0, self.settings.work_delay_seconds)
        self.clock.after(delay, done)

    # --- jobs -----------------------------------------------------------------------------------

    def compile(self, spec: JobSpec) -> CompiledJob:
        """The job as every node compiles it from what was submitted."""
        if self._compiled is None or self._spec != spec:
            topology = Topology.model_validate(spec.topology)
            self._spec = spec
            self._compiled = CompiledJob(
                topology, self._schemas, spec.base, self._load_value, spec.graph
            )
        return self._compiled

    def environment(self, compiled: CompiledJob) -> Environment:
        """What this world hands to slices."""
        settings = self.settings
        shares = {
            name: shared_out(
                source.batch.num_rows,
                compiled.graph.vertex(name).slices,
                Random(f"{self.seed}/shares/{name}"),
            )
            for name, source in self._sources.items()
        }

        def reader(name: str, index: int, columns: tuple[str, ...] | None) -> SourceReader:
            rate = compiled.topology.sources[name].rate
            random = Random(f"{self.seed}/reads/{name}/{index}")
            return TableReader(
                name,
                self._sources[name],
                shares[name][index],
                columns,
                None if rate is None else rate.events / rate.seconds,
                random if settings.random_read_sizes else None,
            )

        assert self._spec is not None
        return Environment(
            open_reader=reader,
            open_store=self.disk.open_store,
            targets=self._spec.targets,
            open_spill=MemorySpill,
            bag_memory_bytes=settings.bag_memory_bytes,
            read_rows=settings.read_rows,
            channel_budget_bytes=settings.channel_budget_bytes,
        )

    def _written(self, location: str, name: str, data: pa.Buffer) -> None:
        if name.startswith("manifests/"):
            self.monitor.manifest_written(location, decode_manifest(name, data))
