"""Many seeds of one workload: each with faults of its own, all compared with the run without any.

Where replicas agree on whose rows count, what they agree on may be something else in each run. So a seed is
compared with a run without faults in which the same was agreed on.

A seed stands for everything: delays, the number of nodes, read sizes, credit, checkpoints, and the faults.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from streammine.model.errors import StreammineError
from streammine.simulation.faults import FaultKind, FaultPlan, draw_plan
from streammine.simulation.losses import difference
from streammine.simulation.rows import Row
from streammine.simulation.run import SimulationResult, run_workload
from streammine.simulation.settings import SimulationSettings
from streammine.simulation.shrinking import shrink
from streammine.simulation.workload import Workload

_NODES = (1, 2, 2, 3, 3, 3, 4, 4)
_READ_EPOCHS = (0.4, 0.7, 1.0, 2.5)
"""How much a source reads at once, in epochs of its rows."""

_CLOCK_SKEWS_SECONDS = (0.0, 0.02, 0.3, 2.0)
_SOURCE_SECONDS = (None, 1.5, 2.5, 2.5, 3.5, 3.5)
_BUDGETS_BYTES = (None, None, 64, 1000)
_CHECKPOINT_EPOCHS = (1, 1, 2, 3)
_CHECK_EVERY = 13
_CLOCK_RATE = 30.0


@dataclass(frozen=True)
class Trial:
    """What came of one seed. `problem`: why it failed, None where all was well. `trace`: its hash,
    if it was asked for. `lost`: how many epochs the sinks say may lack rows."""

    seed: int
    plan: FaultPlan
    problem: str | None
    faults: Counter[FaultKind] = field(default_factory=Counter)
    rows: Counter[Row] = field(default_factory=Counter)
    epochs: int = 0
    rebuilt: int = 0
    checkpoints: int = 0
    steps: int = 0
    trace: str = ""
    lost: int = 0


@dataclass(frozen=True)
class Failure:
    """A failing seed with the few of its faults that it needs, by number."""

    trial: Trial
    needed: tuple[int, ...]
    problem: str


class Trials:
    """Runs seeds of a workload. The undisturbed run says what is right, and how far a job gets."""

    def __init__(
        self, workload: Workload, kinds: Sequence[FaultKind], most_faults: int = 16
    ) -> None:
        self.workload = workload
        self.kinds = tuple(kinds)
        self.most_faults = most_faults
        undisturbed = run_workload(workload)
        self.digest = undisturbed.digest
        self.outputs = undisturbed.outputs
        self.closes = undisturbed.closes
        self.slices = len(workload.compiled.graph.slices)
        rows = max((each.batch.num_rows for each in workload.sources.values()), default=0)
        self._epoch_rows = rows / max(1, undisturbed.epochs)

    def settings(self, seed: int) -> SimulationSettings:
        """How the cluster of a seed behaves when nothing goes wrong."""
        random = Random(f"{seed}/settings")
        return SimulationSettings(
            heartbeat_seconds=random.choice((0.06, 0.09, 0.12)),
            clock_rate=_CLOCK_RATE,
            join_delay_seconds=0.05,
            session_timeout_seconds=random.choice((0.15, 0.3)),
            network_delay_seconds=random.choice((0.002, 0.01, 0.03)),
            work_delay_seconds=random.choice((0.005, 0.015, 0.04)),
            source_seconds=random.choice(_SOURCE_SECONDS),
            read_rows=max(1, round(self._epoch_rows * random.choice(_READ_EPOCHS))),
            channel_budget_bytes=random.choice(_BUDGETS_BYTES),
            bag_memory_bytes=random.choice((256, 1 << 20)),
            checkpoint_epochs=random.choice(_CHECKPOINT_EPOCHS),
            check_every=_CHECK_EVERY,
            quiet_limit_seconds=10.0,
            serialised=random.random() < 0.5,
            clock_skew_seconds=random.choice(_CLOCK_SKEWS_SECONDS),
        )

    def nodes(self, seed: int) -> int:
        return Random(f"{seed}/nodes").choice(_NODES)

    def plan(self, seed: int) -> FaultPlan:
        """The faults that a seed stands for."""
        return draw_plan(seed, self.kinds, self.closes, self.most_faults)

    def run(
        self,
        seed: int,
        numbers: Iterable[int] | None = None,
        transcript: Callable[[str], None] | None = None,
        traced: bool = False,
    ) -> Trial:
        """One seed, with all of its faults or those of these numbers."""
        plan = self.plan(seed)
        try:
            result = self.result(seed, numbers, transcript, traced)
        except (AssertionError, StreammineError) as error:
            return Trial(seed, plan, str(error) or repr(error))
        return self._judged(seed, plan, result)

    def result(
        self,
        seed: int,
        numbers: Iterable[int] | None = None,
        transcript: Callable[[str], None] | None = None,
        traced: bool = False,
    ) -> SimulationResult:
        """The run of a seed, unjudged. Raises like `run_workload`."""
        plan = self.plan(seed)
        return run_workload(
            self.workload,
            seed=seed,
            nodes=self.nodes(seed),
            settings=replace(self.settings(seed), traced=traced),
            faults=plan if numbers is None else plan.only(numbers),
            transcript=transcript,
        )

    def _judged(self, seed: int, plan: FaultPlan, result: SimulationResult) -> Trial:
        problem = _unexplained(result)
        right, outputs = self.digest, self.outputs
        if result.choices:
            decided = run_workload(self.workload, decided=result.choices)
            right, outputs = decided.digest, decided.outputs
        if result.digest != right and any(result.lost.values()):
            problem = problem or difference(outputs, result.outputs, result.lost)
        elif result.digest != right:
            rows = {
                sink: sum(table.num_rows for table in epochs.values())
                for sink, epochs in result.outputs.items()
            }
            problem = f"another output than without faults: {result.digest}, {rows} rows"
        return Trial(
            seed,
            plan,
            problem,
            result.faults,
            result.rows,
            result.epochs,
            result.rebuilt,
            result.checkpoints,
            result.steps,
            result.trace,
            sum(each.count for each in result.lost.values()),
        )

    def shrunk(self, trial: Trial) -> Failure:
        """The faults that a failing seed needs to fail, in whatever way."""
        problem = trial.problem
        assert problem is not None, f"seed {trial.seed} has not failed"

        def fails(numbers: Sequence[int]) -> bool:
            nonlocal problem
            again = self.run(trial.seed, numbers)
            if again.problem is not None:
                problem = again.problem
            return again.problem is not None

        needed = shrink(range(len(trial.plan.faults)), fails)
        return Failure(trial, tuple(needed), problem)


def _unexplained(result: SimulationResult) -> str | None:
    """What is called lost though nobody has left it out, if anything is."""
    for sink, lost in result.lost.items():
        for first, last in lost:
            if result.left_out.between(first, last) != ((first, last),):
                return f"sink {sink}: epochs {first} to {last} are lost; left out were {result.left_out}"
    return None
