"""What all virtual nodes share: clock, network, coordination service, disks, trace, monitor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa

from streammine.assembly import AGREEMENT, CompiledJob, Environment
from streammine.engine.node_stimuli import NodeEffect, NodeStimulus
from streammine.model.contracts import IntArray, Position
from streammine.model.job import JobSpec
from streammine.model.source_contracts import SourceReader
from streammine.simulation.clock import VirtualClock
from streammine.simulation.coordinator import VirtualCoordinator
from streammine.simulation.coverage import Coverage
from streammine.simulation.disk import MemorySpill, NodeStore, VirtualDisk
from streammine.simulation.monitor import Monitor
from streammine.simulation.network import VirtualNetwork
from streammine.simulation.paces import Pace, RowPace, TimePace
from streammine.simulation.settings import SimulationSettings
from streammine.simulation.sources import OrderedRows, TableReader, shared_out
from streammine.simulation.trace import Trace

if TYPE_CHECKING:
    from streammine.simulation.node import VirtualNode


class World:
    """Everything around the machines, from one seed.

    `compile_job` gives the compiled job of a specification. `transcript` is handed every line of the trace.
    """

    def __init__(
        self,
        seed: int,
        settings: SimulationSettings,
        spec: JobSpec,
        sources: Mapping[str, OrderedRows],
        compiled: CompiledJob,
        transcript: Callable[[str], None] | None = None,
    ) -> None:
        self.seed = seed
        self.settings = settings
        self.spec = spec
        self.compiled = compiled
        self.clock = VirtualClock()
        self.network = VirtualNetwork(self.clock, seed, settings)
        self.coordinator = VirtualCoordinator(self.clock, seed, settings)
        self.disk = VirtualDisk(self._written, seed)
        self.trace = Trace(transcript, settings.traced)
        self.monitor = Monitor(spec, settings)
        self.coverage = Coverage()
        self.steps = 0
        self.tasks_under_way = 0
        self.progressed_at_seconds = 0.0
        if spec.recovery.store:
            self.disk.fallible.add(spec.recovery.store)
        self._sources = sources
        # where bags are merged in the order of their channels, or some are chosen, the promise is for one way
        # of sharing
        merges = any(edge.sequenced or edge.either for edge in compiled.graph.edges)
        self._shares: dict[str, list[IntArray]] = {
            name: shared_out(
                source.batch.num_rows,
                compiled.graph.vertex(name).slices,
                Random(f"shares/{name}" if merges else f"{seed}/shares/{name}"),
            )
            for name, source in sources.items()
        }

    # --- steps ----------------------------------------------------------------------------------

    def step(self, node: VirtualNode, stimulus: NodeStimulus) -> list[NodeEffect]:
        """Let a node's machine take a stimulus: noted, and checked right behind."""
        self.steps += 1
        now = self.clock.now_seconds
        self.trace.note(now, node.name, "<", stimulus)
        effects = node.machine.handle(stimulus)
        for effect in effects:
            self.trace.note(now, node.name, ">", effect)
        self.coverage.step(stimulus, effects)
        self.monitor.after_step(node, stimulus, effects)
        return effects

    def tell(self, who: str, what: str) -> None:
        """Note something that happened outside of all machines."""
        self.trace.note(self.clock.now_seconds, who, "!", what)

    def progressed(self) -> None:
        """Something other than a message went on."""
        self.progressed_at_seconds = max(self.progressed_at_seconds, self.clock.now_seconds)

    def sleeping_until(self, seconds: float) -> None:
        """A source sleeps: until then, silence is no sign of being stuck."""
        self.progressed_at_seconds = max(self.progressed_at_seconds, seconds)

    # --- jobs -----------------------------------------------------------------------------------

    def environment(self, node: str) -> Environment:
        """What this world hands to the slices of a node."""
        settings = self.settings

        def reader(
            name: str, index: int, columns: tuple[str, ...] | None, position: Position | None
        ) -> SourceReader:
            random = Random(f"{self.seed}/reads/{name}/{index}")
            return TableReader(
                name,
                self._sources[name],
                self._shares[name][index],
                columns,
                self._pace(name),
                random if settings.random_read_sizes else None,
                position,
            )

        return Environment(
            open_reader=reader,
            open_store=lambda location: self.disk.of_node(node, location),
            targets=self.spec.targets,
            open_spill=MemorySpill,
            bag_memory_bytes=settings.bag_memory_bytes,
            read_rows=settings.read_rows,
            channel_budget_bytes=settings.channel_budget_bytes,
            snapshot_mode=self.spec.recovery.mode,
            snapshots=self.snapshots(node),
            waiting_bytes=settings.bag_memory_bytes,
            retained_bytes=settings.bag_memory_bytes,
            agreement=replace(
                AGREEMENT,
                patience_seconds=4 * settings.network_delay_seconds,
                silence_seconds=16 * settings.network_delay_seconds,
                repeat_seconds=4 * settings.network_delay_seconds,
                write_seconds=16 * settings.network_delay_seconds,
            ),
        )

    def _pace(self, name: str) -> Pace | None:
        source, settings = self.compiled.topology.sources[name], self.settings
        rows = self._sources[name]
        if source.rate is not None:
            return RowPace(source.rate.per_second)
        if source.speed is not None:
            assert rows.reached is not None, "a speed needs time epochs"
            return TimePace(rows.reached, source.speed, self.spec.recovery.pace_begins[name])
        if settings.source_seconds is None:
            return None
        return RowPace(max(1, rows.batch.num_rows) / settings.source_seconds, settings.read_rows)

    def snapshots(self, node: str) -> NodeStore:
        """The job's recovery store, as a node sees it."""
        return self.disk.of_node(node, self.spec.recovery.store)

    def _written(self, writer: str, location: str, name: str, data: pa.Buffer) -> None:
        self.monitor.written(location, name, data)
