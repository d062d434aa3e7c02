"""The digest of a job's output: what it says, not how it happens to be stored.

Two runs have equal digests if and only if they wrote the same rows into the same epochs of the same
sinks. Files, batches, nodes, slices, formats and, except in an ordered sink, the order of writing
make no difference.

Layout, for whoever wants to compute it again. ``u32``, ``u64`` and ``i64`` are big-endian;
``text`` is its UTF-8 bytes after their number as u32; ``rows`` are encoded as
`streammine.model.canonical` says.

* A sink's digest is the sha256 of ``streammine sink 1`` and a line feed; its name as text; the
number of
  its columns as u32; per column its name and its type's name as text; then, for each epoch that
  has rows, ascending: its number as i64, the number of its rows as u64, and the rows.
* The rows of an epoch are sorted by their encoding, byte by byte. In an ordered sink they stand
as they
  were written.
* The output's digest is the sha256 of ``streammine output 1`` and a line feed; the number of
sinks as
  u32; and per sink, names ascending by their UTF-8 bytes, its name as text and its digest's 32
  bytes.

Volatile columns are left out, of the schema and of the rows. So is what a file format may lose
without losing a row: whether a column may be null, metadata, and the variants of a type (see
`canonical.type_name`). An epoch without rows leaves no trace, as it leaves none in the files
either.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

import pyarrow as pa

from streammine.model.canonical import (
    canonical_order,
    encoded_chunks,
    type_name,
    without_views,
)
from streammine.model.errors import TopologyError

_EPOCH = struct.Struct(">qQ")
_COUNT = struct.Struct(">I")


def _text(value: str) -> bytes:
    data = value.encode()
    return _COUNT.pack(len(data)) + data


def check_volatile(sink: str, schema: pa.Schema, volatile: Sequence[str]) -> None:
    """Raise TopologyError where a volatile column is not among the sink's."""
    unknown = sorted(set(volatile) - set(schema.names))
    if unknown:
        raise TopologyError(
            f"sink {sink}: volatile names {', '.join(unknown)}, but its columns are "
            f"{', '.join(schema.names)}"
        )


class SinkDigest:
    """The digest of one sink, epoch by epoch.

    `schema` holds the visible columns; `volatile` names those that don't count. Raises
    TopologyError if one of them is unknown.
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        *,
        ordered: bool = False,
        volatile: Sequence[str] = (),
    ) -> None:
        check_volatile(name, schema, volatile)
        self.name = name
        self.rows = 0
        self.epochs = 0
        self._columns = [column for column in schema.names if column not in set(volatile)]
        self._ordered = ordered
        self._last: int | None = None
        self._hash = hashlib.sha256(b"streammine sink 1\n" + _text(name))
        self._hash.update(_COUNT.pack(len(self._columns)))
        for column in self._columns:
            self._hash.update(_text(column) + _text(type_name(schema.field(column).type)))

    def add(self, epoch: int, rows: pa.Table) -> None:
        """Take in all rows of an epoch. Epochs come in ascending order, each at most once."""
        assert self._last is None or epoch > self._last, f"epoch {epoch} after {self._last}"
        self._last = epoch
        if rows.num_rows == 0:
            return
        self.epochs += 1
        self.rows += rows.num_rows
        self._hash.update(_EPOCH.pack(epoch, rows.num_rows))
        counted = rows.select(self._columns)
        if not self._ordered:
            counted = without_views(counted).take(pa.array(canonical_order(counted)))
        for data, _ in encoded_chunks(counted):
            self._hash.update(data.data)

    def digest(self) -> bytes:
        """The 32 bytes for what was added up to now."""
        return self._hash.digest()


def output_digest(sinks: Sequence[SinkDigest]) -> str:
    """The digest of the whole output, as 64 hexadecimal digits."""
    assert len({sink.name for sink in sinks}) == len(sinks), "two sinks of one name"
    total = hashlib.sha256(b"streammine output 1\n" + _COUNT.pack(len(sinks)))
    for sink in sorted(sinks, key=lambda one: one.name.encode()):
        total.update(_text(sink.name) + sink.digest())
    return total.hexdigest()
