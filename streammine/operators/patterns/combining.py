"""Every combination that fits (skip till any match), or every one without gaps (strict contiguity).

Combinations grow by one row at a time. In which stretch of the timeline that row must lie follows from the
rows that are there: from the events that come before and behind, and from `within`. Several last events (of
`all`) make several cases, so that each new match is found once: the first is new; the first is old and the
second is new; and so on.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from streammine.model.contracts import IntArray
from streammine.operators.patterns.combinations import Combinations, stretches
from streammine.operators.patterns.plans import BEFORE, BEHIND, FOCUS, Step
from streammine.operators.patterns.search import Progress, Search


class Combining(Search):
    """The matches of `any` and `strict`."""

    def _begin(self) -> Iterator[Progress]:
        event = self._plan.steps[0].event.name
        for case in range(self._plan.anchors):
            yield from self.begun(self.candidates_of(event, self._anchored(case, 0)).rows, case)

    def _continued(self, progress: Progress) -> Iterator[Progress]:
        step = self._plan.steps[progress.steps]
        combinations = progress.combinations
        if not progress.open:
            low, high = self._partners(step, combinations)
            yield from self._extended(progress, low, high)
            return
        ending = combinations.kept(self.can_end(progress))
        if len(ending):
            yield Progress(ending, progress.steps + 1, case=progress.case)
        if self.can_grow(progress):
            low, high = self._partners(step, combinations)
            rows = combinations.slots[step.event.name]
            if self._plan.forward:
                low = np.maximum(low, rows[-1] + 1)
            else:
                high = np.minimum(high, rows[0])
            yield from self._extended(progress, low, high)

    def _extended(self, progress: Progress, low: IntArray, high: IntArray) -> Iterator[Progress]:
        """The combinations with each of the rows in [low, high) that fit their next event."""
        step = self._plan.steps[progress.steps]
        combinations = progress.combinations
        # which row of a closure comes first in the search decides where the closure lies
        first = not progress.open
        places = self._anchored(progress.case, progress.steps) if first else None
        fitting = self.candidates_of(step.event.name, places)
        lows = fitting.below[low]
        highs = np.maximum(fitting.below[np.maximum(low, high)], lows)
        self._budget.spend(combinations.first, highs - lows)
        for numbers, found in stretches(lows, highs):
            rows = fitting.rows[found]
            if not self._plan.total_order:
                numbers, rows = self._others(combinations, numbers, rows)
            yield self.taken(
                progress,
                combinations.extended(numbers, step.event.name, rows, forward=self._plan.forward),
            )

    @staticmethod
    def _others(
        combinations: Combinations, numbers: IntArray, rows: IntArray
    ) -> tuple[IntArray, IntArray]:
        """Without rows that their combination holds already: an event is one of its events only."""
        inside = (rows >= combinations.first[numbers]) & (rows <= combinations.last[numbers])
        if not inside.any():
            return numbers, rows
        held = np.zeros(len(rows), np.bool_)
        suspects = np.flatnonzero(inside)
        held[suspects] = combinations.taken(numbers[suspects]).holds(rows[suspects])
        return numbers[~held], rows[~held]

    def _partners(self, step: Step, combinations: Combinations) -> tuple[IntArray, IntArray]:
        """The stretch [low, high) in which rows of the next event lie."""
        line, slots = self._timeline, combinations.slots
        total = self._plan.total_order
        low = line.window_start[combinations.last]
        high = line.window_end[combinations.first]
        for event in step.earlier:
            row = slots[event][-1]
            low = np.maximum(low, row + 1 if total else line.tie_start[row])
        for event in step.later:
            row = slots[event][0]
            high = np.minimum(high, row if total else line.tie_end[row])
        if self._plan.matching == "strict":
            if self._plan.forward:
                low = np.maximum(low, combinations.last + 1)
                high = np.minimum(high, combinations.last + 2)
            else:
                low = np.maximum(low, combinations.first - 1)
                high = np.minimum(high, combinations.first)
        return low, high

    def _anchored(self, case: int, step: int) -> tuple[int, ...] | None:
        """Where the first found row of a step's event may lie; None: anywhere."""
        if step >= self._plan.anchors:
            return None
        if step == case:
            return (FOCUS,)
        if self._plan.forward:
            return (BEHIND,) if step < case else (FOCUS, BEHIND)
        return (BEFORE,) if step < case else (BEFORE, FOCUS)
