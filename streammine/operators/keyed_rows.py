"""One row for each key, kept from epoch to epoch: in columns, and frozen by what changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streammine.model.contracts import IntArray
from streammine.operators.frozen import Header, row_pieces
from streammine.operators.kernels.group_index import GroupIndex
from streammine.operators.row_chunks import RowChunks

_FEW_ROWS = 16_384
_NONE = -1

PUT, DROPPED = "put", "dropped"


class KeyedRows:
    """Rows of one schema, at most one of each key; without keys, at most one.

    Rows that were put are never changed, so what is frozen stays as it was. A key keeps its number
    (`numbers`) until `expire` is called.
    """

    def __init__(self, schema: pa.Schema, keys: Sequence[str]) -> None:
        self.schema = schema
        self._keys = list(keys)
        self._kinds = [schema.field(key).type for key in keys]
        self._log: list[tuple[str, pa.RecordBatch]] | None = None
        self._log_rows = 0
        self._rows_after_expiry = 0
        self._clear()

    def _clear(self) -> None:
        self._index = GroupIndex(self._kinds) if self._kinds else None
        self._rows = RowChunks(self.schema)
        self._put_rows = 0
        self._places: IntArray = np.full(1, _NONE, np.int64)
        self._live = 0

    def __len__(self) -> int:
        return self._live

    @property
    def nbytes(self) -> int:
        held = self._rows.nbytes + self._places.nbytes
        return held + (0 if self._index is None else self._index.nbytes)

    def numbers(self, batch: pa.RecordBatch) -> IntArray:
        """The number of each row's key (int64), new keys included."""
        if self._index is None:
            return np.zeros(batch.num_rows, np.int64)
        found: IntArray = self._index.ids([batch.column(key) for key in self._keys])
        if self._index.size > len(self._places):
            grown = np.full(2 * self._index.size, _NONE, np.int64)
            grown[: len(self._places)] = self._places
            self._places = grown
        return found

    def has(self, numbers: IntArray) -> npt.NDArray[np.bool_]:
        """Whether there is a row of each key."""
        found: npt.NDArray[np.bool_] = self._places[numbers] != _NONE
        return found

    def all(self) -> IntArray:
        """The numbers of all keys that have a row, ascending."""
        return np.flatnonzero(self._places != _NONE).astype(np.int64)

    def rows(self, numbers: IntArray, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """The rows of these keys, each of which has one."""
        table = self._rows.table
        if columns is not None:
            table = table.select(list(columns))
        return _one_batch(table.take(pa.array(self._places[numbers])))

    def put(self, numbers: IntArray, rows: pa.RecordBatch) -> None:
        """Give keys, each named once, these rows."""
        if not rows.num_rows:
            return
        self._live += int((self._places[numbers] == _NONE).sum())
        self._places[numbers] = np.arange(rows.num_rows) + self._put_rows
        self._rows.add(rows)
        self._put_rows += rows.num_rows
        self._note(PUT, rows)

    def drop(self, numbers: IntArray) -> None:
        """These keys, each named once and with a row, have none any more."""
        if not len(numbers):
            return
        # rows without columns would be none
        self._note(DROPPED, self.rows(numbers, self._keys or None))
        self._live -= len(numbers)
        self._places[numbers] = _NONE

    def expire(self, column: str, before: int) -> None:
        """Forget the rows with less than that in a column, which nobody asks for any more, and what was
        replaced.

        It is done when the rows have become twice as many as they were afterwards the last time. Keys get
        other numbers then.
        """
        known = max(self._put_rows, 1 if self._index is None else self._index.size)
        if known <= max(_FEW_ROWS, 2 * self._rows_after_expiry):
            return
        rows = self.rows(self.all())
        rows = rows.filter(pc.greater_equal(rows.column(column), before))
        self._renew(rows)

    def clean(self) -> None:
        """Forget what was replaced and keys without a row, where they are most of all. Keys get other numbers
        then."""
        known = max(self._put_rows, 1 if self._index is None else self._index.size)
        if known > max(_FEW_ROWS, 2 * self._live):
            self._renew(self.rows(self.all()))

    def freeze(self, full: bool) -> tuple[bool, Iterator[pa.Buffer]]:
        """Whether all of it is given, and the pieces: what was put and dropped since, in order."""
        full = full or self._log is None
        changed = [] if self._log is None else self._log
        self._log, self._log_rows = [], 0
        if not full:
            return False, _pieces(changed)
        table, places = self._rows.table, self._places[self._places != _NONE]
        # made when they are asked for, on another thread
        return True, _pieces((PUT, _one_batch(table.take(pa.array(places)))) for _ in range(1))

    def restore_anew(self) -> None:
        """A full snapshot begins."""
        self._clear()
        self._log = None

    def restore(self, header: Header, batches: Sequence[pa.RecordBatch]) -> None:
        """Take in a piece."""
        for batch in batches:
            if header["keyed"] == PUT:
                self.put(self.numbers(batch), batch)
            elif self._index is None:
                self.drop(self.all())
            else:
                self.drop(self.numbers(batch))
        self.clean()

    def _note(self, what: str, rows: pa.RecordBatch) -> None:
        """For the next snapshot, unless it would be longer than all there is."""
        if self._log is None:
            return
        self._log.append((what, rows))
        self._log_rows += rows.num_rows
        if self._log_rows > max(_FEW_ROWS, 2 * self._live):
            self._log = None

    def _renew(self, rows: pa.RecordBatch) -> None:
        log, log_rows = self._log, self._log_rows
        self._clear()
        self._log = None
        self.put(self.numbers(rows), rows)
        self._log, self._log_rows = log, log_rows
        self._rows_after_expiry = self._live


def _pieces(
    changed: Iterator[tuple[str, pa.RecordBatch]] | list[tuple[str, pa.RecordBatch]],
) -> Iterator[pa.Buffer]:
    for what, rows in changed:
        yield from row_pieces({"keyed": what}, [rows])


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    if not batches:
        return pa.RecordBatch.from_pylist([], schema=table.schema)
    (batch,) = batches
    return batch
