"""The next events that fit (skip till next match).

From each row that may begin a match, the search goes forwards in the total order of a key's rows. Rows that
are of no use to a combination are skipped; the first that is of use is taken. A row is of use if it fits the
event that comes next, with all conditions that the rows before it can judge; or, where the last event is a
closure that may take more, if it fits as its next element. It may be both: then both are followed up.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from streammine.model.contracts import IntArray
from streammine.operators.patterns.combinations import stretches
from streammine.operators.patterns.plans import FOCUS
from streammine.operators.patterns.search import Progress, Search

_MORE_AT_ONCE = 4


class Choosing(Search):
    """The matches of `next`."""

    def _begin(self) -> Iterator[Progress]:
        # what is decided now begins in focus, or, where no time must pass, anywhere and ends there
        places = (FOCUS,) if self._plan.waits else None
        for progress in self.begun(self.candidates_of(self._plan.steps[0].event.name, places).rows):
            complete = progress.steps == len(self._plan.steps)
            yield from self._complete(progress) if complete else (progress,)

    def _continued(self, progress: Progress) -> Iterator[Progress]:
        combinations = progress.combinations
        nothing = np.full(len(combinations), len(self._timeline))
        steps = progress.steps
        if not progress.open:
            yield from self._with(progress, self._next(progress))
            return
        growing = self._next(progress) if self.can_grow(progress) else nothing
        ending = self.can_end(progress)
        following = nothing.copy()
        if steps + 1 == len(self._plan.steps):
            yield from self._complete(Progress(combinations.kept(ending), steps + 1))
        elif ending.any():
            left = Progress(combinations.kept(ending), steps + 1)
            following[ending] = self._next(left)
        yield from self._with(
            progress, np.where(growing <= following, growing, len(self._timeline))
        )
        follows = following <= growing
        yield from self._with(Progress(combinations.kept(follows), steps + 1), following[follows])

    def _with(self, progress: Progress, rows: IntArray) -> Iterator[Progress]:
        """The combinations with the chosen rows; those without one end here."""
        if progress.steps == len(self._plan.steps):
            return
        chosen = np.flatnonzero(rows < len(self._timeline))
        event = self._plan.steps[progress.steps].event.name
        combinations = progress.combinations.extended(chosen, event, rows[chosen], forward=True)
        accepted = self.accepted(progress, combinations)
        if accepted.steps == len(self._plan.steps):
            yield from self._complete(accepted)
        else:
            yield accepted

    def _complete(self, progress: Progress) -> Iterator[Progress]:
        """Those that were not complete in an epoch before."""
        if not self._plan.waits:
            new = self._places[progress.combinations.last] == FOCUS
            progress = Progress(progress.combinations.kept(new), progress.steps)
        yield progress

    def _next(self, progress: Progress) -> IntArray:
        """For each combination the first row that is of use as its next event; the number of rows where there
        is none. Looks at few rows first, and at more where none of them is."""
        step = self._plan.steps[progress.steps]
        event = step.event.name
        combinations = progress.combinations
        fitting = self.candidates_of(event)
        found = np.full(len(combinations), len(self._timeline))
        low = fitting.below[combinations.last + 1]
        high = fitting.below[
            np.maximum(combinations.last + 1, self._timeline.window_end[combinations.first])
        ]
        waiting = np.flatnonzero(low < high)
        width = 1 if not step.on_element else _MORE_AT_ONCE
        while len(waiting):
            some = combinations.taken(waiting)
            ends = np.minimum(low[waiting] + width, high[waiting])
            self._budget.spend(some.first, ends - low[waiting])
            for numbers, places in stretches(low[waiting], ends):
                rows = fitting.rows[places]
                fulfilled = self._judge.fulfilled(
                    step.on_element, some.extended(numbers, event, rows, forward=True), event
                )
                np.minimum.at(found, waiting[numbers[fulfilled]], rows[fulfilled])
            low[waiting] = ends
            waiting = waiting[(found[waiting] == len(self._timeline)) & (ends < high[waiting])]
            width *= _MORE_AT_ONCE
        return found
