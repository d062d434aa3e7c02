"""The trace: every stimulus and effect of every node, as canonical text, and its hash.

The text depends on contents only: no addresses, no order of sets, nothing that `repr` would take from
the process. So equal seeds give equal hashes in every process.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import deque
from collections.abc import Mapping
from enum import Enum
from typing import Any

import pyarrow as pa
import xxhash

from streammine.engine.slice import SliceMachine
from streammine.model.ids import SliceId
from streammine.model.job import JobGraph

TAIL_LENGTH = 40


class Trace:
    """`note` takes an event into the hash and keeps the last few as text, for a failure's story."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.tail: deque[str] = deque(maxlen=TAIL_LENGTH)
        self.lines = 0

    def note(self, seconds: float, who: str, mark: str, event: object) -> None:
        line = f"{seconds!r} {who} {mark} {text_of(event)}"
        self._hash.update(line.encode())
        self._hash.update(b"\n")
        self.lines += 1
        self.tail.append(line)

    def digest(self) -> str:
        """Of all lines, as 64 hexadecimal digits."""
        return self._hash.hexdigest()


def text_of(value: Any) -> str:
    """Canonical text of what machines take and give."""
    match value:
        case SliceId():
            return str(value)
        case Enum():
            return str(value.value)
        case None | bool() | int() | float() | str() | bytes():
            return repr(value)
        case pa.RecordBatch():
            return _batch_text(value)
        case SliceMachine():
            return f"<slice {value.slice_id}>"
        case JobGraph():
            return f"<graph of {len(value.vertices)} vertices, {len(value.channels)} channels>"
        case tuple() | list():
            return "(" + ", ".join(map(text_of, value)) + ")"
        case Mapping():
            pairs = sorted((text_of(key), text_of(each)) for key, each in value.items())
            return "{" + ", ".join(f"{key}: {each}" for key, each in pairs) + "}"
    fields = ", ".join(text_of(getattr(value, name)) for name in _fields(type(value)))
    return f"{type(value).__name__}({fields})"


_FIELDS: dict[type, tuple[str, ...]] = {}


def _fields(kind: type[Any]) -> tuple[str, ...]:
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(field.name for field in dataclasses.fields(kind))
    return _FIELDS[kind]


def _batch_text(batch: pa.RecordBatch) -> str:
    """Rows and a checksum of their values.

    Not of the buffers: what lies in them under nulls, and behind the last row, is whatever was there.
    """
    return f"<{batch.num_rows} rows {xxhash.xxh3_64_hexdigest(repr(batch.to_pydict()).encode())}>"
