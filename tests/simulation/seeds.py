"""Fault seeds of a workload, run in portions; together the files of this folder run three hundred."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from streammine.simulation.faults import FaultKind, parse_kinds
from streammine.simulation.trials import Trial, Trials
from streammine.simulation.workload import Workload

GROUPS = (
    "crash,manager",
    "pause,expire,join",
    "split,one-way,reconnect,loss",
    "session,crash",
    "disk,crash",
    "user,crash",
)
PORTION = 10


class Seeds:
    """Runs seeds of one workload and remembers what came of them."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self._trials: dict[str, Trials] = {}
        self._done: dict[tuple[str, int], Trial] = {}

    def trials(self, kinds: str) -> Trials:
        """The undisturbed run, and what compares seeds with it."""
        if kinds not in self._trials:
            self._trials[kinds] = Trials(self.workload, parse_kinds(kinds))
        return self._trials[kinds]

    def run(self, kinds: str, seeds: Sequence[int]) -> list[Trial]:
        """Raises AssertionError with the first seed whose output is another, or whose job doesn't end."""
        trials = self.trials(kinds)
        done = []
        for seed in seeds:
            if (kinds, seed) not in self._done:
                self._done[kinds, seed] = trials.run(seed)
            trial = self._done[kinds, seed]
            assert trial.problem is None, f"seed {seed}, faults {kinds}:\n{trial.problem}"
            done.append(trial)
        return done

    def check_variety(self, seeds: Sequence[int]) -> None:
        """The median run is long and is hit often, and each kind of fault takes effect."""
        done = self.run("all", seeds)
        assert median(trial.epochs for trial in done) >= 20
        assert median(sum(trial.faults.values()) for trial in done) >= 5
        assert median(trial.checkpoints for trial in done) >= 1
        effective: Counter[FaultKind] = Counter()
        for trial in done:
            effective.update(trial.faults)
        # a node is crowded only by replicas behind others, which few of these seeds ask for
        missing = set(FaultKind) - set(effective)
        assert missing <= {FaultKind.CROWDED}, missing
