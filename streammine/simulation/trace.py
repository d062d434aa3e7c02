"""The trace: every stimulus and effect of every node, as canonical text, and its hash.

The text depends on contents only: no addresses, no order of sets, nothing that `repr` would take from
the process. So equal seeds give equal hashes in every process.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from operator import attrgetter
from typing import Any, NamedTuple

import pyarrow as pa
import xxhash

from streammine.engine.kept import Kept
from streammine.engine.slice import SliceMachine
from streammine.model.ids import SliceId
from streammine.model.job import JobGraph
from streammine.model.readable_rows import readable_columns

TAIL_LENGTH = 40


class _Line(NamedTuple):
    """An event that is written when somebody asks for it."""

    seconds: float
    who: str
    mark: str
    event: object

    def __str__(self) -> str:
        return f"{self.seconds!r} {self.who} {self.mark} {text_of(self.event)}"


class Trace:
    """`note` takes an event into the hash and keeps the last few, for a failure's story.

    `transcript` is handed each line, in a form that a person can read. Not `hashed`: writing everything
    down takes a fifth of a run's time, which many seeds can save.
    """

    def __init__(
        self, transcript: Callable[[str], None] | None = None, hashed: bool = True
    ) -> None:
        self._hash = hashlib.sha256() if hashed else None
        self._transcript = transcript
        self._tail: deque[_Line] = deque(maxlen=TAIL_LENGTH)

    def note(self, seconds: float, who: str, mark: str, event: object) -> None:
        line = _Line(seconds, who, mark, event)
        self._tail.append(line)
        if self._hash is not None:
            self._hash.update(f"{line}\n".encode())
        if self._transcript is not None:
            self._transcript(f"{seconds:9.4f} {who:8} {mark} {text_of(event)}")

    @property
    def tail(self) -> list[str]:
        """The last events."""
        return [str(line) for line in self._tail]

    def digest(self) -> str:
        """Of all lines, as 64 hexadecimal digits; nothing where they were not hashed."""
        return "" if self._hash is None else self._hash.hexdigest()


def text_of(value: Any) -> str:
    """Canonical text of what machines take and give."""
    kind = type(value)
    writer = _WRITERS.get(kind)
    if writer is None:
        writer = _WRITERS[kind] = _writer(kind)
    return writer(value)


_Writer = Callable[[Any], str]


def _writer(kind: type[Any]) -> _Writer:
    """How values of a type are written; found once, for it is asked some thousand times a run."""
    if issubclass(kind, Enum):
        return lambda value: str(value.value)
    if issubclass(kind, tuple | list):
        return lambda value: "(" + ", ".join(map(text_of, value)) + ")"
    if issubclass(kind, set | frozenset):
        return lambda value: "{" + ", ".join(sorted(map(text_of, value))) + "}"
    if issubclass(kind, Mapping):
        return _mapping_text
    if issubclass(kind, Kept):
        return lambda value: f"<{value.nbytes} bytes>"
    if dataclasses.is_dataclass(kind):
        return _record_writer(kind)
    # on disk, or state on its way into a snapshot: what is in it is not the trace's to look at
    return lambda value: f"<{kind.__name__}>"


_PLAIN = frozenset(
    {"int", "float", "bool", "str", "bytes", "int | None", "float | None", "str | None"}
)
"""Annotations of fields whose values `repr` writes canonically."""


def _record_writer(kind: type[Any]) -> _Writer:
    """Plain fields are written in one go: most of what is traced has no others."""
    fields = dataclasses.fields(kind)
    plain = [field.name for field in fields if field.type in _PLAIN]
    others = tuple(field.name for field in fields if field.type not in _PLAIN)
    title = kind.__name__
    of_plain = attrgetter(*plain) if plain else lambda value: ()
    if not others:
        return lambda value: f"{title}{of_plain(value)!r}"

    def write(value: Any) -> str:
        rest = ", ".join([text_of(getattr(value, name)) for name in others])
        return f"{title}{of_plain(value)!r}({rest})"

    return write


def _mapping_text(value: Mapping[Any, Any]) -> str:
    pairs = sorted([(text_of(key), text_of(each)) for key, each in value.items()])
    return "{" + ", ".join([f"{key}: {each}" for key, each in pairs]) + "}"


def _batch_text(batch: pa.RecordBatch) -> str:
    """Rows and a checksum of their values.

    Not of the buffers: what lies in them under nulls, and behind the last row, is whatever was there.
    """
    return f"<{batch.num_rows} rows {xxhash.xxh3_64_hexdigest(repr(readable_columns(batch)).encode())}>"


_WRITERS: dict[type, _Writer] = {
    **dict.fromkeys((type(None), bool, int, float, str, bytes), repr),
    SliceId: str,
    pa.RecordBatch: _batch_text,
    SliceMachine: lambda value: f"<slice {value.slice_id}>",
    JobGraph: lambda value: (
        f"<graph of {len(value.vertices)} vertices, {len(value.channels)} channels>"
    ),
}
