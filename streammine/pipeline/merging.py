"""Second step, first half: the rows of a range in order, out of chunks that overlap.

Chunks come in the order of their first keys. Once the next chunk starts behind a row, nothing can
come before that row any more, so it may leave. What waits is what overlaps, which is little where
files are nearly sorted, and at most a chunk per sorted run otherwise. To pay for sorting only once
per row, rows gather until there are twice as many bytes as were left over the last time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pyarrow as pa

from streammine.pipeline.chunk_index import Chunk, ChunkIndex
from streammine.pipeline.ordering import SortKey
from streammine.pipeline.staging import sort_keys
from streammine.pipeline.storage import Folder

GATHER_BYTES = 32 * 2**20
_OPEN_FILES = 256


class RangeMerge:
    """The staged rows in [lower, upper) of the order; None is no bound.

    `names` are the staged files by number. Raises OSError when they can't be read.
    """

    def __init__(
        self,
        index: ChunkIndex,
        folder: Folder,
        names: tuple[str, ...],
        lower: SortKey | None,
        upper: SortKey | None,
    ) -> None:
        self._index = index
        self._lower = lower
        self._upper = upper

        @lru_cache(_OPEN_FILES)
        def opened(source: int) -> pa.RecordBatchFileReader:
            return pa.ipc.open_file(folder.open_input(names[source]))

        self._opened = opened

    def first_rank(self) -> int:
        """How many rows of all stand before this range."""
        lower = self._lower
        if lower is None:
            return 0
        before = self._index.before(lower)
        rank = int(self._index.rows[before].sum())
        for number in np.flatnonzero(~before & ~self._index.from_on(lower)).tolist():
            rank += sort_keys(self._read(self._index.chunk(number))).lower_bound(lower)
        return rank

    def tables(self) -> Iterator[pa.Table]:
        """The rows, in order, as staged tables of bounded size."""
        mine = ~self._index.before(self._lower) & ~self._index.from_on(self._upper)
        gathered: list[pa.Table] = []
        gathered_bytes = 0
        wanted_bytes = GATHER_BYTES
        for number in np.flatnonzero(mine).tolist():
            chunk = self._index.chunk(number)
            if gathered_bytes >= wanted_bytes:
                done, rest = _split(gathered, chunk.first)
                if done.num_rows:
                    yield done
                gathered = [rest] if rest.num_rows else []
                gathered_bytes = rest.nbytes
                wanted_bytes = max(GATHER_BYTES, 2 * gathered_bytes)
            piece = self._within(chunk)
            if piece.num_rows:
                gathered.append(piece)
                gathered_bytes += piece.nbytes
        if gathered:
            yield _sorted(gathered)

    def _read(self, chunk: Chunk) -> pa.RecordBatch:
        return self._opened(chunk.source).get_batch(chunk.batch)

    def _within(self, chunk: Chunk) -> pa.Table:
        """The chunk's rows that belong to the range."""
        batch = self._read(chunk)
        start, stop = 0, batch.num_rows
        if self._lower is not None and chunk.first < self._lower:
            start = sort_keys(batch).lower_bound(self._lower)
        if self._upper is not None and chunk.last >= self._upper:
            stop = sort_keys(batch).lower_bound(self._upper)
        return pa.Table.from_batches([batch.slice(start, stop - start)])


def _sorted(tables: list[pa.Table]) -> pa.Table:
    table = pa.concat_tables(tables)
    order = sort_keys(table).order()
    return table if order is None else table.take(pa.array(order))


def _split(tables: list[pa.Table], bound: SortKey) -> tuple[pa.Table, pa.Table]:
    """(rows before `bound`, the others), both sorted."""
    table = _sorted(tables)
    cut = sort_keys(table).lower_bound(bound)
    return table.slice(0, cut), table.slice(cut)
