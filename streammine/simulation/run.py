"""One simulated run of a topology, from one seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from streammine.assembly import lost_together
from streammine.model.coordination import PlanPublished
from streammine.model.digest import output_digest
from streammine.model.epoch_ranges import EpochRanges
from streammine.model.errors import JobFailedError, ProtocolError
from streammine.model.ids import SliceId
from streammine.model.job import DEAD_LETTERS, JobOutcome, JobSpec
from streammine.model.job_codec import decode_outcome, decode_plan
from streammine.model.topology import Topology
from streammine.simulation.agreed_books import Choices, keep_choices
from streammine.simulation.cluster import Cluster
from streammine.simulation.faults import FaultKind, FaultPlan
from streammine.simulation.injector import FaultInjector
from streammine.simulation.output import read_committed, sink_digest
from streammine.simulation.rows import Row
from streammine.simulation.settings import SimulationSettings
from streammine.simulation.workload import Inputs, Workload
from streammine.simulation.world import World

_SETTLING_SECONDS = 0.005


class SimulationError(AssertionError):
    """An invariant was broken or the job got stuck: our own bug, with the story that led to it."""


@dataclass(frozen=True)
class SimulationResult:
    """A finished run.

    `outputs`: per sink the committed rows by epoch, ascending. `dead_letters`: the rows that could not be
    used, in DEAD_SCHEMA. `digest` as the real cluster gives it, unless code that depends on order has
    discipline merge: there sources share their rows out among slices in another way. `trace` the hash of
    every stimulus and effect, where it is wanted. `counters` by slice. `faults`: how many changed
    something, by kind; `rows`: how often each row of the machines' tables was gone through. Replicas were
    `rebuilt` and `checkpoints` made, one slice has closed `epochs`, all together `closes`. `choices`: what
    replicas agreed on, by slice. `lost`: by sink, the epochs that may lack rows; `left_out`: what gap
    recovery has left out anywhere, and so may be lost.
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
    faults: Counter[FaultKind] = field(default_factory=Counter)
    rows: Counter[Row] = field(default_factory=Counter)
    rebuilt: int = 0
    checkpoints: int = 0
    epochs: int = 0
    closes: int = 0
    choices: dict[SliceId, Choices] = field(default_factory=dict)
    lost: dict[str, EpochRanges] = field(default_factory=dict)
    left_out: EpochRanges = field(default_factory=EpochRanges)

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
    faults: FaultPlan | None = None,
    transcript: Callable[[str], None] | None = None,
) -> SimulationResult:
    """Run a topology on virtual nodes, and check every invariant after every step.

    `inputs` gives the rows of each source that is no generator: a table, or one per file. `nodes`
    overrides the topology's. `faults` happen to the cluster; `transcript` is handed each step as a line of
    text. Raises TopologyError and InputError for what can't run, JobFailedError when user code raises, and
    SimulationError for a bug of the engine's own.
    """
    workload = Workload(topology, inputs, base=base)
    return run_workload(
        workload, seed=seed, nodes=nodes, settings=settings, faults=faults, transcript=transcript
    )


def run_workload(
    workload: Workload,
    *,
    seed: int = 0,
    nodes: int | None = None,
    settings: SimulationSettings | None = None,
    faults: FaultPlan | None = None,
    transcript: Callable[[str], None] | None = None,
    decided: Mapping[SliceId, Choices] | None = None,
) -> SimulationResult:
    """`simulate` for a topology that is run many times. `decided`: what another run's replicas agreed on."""
    settings = settings or SimulationSettings()
    spec = workload.spec(nodes, settings.checkpoint_epochs)
    world = World(seed, settings, spec, workload.sources, workload.compiled, transcript)
    keep_choices(world.disk.open_store(spec.recovery.store), decided or {})
    run = _Run(world, spec, faults or FaultPlan())
    outcome = run.outcome()
    if outcome.status != "finished":
        raise JobFailedError(outcome.reason or f"the job was {outcome.status}")
    try:
        return _result(world, spec, outcome, run.injector.effective)
    except AssertionError as error:
        raise run.failure(error) from error


