"""Virtual disks: stores and spills in memory, and what can go wrong with writing to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pyarrow as pa

from streammine.model.errors import OutputError

AGREED = "decisions/"
"""Where what replicas agreed on is kept."""

TEMPORARY_SUFFIX = ".part"
"""What half a blob is left under; no reader looks at such names."""

MOST_FAILURES = 2
"""Writes that fail for one slice: after three in a row its job gives up, and rightly so."""

Watch = Callable[[str, str, str, pa.Buffer], None]
"""Told of every blob that is put: (writer, location, name, data as it was meant)."""


class MemoryStore:
    """A `Store` whose blobs live in a dictionary."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    def put(self, name: str, data: pa.Buffer | bytes) -> None:
        self.blobs[name] = bytes(data)

    def get(self, name: str) -> pa.Buffer:
        if name not in self.blobs:
            raise OutputError(f"there is no {name} in this store")
        return pa.py_buffer(self.blobs[name])

    def list(self, prefix: str) -> list[str]:
        return sorted(name for name in self.blobs if name.startswith(prefix))

    def delete(self, name: str) -> None:
        self.blobs.pop(name, None)


class VirtualDisk:
    """Storage that all nodes share: stores by location, made on first use.

    Faults of disks concern the locations in `fallible` alone: a sink's folder that can't be written stops
    a job, and rightly so. `failing`: nodes that can't write there, nor read what replicas agreed on, which
    only waits (snapshots that can't be read count as damaged); `torn`: by node, what the names of writes
    begin with that are to fail halfway, one each; `corrupt`: how many blobs get a wrong bit, whoever writes
    them; `mortal`: how many more writes a node gets done before it dies. `hits` counts by fault.
    """

    def __init__(self, watch: Watch, seed: int) -> None:
        self._stores: dict[str, MemoryStore] = {}
        self._watch = watch
        self._random = Random(f"{seed}/disk")
        self.fallible: set[str] = set()
        self.failing: set[str] = set()
        self.torn: dict[str, list[str]] = {}
        self.corrupt = 0
        self.mortal: dict[str, int] = {}
        self._failures: Counter[str] = Counter()
        self.hits = {"failed": 0, "torn": 0, "corrupt": 0}

    def open_store(self, location: str) -> MemoryStore:
        """As somebody sees it who looks in from outside."""
        return self._stores.setdefault(location, MemoryStore())

    def of_node(self, node: str, location: str) -> NodeStore:
        """As a node sees it."""
        return NodeStore(self, self.open_store(location), node, location)

    def put(self, node: str, location: str, name: str, data: pa.Buffer | bytes) -> None:
        """Write a blob as a node does. Raises OutputError where a fault stops it."""
        store = self.open_store(location)
        whole = bytes(data)
        if node in self.mortal:
            if self.mortal[node] == 0:
                raise OutputError(f"{node} dies while it writes {name}")
            self.mortal[node] -= 1
        if location in self.fallible:
            self._fail(node, store, name, whole)
            if self.corrupt > 0 and whole:
                self.corrupt -= 1
                self.hits["corrupt"] += 1
                store.put(name, self._flipped(whole))
                self._watch(node, location, name, pa.py_buffer(whole))
                return
        store.put(name, whole)
        self._watch(node, location, name, pa.py_buffer(whole))

    def get(self, node: str, location: str, name: str) -> pa.Buffer:
        """Read a blob as a node does. Raises OutputError where there is none or a fault stops it."""
        if location in self.fallible and node in self.failing and name.startswith(AGREED):
            self.hits["failed"] += 1
            raise OutputError(f"{node} can't read {name}: the disk doesn't answer")
        return self.open_store(location).get(name)

    def _fail(self, node: str, store: MemoryStore, name: str, whole: bytes) -> None:
        slice_path = name.rsplit("/", 1)[0]
        if self._failures[slice_path] == MOST_FAILURES:
            return
        if node in self.failing:
            self._failures[slice_path] += 1
            self.hits["failed"] += 1
            raise OutputError(f"{node} can't write {name}: the disk is full")
        torn = self.torn.get(node, [])
        hit = next((prefix for prefix in torn if name.startswith(prefix)), None)
        if hit is not None:
            torn.remove(hit)
            self._failures[slice_path] += 1
            self.hits["torn"] += 1
            store.put(name + TEMPORARY_SUFFIX, whole[: len(whole) // 2])
            raise OutputError(f"{node} wrote half of {name}: the disk is gone")

    def _flipped(self, data: bytes) -> bytes:
        place = self._random.randrange(8 * len(data))
        damaged = bytearray(data)
        damaged[place // 8] ^= 1 << place % 8
        return bytes(damaged)


class NodeStore:
    """A `Store` on the shared disk, with the writer's name on what it writes."""

    def __init__(self, disk: VirtualDisk, store: MemoryStore, node: str, location: str) -> None:
        self._disk = disk
        self._store = store
        self.node = node
        self._location = location

    @property
    def has_damaged(self) -> bool:
        """The disk has given some blob a wrong bit, whichever it was."""
        return self._disk.hits["corrupt"] > 0

    def put(self, name: str, data: pa.Buffer | bytes) -> None:
        self._disk.put(self.node, self._location, name, data)

    def get(self, name: str) -> pa.Buffer:
        return self._disk.get(self.node, self._location, name)

    def list(self, prefix: str) -> list[str]:
        return self._store.list(prefix)

    def delete(self, name: str) -> None:
        self._store.delete(name)


class MemorySpill:
    """A `BatchSpill` that keeps bytes, as a disk would."""

    def __init__(self) -> None:
        self._spilled: dict[int, tuple[pa.Schema, pa.Buffer]] = {}
        self._next = 0

    def put(self, batch: pa.RecordBatch) -> int:
        ticket, self._next = self._next, self._next + 1
        self._spilled[ticket] = (batch.schema, batch.serialize())
        return ticket

    def read(self, ticket: int) -> pa.RecordBatch:
        schema, data = self._spilled[ticket]
        return pa.ipc.read_record_batch(data, schema)

    def free(self, ticket: int) -> None:
        del self._spilled[ticket]

    def close(self) -> None:
        """What is there can be read until it is forgotten."""
