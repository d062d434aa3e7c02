"""One simulated run of a topology, from one seed."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from streammine.assembly import CompiledJob
from streammine.engine.planner import DEAD_LETTERS
from streammine.model.coordination import Member
from streammine.model.digest import output_digest
from streammine.model.errors import JobFailedError, ProtocolError
from streammine.model.job import JobOutcome, JobSpec, SinkTarget
from streammine.model.job_codec import decode_outcome, encode_spec
from streammine.model.topology import Topology
from streammine.simulation.node import VirtualNode
from streammine.simulation.output import read_epochs, read_seal, sink_digest
from streammine.simulation.settings import SimulationSettings
from streammine.simulation.sources import ordered_rows, source_tables
from streammine.simulation.world import World

_SETTLING_SECONDS = 0.005
_STORED_FORMATS = {"console": "arrow"}

Inputs = Mapping[str, pa.Table | Sequence[pa.Table]]


class SimulationError(AssertionError):
    """An invariant was broken or the job got stuck: our own bug, with the story that led to it."""


@dataclass(frozen=True)
class SimulationResult:
    """A finished run.

    `outputs`: per sink the committed rows by epoch, ascending. `dead_letters`: the rows that could not
    be used, in DEAD_SCHEMA. `digest` as the real cluster gives it; `trace` the hash of every stimulus
    and effect. `counters` by slice.
    """

    outputs: dict[str, dict[int, pa.Table]]
    dead_letters: pa.Table | None
    digest: str
    trace: str
    steps: int
    virtual_seconds: float
    counters: dict[str, dict[str, float]]
    frames_sent: int
    frames_lost: int
    frames_doubled: int
    messages_lost: int

    def table(self, sink: str) -> pa.Table:
        """All rows of a sink. Raises LookupError when there are none."""
        tables = list(self.outputs[sink].values())
        if not tables:
            raise LookupError(f"sink {sink!r} has committed no rows")
        return pa.concat_tables(tables)


def simulate(
    topology: Topology,
    inputs: Inputs | None = None,
    *,
    seed: int = 0,
    nodes: int | None = None,
    base: str = ".",
    settings: SimulationSettings | None = None,
) -> SimulationResult:
    """Run a topology on virtual nodes, and check every invariant after every step.

    `inputs` gives the rows of each source that is no generator: a table, or one per file. `nodes`
    overrides the topology's. Raises TopologyError and InputError for what can't run, JobFailedError
    when user code raises, and SimulationError for a bug of the engine's own.
    """
    topology.check()
    given = dict(inputs or {})
    used = [name for name in topology.graph().order if name in topology.sources]
    tables = {name: source_tables(name, topology.sources[name], given.get(name)) for name in used}
    epoch = topology.epoch_definition()
    sources = {
        name: ordered_rows(each, topology.sources[name], epoch) for name, each in tables.items()
    }
    schemas = {name: each[0].schema for name, each in tables.items()}
    code = topology.code

    def load_value(name: str) -> object:
        return copy.deepcopy(code[name])

    compiled = CompiledJob(topology, schemas, base, load_value)
    world = World(seed, settings or SimulationSettings(), sources, schemas, load_value)
    spec = _spec(topology, compiled, base, nodes or topology.nodes)
    outcome = _Run(world, spec).outcome()
    if outcome.status != "finished":
        raise JobFailedError(outcome.reason or f"the job was {outcome.status}")
    return _result(world, spec, outcome)


def _spec(topology: Topology, compiled: CompiledJob, base: str, nodes: int) -> JobSpec:
    targets = {
        name: SinkTarget(name, _STORED_FORMATS.get(sink.format, sink.format), 1)
        for name, sink in topology.sinks.items()
    }
    targets[DEAD_LETTERS] = SinkTarget(DEAD_LETTERS, "json", 1)
    return JobSpec(
        topology=topology.model_dump(mode="json", by_alias=True),
        sources=(),
        base=base,
        graph=compiled.graph,
        nodes=nodes,
        targets=targets,
    )


class _Run:
    """Nodes join, a client submits the job, events happen until every node has seen its end."""

    def __init__(self, world: World, spec: JobSpec) -> None:
        self.world = world
        self.spec = spec
        self.nodes = [VirtualNode(f"node-{number}", world) for number in range(spec.nodes)]
        self._outcome: JobOutcome | None = None
        self._told = False
        self._wanted = world.random.randint(1, len(self.nodes))

    def outcome(self) -> JobOutcome:
        world = self.world
        world.coordinator.on_end = self._job_ended
        for node in self.nodes:
            node.start()
            world.coordinator.attach(node.name, node.listen)
            delay = world.random.uniform(0.0, world.settings.join_delay_seconds)
            world.clock.after(delay, lambda node=node: self._join(node))  # type: ignore[misc]
        try:
            while not self._over():
                self._next_event()
        except (AssertionError, ProtocolError) as error:
            raise self._failure(error) from error
        assert self._outcome is not None
        return self._outcome

    def _next_event(self) -> None:
        world = self.world
        assert world.clock.step(), "nothing is left to happen, and the job has not ended"
        assert world.steps <= world.settings.step_limit, f"no end after {world.steps} steps"
        quiet = world.clock.now_seconds - world.progressed_at_seconds
        assert quiet <= world.settings.quiet_limit_seconds, f"stuck: no work for {quiet:.1f} s"

    def _over(self) -> bool:
        return self._told and not any(node.machine.jobs for node in self.nodes)

    def _join(self, node: VirtualNode) -> None:
        coordinator = self.world.coordinator
        coordinator.join(Member(node.name, node.name, node.name, "virtual", len(node.name)))
        if len(coordinator.members()) == self._wanted:
            delay = self.world.random.uniform(0.0, self.world.settings.join_delay_seconds)
            blob = encode_spec(self.spec)
            self.world.clock.after(delay, lambda: self._submit(blob))

    def _submit(self, blob: bytes) -> None:
        self.world.progressed()
        self.world.coordinator.submit_job(blob)

    def _job_ended(self, job: int, outcome: bytes) -> None:
        self._outcome = decode_outcome(outcome)
        self._settle(job)

    def _settle(self, job: int) -> None:
        """Once all that is under way has arrived, everything must be over; then nodes are told."""
        world = self.world
        assert self._outcome is not None
        if self._outcome.status == "finished":
            if world.network.under_way or world.tasks_under_way:
                world.clock.after(_SETTLING_SECONDS, lambda: self._settle(job))
                return
            world.monitor.check_end()
            self._check_agreement(job)
        self._told = True
        world.coordinator.announce_end(job)

    def _check_agreement(self, job: int) -> None:
        # a node that has only just joined may not know of the job yet
        hosts = [each for node in self.nodes if (each := node.machine.jobs.get(job)) is not None]
        plans = {(each.plan.version, each.plan.phase) for each in hosts if each.plan is not None}
        assert len(plans) == 1, f"nodes follow different plans: {sorted(plans)}"
        deployed = [slice_id for each in hosts for slice_id in each.slices]
        assert sorted(deployed) == sorted(self.spec.graph.slices), "each slice stands on one node"
        managers = {node.machine.manager_name for node in self.nodes}
        assert len(managers - {None}) == 1, f"several managers: {managers}"

    def _failure(self, error: Exception) -> SimulationError:
        world = self.world
        tail = "\n".join(line[:400] for line in world.trace.tail)
        return SimulationError(
            f"{error}\nseed {world.seed}, step {world.steps}, "
            f"{world.clock.now_seconds:.6f} virtual seconds\n{world.monitor.story()}\n"
            f"the last events:\n{tail}"
        )


def _result(world: World, spec: JobSpec, outcome: JobOutcome) -> SimulationResult:
    outputs = {}
    digests = []
    for name in sorted(spec.targets):
        if name == DEAD_LETTERS:
            continue
        store = world.disk.open_store(spec.targets[name].location)
        seal = read_seal(store)
        assert seal is not None, f"sink {name} has no committed output"
        outputs[name] = read_epochs(store, seal)
        digests.append(sink_digest(seal, outputs[name]))
    dead = read_seal(world.disk.open_store(DEAD_LETTERS))
    dead_tables = (
        []
        if dead is None
        else list(read_epochs(world.disk.open_store(DEAD_LETTERS), dead).values())
    )
    return SimulationResult(
        outputs=outputs,
        dead_letters=pa.concat_tables(dead_tables) if dead_tables else None,
        digest=output_digest(digests),
        trace=world.trace.digest(),
        steps=world.steps,
        virtual_seconds=world.clock.now_seconds,
        counters=outcome.counters,
        frames_sent=world.network.frames_sent,
        frames_lost=world.network.frames_lost,
        frames_doubled=world.network.frames_doubled,
        messages_lost=world.network.messages_lost,
    )
