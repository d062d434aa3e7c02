"""Intervals of event time by key, and which of them overlap."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streammine.model.contracts import IntArray


class Intervals(NamedTuple):
    """Of each, its key (an id), its first and its last event time in microseconds: int64[n] each."""

    keys: IntArray
    starts: IntArray
    lasts: IntArray

    @classmethod
    def zeros(cls, count: int) -> Intervals:
        return cls(*(np.zeros(count, dtype=np.int64) for _ in cls._fields))

    @classmethod
    def empty(cls) -> Intervals:
        return cls.zeros(0)

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self)

    def taken(self, places: IntArray) -> Intervals:
        return Intervals(*(column[places] for column in self))

    def with_(self, others: Intervals) -> Intervals:
        """These, and others behind them."""
        return Intervals(*map(np.append, self, others))

    def put(self, places: IntArray, others: Intervals) -> None:
        """Write others to these places."""
        for column, values in zip(self, others, strict=True):
            column[places] = values

    def rekeyed(self, numbers: IntArray) -> Intervals:
        """With other ids of the keys: numbers[id]."""
        return self._replace(keys=numbers[self.keys])


def overlapping(intervals: Intervals, gap: int) -> tuple[Intervals, IntArray]:
    """What intervals of one key that begin less than `gap` behind another's last time come to together.

    Gives them in the order of keys and times, and the number of the one that each interval is in.
    """
    count = intervals.keys.size
    order = np.lexsort((intervals.starts, intervals.keys))
    keys, starts, lasts = intervals.taken(order)
    begins = np.ones(count, dtype=np.bool_)
    other_key = keys[1:] != keys[:-1]
    reach = _reach(np.append(0, np.cumsum(other_key))[:count], lasts)
    begins[1:] = other_key | (starts[1:] - reach[:-1] >= gap)
    number_of = np.empty(count, dtype=np.int64)
    number_of[order] = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    last = np.append(first[1:], count)[: first.size] - 1
    return Intervals(keys[first], starts[first], reach[last]), number_of


def _reach(key_numbers: IntArray, lasts: IntArray) -> IntArray:
    """The highest last time so far of the same key; keys are numbered 0, 1, 2, ... as they come."""
    by_last = np.argsort(lasts, kind="stable")
    rank = np.empty(lasts.size, dtype=np.int64)
    rank[by_last] = np.arange(lasts.size)
    # a later key's numbers are all higher, so that each key begins anew
    highest = np.maximum.accumulate(key_numbers * lasts.size + rank)
    reached: IntArray = lasts[by_last][highest % max(1, lasts.size)]
    return reached


def last_begun(intervals: Intervals, keys: IntArray, times: IntArray) -> IntArray:
    """For each key and time the interval of the key that begins last, not after the time; -1 for none."""
    known = intervals.keys.size
    rows = np.repeat([0, 1], [known, keys.size])
    order = np.lexsort((rows, np.append(intervals.starts, times), np.append(intervals.keys, keys)))
    begun = np.where(order < known, np.arange(order.size), -1)
    latest = np.maximum.accumulate(begun)
    asked = np.flatnonzero(order >= known)
    found = np.where(latest[asked] >= 0, order[latest[asked]], -1)
    numbers = order[asked] - known
    if known:
        found[intervals.keys[found] != keys[numbers]] = -1
    places = np.empty(keys.size, dtype=np.int64)
    places[numbers] = found
    return places
