"""A topology with its input, ready to be run from any number of seeds."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from streammine.assembly import CompiledJob
from streammine.model.errors import InputError, TopologyError
from streammine.model.job import DEAD_LETTERS, JobSpec, SinkTarget
from streammine.model.snapshots import RecoverySettings
from streammine.model.topology import FilesSource, GeneratorSource, LogSource, Topology
from streammine.operators.file_formats import stored_format
from streammine.simulation.sources import AnySource, ordered_rows, source_tables

Inputs = Mapping[str, pa.Table | Sequence[pa.Table]]

SNAPSHOT_STORE = "snapshots"
"""Where snapshots and checkpoints lie on the virtual disk."""


class Workload:
    """Raises TopologyError and InputError for what can't run."""

    def __init__(self, topology: Topology, inputs: Inputs | None = None, base: str = ".") -> None:
        topology.check()
        given = dict(inputs or {})
        used = {
            name: _at_rest(name, topology.sources[name])
            for name in topology.graph().order
            if name in topology.sources
        }
        tables = {
            name: source_tables(name, source, given.get(name)) for name, source in used.items()
        }
        epoch = topology.epoch_definition()
        self.topology = topology
        self.base = base
        self.sources = {
            name: ordered_rows(each, used[name], epoch) for name, each in tables.items()
        }
        self.rows = sum(source.batch.num_rows for source in self.sources.values())
        code = topology.code
        self.compiled = CompiledJob(
            topology,
            {name: each[0].schema for name, each in tables.items()},
            base,
            lambda name: copy.deepcopy(code[name]),
        )
        graph = self.compiled.graph
        for name in sorted(graph.choosing - graph.agreeing):
            raise TopologyError(
                f"operator {name!r}: its replicas take the rows of any receiver without agreeing, so there "
                "is no output that all runs have to give; write discipline: consensus",
                part=name,
            )

    def spec(self, nodes: int | None, checkpoint_epochs: int | None) -> JobSpec:
        """The job as a client submits it, with a checkpoint every so many epochs, or none.

        Snapshots are synchronous where the topology says so.
        """
        topology = self.topology
        targets = {
            name: SinkTarget(name, stored_format(sink.format), 1)
            for name, sink in topology.sinks.items()
        }
        targets[DEAD_LETTERS] = SinkTarget(DEAD_LETTERS, "json", 1)
        recovery = RecoverySettings()
        if checkpoint_epochs is not None:
            stops = topology.snapshot.mode == "synchronous"
            recovery = RecoverySettings(
                "synchronous" if stops else "asynchronous",
                every_epochs=checkpoint_epochs,
                store=SNAPSHOT_STORE,
                goal=topology.recovery_goal,
                paced=topology.paced_sources,
            )
        recovery = replace(recovery, pace_begins=self._pace_begins())
        return JobSpec(
            topology=topology.model_dump(mode="json", by_alias=True),
            sources=(),
            base=self.base,
            graph=self.compiled.graph,
            nodes=nodes or topology.nodes,
            targets=targets,
            recovery=recovery,
        )

    def _pace_begins(self) -> dict[str, int]:
        """As in RecoverySettings."""
        timed = [name for name in self.sources if self.topology.sources[name].speed is not None]
        firsts = [
            int(reached[0])
            for name in timed
            if (reached := self.sources[name].reached) is not None and len(reached)
        ]
        return dict.fromkeys(timed, min(firsts, default=0))


def _at_rest(name: str, source: object) -> AnySource:
    """The source, if all of its rows are there before the job begins. Raises InputError."""
    if not isinstance(source, FilesSource | GeneratorSource | LogSource):
        raise InputError(f"source {name!r} is live: who sends its events can't be simulated")
    return source
