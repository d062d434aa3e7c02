"""Values by group, each group's in order, while some come and others go: running medians.

Every group has a stretch of one pool with its values in ascending order. A value is put in and taken out by
binary search and a move of what lies behind it, which for the some thousands of values that a group of a
window has costs less than any tree.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streammine.operators.kernels.compilation import (
    BOOLEAN,
    FLOAT64_OUT,
    INT64,
    INT64_IN,
    INT64_OUT,
    MASK_IN,
    MASK_OUT,
    KernelSet,
    helper,
)
from streammine.operators.kernels.group_states import extended

_KERNELS = KernelSet()
load_kernels = _KERNELS.load

_LEAST_ROOM = 4

IntArray = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@helper
def _place(pool: IntArray, first: int, length: int, value: int) -> int:
    """The first place in pool[first : first + length] whose value is not less."""
    low, high = first, first + length
    while low < high:
        middle = (low + high) // 2
        if pool[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@_KERNELS.kernel(INT64_IN, MASK_IN, MASK_IN, INT64_IN, INT64_IN, INT64_OUT)
def _room_needed(
    ids: IntArray,
    comes: Mask,
    counts: Mask,
    lengths: IntArray,
    rooms: IntArray,
    needed: IntArray,
) -> int:
    """How many values each group may have at once, in `needed`; how much room is missing in the pool."""
    for row in range(ids.size):
        if comes[row] and counts[row]:
            needed[ids[row]] += 1
    missing = 0
    for group in range(needed.size):
        needed[group] += lengths[group]
        if needed[group] > rooms[group]:
            missing += max(2 * needed[group], 4)
    return missing


@_KERNELS.kernel(INT64_IN, INT64_OUT, INT64_IN, INT64_OUT, INT64_OUT, INT64)
def _make_room(
    needed: IntArray,
    firsts: IntArray,
    lengths: IntArray,
    rooms: IntArray,
    pool: IntArray,
    end: int,
) -> int:
    """Move groups that outgrow their stretches to the pool's end; returns the new end."""
    for group in range(needed.size):
        if needed[group] > rooms[group]:
            first = firsts[group]
            for number in range(lengths[group]):
                pool[end + number] = pool[first + number]
            firsts[group] = end
            rooms[group] = max(2 * needed[group], 4)
            end += rooms[group]
    return end


@_KERNELS.kernel(
    INT64_IN,
    MASK_IN,
    MASK_IN,
    INT64_IN,
    INT64_IN,
    INT64_OUT,
    INT64_OUT,
    FLOAT64_OUT,
    MASK_OUT,
    MASK_OUT,
    BOOLEAN,
)
def _advance(
    ids: IntArray,
    comes: Mask,
    counts: Mask,
    values: IntArray,
    firsts: IntArray,
    lengths: IntArray,
    pool: IntArray,
    medians: npt.NDArray[np.float64],
    known: Mask,
    changed: Mask,
    wanted: bool,
) -> None:
    for row in range(ids.size):
        group = ids[row]
        first, length = firsts[group], lengths[group]
        before = 0.0
        if wanted and length:
            before = 0.5 * pool[first + (length - 1) // 2] + 0.5 * pool[first + length // 2]
        had = length > 0
        if counts[row]:
            value = values[row]
            place = _place(pool, first, length, value)
            if comes[row]:
                for number in range(first + length, place, -1):
                    pool[number] = pool[number - 1]
                pool[place] = value
                length += 1
            else:
                length -= 1
                for number in range(place, first + length):
                    pool[number] = pool[number + 1]
            lengths[group] = length
        if wanted:
            after = 0.0
            if length:
                after = 0.5 * pool[first + (length - 1) // 2] + 0.5 * pool[first + length // 2]
            medians[row] = after
            known[row] = length > 0
            changed[row] = had != (length > 0) or before != after


class RunningMedians:
    """The median of each group's values, after each of them that comes or goes."""

    def __init__(self) -> None:
        self._firsts: IntArray = np.empty(0, np.int64)
        self._lengths: IntArray = np.empty(0, np.int64)
        self._rooms: IntArray = np.empty(0, np.int64)
        self._pool: IntArray = np.empty(0, np.int64)
        self._end = 0

    @property
    def nbytes(self) -> int:
        return int(
            self._firsts.nbytes + self._lengths.nbytes + self._rooms.nbytes + self._pool.nbytes
        )

    def advance(
        self,
        ids: IntArray,
        comes: Mask,
        counts: Mask,
        values: IntArray,
        groups: int,
        wanted: bool = True,
    ) -> tuple[npt.NDArray[np.float64], Mask, Mask]:
        """Take in rows in their order: value values[row] of group ids[row] < `groups` comes or goes,
        where it `counts`.

        Returns, of each row, its group's median then (the mean of the middle two), whether there is one, and
        whether it is another than before; nothing of use unless `wanted`. A value that goes must have come.
        """
        self._make_room(ids, comes, counts, groups)
        rows = ids.size if wanted else 0
        medians = np.empty(rows, np.float64)
        known = np.empty(rows, np.bool_)
        changed = np.empty(rows, np.bool_)
        _advance(
            ids,
            comes,
            counts,
            values,
            self._firsts,
            self._lengths,
            self._pool,
            medians,
            known,
            changed,
            wanted,
        )
        return medians, known, changed

    def select(self, groups: IntArray) -> None:
        """Keep these groups alone, which become 0, 1, …"""
        firsts, lengths = self._firsts[groups], self._lengths[groups]
        self._rooms = np.maximum(2 * lengths, _LEAST_ROOM)
        self._firsts = np.cumsum(self._rooms) - self._rooms
        self._end = int(self._rooms.sum())
        pool = np.empty(self._end, np.int64)
        ends = np.cumsum(lengths)
        within = np.arange(int(lengths.sum())) - np.repeat(ends - lengths, lengths)
        pool[np.repeat(self._firsts, lengths) + within] = self._pool[
            np.repeat(firsts, lengths) + within
        ]
        self._lengths, self._pool = lengths, pool

    def _make_room(self, ids: IntArray, comes: Mask, counts: Mask, groups: int) -> None:
        self._firsts = extended(self._firsts, groups, 0)
        self._lengths = extended(self._lengths, groups, 0)
        self._rooms = extended(self._rooms, groups, 0)
        needed = np.zeros(self._lengths.size, np.int64)
        missing = _room_needed(ids, comes, counts, self._lengths, self._rooms, needed)
        if not missing:
            return
        if self._end + missing > self._pool.size:
            held = int(self._lengths.sum())
            if self._end > 4 * (held + missing):
                # most of the pool is what groups have moved away from
                self.select(np.arange(self._lengths.size))
                needed = np.zeros(self._lengths.size, np.int64)
                missing = _room_needed(ids, comes, counts, self._lengths, self._rooms, needed)
            self._pool = extended(self._pool, self._end + missing, 0)
        self._end = _make_room(
            needed, self._firsts, self._lengths, self._rooms, self._pool, self._end
        )
