"""The epoch bag: what channels delivered for an epoch that waits to be complete (DESIGN §2).

Batches stay in memory up to a limit shared by all bags of a slice; the rest waits on disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from streammine.engine.kept import Spilled
from streammine.model.batch_size import batch_nbytes
from streammine.model.contracts import BatchSpill


class BagMemory:
    """The memory that all bags of one slice share, in bytes, and the disk behind it."""

    def __init__(self, limit: int, spill: BatchSpill) -> None:
        self.limit = limit
        self.spill = spill
        self.used = 0
        self.spilled = 0


@dataclass
class Bag:
    """The batches of one (channel, epoch), in the order of arrival, which is the sender's order."""

    memory: BagMemory
    entries: list[tuple[pa.RecordBatch | Spilled, int]] = field(default_factory=list)
    """With their bytes in memory."""
    nbytes: int = 0
    """Of all batches, on disk, too."""

    def add(self, batch: pa.RecordBatch) -> None:
        nbytes = batch_nbytes(batch)
        self.nbytes += nbytes
        if self.memory.used + nbytes > self.memory.limit:
            self.entries.append((Spilled(self.memory.spill, batch), 0))
            self.memory.spilled += nbytes
        else:
            self.entries.append((batch, nbytes))
            self.memory.used += nbytes

    def take(self) -> Iterator[pa.RecordBatch]:
        """The batches, each once; the bag is empty afterwards."""
        entries, self.entries, self.nbytes = self.entries, [], 0
        for entry, nbytes in entries:
            self.memory.used -= nbytes
            yield entry.read() if isinstance(entry, Spilled) else entry

    def drop(self) -> None:
        """Nobody wants the batches any more; those on disk are not read."""
        self.memory.used -= sum(nbytes for _, nbytes in self.entries)
        self.entries, self.nbytes = [], 0
