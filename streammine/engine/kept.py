"""Batches that are kept until they are needed, in memory or on disk.

A machine decides which batches go to disk, by their sizes; the shell writes them on a thread of its own
while everything goes on. Who needs a batch asks for it and never learns where it was.
"""

from __future__ import annotations

import pyarrow as pa

from streammine.model.contracts import BatchSpill


class Spilled:
    """A batch on disk; its place there is free again when nobody refers to it any more."""

    __slots__ = ("_spill", "_ticket")

    def __init__(self, spill: BatchSpill, batch: pa.RecordBatch) -> None:
        self._spill = spill
        self._ticket = spill.put(batch)

    def read(self) -> pa.RecordBatch:
        return self._spill.read(self._ticket)

    def __del__(self) -> None:
        if hasattr(self, "_ticket"):
            self._spill.free(self._ticket)


class Kept:
    """A body of `nbytes` bytes: a record batch, or where it lies on disk, or None."""

    __slots__ = ("body", "nbytes")

    def __init__(self, body: object, nbytes: int) -> None:
        self.body = body
        self.nbytes = nbytes

    def to_disk(self, spill: BatchSpill) -> None:
        """Called by the shell, on any thread: the body is exchanged in one step."""
        if isinstance(self.body, pa.RecordBatch):
            self.body = Spilled(spill, self.body)


def loaded(body: object) -> pa.RecordBatch | None:
    """The batch behind a body, wherever it is; None for a frame without one."""
    if isinstance(body, Kept):
        body = body.body
    if isinstance(body, Spilled):
        return body.read()
    assert body is None or isinstance(body, pa.RecordBatch), f"{type(body)} is no body"
    return body
