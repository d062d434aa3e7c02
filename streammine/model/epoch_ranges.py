"""Sets of epochs that come in long runs, such as those that gap recovery has lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

EpochRange = tuple[int, int]
"""First and last epoch."""


class EpochRanges:
    """Ascending ranges of epochs that neither overlap nor touch; they cost what they are, not what they
    hold.
    """

    def __init__(self, ranges: Iterable[EpochRange] = ()) -> None:
        self._ranges: list[EpochRange] = []
        for first, last in ranges:
            self.add(first, last)

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def __iter__(self) -> Iterator[EpochRange]:
        return iter(self._ranges)

    def __contains__(self, epoch: int) -> bool:
        return any(first <= epoch <= last for first, last in self._ranges)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EpochRanges) and self._ranges == other._ranges

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"EpochRanges({self._ranges!r})"

    def __str__(self) -> str:
        return ", ".join(
            f"{first:,}" if first == last else f"{first:,} to {last:,}" for first, last in self
        )

    @property
    def count(self) -> int:
        """How many epochs there are."""
        return sum(last - first + 1 for first, last in self._ranges)

    def add(self, first: int, last: int) -> None:
        """All epochs from the first to the last, if there are any."""
        if first > last:
            return
        near = [each for each in self._ranges if each[1] >= first - 1 and each[0] <= last + 1]
        apart = [each for each in self._ranges if each not in near]
        joined = min([first, *(each[0] for each in near)]), max([last, *(each[1] for each in near)])
        self._ranges = sorted([*apart, joined])

    def between(self, first: int, last: int) -> tuple[EpochRange, ...]:
        """Those from the first to the last."""
        clipped = ((max(first, a), min(last, b)) for a, b in self._ranges)
        return tuple(each for each in clipped if each[0] <= each[1])

    def drop(self, epoch: int) -> None:
        """Forget all up to this one."""
        if self._ranges:
            kept = ((max(first, epoch + 1), last) for first, last in self._ranges)
            self._ranges = [each for each in kept if each[0] <= each[1]]
