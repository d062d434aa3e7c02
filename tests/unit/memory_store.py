"""A store in memory that notes what was done to it."""

from __future__ import annotations

import pyarrow as pa


class MemoryStore:
    """Blobs by name; `log` holds ("put" | "delete", name) in order."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.log: list[tuple[str, str]] = []

    def put(self, name: str, data: pa.Buffer | bytes) -> None:
        self.blobs[name] = bytes(data)
        self.log.append(("put", name))

    def get(self, name: str) -> pa.Buffer:
        return pa.py_buffer(self.blobs[name])

    def list(self, prefix: str) -> list[str]:
        return sorted(name for name in self.blobs if name.startswith(prefix))

    def delete(self, name: str) -> None:
        self.blobs.pop(name, None)
        self.log.append(("delete", name))
