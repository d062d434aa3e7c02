"""A store in memory that notes what was done to it."""

from __future__ import annotations

import pyarrow as pa

from streammine.model.errors import OutputError


class MemoryStore:
    """Blobs by name; `log` holds ("put" | "delete", name) in order. What is `unreadable` is listed all the
    same."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.log: list[tuple[str, str]] = []
        self.unreadable: set[str] = set()

    def put(self, name: str, data: pa.Buffer | bytes) -> None:
        self.blobs[name] = bytes(data)
        self.log.append(("put", name))

    def get(self, name: str) -> pa.Buffer:
        if name in self.unreadable:
            raise OutputError(f"{name}: a bad sector")
        return pa.py_buffer(self.blobs[name])

    def list(self, prefix: str) -> list[str]:
        return sorted(name for name in self.blobs if name.startswith(prefix))

    def delete(self, name: str) -> None:
        self.blobs.pop(name, None)
        self.log.append(("delete", name))