class _Run:
    """Nodes join, a client submits the job, events happen until every node has seen its end."""

    def __init__(self, world: World, spec: JobSpec, faults: FaultPlan) -> None:
        self.world = world
        self.spec = spec
        self.faults = faults
        self.cluster = Cluster(world, spec, spec.nodes)
        self.injector = FaultInjector(self.cluster, faults)
        self._outcome: JobOutcome | None = None
        self._told = False
        self._closes = -1
        self._closed_at_seconds = 0.0

    def outcome(self) -> JobOutcome:
        world = self.world
        world.coordinator.on_end = self._job_ended
        world.coordinator.on_plan = self._plan_published
        self.cluster.start()
        try:
            while not self._over():
                self._next_event()
        except (AssertionError, ProtocolError) as error:
            raise self.failure(error) from error
        assert self._outcome is not None
        return self._outcome

    def _next_event(self) -> None:
        world = self.world
        assert world.clock.step(), "nothing is left to happen, and the job has not ended"
        settings = world.settings
        assert world.steps <= settings.step_limit, f"no end after {world.steps} steps"
        now = world.clock.now_seconds
        if world.monitor.closes > self._closes:
            self._closes = world.monitor.closes
            self._closed_at_seconds = now
            self.injector.advance(self._closes)
        over_at = self.injector.over_at_seconds
        quiet = now - max(world.progressed_at_seconds, over_at)
        assert quiet <= settings.quiet_limit_seconds, f"stuck: no work for {quiet:.1f} s"
        if self.faults.faults:
            idle = now - max(self._closed_at_seconds, over_at)
            assert idle <= settings.convergence_seconds, (
                f"no end, and no epoch closed for {idle:.1f} s since the last fault was over"
            )

    def _over(self) -> bool:
        return self._told and not any(node.machine.jobs for node in self.cluster.living())

    def _plan_published(self, plan: PlanPublished) -> None:
        self.world.monitor.plan_published(decode_plan(plan.blob))

    def _job_ended(self, job: int, outcome: bytes) -> None:
        self._outcome = decode_outcome(outcome)
        self.cluster.busy = False
        self.injector.heal()
        self._settle(job)

    def _settle(self, job: int) -> None:
        """Once every frame has arrived and all work is done, everything must be over; then nodes are
        told."""
        world = self.world
        assert self._outcome is not None
        if self._outcome.status == "finished":
            if world.network.frames_under_way or world.tasks_under_way:
                world.clock.after(_SETTLING_SECONDS, lambda: self._settle(job))
                return
            world.monitor.check_end()
        self._told = True
        world.coordinator.announce_end(job)

    def failure(self, error: Exception) -> SimulationError:
        world = self.world
        tail = "\n".join(line[:400] for line in world.trace.tail)
        faults = f"\nfaults:\n{self.faults}" if self.faults.faults else ""
        return SimulationError(
            f"{error}\nseed {world.seed}, step {world.steps}, "
            f"{world.clock.now_seconds:.6f} virtual seconds{faults}\n{world.monitor.story()}\n"
            f"the last events:\n{tail}"
        )


def _result(
    world: World, spec: JobSpec, outcome: JobOutcome, effective: Counter[FaultKind]
) -> SimulationResult:
    outputs = {}
    lost = {}
    digests = []
    for name in sorted(spec.targets):
        if name == DEAD_LETTERS:
            continue
        committed = read_committed(world.disk.open_store(spec.targets[name].location))
        assert committed is not None, f"sink {name} has no committed output"
        outputs[name] = committed.epochs
        lost[name] = committed.lost
        digests.append(sink_digest(committed))
    dead = read_committed(world.disk.open_store(DEAD_LETTERS))
    dead_tables = [] if dead is None else list(dead.epochs.values())
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
        faults=effective,
        rows=world.coverage.met,
        rebuilt=world.monitor.rebuilt(),
        checkpoints=len(world.monitor.checkpoints),
        epochs=world.monitor.epochs(),
        closes=world.monitor.closes,
        choices=world.monitor.choices,
        lost=lost,
        left_out=world.monitor.losses.explained(
            lost_together(each, world.compiled.commit_every(each.name))
            for each in world.compiled.graph.vertices
        ),
    )
