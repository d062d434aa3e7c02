"""A spill in memory that knows what it still holds."""

from __future__ import annotations

import pyarrow as pa


class MemorySpill:
    def __init__(self) -> None:
        self.batches: dict[int, pa.RecordBatch] = {}
        self._next = 0

    def put(self, batch: pa.RecordBatch) -> int:
        self._next += 1
        self.batches[self._next] = batch
        return self._next

    def read(self, ticket: int) -> pa.RecordBatch:
        return self.batches[ticket]

    def free(self, ticket: int) -> None:
        del self.batches[ticket]

    def close(self) -> None:
        """What is there can be read until it is forgotten."""
