"""What every search for matches has in common: its rows, its limits, and the judgement of absences."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streammine.model.contracts import IntArray
from streammine.model.errors import UserCodeError
from streammine.operators.patterns.combinations import (
    PAIRS_AT_ONCE,
    BoolArray,
    Combinations,
    Judge,
    stretches,
)
from streammine.operators.patterns.plans import AbsencePlan, Plan
from streammine.operators.patterns.timeline import Candidates, Timeline, candidates


class Budget:
    """Counts the combinations that are tried per key, and stops the job where they are too many.

    What is counted follows from the key's rows alone, so that no other key and no slice changes it.
    """

    def __init__(self, operator: str, epoch: int, limit: int, timeline: Timeline) -> None:
        self._operator = operator
        self._epoch = epoch
        self._limit = limit
        self._timeline = timeline
        groups = int(timeline.groups.max()) + 1 if len(timeline) else 0
        self._tried = np.zeros(groups, np.int64)

    def spend(self, rows: IntArray, counts: IntArray) -> None:
        """So many combinations (int64[n]) are tried for the keys of these rows. Raises UserCodeError."""
        groups = self._timeline.groups[rows]
        np.add.at(self._tried, groups, counts)
        over = groups[self._tried[groups] > self._limit]
        if len(over):
            keys = [column[int(over.min())].as_py() for column in self._timeline.keys]
            of_key = f" for key {', '.join(map(repr, keys))}" if keys else ""
            raise UserCodeError(
                f"operator {self._operator!r}, epoch {self._epoch}: more than {self._limit:,} "
                f"combinations of events were tried{of_key}. Narrow the "
                "conditions of single events, shorten within, bound "
                "closures, as in k{1,5}, write matching: next instead of any, or raise limit"
            )


Places = npt.NDArray[np.uint8]
"""Where the rows of a timeline lie: plans.BEFORE, FOCUS or BEHIND."""


@dataclass(frozen=True)
class Progress:
    """Combinations that have the events of `steps` steps; `open`: and some of the next one's closure.

    `case`: which of the anchors lies in focus, where there are several."""

    combinations: Combinations
    steps: int
    open: bool = False
    case: int = 0


class Search(ABC):
    """Finds the matches of one plan on one timeline. Used once."""

    def __init__(
        self,
        plan: Plan,
        timeline: Timeline,
        places: Places,
        numbers: Mapping[str, int],
        judge: Judge,
        budget: Budget,
    ) -> None:
        """`places`: BEFORE, FOCUS or BEHIND for each row; `numbers`: of the pattern's events."""
        self._plan = plan
        self._timeline = timeline
        self._places = places
        self._numbers = numbers
        self._judge = judge
        self._budget = budget
        self._candidates: dict[tuple[str, tuple[int, ...] | None], Candidates] = {}

    def matches(self) -> Iterator[Combinations]:
        """All matches, some at once. What is on its way is bounded: one lot of it per event and element."""
        pending = [self._begin()]
        while pending:
            progress = next(pending[-1], None)
            if progress is None:
                pending.pop()
            elif not len(progress.combinations):
                continue
            elif progress.steps == len(self._plan.steps):
                combinations = progress.combinations.kept(self._undisturbed(progress.combinations))
                if len(combinations):
                    yield combinations
            else:
                pending.append(self._continued(progress))

    @abstractmethod
    def _begin(self) -> Iterator[Progress]:
        """The first row of the first step."""

    @abstractmethod
    def _continued(self, progress: Progress) -> Iterator[Progress]:
        """What becomes of combinations with one more row."""

    def candidates_of(self, event: str, places: tuple[int, ...] | None = None) -> Candidates:
        """The rows that fit an event; `places`: those only that lie there."""
        found = self._candidates.get((event, places))
        if found is None:
            mask = self._timeline.fits(self._numbers[event])
            if places is not None:
                mask &= np.logical_or.reduce([self._places == place for place in places])
            found = self._candidates[event, places] = candidates(mask)
        return found

    def begun(self, rows: IntArray, case: int = 0) -> Iterator[Progress]:
        """Combinations of one row each, of the first step's event."""
        event = self._plan.steps[0].event.name
        for start in range(0, len(rows), PAIRS_AT_ONCE):
            combinations = Combinations.single(event, rows[start : start + PAIRS_AT_ONCE])
            yield self.taken(Progress(combinations, 0, case=case), combinations)

    def taken(self, progress: Progress, combinations: Combinations) -> Progress:
        """What `progress` has become with one more row for its next step's event."""
        step = self._plan.steps[progress.steps]
        fulfilled = self._judge.fulfilled(step.on_element, combinations, step.event.name)
        return self.accepted(progress, combinations.kept(fulfilled))

    def accepted(self, progress: Progress, combinations: Combinations) -> Progress:
        """The same, for rows that fulfil the conditions."""
        closure = self._plan.steps[progress.steps].event.is_closure
        return Progress(combinations, progress.steps + (not closure), closure, progress.case)

    def can_end(self, progress: Progress) -> BoolArray:
        """Which of the combinations with an open closure may leave it as it is (bool[n])."""
        step = self._plan.steps[progress.steps]
        combinations = progress.combinations
        if len(combinations.slots[step.event.name]) < step.event.at_least:
            return np.zeros(len(combinations), np.bool_)
        return self._judge.fulfilled(step.on_end, combinations)

    def can_grow(self, progress: Progress) -> bool:
        """Whether the open closure may take another row."""
        event = self._plan.steps[progress.steps].event
        return event.at_most is None or len(progress.combinations.slots[event.name]) < event.at_most

    def _undisturbed(self, combinations: Combinations) -> BoolArray:
        """Which combinations are not broken by an event that must not be there (bool[n])."""
        found = np.ones(len(combinations), np.bool_)
        for absence in self._plan.absences:
            found &= ~self._broken(absence, combinations)
        return found

    def _broken(self, absence: AbsencePlan, combinations: Combinations) -> BoolArray:
        low, high = self._reach(absence, combinations)
        fitting = self.candidates_of(absence.event)
        if not absence.conditions:
            # the events of the match itself break nothing
            own = np.zeros(len(combinations), np.int64)
            fits = self._timeline.fits(self._numbers[absence.event])
            for slot in combinations.slots.values():
                own += ((slot >= low) & (slot < high) & fits[slot]).sum(axis=0)
            broken: BoolArray = fitting.below[high] - fitting.below[low] > own
            return broken
        broken = np.zeros(len(combinations), np.bool_)
        lows, highs = fitting.below[low], fitting.below[high]
        self._budget.spend(combinations.first, np.maximum(highs - lows, 0))
        for numbers, places in stretches(lows, highs):
            rows = fitting.rows[places]
            taken = combinations.taken(numbers)
            disturbing = ~taken.holds(rows)
            with_absent = taken.extended(
                np.arange(len(rows)), absence.event, rows, forward=self._plan.forward
            )
            disturbing &= self._judge.fulfilled(absence.conditions, with_absent)
            broken[numbers[disturbing]] = True
        return broken

    def _reach(self, absence: AbsencePlan, combinations: Combinations) -> tuple[IntArray, IntArray]:
        """The stretch [low, high) of rows in which an event breaks the match; low may be above high."""
        line, slots = self._timeline, combinations.slots
        total = self._plan.total_order
        if absence.after:
            latest = np.maximum.reduce([slots[event][-1] for event in absence.after])
            low = latest + 1 if total else line.tie_start[latest]
        else:
            low = line.window_start[combinations.last]
        if absence.before:
            earliest = np.minimum.reduce([slots[event][0] for event in absence.before])
            high = earliest if total else line.tie_end[earliest]
        else:
            high = line.window_end[combinations.first]
        return low, np.maximum(low, high)
