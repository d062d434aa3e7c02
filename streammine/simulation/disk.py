"""Virtual disks: stores and spills in memory."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from streammine.model.errors import OutputError


class MemoryStore:
    """A `Store` whose blobs live in a dictionary. `watch` is told of every name that is put."""

    def __init__(self, watch: Callable[[str, pa.Buffer], None] | None = None) -> None:
        self._blobs: dict[str, bytes] = {}
        self._watch = watch

    def put(self, name: str, data: pa.Buffer | bytes) -> None:
        self._blobs[name] = bytes(data)
        if self._watch is not None:
            self._watch(name, pa.py_buffer(self._blobs[name]))

    def get(self, name: str) -> pa.Buffer:
        if name not in self._blobs:
            raise OutputError(f"there is no {name} in this store")
        return pa.py_buffer(self._blobs[name])

    def list(self, prefix: str) -> list[str]:
        return sorted(name for name in self._blobs if name.startswith(prefix))

    def delete(self, name: str) -> None:
        self._blobs.pop(name, None)


class VirtualDisk:
    """Stores by location, made on first use."""

    def __init__(self, watch: Callable[[str, str, pa.Buffer], None]) -> None:
        self._stores: dict[str, MemoryStore] = {}
        self._watch = watch

    def open_store(self, location: str) -> MemoryStore:
        if location not in self._stores:
            self._stores[location] = MemoryStore(
                lambda name, data: self._watch(location, name, data)
            )
        return self._stores[location]


class MemorySpill:
    """A `BatchSpill` that keeps bytes, as a disk would."""

    def __init__(self) -> None:
        self._spilled: dict[int, tuple[pa.Schema, pa.Buffer]] = {}
        self._next = 0

    def put(self, batch: pa.RecordBatch) -> int:
        ticket, self._next = self._next, self._next + 1
        self._spilled[ticket] = (batch.schema, batch.serialize())
        return ticket

    def take(self, ticket: int) -> pa.RecordBatch:
        schema, data = self._spilled.pop(ticket)
        return pa.ipc.read_record_batch(data, schema)

    def close(self) -> None:
        self._spilled.clear()
