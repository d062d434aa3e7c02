"""A table that a stream of rows makes: the newest row of each key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.model.contracts import IntArray
from streammine.operators.frozen import Handover, encode_piece, row_pieces
from streammine.operators.key_numbers import KeyNumbers
from streammine.operators.row_chunks import RowChunks

_FEW_ROWS = 65_536


class KeyedTable:
    """Rows by key; what replaces or removes a row leaves it behind until it is cleared away.

    `numbers` are those of the keys that are or were there.
    """

    def __init__(self, schema: pa.Schema, keys: Sequence[str]) -> None:
        self._schema = schema
        self._keys = list(keys)
        self._types = [schema.field(key).type for key in keys]
        self._frozen_until: int | None = None
        self._removed: list[tuple[IntArray, pa.RecordBatch]] = []
        self._clear()

    def _clear(self) -> None:
        self.numbers = KeyNumbers(self._types)
        self._rows = RowChunks(self._schema)
        self._row_keys: IntArray = np.empty(0, np.int64)
        self._end = 0
        self._places: IntArray = np.empty(0, np.int64)
        self._count = 0

    def __len__(self) -> int:
        """How many keys have a row."""
        return self._count

    @property
    def rows(self) -> pa.Table:
        """The rows that `places` names; it stays as it is when the table changes."""
        return self._rows.table

    @property
    def nbytes(self) -> int:
        arrays = self._row_keys.nbytes + self._places.nbytes
        return self._rows.nbytes + self.numbers.nbytes + int(arrays)

    def places(self, keys: IntArray) -> IntArray:
        """For key numbers (int64[n], -1 for an unknown key), where their rows are, or -1."""
        found = np.full(len(keys), -1, np.int64)
        known = np.flatnonzero((keys >= 0) & (keys < len(self._places)))
        found[known] = self._places[keys[known]]
        return found

    def change(self, batch: pa.RecordBatch, keys: IntArray, removes: npt.NDArray[np.bool_]) -> None:
        """Put rows of different keys in the places of those before; `removes` (bool[n]): take the key out
        instead. `keys`: their numbers."""
        self._make_places()
        before = self._places[keys] >= 0
        added, gone = np.flatnonzero(~removes), np.flatnonzero(removes)
        self._count += int(np.count_nonzero(~before[added])) - int(np.count_nonzero(before[gone]))
        if len(gone):
            self._places[keys[gone]] = -1
            if self._frozen_until is not None:
                named = batch.select(self._keys).take(pa.array(gone))
                self._removed.append((keys[gone], named))
        if len(added):
            self._places[keys[added]] = np.arange(self._end, self._end + len(added))
            self._rows.add(batch if not len(gone) else batch.take(pa.array(added)))
            self._note_keys(keys[added])
        if max(self._end, self.numbers.size) > 2 * self._count + _FEW_ROWS:
            self._clear_away()

    @property
    def freezes_fully(self) -> bool:
        """The next freeze gives everything, whatever is asked for."""
        return self._frozen_until is None

    def freeze(
        self, full: bool, header: dict[str, object], others: Sequence[pa.RecordBatch]
    ) -> Handover:
        """See contracts.KeepsState: rows that are new, and keys that are gone, since the last freeze.
        `header` and `others`, rows of any schema, go first."""
        until = self._frozen_until
        full = full or until is None
        start = 0 if full or until is None else until
        removed = [] if full else [self._still_gone(*each) for each in self._removed]
        rows, live = self._rows.table.slice(start), self._live(start)
        self._frozen_until, self._removed = self._end, []
        return Handover(full, _pieces(header, others, removed, rows, live))

    def forget(self) -> None:
        """Be empty."""
        self._clear()
        self._frozen_until, self._removed = None, []

    def restore(self, part: str, batch: pa.RecordBatch) -> None:
        """Take in rows of a piece; `part` is its header's."""
        keys = self.numbers.of([batch.column(key) for key in self._keys], batch.num_rows)
        if part == "rows":
            self.change(batch, keys, np.zeros(batch.num_rows, np.bool_))
            return
        assert part == "removed", part
        self.change(batch, keys, np.ones(batch.num_rows, np.bool_))

    def _make_places(self) -> None:
        missing = self.numbers.size - len(self._places)
        if missing > 0:
            room = max(missing, len(self._places))
            self._places = np.concatenate([self._places, np.full(room, -1, np.int64)])

    def _note_keys(self, keys: IntArray) -> None:
        end = self._end + len(keys)
        if end > len(self._row_keys):
            larger = np.empty(max(end, 2 * len(self._row_keys)), np.int64)
            larger[: self._end] = self._row_keys[: self._end]
            self._row_keys = larger
        self._row_keys[self._end : end] = keys
        self._end = end

    def _live(self, start: int) -> npt.NDArray[np.bool_]:
        """Which rows from number `start` on are still their keys' rows (bool[n])."""
        live: npt.NDArray[np.bool_] = self._places[self._row_keys[start : self._end]] == np.arange(
            start, self._end
        )
        return live

    def _still_gone(self, keys: IntArray, named: pa.RecordBatch) -> pa.RecordBatch:
        return named.filter(pa.array(self._places[keys] < 0))

    def _clear_away(self) -> None:
        """Number the rows and keys that are left anew; the next freeze is a full one."""
        rows = self._rows.table.filter(pa.array(self._live(0))).to_batches()
        self.forget()
        for batch in rows:
            self.restore("rows", batch)


def _pieces(
    header: dict[str, object],
    others: Sequence[pa.RecordBatch],
    removed: Sequence[pa.RecordBatch],
    rows: pa.Table,
    live: npt.NDArray[np.bool_],
) -> Iterator[pa.Buffer]:
    yield encode_piece(header)
    yield from row_pieces({"part": "others"}, others)
    yield from row_pieces({"part": "removed"}, removed)
    kept = rows if live.all() else rows.filter(pa.array(live))
    yield from row_pieces({"part": "rows"}, kept.to_batches())
