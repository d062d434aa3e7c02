"""Parts that keep values themselves: all of a column with how often each occurs, or one by another.

==============  ================================================================================
part            its partial
==============  ================================================================================
`ValuesPart`    large_list<struct<value, count: int64>>: each different value of a group once, in
                canonical order
`PairPart`      struct<by, value>: the least or greatest pair of a group, null where it has none
==============  ================================================================================

Both add up without loss: multisets by their counts, extremes because they are one of the rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streammine.model.canonical import canonical_order
from streammine.model.contracts import IntArray
from streammine.operators.kernels.columns import fixed_values
from streammine.operators.kernels.extremes import Direction
from streammine.operators.kernels.group_index import GroupIndex
from streammine.operators.kernels.ordered_words import (
    has_ordered_words,
    ordered_array,
    ordered_words,
    present_rows,
)
from streammine.operators.kernels.pair_extremes import OrderedPairs, WordPairs
from streammine.operators.kernels.word_bag import Entries, WordBag, sort_groups

_TEXTS_ALWAYS_KEPT = 16_384
_UNUSED_FACTOR = 4

ValuesOf = Callable[[IntArray], pa.Array]
"""From words (int64[n]) to the values that they stand for."""


class ValuesPart:
    """All values of a column that are not null, as a multiset per group.

    Numbers, booleans, dates and times are kept as ordered words of 8 bytes; texts, binary and
    decimals as numbers of a table of this part's own.
    """

    def __init__(self, value_type: pa.DataType) -> None:
        self._type = value_type
        self.partial_type = pa.large_list(
            pa.struct([pa.field("value", value_type), pa.field("count", pa.int64())])
        )
        self._bag = WordBag()
        self._table = None if has_ordered_words(value_type) else GroupIndex([value_type])
        self._table_limit = _TEXTS_ALWAYS_KEPT

    @property
    def nbytes(self) -> int:
        return self._bag.nbytes + (0 if self._table is None else self._table.nbytes)

    def resize(self, size: int) -> None:
        self._bag.resize(size)

    def add(self, ids: IntArray, column: pa.Array, size: int) -> None:
        present = present_rows(column)
        if present is not None:
            ids, column = ids[present], column.filter(pa.array(present))
        self._bag.add(ids, self._words(column), size)

    def add_partial(self, ids: IntArray, column: pa.Array, size: int) -> None:
        lengths = pc.list_value_length(column).to_numpy()
        entries = column.flatten()
        counts = fixed_values(entries.field(1))
        self._bag.add(np.repeat(ids, lengths), self._words(entries.field(0)), size, counts)

    def subtract(self, ids: IntArray, column: pa.Array) -> None:
        """See parts.Invertible."""
        lengths = pc.list_value_length(column).to_numpy()
        entries = column.flatten()
        words = self._words(entries.field(0))
        self._bag.subtract(np.repeat(ids, lengths), words, fixed_values(entries.field(1)))
        self._tidy()

    def _tidy(self) -> None:
        """Give up a table most of whose texts nobody has any more."""
        if self._table is None or self._table.size <= self._table_limit:
            return
        offsets, words, counts = self._bag.entries()
        used, places = np.unique(words, return_inverse=True)
        values = self._table.keys()[0].take(pa.array(used))
        self._table = GroupIndex([self._type])
        here = self._table.ids([values])
        groups = np.repeat(np.arange(self._bag.size, dtype=np.int64), np.diff(offsets))
        bag = WordBag()
        bag.add(groups, here[places], self._bag.size, counts)
        self._bag = bag
        self._table_limit = max(_TEXTS_ALWAYS_KEPT, _UNUSED_FACTOR * used.size)

    def merge(self, other: ValuesPart, ids: IntArray) -> None:
        if self._table is None or other._table is None:
            self._bag.merge(other._bag, ids)
            return
        # the other's numbers of texts are not those here
        offsets, words, counts = other._bag.entries()
        here = self._words(other._table.keys()[0])
        self._bag.add(np.repeat(ids, np.diff(offsets)), here[words], self._bag.size, counts)

    def encode(self) -> pa.Array:
        entries, values_of = self.ordered()
        pairs = pa.StructArray.from_arrays(
            [values_of(entries.words), pa.array(entries.counts)],
            fields=list(self.partial_type.value_type),
        )
        return pa.LargeListArray.from_arrays(
            pa.array(entries.offsets), pairs, type=self.partial_type
        )

    def entries(self) -> Entries:
        """What there is; words of numbers, dates and times in order, those of other types in none."""
        return self._bag.entries()

    def ordered(self) -> tuple[Entries, ValuesOf]:
        """What there is, words in the canonical order of their values, and what these are."""
        entries = self._bag.entries()
        if self._table is None:
            return entries, lambda words: ordered_array(words, self._type)
        (values,) = self._table.keys()
        order = canonical_order(pa.record_batch([values], ["value"]))
        ranks = np.empty(order.size, dtype=np.int64)
        ranks[order] = np.arange(order.size)
        words, counts = ranks[entries.words], entries.counts.copy()
        sort_groups(entries.offsets, words, counts)
        in_order = values.take(pa.array(order))
        return Entries(entries.offsets, words, counts), lambda some: in_order.take(pa.array(some))

    def _words(self, values: pa.Array) -> IntArray:
        """A word for each value, none being null."""
        if self._table is None:
            return ordered_words(values)
        return self._table.ids([values])


class PairPart:
    """The value of the row that has the least ("min") or greatest ("max") pair (by, value).

    It is fed structs of `by` and `value`; one that has a null does not count.
    """

    def __init__(self, direction: Direction, by_type: pa.DataType, value_type: pa.DataType) -> None:
        self.partial_type = pa.struct([pa.field("by", by_type), pa.field("value", value_type)])
        fast = has_ordered_words(by_type) and has_ordered_words(value_type)
        self._pairs: WordPairs | OrderedPairs = (WordPairs if fast else OrderedPairs)(
            direction, by_type, value_type
        )

    @property
    def nbytes(self) -> int:
        return self._pairs.nbytes

    def resize(self, size: int) -> None:
        self._pairs.resize(size)

    def add(self, ids: IntArray, column: pa.Array, size: int) -> None:
        by, value = column.flatten()
        self._pairs.add(ids, by, value, size)

    def add_partial(self, ids: IntArray, column: pa.Array, size: int) -> None:
        self.add(ids, column, size)

    def merge(self, other: PairPart, ids: IntArray) -> None:
        by, value = other._pairs.finish()
        self._pairs.add(ids, by, value, self._pairs.size)

    def encode(self) -> pa.Array:
        by, value = self._pairs.finish()
        return pa.StructArray.from_arrays([by, value], fields=list(self.partial_type))

    def values(self) -> pa.Array:
        """The value of each group, null where it has none."""
        return self._pairs.finish()[1]
