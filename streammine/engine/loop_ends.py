"""What the ends of stamps said that came on a loop's channels: totals of rows, and next epochs."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from streammine.model.job import EdgeKind
from streammine.model.stamps import made_in


class Ends:
    """The ends heard on some channels, by their numbers; `kinds` says what each channel is.

    A replica that was restored makes the empty epochs between two others again or passes them over, as it
    learns of them. So an end may be missing on a channel that has ended a later stamp; then nothing was sent
    at that stamp, and the sender's next epoch is that of the end that came.
    """

    def __init__(self, kinds: Mapping[int, EdgeKind]) -> None:
        self._kinds = dict(kinds)
        self._ends: dict[int, deque[tuple[int, int]]] = {number: deque() for number in kinds}

    def heard(self, channel: int, at: int, said: int) -> None:
        self._ends[channel].append((at, said))

    def total(self, at: int) -> int:
        """The rows that all senders together sent at a stamp that they all have ended."""
        return sum(said for time, said, _ in self._next(at) if time == at)

    def next_epoch(self, at: int) -> int:
        """The lowest epoch that any sender named with the final stamp `at`, which all have ended."""
        return min(
            said if time == at else made_in(kind, time) for time, said, kind in self._next(at)
        )

    def _next(self, at: int) -> list[tuple[int, int, EdgeKind]]:
        """Of each channel the first end from `at` on; those before are forgotten."""
        found: list[tuple[int, int, EdgeKind]] = []
        for number, ends in self._ends.items():
            while ends[0][0] < at:
                ends.popleft()
            found.append((*ends[0], self._kinds[number]))
        return found
