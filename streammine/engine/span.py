"""Rows of several epochs in one batch.

Where epochs are small, what is done once per batch costs more than what is done to its rows. So whatever does
not depend on the epoch, as a stage or the split by target slice, is done to the rows of many epochs at once.
The parts that leave share memory, which is free when none of them is kept any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from streammine.model.contracts import Derived, IntArray

SPAN_ROWS = 1 << 14
SPAN_BYTES = 1 << 20
"""Batches of so much gain nothing by being put together."""


@dataclass(frozen=True, slots=True)
class Span:
    """`batch` holds the rows of `epochs`, which ascend: rows [bounds[i], bounds[i + 1]) are those of
    epochs[i]. Where epochs are times in a loop, they are stamps."""

    batch: pa.RecordBatch
    epochs: tuple[int, ...]
    bounds: tuple[int, ...]

    @classmethod
    def one(cls, epoch: int, batch: pa.RecordBatch) -> Span:
        """The rows of a single epoch."""
        return cls(batch, (epoch,), (0, batch.num_rows))

    @classmethod
    def joined(cls, parts: Sequence[tuple[int, pa.RecordBatch]]) -> Span:
        """The rows of several batches, of which there are some, each of one epoch; epochs ascend.

        Raises pa.ArrowException where they can't be one batch: because of their types, or of the values of
        dictionaries.
        """
        if len(parts) == 1:
            return cls.one(*parts[0])
        bounds = np.cumsum([0, *(batch.num_rows for _, batch in parts)]).tolist()
        batches = [batch for _, batch in parts]
        return cls(pa.concat_batches(batches), tuple(epoch for epoch, _ in parts), tuple(bounds))

    @classmethod
    def by_row(cls, batch: pa.RecordBatch, epochs: IntArray) -> Span:
        """The rows of a batch, of which there are some, by the epoch of each; these ascend."""
        starts = [0, *(np.flatnonzero(epochs[1:] != epochs[:-1]) + 1).tolist()]
        return cls(batch, tuple(epochs[starts].tolist()), (*starts, batch.num_rows))

    @property
    def is_single(self) -> bool:
        return len(self.epochs) == 1

    def parts(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Each epoch's rows, where it has any."""
        if self.is_single:
            yield self.epochs[0], self.batch
            return
        for epoch, (start, stop) in zip(self.epochs, pairwise(self.bounds), strict=True):
            if stop > start:
                yield epoch, self.batch.slice(start, stop - start)

    def numbers(self) -> IntArray:
        """Of each row, which of the epochs it belongs to, counted from 0 (int64)."""
        return np.repeat(np.arange(len(self.epochs)), np.diff(self.bounds))

    def derived(self, batch: pa.RecordBatch, derived: Derived) -> Span:
        """What a stage made of the rows, with its order columns in `batch`."""
        if self.is_single:
            return Span.one(self.epochs[0], batch)
        if derived.parents is None:
            return self.showing(batch)
        bounds = np.searchsorted(derived.parents, self.bounds).tolist()
        return Span(batch, self.epochs, tuple(bounds))

    def showing(self, batch: pa.RecordBatch) -> Span:
        """The same rows with other columns."""
        return Span(batch, self.epochs, self.bounds)


def spans(parts: Sequence[tuple[int, pa.RecordBatch]]) -> list[Span]:
    """The rows of several batches, each of one epoch, together where they can be one batch; epochs ascend."""
    if not parts:
        return []
    try:
        return [Span.joined(parts)]
    except pa.ArrowException:
        return [Span.one(*part) for part in parts]
