"""The command line of `scripts/mutate`."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

import click
from rich.console import Console

from mutation import checks, report
from mutation.check import Check
from mutation.checks import SEEDS
from mutation.explained import Explained, read_explained
from mutation.mutants import MODULES, ROOT, Mutant, list_mutants
from mutation.reach import measure
from mutation.report import Verdicts
from mutation.trials import Judge

FOLDER = ROOT / "data" / "mutation"
BAR = 0.9
_SAVED_EVERY = 10


@click.command()
@click.argument("modules", nargs=-1, type=click.Choice(list(MODULES)), metavar="[MODULE]...")
@click.option("--sample", type=click.IntRange(1), help="Only so many mutants, at random.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the sample.")
@click.option(
    "--seeds",
    "seeds",
    type=click.IntRange(0),
    default=SEEDS,
    show_default=True,
    help="Of the simulation, for mutants that the tests miss.",
)
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes.")
@click.option(
    "--json",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    default=FOLDER / "mutants.json",
    help="Where the verdicts are kept; default: data/mutation/mutants.json.",
)
@click.option("--resume", is_flag=True, help="Keep the verdicts of that file.")
@click.option(
    "--survivors", is_flag=True, help="Keep them, but try those again that nothing noticed."
)
@click.option("--list", "only_list", is_flag=True, help="Show the mutants and try none.")
def mutate(
    modules: tuple[str, ...],
    sample: int | None,
    seed: int,
    seeds: int,
    jobs: int,
    path: Path,
    resume: bool,
    survivors: bool,
    only_list: bool,
) -> None:
    """Break the protocols of the pure machines (or of these MODULEs), one rule at a time.

    Each mutant lacks a row of a table, an arm of a `match` or an early exit, or has a condition negated or
    a boundary moved. The tests that come to the broken line are run, then seeds of the simulation with all
    faults, until something fails; one that takes many times as long as it should counts as failed. Shown
    is what share is caught, and what is not. Exit code 1 when it is less than nine in ten.
    """
    chosen = modules or tuple(MODULES)
    mutants = [mutant for name in chosen for mutant in list_mutants(name)]
    explained = read_explained()
    for key in explained.unknown(mutants, chosen):
        click.echo(f"survivors.yaml names a mutant that there is not any more: {key}")
    tried = mutants
    if sample is not None and sample < len(mutants):
        numbers = sorted(Random(seed).sample(range(len(mutants)), sample))
        tried = [mutants[number] for number in numbers]
    if only_list:
        for mutant in tried:
            click.echo(f"{mutant.path}:{mutant.line}  {mutant.kind}  {mutant.change}")
        click.echo(f"{len(tried)} mutants")
        return
    verdicts = report.load(path) if resume or survivors else {}
    again = {key for key, verdict in verdicts.items() if survivors and verdict.by is None}
    missing = [each for each in tried if each.key not in verdicts or each.key in again]
    if missing:
        checks.run_with_tests(
            lambda tests: _try(tests, seeds, missing, jobs, verdicts, path, explained)
        )
    report.save(path, mutants, verdicts, explained)
    _show(mutants, verdicts, explained)
    found = [verdicts[each.key] for each in mutants if each.key in verdicts]
    caught = sum(verdict.by is not None for verdict in found)
    sys.exit(caught < BAR * len(found))


def _try(
    tests: list[Check],
    seeds: int,
    mutants: Sequence[Mutant],
    jobs: int,
    verdicts: Verdicts,
    path: Path,
    explained: Explained,
) -> None:
    begin = time.monotonic()
    every = [mutant for name in MODULES for mutant in list_mutants(name)]
    used = [*tests, *checks.seeds(seeds)]
    click.echo(f"{len(tests)} tests and {seeds} seeds are measured", err=True)
    paths = sorted({mutant.path for mutant in every})
    judge = Judge(used, measure(used, paths, jobs, FOLDER / "reach.json"))
    # what is in use now stays in use: collecting in a fork would only copy it
    gc.collect()
    gc.freeze()
    took = time.monotonic() - begin
    click.echo(f"measured in {took:.0f} s; {len(mutants)} mutants are tried", err=True)
    for number, (mutant, verdict) in enumerate(judge.try_all(mutants, jobs), 1):
        verdicts[mutant.key] = verdict
        if verdict.by is None:
            click.echo(
                f"{number}: survived: {mutant.path}:{mutant.line}  {mutant.change}", err=True
            )
        if number % _SAVED_EVERY == 0:
            report.save(path, every, verdicts, explained)
    click.echo(f"tried in {time.monotonic() - begin - took:.0f} s", err=True)


def _show(mutants: Sequence[Mutant], verdicts: Verdicts, explained: Explained) -> None:
    for line in report.survivor_lines(mutants, verdicts, explained):
        click.echo(line)
    Console(width=None if sys.stdout.isatty() else 120).print(
        report.table(mutants, verdicts, explained)
    )
