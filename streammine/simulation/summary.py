"""What many seeds came to, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from streammine.simulation.faults import FaultKind
from streammine.simulation.rows import ROWS, UNREACHED
from streammine.simulation.trials import Trial


def summary_lines(
    trials: Sequence[Trial], slices: int, kinds: Sequence[FaultKind], seconds: float
) -> Iterator[str]:
    """Seeds, medians, faults that took effect by kind, violations. `seconds` is how long it took."""
    failed = [trial.seed for trial in trials if trial.problem is not None]
    effective: Counter[FaultKind] = Counter()
    for trial in trials:
        effective.update(trial.faults)
    yield (
        f"{len(trials):,} seeds in {seconds:.1f} s ({1000 * seconds / max(1, len(trials)):.0f} ms "
        f"each), {slices} slices"
    )
    yield (
        f"median {_median(trial.epochs for trial in trials)} epochs, "
        f"{_median(sum(trial.faults.values()) for trial in trials)} faults, "
        f"{_median(trial.rebuilt for trial in trials)} slices rebuilt, "
        f"{_median(trial.checkpoints for trial in trials)} checkpoints, "
        f"{_median(trial.steps for trial in trials)} steps"
    )
    for kind in kinds:
        drawn = sum(fault.kind is kind for trial in trials for fault in trial.plan.faults)
        yield f"  {kind:12} took effect {effective[kind]:,} of {drawn:,} times"
    if losing := [trial.lost for trial in trials if trial.lost]:
        yield f"{len(losing)} seeds lost epochs, as gap recovery may: {sum(losing):,} in all"
    if failed:
        yield f"{len(failed)} seeds failed: {', '.join(map(str, failed[:20]))}"
    else:
        yield "no violations"


def coverage_lines(trials: Sequence[Trial]) -> Iterator[str]:
    """How often the seeds went through each row of the machines' tables, and in how many of them."""
    never = 0
    for row in ROWS:
        seeds = sum(trial.rows[row] > 0 for trial in trials)
        times = sum(trial.rows[row] for trial in trials)
        never += not times
        yield f"  {row[0]:15} {row[1]:66} {times:>11,} times in {seeds:,} seeds"
    yield f"{len(ROWS)} rows, {never} of them never"
    for (machine, what), reason in UNREACHED.items():
        yield f"  {machine:15} {what:66} is left out: {reason}"


def _median(values: Iterator[int]) -> str:
    return f"{median([*values] or [0]):g}"
