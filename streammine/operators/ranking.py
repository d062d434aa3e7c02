"""A ranking of keys by id, and what was told of the foremost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streammine.model.contracts import IntArray
from streammine.operators.kernels import leading
from streammine.operators.kernels.group_states import extended
from streammine.operators.kernels.leading import (
    BAR_RANK,
    BAR_STAMP,
    BEHIND,
    BEHIND_SIZE,
    HEAP_SIZE,
    HELD_LEAST,
    HELD_SHARE,
    NEXT_STAMP,
    NOWHERE,
    TOP_SIZE,
)

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Told:
    """By which changes the foremost are to be told (`by`, ascending), and who stands at each place then
    (int64[times, places]): the change by which the key there has its values, -2 - id for a key that has
    those of before all changes, -1 for nobody."""

    by: IntArray
    places: npt.NDArray[np.int64]


class Ranking:
    """Who stands where. Columns that are shown are bits, see `measures.Known`."""

    def __init__(self, count: int, columns: int) -> None:
        """`count` are told, with so many `columns` of numbers each."""
        self._count = count
        self._columns = columns
        self.last_ids = np.full(count, -1, np.int64)
        self.last_shown = np.zeros((columns, count), np.int64)
        self.next_stamp = 1
        self.stamps: IntArray = np.empty(0, np.int64)
        self._clear(0)

    @property
    def nbytes(self) -> int:
        arrays = (self.stamps, self._ranks, self._places, self._heap, self._changed, self._shown)
        return sum(int(array.nbytes) for array in arrays)

    def _clear(self, keys: int) -> None:
        """Nobody is ranked."""
        self._ranks: IntArray = np.zeros(keys, np.int64)
        self._places: IntArray = np.full(keys, NOWHERE, np.int64)
        self._heap: IntArray = np.empty(keys, np.int64)
        self._changed: IntArray = np.full(keys, -1, np.int64)
        self._shown: npt.NDArray[np.int64] = np.zeros((self._columns, keys), np.int64)
        self._top: IntArray = np.full(self._count, -1, np.int64)
        least = np.iinfo(np.int64).min
        self._numbers = np.array([0, 0, self.next_stamp, 0, least, least], np.int64)

    def grow(self, keys: int) -> None:
        """There are so many keys."""
        self.stamps = extended(self.stamps, keys, 0)
        self._ranks = extended(self._ranks, keys, 0)
        self._places = extended(self._places, keys, NOWHERE)
        self._heap = extended(self._heap, keys, -1)
        self._changed = extended(self._changed, keys, -1)
        if self._shown.shape[1] < keys:
            shown = np.zeros((self._columns, self._ranks.size), np.int64)
            shown[:, : self._shown.shape[1]] = self._shown
            self._shown = shown

    def advance(
        self,
        ids: IntArray,
        ranks: IntArray,
        listed: Mask,
        forgotten: Mask,
        by_event: Mask,
        tells: Mask,
        shown: Sequence[npt.NDArray[np.int64] | Mask],
    ) -> Told:
        """Take in changes in their order (see kernels.leading.advance_leaders)."""
        most = int(np.count_nonzero(tells))
        told_by = np.empty(most, np.int64)
        told = np.empty((most, self._count), np.int64)
        count = leading.advance_leaders(
            ids,
            ranks,
            listed,
            forgotten,
            by_event,
            tells,
            _stacked(shown, ids.size),
            self._ranks,
            self.stamps,
            self._places,
            self._heap,
            self._top,
            self._shown,
            self._numbers,
            self.last_ids,
            self.last_shown,
            self._changed,
            told_by,
            told,
        )
        self.next_stamp = int(self._numbers[NEXT_STAMP])
        return Told(told_by[:count], told[:count])

    def used(self, keys: int) -> Mask:
        """Which of so many keys are ranked, or were told last."""
        self.grow(keys)
        found: Mask = self._places[:keys] != NOWHERE
        found[self.last_ids[self.last_ids >= 0]] = True
        return found

    def rebuild(
        self, ranks: IntArray, listed: Mask, shown: Sequence[npt.NDArray[np.int64] | Mask]
    ) -> None:
        """Rank all keys anew, by id, with the stamps that they have."""
        keys = ranks.size
        self.stamps = extended(self.stamps, keys, 0)
        self._clear(self.stamps.size)
        self._ranks[:keys] = ranks
        self._shown[:, :keys] = _stacked(shown, keys)
        # ascending in the ranking's order, which every heap may have, too
        order = np.lexsort([-self.stamps[:keys], ~ranks])
        order = order[listed[order]]
        filling = max(HELD_LEAST, self._places.size // HELD_SHARE)
        front, heap, behind = np.split(order, [self._count, self._count + filling])
        self._top[: front.size] = front
        self._places[front] = -2 - np.arange(front.size)
        self._heap[: heap.size] = heap
        self._places[heap] = np.arange(heap.size)
        self._places[behind] = BEHIND
        self._numbers[[TOP_SIZE, HEAP_SIZE, BEHIND_SIZE]] = front.size, heap.size, behind.size
        if behind.size:
            bar = heap[-1]
            self._numbers[[BAR_RANK, BAR_STAMP]] = self._ranks[bar], self.stamps[bar]

    def tell(self, places: IntArray, ids: IntArray, shown: Sequence[npt.NDArray[np.int64]]) -> None:
        """These were told last at these places, and nobody at the others."""
        self.last_ids[:] = -1
        self.last_shown[:] = 0
        self.last_ids[places] = ids
        for column, values in zip(self.last_shown, shown, strict=True):
            column[places] = values

    def keep(self, kept: IntArray) -> None:
        """These keys become 0, 1, …; ranked anew they must be."""
        number = np.full(self.stamps.size, -1, np.int64)
        number[kept] = np.arange(kept.size)
        self.stamps = self.stamps[kept]
        there = self.last_ids >= 0
        self.last_ids[there] = number[self.last_ids[there]]


def _stacked(shown: Sequence[npt.NDArray[np.int64] | Mask], rows: int) -> npt.NDArray[np.int64]:
    stacked = np.empty((len(shown), rows), np.int64)
    for place, values in enumerate(shown):
        stacked[place] = values
    return stacked
