"""Parts over a sliding window that nothing can be subtracted from, such as a minimum.

A queue out of two stacks (Tangwongsan, Hirzel and Schneider, 'Low-latency sliding-window aggregation in
worst-case constant time', DEBS 2017, section 3, where it is the point of departure)::

    panes     a  b  c  d  e  f | g  h
              older: one value   recent: folded
              for each suffix    as they come

A window is the suffix of the older panes that it still holds, and all recent ones. When no older pane
is left, the recent ones become the older ones, and their suffixes are folded once, from the newest to
the oldest. So each pane is folded twice, whatever the window's length.

Here a pane holds only the groups that have rows in it. A group's suffix changes where a pane with that
group leaves, and there alone it is written down: for each older pane, what is behind it of *its* groups. So
this takes as much room as the panes do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from streammine.model.contracts import IntArray
from streammine.operators.aggregates.parts import Part


class PartialColumn(NamedTuple):
    """One part of one pane: its groups (int64) and what `Part.encode` wrote of them."""

    ids: IntArray
    column: pa.Array


class TwoStacks:
    """One part over the panes of a window, which come and leave in the same order."""

    def __init__(self, new: Callable[[], Part]) -> None:
        """`new` makes an empty part."""
        self._new = new
        self._recent = new()
        self._older: pa.Array | None = None
        self._behind: deque[pa.Array] = deque()
        self._behind_bytes = 0

    @property
    def nbytes(self) -> int:
        older = 0 if self._older is None else int(self._older.nbytes)
        return self._recent.nbytes + older + self._behind_bytes

    def add(self, part: Part, ids: IntArray, size: int) -> None:
        """A new pane; group i of `part` is ids[i] (int64), of `size` groups in all."""
        self._recent.resize(size)
        self._recent.merge(part, ids)

    def add_partial(self, pane: PartialColumn, size: int) -> None:
        """A new pane, of which there are only partials."""
        self._recent.resize(size)
        self._recent.add_partial(pane.ids, pane.column, size)

    def drop(self, panes: Callable[[], Sequence[PartialColumn]], ids: IntArray, size: int) -> None:
        """The oldest pane, whose groups are `ids`, leaves. `panes`: all there are, it being the first."""
        if not self._behind:
            self._turn(panes(), size)
        assert self._older is not None
        behind = self._behind.popleft()
        self._behind_bytes -= int(behind.nbytes)
        self._older = _replaced(self._older, ids, behind) if self._behind else None

    def whole(self, size: int) -> Part:
        """The part over all panes, to be read."""
        self._recent.resize(size)
        if self._older is None:
            return self._recent
        known = np.arange(len(self._older), dtype=np.int64)
        whole = self._new()
        whole.add_partial(known, self._older, size)
        whole.merge(self._recent, np.arange(size, dtype=np.int64))
        return whole

    def _turn(self, panes: Sequence[PartialColumn], size: int) -> None:
        """All panes are older ones now."""
        folded = self._new()
        folded.resize(size)
        for ids, column in reversed(panes):
            behind = folded.encode().take(pa.array(ids))
            self._behind.appendleft(behind)
            self._behind_bytes += int(behind.nbytes)
            folded.add_partial(ids, column, size)
        self._older = folded.encode()
        self._recent = self._new()


def _replaced(column: pa.Array, ids: IntArray, values: pa.Array) -> pa.Array:
    """The column with other values at the places `ids`."""
    places = np.arange(len(column), dtype=np.int64)
    places[ids] = len(column) + np.arange(ids.size)
    return pa.concat_arrays([column, values]).take(pa.array(places))
