"""Trying mutants: the checks that come to the broken line are run until one of them fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mutation.check import Check
from mutation.forks import Limit, each_in_a_fork
from mutation.mutants import Mutant, in_force
from mutation.reach import Reach

GROUPS = ("unit", "property", "simulation")
"""The quick ones first."""

OWN_FACTOR = 20.0
ALL_SHARE = 0.1
"""A check hangs when it takes more than so many times what it takes with nothing broken, and this share of
what all checks of its group take on top, for what only the first of them does."""


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant. `by`: the check that noticed it, None where none did; `how`: the group of
    that check, or "hang" where it did not end, or "death" where the process did; `run`: checks tried."""

    by: str | None
    how: str | None
    run: int


class Judge:
    """Knows the checks and what each comes to."""

    def __init__(self, checks: Sequence[Check], reach: dict[str, Reach]) -> None:
        self.checks = sorted(
            checks,
            key=lambda each: (
                GROUPS.index(each.group),
                # seeds count from 0, tests by what they take
                0.0 if each.name in _seeds(checks) else reach[each.name].seconds,
            ),
        )
        self.reach = reach
        self.seconds = {
            group: sum(reach[each.name].seconds for each in checks if each.group == group)
            for group in GROUPS
        }

    def concerned(self, mutant: Mutant) -> list[Check]:
        return [each for each in self.checks if self.reach[each.name].concerns(mutant)]

    def try_all(self, mutants: Sequence[Mutant], jobs: int) -> Iterator[tuple[Mutant, Verdict]]:
        """Verdicts as they come."""
        for mutant, told in each_in_a_fork(mutants, self._try, jobs):
            if told is None:
                yield mutant, Verdict("a process that died", "death", 0)
            else:
                yield mutant, Verdict(*told)

    def _try(self, mutant: Mutant, tell: Callable[[Any], None]) -> None:
        now = ""
        run = 0
        limit = Limit(lambda: tell((now, "hang", run)))
        with in_force(mutant):
            for check in self.concerned(mutant):
                now = check.name
                run += 1
                all_seconds = self.seconds[check.group]
                limit.begin(OWN_FACTOR * self.reach[check.name].seconds + ALL_SHARE * all_seconds)
                try:
                    well = check.run()
                except Exception:  # however a check fails, it has noticed the mutant
                    well = False
                limit.end()
                if not well:
                    tell((now, check.group, run))
        tell((None, None, run))


def _seeds(checks: Sequence[Check]) -> set[str]:
    return {each.name for each in checks if ", seed " in each.name}
