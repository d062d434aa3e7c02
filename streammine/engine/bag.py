"""The epoch bag: what channels delivered for an epoch that waits to be complete (DESIGN §2).

Batches stay in memory up to a limit shared by all bags of a slice; the rest waits on disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from streammine.engine.kept import Spilled
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
    entries: list[pa.RecordBatch | Spilled] = field(default_factory=list)

    def add(self, batch: pa.RecordBatch) -> None:
        size = batch.nbytes
        if self.memory.used + size > self.memory.limit:
            self.entries.append(Spilled(self.memory.spill, batch))
            self.memory.spilled += size
        else:
            self.entries.append(batch)
            self.memory.used += size

    def take(self) -> Iterator[pa.RecordBatch]:
        """The batches, each once; the bag is empty afterwards."""
        entries, self.entries = self.entries, []
        for entry in entries:
            if isinstance(entry, Spilled):
                yield entry.read()
            else:
                self.memory.used -= entry.nbytes
                yield entry

    def drop(self) -> None:
        """Nobody wants the batches any more; those on disk are not read."""
        self.memory.used -= sum(
            entry.nbytes for entry in self.entries if not isinstance(entry, Spilled)
        )
        self.entries = []
