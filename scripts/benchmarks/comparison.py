"""The engine against the references on one workload, in alternating runs."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pyarrow.parquet as pq

from benchmarks.answers import WrongAnswerError, check_means, compare, engine_answer
from benchmarks.cluster import BASE, BenchmarkCluster
from benchmarks.programs import PROGRAMS
from benchmarks.references import Reference
from benchmarks.workloads import InputKind, Settings, Workload


@dataclass(frozen=True)
class Measurement:
    """What a comparison measured. `seconds` by program, "engine" among them, in order of runs."""

    workload: Workload
    nodes: int
    events: int
    digest: str
    seconds: dict[str, list[float]] = field(default_factory=dict)

    @property
    def engine_seconds(self) -> float:
        return median(self.seconds["engine"])

    @property
    def reference(self) -> str | None:
        """The faster reference; None where there was none."""
        names = [name for name in self.seconds if name != "engine"]
        return min(names, key=lambda name: median(self.seconds[name]), default=None)

    @property
    def reference_seconds(self) -> float | None:
        return None if self.reference is None else median(self.seconds[self.reference])


@dataclass(frozen=True)
class Plan:
    """What to measure. `threads` of each reference; `rows`: row-at-a-time operators, no reference."""

    nodes: int
    runs: int
    threads: int
    folder: Path
    events: int | None = None
    slices: int = 2
    discipline: str | None = None
    source: InputKind = "parquet"
    commit_every: int = 1
    rows: bool = False
    references: tuple[str, ...] = PROGRAMS


def measure(workload: Workload, plan: Plan) -> Measurement:
    """Run everything once to warm up, then `plan.runs` times in turn.

    Raises WrongAnswerError when results differ, between programs or between runs of the engine.
    """
    events = plan.events or workload.events
    files = workload.files(plan.folder, events)
    names = () if plan.rows else plan.references
    seconds: dict[str, list[float]] = {name: [] for name in ("engine", *names)}
    digests = set()
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="streammine-bench-")))
        settings = Settings(
            scratch / "engine",
            plan.slices,
            plan.discipline,
            plan.source,
            plan.commit_every,
            rows=plan.rows,
        )
        topology = workload.topology(files, settings)
        base = BASE if plan.rows else plan.folder
        cluster = stack.enter_context(BenchmarkCluster(plan.nodes))
        references = [
            stack.enter_context(Reference(name, workload.name, plan.threads)) for name in names
        ]
        for number in range(plan.runs + 1):
            run = cluster.run(topology, base)
            digests.add(run.digest())
            measured = {"engine": run.seconds}
            for reference in references:
                output = scratch / f"{reference.name}.parquet"
                measured[reference.name] = reference.run(files, output)
            if number:
                for name, value in measured.items():
                    seconds[name].append(value)
        if len(digests) > 1:
            raise WrongAnswerError(f"{workload.name}: runs of the engine differ: {sorted(digests)}")
        if not plan.rows:
            _check(workload, files, settings.output, {n: scratch / f"{n}.parquet" for n in names})
    return Measurement(workload, plan.nodes, events * workload.streams, digests.pop(), seconds)


def _check(
    workload: Workload, files: dict[str, Path], output: Path, references: dict[str, Path]
) -> None:
    engine = engine_answer(output)
    for name, path in references.items():
        compare(workload, engine, pq.read_table(path), name)
    if workload.name == "readings":
        check_means(engine, files["readings"])
