"""The rows of the last while, in the order in which they came, as columns of numbers.

Rows go in the order in which they came, too, as all stay for as long. So they lie in stretches, one for each
epoch, and those that leave are always the first ones. Keys are held as the ids of an index, which is made
anew when most of its keys are of rows that have left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from streammine.model.contracts import IntArray
from streammine.operators.frozen import Handover, decode_piece, encode_piece, row_pieces
from streammine.operators.kernels.group_index import GroupIndex

_SIZE_ALWAYS_KEPT = 16_384
_UNUSED_FACTOR = 4
_STRETCHES_AT_ONCE = 64
"""In a snapshot: there are many short ones where epochs are short."""

Columns = list[IntArray]


class KeyIds:
    """Ids of key rows, with an index that can be made anew for those still in use."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self.types = list(types)
        self._index = GroupIndex(self.types) if self.types else None

    @property
    def size(self) -> int:
        """Ids are less. Without key columns all rows have id 0."""
        return 1 if self._index is None else self._index.size

    @property
    def nbytes(self) -> int:
        return 0 if self._index is None else self._index.nbytes

    def ids(self, columns: Sequence[pa.Array], rows: int) -> IntArray:
        if self._index is None or not rows:
            return np.zeros(rows, np.int64)
        return self._index.ids(list(columns))

    def keys(self, ids: IntArray) -> list[pa.Array]:
        """The key columns of these ids."""
        return [] if self._index is None else self._index.keys_of(ids)

    def keys_as_of_now(self) -> Callable[[], list[pa.Array]]:
        """Makes the key columns of all ids; may run on another thread."""
        return list if self._index is None else self._index.keys_as_of_now()

    def outgrown(self, used: int) -> bool:
        """Whether most keys are of no use any more where `used` may be."""
        return self.size > max(_SIZE_ALWAYS_KEPT, _UNUSED_FACTOR * used)

    def keep(self, ids: IntArray) -> None:
        """Forget all others; these become 0, 1, …"""
        if self._index is None:
            return
        columns = self.keys(ids)
        self._index = GroupIndex(self.types)
        self._index.ids(columns)


class RowsInTime:
    """Rows with keys, an event time and further numbers, first in, first out.

    Columns of a row: the id of each of its keys (several columns may be one key), event time in microseconds,
    then as many numbers as it is made with. Rows are numbered from 0 on by when they came.
    """

    def __init__(self, keys: Sequence[KeyIds], numbers: int) -> None:
        self.keys = list(keys)
        self.begin = 0
        """Number of the first row that is still here."""
        self.end = 0
        """Number of the next row."""
        self._time = len(keys)
        self._width = len(keys) + 1 + numbers
        self._stretches: deque[Columns] = deque()
        self._frozen_end: int | None = None

    def __len__(self) -> int:
        return self.end - self.begin

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in self.keys) + 8 * self._width * len(self)

    @property
    def earliest(self) -> int | None:
        """Event time of the first row."""
        return int(self._stretches[0][self._time][0]) if self._stretches else None

    def append(self, columns: Columns) -> None:
        """Rows in order of time, none before one that is here already."""
        rows = columns[0].size
        if rows:
            assert len(columns) == self._width, "a row has as many columns as all"
            # a view would keep all of the batch that it is of
            self._stretches.append(
                [each if each.flags.owndata else each.copy() for each in columns]
            )
            self.end += rows

    def drop_before(self, time: int) -> Columns:
        """Take out the rows with a smaller time."""
        gone: list[Columns] = []
        while self._stretches and self._stretches[0][self._time][0] < time:
            gone.append(self._cut(int(np.searchsorted(self._stretches[0][self._time], time))))
        return _joined(gone, self._width)

    def _cut(self, count: int) -> Columns:
        """Take out so many rows of the first stretch, or all that it has."""
        first = self._stretches.popleft()
        if count < first[0].size:
            self._stretches.appendleft([column[count:] for column in first])
            first = [column[:count] for column in first]
        self.begin += first[0].size
        return first

    def all(self) -> Columns:
        """The rows that are here."""
        return _joined(self._stretches, self._width)

    def tidy(self) -> list[IntArray | None]:
        """Forget keys that no row has, where there are many: of each of the keys the ids that are kept,
        which become 0, 1, …; None where all stay as they are."""
        return [
            self._tidy(place) if keys.outgrown(len(self)) else None
            for place, keys in enumerate(self.keys)
        ]

    def _tidy(self, place: int) -> IntArray:
        kept = np.unique(self.all()[place]).astype(np.int64)
        number = np.full(self.keys[place].size, -1, np.int64)
        number[kept] = np.arange(kept.size)
        self.keys[place].keep(kept)
        for stretch in self._stretches:
            stretch[place] = number[stretch[place]]
        return kept

    # --- snapshots ------------------------------------------------------------------------------

    def freeze(self, full: bool) -> Handover:
        """What came since the last freeze and is still here, or all of it."""
        full = full or self._frozen_end is None
        known = self.begin if full else max(self.begin, self._frozen_end or 0)
        skipped = known - self.begin
        added = []
        for columns in self._stretches:
            rows = columns[0].size
            if skipped < rows:
                added.append([column[skipped:] for column in columns])
            skipped = max(0, skipped - rows)
        first = {"begin": self.begin, "known": known, "end": self.end}
        self._frozen_end = self.end
        return Handover(full, _pieces(first, added, [each.keys_as_of_now() for each in self.keys]))

    def restore(self, full: bool, pieces: Iterator[pa.Buffer]) -> None:
        """Take in what a freeze gave."""
        first, _ = decode_piece(next(pieces))
        if full:
            self._stretches.clear()
        while self._stretches and self.begin < first["begin"]:
            self._cut(first["begin"] - self.begin)
        for piece in pieces:
            _, batches = decode_piece(piece)
            for batch in batches:
                self.append(self._restored(batch))
        self.begin, self.end = first["begin"], first["end"]
        held = sum(columns[0].size for columns in self._stretches)
        assert held == len(self), f"a chain of snapshots holds {held} rows of {len(self)}"
        self._frozen_end = None

    def _restored(self, batch: pa.RecordBatch) -> Columns:
        columns: Columns = []
        place = 0
        for keys in self.keys:
            width = len(keys.types)
            columns.append(keys.ids(batch.columns[place : place + width], batch.num_rows))
            place += width
        return [*columns, *(column.to_numpy() for column in batch.columns[place:])]


def _joined(stretches: Sequence[Columns], width: int) -> Columns:
    if len(stretches) == 1:
        return list(stretches[0])
    empty: IntArray = np.empty(0, np.int64)
    return [
        np.concatenate([each[number] for each in stretches]) if stretches else empty
        for number in range(width)
    ]


def _pieces(
    first: dict[str, int],
    added: Sequence[Columns],
    making_keys: Sequence[Callable[[], list[pa.Array]]],
) -> Iterator[pa.Buffer]:
    yield encode_piece(first)
    if not added:
        return
    keys = [make() for make in making_keys]

    def batches() -> Iterator[pa.RecordBatch]:
        for first in range(0, len(added), _STRETCHES_AT_ONCE):
            stretch = _joined(added[first : first + _STRETCHES_AT_ONCE], len(added[0]))
            columns = [
                column.take(pa.array(ids))
                for ids, of_key in zip(stretch, keys, strict=False)
                for column in of_key
            ]
            columns += [pa.array(each) for each in stretch[len(keys) :]]
            yield pa.record_batch(columns, names=[str(place) for place in range(len(columns))])

    yield from row_pieces({}, batches())
