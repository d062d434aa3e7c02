"""The frontier: the lowest epoch that is still open at a slice (Martin 2015, chapter 3).

An epoch is complete at a slice when every input channel has ended it. Complete epochs are closed in
ascending order, and only those that hold data or that the operator waits for (a window that ends
there), so gaps cost nothing. The frontier that a slice tells its senders is the lowest epoch it has not
*processed*, because that is what frees their credit.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from streammine.model.epochs import BEGINNING, INFINITY


class Frontier:
    """Which epochs are complete, and which is closed next."""

    def __init__(self) -> None:
        self.complete_below = BEGINNING
        self.closed_below = BEGINNING
        self.due: int | None = None
        self._open: list[int] = []
        """The epochs that hold data, ascending."""

    def begin(self, epoch: int, due: int | None) -> None:
        """Start behind a snapshot: every epoch below `epoch` is closed."""
        self.complete_below = self.closed_below = epoch
        self.due = due

    def touch(self, epoch: int) -> None:
        """The epoch holds data."""
        assert epoch >= self.closed_below, f"data of epoch {epoch}, which is closed"
        place = bisect_left(self._open, epoch)
        if self._open[place : place + 1] != [epoch]:
            self._open.insert(place, epoch)

    def advance(self, open_epochs: Iterable[int]) -> None:
        """Channels have moved; an empty set of channels leaves the frontier where it is."""
        self.complete_below = max(self.complete_below, min(open_epochs, default=BEGINNING))

    def next_to_close(self) -> int | None:
        """The lowest complete epoch that must be closed, or None."""
        candidate = self.waiting()
        return candidate if candidate is not None and candidate < self.complete_below else None

    def complete_behind(self, epoch: int, most: int) -> Sequence[int]:
        """The lowest complete epochs with data behind this one, ascending."""
        first = bisect_right(self._open, epoch)
        return self._open[first : min(first + most, self.backlog)]

    def waiting(self) -> int | None:
        """The lowest epoch with data or a due window, complete or not."""
        lowest = self._open[0] if self._open else None
        if self.due is not None and (lowest is None or self.due < lowest):
            return self.due
        return lowest

    def closed(self, epoch: int, due: int | None) -> None:
        """The epoch was closed; `due` is the next epoch that the operator wants closed."""
        if self._open[:1] == [epoch]:
            del self._open[0]
        assert due is None or due > epoch, f"epoch {due} is due at the close of epoch {epoch}"
        self.due = due
        self.closed_below = max(self.closed_below, epoch + 1)

    def skip(self, epoch: int, due: int | None) -> None:
        """Every epoch up to this one is behind, though it was not closed here."""
        self.complete_below = max(self.complete_below, epoch + 1)
        self.closed_below = epoch + 1
        self.due = due
        del self._open[: bisect_right(self._open, epoch)]

    @property
    def backlog(self) -> int:
        """How many epochs are complete, hold data and are still to be closed."""
        return bisect_left(self._open, self.complete_below)

    @property
    def late(self) -> bool:
        """Several epochs are complete, hold data and are still to be closed."""
        return self.backlog > 1

    def processed_below(self) -> int:
        """Every epoch below this one is processed: it holds nothing and nothing more can come."""
        waiting = self.waiting()
        return self.complete_below if waiting is None else min(waiting, self.complete_below)

    @property
    def finished(self) -> bool:
        return self.complete_below == INFINITY and self.waiting() is None
