"""Rows that are added at the end, dropped from the beginning, and taken by their numbers."""

from __future__ import annotations

import pyarrow as pa

_CHUNK_ROWS = 262_144


class RowChunks:
    """Rows in few chunks. They are numbered from 0, which moves on as the first ones are dropped.

    Small chunks are put together, so that no row is copied more often than a chunk's rows can be halved,
    and taking rows by number need not look among many.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._chunks: list[pa.RecordBatch] = []
        self._sizes: list[int] = []
        """Bytes of what each chunk was put together from; asking anew is dear."""
        self._table: pa.Table | None = None

    @property
    def table(self) -> pa.Table:
        """All rows, by their numbers; it stays as it is when rows are added or dropped."""
        if self._table is None:
            self._table = pa.Table.from_batches(self._chunks, self.schema)
        return self._table

    @property
    def nbytes(self) -> int:
        return sum(self._sizes)

    def add(self, batch: pa.RecordBatch) -> None:
        """Rows at the end."""
        if not batch.num_rows:
            return
        chunks, sizes = self._chunks, self._sizes
        chunks.append(batch)
        sizes.append(int(batch.nbytes))
        while len(chunks) > 1 and chunks[-2].num_rows <= chunks[-1].num_rows * 2:
            if chunks[-2].num_rows + chunks[-1].num_rows > _CHUNK_ROWS:
                break
            chunks[-2:] = [pa.concat_batches(chunks[-2:])]
            sizes[-2:] = [sum(sizes[-2:])]
        self._table = None

    def drop_first(self, rows: int) -> None:
        """Drop so many rows from the beginning."""
        whole = 0
        while whole < len(self._chunks) and self._chunks[whole].num_rows <= rows:
            rows -= self._chunks[whole].num_rows
            whole += 1
        del self._chunks[:whole], self._sizes[:whole]
        if rows and self._chunks:
            self._chunks[0] = self._chunks[0].slice(rows)
            self._sizes[0] = int(self._chunks[0].nbytes)
        self._table = None

    def since(self, row: int) -> list[pa.RecordBatch]:
        """The rows from number `row` on."""
        return list(self.table.slice(row).to_batches())
