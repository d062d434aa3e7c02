"""The first rows of each group, gathered from batches that come in any order.

What is gathered is cut down to the first rows of each group whenever it has grown to a few times what such a
cut left. Between two cuts most rows that can't be among the first ones are recognised as they come, by one
number: the *bound* of their group, which the group's last of the first rows has (see
RowOrder.leading_words).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.model.contracts import IntArray
from streammine.operators.kernels import best_rows as kernels
from streammine.operators.kernels.group_index import GroupIndex
from streammine.operators.row_order import Arranged, RowOrder, Words

_ROWS_NOT_CUT = 65_536
_ROWS_NOT_SCREENED = 8_192
_NO_BOUND = np.iinfo(np.uint64).max

load_kernels = kernels.load_kernels


class BestRows:
    """Rows of one schema, of which the first `count` of each group matter; None for all of them.

    An Accumulator. What it holds is never changed in place, so `batches` may be kept by others.
    """

    def __init__(self, order: RowOrder, count: int | None) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.cuts = 0
        """How often `batches` was replaced by fewer rows."""
        self.nbytes = 0
        """Of `batches`; kept, as a long window has many of them."""
        self._order = order
        self._count = count
        self._rows = 0
        self._most_rows = _ROWS_NOT_CUT
        self._screen: _Screen | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        self.hold(self._order.with_normal_keys(batch))

    def merge(self, other: BestRows) -> None:
        for batch in other.batches:
            self.hold(batch)

    def hold(self, batch: pa.RecordBatch) -> None:
        """Add rows whose keys are normal already."""
        if self._count is not None:
            batch = self._screened(batch)
        if not batch.num_rows:
            return
        self.batches.append(batch)
        self.nbytes += int(batch.nbytes)
        self._rows += batch.num_rows
        if self._count is not None and self._rows > self._most_rows:
            self._cut()

    def trim(self) -> None:
        """Hold no more than the first rows; for when none, or few, are still to come."""
        cut_already = self.cuts > 0 and len(self.batches) == 1
        if self._count is not None and not cut_already:
            self._cut()

    def taken(self) -> tuple[pa.RecordBatch, Arranged]:
        """The first rows, in order; it is empty afterwards."""
        found = self._first(self._whole())
        self.batches = []
        self.nbytes = 0
        self._rows = 0
        self._screen = None
        return found

    def _screened(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._screen is None:
            many = self._rows + batch.num_rows > _ROWS_NOT_SCREENED
            if self._count != 1 or not many or not self._order.leads_with_words:
                return batch
            self._screen = _Screen(self._order)
        if self._count == 1:
            return self._screen.least(batch)
        return self._screen.below(batch)

    def _cut(self) -> None:
        before = self._rows
        rows, arranged = self._first(self._whole())
        self.cuts += 1
        self.batches = [rows]
        self.nbytes = int(rows.nbytes)
        self._rows = rows.num_rows
        cuts_deep = 2 * self._rows < before
        self._most_rows = max(_ROWS_NOT_CUT, (2 if cuts_deep else 4) * self._rows)
        # where hardly any row goes, looking at each before costs more than it saves
        if self._count != 1 and self._order.leads_with_words and cuts_deep:
            self._screen = _Screen(self._order)
            self._screen.learn(rows, arranged, self._count or 0)

    def _whole(self) -> pa.RecordBatch:
        if len(self.batches) == 1:
            return self.batches[0]
        if not self.batches:
            return _empty(self._order.schema)
        return pa.concat_batches(self.batches)

    def _first(self, whole: pa.RecordBatch) -> tuple[pa.RecordBatch, Arranged]:
        whole = self._candidates(whole)
        arranged = self._order.arranged(whole)
        if self._count is not None:
            places = np.arange(whole.num_rows)
            kept = places - arranged.group_starts < self._count
            if not kept.all():
                arranged = Arranged(
                    arranged.rows[kept], arranged.group_begins[kept], arranged.differs[kept]
                )
        return whole.take(pa.array(arranged.rows)), arranged

    def _candidates(self, whole: pa.RecordBatch) -> pa.RecordBatch:
        """Of many rows of one group, those that are worth sorting."""
        count = self._count
        if count is None or self._order.keys or not self._order.leads_with_words:
            return whole
        if whole.num_rows < max(_ROWS_NOT_SCREENED, 4 * count):
            return whole
        words = self._order.leading_words(whole)
        bound = np.partition(words, count - 1)[count - 1]
        return whole.filter(pa.array(words <= bound))


class _Screen:
    """What is known of each group's first rows: their greatest leading word."""

    def __init__(self, order: RowOrder) -> None:
        self._order = order
        kinds = [order.schema.field(key).type for key in order.keys]
        self._index = GroupIndex(kinds) if kinds else None
        self._bounds: Words = np.full(1, _NO_BOUND)

    def least(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the least word of their group so far; they are its first ones then."""
        return self._marked(batch, kernels.keep_least)

    def below(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that can be among the first ones."""
        return self._marked(batch, kernels.keep_below)

    def learn(self, rows: pa.RecordBatch, arranged: Arranged, count: int) -> None:
        """The groups' first rows, in order: groups that have `count` of them have a bound."""
        groups = self._groups(rows)
        places = np.arange(rows.num_rows)
        last = places - arranged.group_starts == count - 1
        self._bounds[groups[last]] = self._order.leading_words(rows)[last]

    def _marked(self, batch: pa.RecordBatch, mark: kernels.Marking) -> pa.RecordBatch:
        kept: npt.NDArray[np.bool_] = np.empty(batch.num_rows, np.bool_)
        mark(self._groups(batch), self._order.leading_words(batch), self._bounds, kept)
        return batch if kept.all() else batch.filter(pa.array(kept))

    def _groups(self, batch: pa.RecordBatch) -> IntArray:
        if self._index is None:
            return np.zeros(batch.num_rows, np.int64)
        groups: IntArray = self._index.ids([batch.column(key) for key in self._order.keys])
        missing = self._index.size - len(self._bounds)
        if missing > 0:
            grown = np.full(2 * self._index.size, _NO_BOUND)
            grown[: len(self._bounds)] = self._bounds
            self._bounds = grown
        return groups


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)


def in_batches(rows: pa.RecordBatch, most_rows: int = 65_536) -> Sequence[pa.RecordBatch]:
    """Rows that leave, cut into batches of a bounded length."""
    return [rows.slice(start, most_rows) for start in range(0, rows.num_rows, most_rows)]
