"""What most operators keep of an open epoch: its rows, as they come."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa


class CollectedRows:
    """The rows of one port that an open epoch has collected (an Accumulator)."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []

    @property
    def nbytes(self) -> int:
        return sum(int(batch.nbytes) for batch in self.batches)

    def add(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self.batches.append(batch)

    def merge(self, other: CollectedRows) -> None:
        self.batches += other.batches


def in_one(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of all the batches, of which there are some; a single one is not copied."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
