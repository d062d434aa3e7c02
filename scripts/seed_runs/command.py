"""The command line of `scripts/seeds`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context

import click

from seed_runs.jobs import JOBS, trials
from streammine.simulation.faults import FaultKind
from streammine.simulation.trials import Trial

PROBLEM_LINES = 60
_TOLD_EVERY_SECONDS = 60.0
_AT_ONCE = 8


@dataclass(frozen=True)
class _Done:
    """`needed`: of a failed seed the faults that it needs, and what it fails with then."""

    job: str
    trial: Trial
    seconds: float
    needed: tuple[tuple[int, ...], str] | None = None


@click.command()
@click.option("--seeds", "count", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--start-seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes.")
@click.option(
    "--only",
    multiple=True,
    help="Jobs whose names begin with that; may be given several times.",
)
@click.option("--list", "only_list", is_flag=True, help="Show the jobs' names and run none.")
def seeds(count: int, start_seed: int, jobs: int, only: tuple[str, ...], only_list: bool) -> None:
    """Run fault seeds on virtual clusters, in turn over jobs of every scheme and kind of replicas.

    Every seed has other delays, nodes and faults of all kinds, changes of schemes by users among them. The
    machines' rules are checked all the while, and the output must be that of a run without faults in which
    the same receivers were chosen; of the jobs called gap it may lack what they say that they lost.
    Exit code 1 when a seed failed: it is shown with the few of its faults that it needs.
    """
    unknown = [each for each in only if not any(name.startswith(each) for name in JOBS)]
    if unknown:
        raise click.BadParameter(
            f"no job begins with {unknown[0]!r}; --list shows them", param_hint="--only"
        )
    names = [name for name in JOBS if not only or name.startswith(only)]
    if only_list:
        click.echo("\n".join(names))
        return
    begin, told = time.monotonic(), time.monotonic()
    done: list[_Done] = []
    for each in _run_all([(names[i % len(names)], start_seed + i) for i in range(count)], jobs):
        done.append(each)
        if each.trial.problem is not None:
            _explain(each)
        if time.monotonic() - told > _TOLD_EVERY_SECONDS:
            told = time.monotonic()
            click.echo(f"{len(done):,} of {count:,} seeds after {told - begin:.0f} s")
    for line in _summary(done, time.monotonic() - begin):
        click.echo(line)
    raise SystemExit(any(each.trial.problem is not None for each in done))


def _run_all(tasks: list[tuple[str, int]], jobs: int) -> Iterator[_Done]:
    if jobs == 1:
        yield from map(_run, tasks)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        yield from pool.map(_run, tasks, chunksize=_AT_ONCE)


def _run(task: tuple[str, int]) -> _Done:
    job, seed = task
    begin = time.monotonic()
    trial = trials(job).run(seed)
    seconds = time.monotonic() - begin
    if trial.problem is None:
        # the rows of tables that a seed went through are many, and nobody asks for them
        return _Done(job, replace(trial, rows=Counter()), seconds)
    failure = trials(job).shrunk(trial)
    return _Done(job, trial, seconds, (failure.needed, failure.problem))


def _explain(done: _Done) -> None:
    assert done.needed is not None
    numbers, problem = done.needed
    click.echo(f"\n{done.job}, seed {done.trial.seed}, needs {len(numbers)} of its faults:")
    for number in numbers:
        click.echo(f"  {number}: {done.trial.plan.faults[number]}")
    click.echo("\n".join(problem.splitlines()[:PROBLEM_LINES]) + "\n")


def _summary(done: Iterable[_Done], seconds: float) -> Iterator[str]:
    """Per job: seeds, what happened to them, and how long they took; in all: faults that took effect."""
    by_job: dict[str, list[_Done]] = {}
    effective: Counter[FaultKind] = Counter()
    for each in done:
        by_job.setdefault(each.job, []).append(each)
        effective.update(each.trial.faults)
    yield (
        f"{'job':38} {'seeds':>6} {'faults':>7} {'rebuilt':>8} {'checkpoints':>12} {'failed':>7} "
        f"{'seconds':>8}"
    )
    for name, part in by_job.items():
        faults = sum(sum(each.trial.faults.values()) for each in part)
        rebuilt = sum(each.trial.rebuilt for each in part)
        checkpoints = sum(each.trial.checkpoints for each in part)
        failed = sum(each.trial.problem is not None for each in part)
        took = sum(each.seconds for each in part)
        yield (
            f"{name:38} {len(part):6,} {faults:7,} {rebuilt:8,} {checkpoints:12,} {failed:7,} {took:8.1f}"
        )
    for kind in FaultKind:
        yield f"  {kind:12} took effect {effective[kind]:,} times"
    failed = sum(each.trial.problem is not None for part in by_job.values() for each in part)
    count = sum(map(len, by_job.values()))
    yield f"{count:,} seeds in {seconds:.0f} s: {f'{failed:,} failed' if failed else 'no violation'}"
