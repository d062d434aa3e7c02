"""`streammine simulate`: a topology on virtual clusters that faults happen to, one per seed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import click

from streammine.cli.options import topology_argument
from streammine.cli.sampling import sampled
from streammine.model.errors import JobFailedError
from streammine.simulation.faults import FaultKind, parse_kinds
from streammine.simulation.summary import coverage_lines, summary_lines
from streammine.simulation.trials import Trial, Trials
from streammine.simulation.workload import Workload

SHOWN_FAILURES = 3
PROBLEM_LINES = 60


@dataclass(frozen=True)
class _Task:
    """What a worker process needs to run seeds by itself."""

    path: Path
    overrides: tuple[str, ...]
    rows: int | None
    kinds: tuple[FaultKind, ...]
    most_faults: int

    def trials(self) -> tuple[Trials, list[str]]:
        topology, tables, notes = sampled(self.path, self.overrides, self.rows)
        workload = Workload(topology, tables, str(self.path.absolute().parent))
        return Trials(workload, self.kinds, self.most_faults), notes


class _Kinds(click.ParamType[tuple[FaultKind, ...]]):
    name = "KIND,…"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[FaultKind, ...]:
        try:
            return parse_kinds(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class _Replay(click.ParamType[tuple[int, tuple[int, ...] | None]]):
    name = "SEED[:FAULT,…]"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, tuple[int, ...] | None]:
        if isinstance(value, tuple):
            return value
        seed, colon, numbers = str(value).partition(":")
        try:
            chosen = tuple(int(each) for each in numbers.split(",") if each)
            return int(seed), chosen if colon else None
        except ValueError:
            self.fail(f"{value!r} should be a seed, or a seed and faults like 17:0,3", param, ctx)


@click.command()
@topology_argument
@click.option("--seeds", type=click.IntRange(1), default=100, show_default=True)
@click.option("--start-seed", type=click.IntRange(0), default=0, show_default=True)
@click.option(
    "--faults",
    "kinds",
    type=_Kinds(),
    default="all",
    show_default=True,
    help="What goes wrong: all, none, node, session, network, disk, or kinds like crash,pause,split.",
)
@click.option(
    "--most-faults", type=click.IntRange(1), default=16, show_default=True, help="For each seed."
)
@click.option(
    "--rows",
    type=click.IntRange(1),
    help="Taken of each source; by default as many as make some two dozen epochs.",
)
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes.")
@click.option(
    "--coverage",
    is_flag=True,
    help="Show how often each row of the machines' transition tables was gone through.",
)
@click.option(
    "--replay",
    type=_Replay(),
    help="Run one seed only, with these of its faults, and show every step.",
)
@click.option("--trace", is_flag=True, help="Show every step of the first seed.")
def simulate(
    topology: Path,
    overrides: tuple[str, ...],
    seeds: int,
    start_seed: int,
    kinds: tuple[FaultKind, ...],
    most_faults: int,
    rows: int | None,
    jobs: int,
    coverage: bool,
    replay: tuple[int, tuple[int, ...] | None] | None,
    trace: bool,
) -> None:
    """Run TOPOLOGY on virtual clusters that crash, split and lose things, and check that its output stays.

    Each seed is another run: other delays, another number of nodes, other faults, the same every time. No
    file, socket or process is made. A sample of the input is used. Exit code 1 when a seed failed; it
    is shown with the few of its faults that it needs, and how to see it again.
    """
    task = _Task(topology, overrides, rows, kinds, most_faults)
    trials, notes = task.trials()
    for note in notes:
        click.echo(note)
    if replay is not None or trace:
        seed, numbers = replay if replay is not None else (start_seed, None)
        _show(trials, seed, numbers)
        return
    begin = time.monotonic()
    done = []
    for trial in _run_all(task, trials, range(start_seed, start_seed + seeds), jobs):
        done.append(trial)
        if trial.problem is not None:
            click.echo(f"seed {trial.seed} failed: {trial.problem.splitlines()[0]}")
    done.sort(key=lambda trial: trial.seed)
    for line in summary_lines(done, trials.slices, kinds, time.monotonic() - begin):
        click.echo(line)
    for line in coverage_lines(done) if coverage else ():
        click.echo(line)
    failed = [trial for trial in done if trial.problem is not None]
    for trial in failed[:SHOWN_FAILURES]:
        _explain(trials, trial)
    if failed:
        raise JobFailedError(f"{len(failed)} of {len(done)} seeds failed")


def _run_all(task: _Task, trials: Trials, seeds: range, jobs: int) -> Iterator[Trial]:
    if jobs == 1:
        yield from map(trials.run, seeds)
        return
    context = get_context("spawn")
    with ProcessPoolExecutor(jobs, context, _prepare_worker, (task,)) as pool:
        yield from pool.map(_run_in_worker, seeds, chunksize=4)


_worker: list[Trials] = []


def _prepare_worker(task: _Task) -> None:
    _worker.append(task.trials()[0])


def _run_in_worker(seed: int) -> Trial:
    return _worker[0].run(seed)


def _show(trials: Trials, seed: int, numbers: tuple[int, ...] | None) -> None:
    """One seed, step by step."""
    plan = trials.plan(seed)
    click.echo(f"seed {seed}: {trials.nodes(seed)} nodes, {trials.settings(seed)}")
    click.echo(str(plan if numbers is None else plan.only(numbers)))
    trial = trials.run(seed, numbers, click.echo, traced=True)
    if trial.problem is not None:
        raise JobFailedError(f"seed {seed}: {trial.problem}")
    click.echo(f"finished after {trial.steps} steps; trace {trial.trace}")


def _explain(trials: Trials, trial: Trial) -> None:
    """A failing seed, cut down to what it needs."""
    failure = trials.shrunk(trial)
    numbers = ",".join(map(str, failure.needed))
    click.echo(f"\nseed {trial.seed} needs {len(failure.needed)} of its faults:")
    for number in failure.needed:
        click.echo(f"  {number}: {trial.plan.faults[number]}")
    click.echo("\n".join(failure.problem.splitlines()[:PROBLEM_LINES]))
    click.echo(f"see it again with --replay {trial.seed}:{numbers} and the same options")
