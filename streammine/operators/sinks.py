"""Sink slices: rows in, files out, and word of them to the committer.

A slice keeps the rows of a *group* of epochs, those with equal ``epoch // every``, and writes
them as a file when the group is over, or earlier when they outgrow memory. A file means nothing
until a manifest names it (see `streammine.model.manifest`), so a slice may write as often as it
is restarted.

A group's last epoch is due as soon as the group has rows, so it is closed on every slice even
where it is empty itself, and all files of a group are known to the committer by its end.

After which epoch a file is written in the middle of a group follows from the rows alone
(`content_size`), never from how they were cut into batches. So a restored slice writes after the same
epochs as the one that was lost, and no row stands both in a file that the lost one had told of and in one
that the restored one writes later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from streammine.model.batch_size import batch_nbytes
from streammine.model.contracts import Accumulator, Combiner, EpochClose, Store, Traits
from streammine.model.errors import OutputError
from streammine.model.manifest import checksum
from streammine.operators.collected_rows import CollectedRows
from streammine.operators.content_size import ContentSizes
from streammine.operators.file_formats import SUFFIXES, encode_file, require_writable
from streammine.operators.frozen import (
    Handover,
    check_version,
    decode_piece,
    encode_piece,
    row_pieces,
)

FILE_RECORD = pa.schema(
    [
        pa.field("slice", pa.int32(), nullable=False),
        pa.field("number", pa.int64(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("epochs", pa.list_(pa.int64()), nullable=False),
        pa.field("rows", pa.list_(pa.int64()), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("checksum", pa.string(), nullable=False),
    ]
)
"""What sink slices tell the committer: `number` counts a slice's files; see `SinkOperator`."""

FILE_BYTES = 256 << 20
"""Size of the rows in memory (`content_size`) from which on files are written inside a group."""


@dataclass(frozen=True)
class SinkSettings:
    """What all slices of a sink share.

    `columns` are the columns that are written, rows as they come; one that rows come without is the last, and
    holds how long they took. `every` is the number of epochs
    in a group; `run` the number of this run in the sink's folder.
    """

    name: str
    format: str
    columns: pa.Schema
    run: int
    every: int = 1
    file_bytes: int = FILE_BYTES


class SinkOperator:
    """One slice of a sink. Its output are FILE_RECORD batches for the committer.

    Raises TopologyError if the format can't hold the columns, OutputError if it can't hold a value or the
    store fails.
    """

    state_version = 1

    def __init__(
        self,
        settings: SinkSettings,
        store: Store,
        slice_index: int,
        generation: int,
        delay_of: Callable[[int], float | None] = lambda epoch: None,
    ) -> None:
        """`delay_of` tells of an epoch how many milliseconds ago its first row was read, if it is known."""
        assert settings.every > 0, "a group has at least one epoch"
        require_writable(settings.name, settings.format, settings.columns)
        self.name = settings.name
        self.traits = Traits(commutative=True, mergeable=True)
        self.output = FILE_RECORD
        self.output_order: tuple[str, ...] = ("slice", "number")
        self.keys: tuple[tuple[str, ...], ...] = ((),)
        self.needs: tuple[frozenset[str] | None, ...] = (None,)
        self.partial_schema: pa.Schema | None = None
        self.partial_keys: tuple[str, ...] = ()
        self._settings = settings
        self._store = store
        self._slice = slice_index
        self._generation = generation
        self._delay_of = delay_of
        self._files = 0
        self._batches: list[pa.RecordBatch] = []
        self._epochs: list[int] = []
        self._rows: list[int] = []
        self._content = ContentSizes()
        self._held_bytes = 0
        self._frozen_batches: int | None = None

    def prepare(self) -> None:
        """Nothing to load."""

    def combiner(self) -> Combiner:
        raise AssertionError("a sink has no combiner")

    def accumulator(self, port: int) -> CollectedRows:
        assert port == 0, "a sink has one port"
        return CollectedRows()

    def close(
        self, epoch: EpochClose, accumulators: Sequence[Accumulator]
    ) -> Sequence[pa.RecordBatch]:
        """Take an epoch's rows; write a file if its group is over by it."""
        (rows,) = accumulators
        assert isinstance(rows, CollectedRows)
        if rows.batches:
            self._take(epoch.epoch, rows)
        over = (epoch.epoch + 1) % self._settings.every == 0
        if not over and not self._content.reach(self._settings.file_bytes):
            return ()
        records = self._write()
        return [pa.RecordBatch.from_pylist(records, schema=FILE_RECORD)] if records else ()

    @property
    def due_epoch(self) -> int | None:
        """The last epoch of the group that rows wait in."""
        if not self._epochs:
            return None
        every = self._settings.every
        return (self._epochs[0] // every + 1) * every - 1

    @property
    def state_nbytes(self) -> int:
        return self._held_bytes

    def freeze(self, full: bool) -> Handover:
        """See contracts.KeepsState: rows that are in no file yet, and the number of files."""
        # None: nothing was frozen since the last file, so rows frozen before are in files now
        known = self._frozen_batches
        first = {
            "files": self._files,
            "epochs": list(self._epochs),
            "rows": list(self._rows),
            "goes_on": known is not None and not full,
        }
        added = self._batches[known if first["goes_on"] else 0 :]
        self._frozen_batches = len(self._batches)
        return Handover(not first["goes_on"], _pieces(first, added))

    def restore(self, version: int, full: bool, pieces: Iterator[pa.Buffer]) -> None:
        """See contracts.KeepsState."""
        check_version(self.name, version, self.state_version)
        first, _ = decode_piece(next(pieces))
        if not first["goes_on"]:
            self._forget()
        self._files, self._epochs, self._rows = first["files"], first["epochs"], first["rows"]
        for piece in pieces:
            _, batches = decode_piece(piece)
            self._hold(batches)

    def _hold(self, batches: Sequence[pa.RecordBatch]) -> None:
        for batch in batches:
            self._batches.append(batch)
            self._content.add(batch)
            self._held_bytes += batch_nbytes(batch)

    def _forget(self) -> None:
        """No rows wait any more."""
        self._batches, self._epochs, self._rows = [], [], []
        self._content = ContentSizes()
        self._held_bytes = 0

    def _take(self, epoch: int, rows: CollectedRows) -> None:
        batches = rows.batches
        if batches[0].num_columns < len(self._settings.columns):
            delay = pa.scalar(self._delay_of(epoch), pa.float64())
            name = self._settings.columns.names[-1]
            batches = [b.append_column(name, pa.repeat(delay, b.num_rows)) for b in batches]
        self._hold(batches)
        self._epochs.append(epoch)
        self._rows.append(sum(batch.num_rows for batch in rows.batches))

    def _write(self) -> list[dict[str, object]]:
        """Write what is in memory: one file, or several of about `file_bytes` each."""
        if not self._batches:
            return []
        table = pa.Table.from_batches(self._batches).cast(self._settings.columns)
        pieces = self._content.pieces(self._settings.file_bytes)
        length = -(-table.num_rows // pieces)
        records = []
        for start in range(0, table.num_rows, length):
            epochs, rows = self._counts(start, min(start + length, table.num_rows))
            records.append(self._write_file(table.slice(start, length), epochs, rows))
        self._forget()
        self._frozen_batches = None
        return records

    def _counts(self, start: int, end: int) -> tuple[list[int], list[int]]:
        """Epochs, and rows of each, among the rows [start, end) in memory."""
        epochs, rows, first = [], [], 0
        for epoch, count in zip(self._epochs, self._rows, strict=True):
            inside = min(end, first + count) - max(start, first)
            if inside > 0:
                epochs.append(epoch)
                rows.append(inside)
            first += count
        return epochs, rows

    def _write_file(self, table: pa.Table, epochs: list[int], rows: list[int]) -> dict[str, object]:
        settings = self._settings
        try:
            data = encode_file(settings.format, table)
        except OutputError as error:
            some = (
                f"epoch {epochs[0]}" if len(epochs) == 1 else f"epochs {epochs[0]} to {epochs[-1]}"
            )
            raise OutputError(f"sink {settings.name}: rows of {some}: {error}") from error
        # The epoch comes before the slice, so that a listing is in the order of time.
        name = (
            f"part-r{settings.run:06}-e{epochs[0]:010}-s{self._slice:03}"
            f"-g{self._generation:03}-{self._files:06}.{SUFFIXES[settings.format]}"
        )
        self._store.put(name, data)
        self._files += 1
        return {
            "slice": self._slice,
            "number": self._files - 1,
            "name": name,
            "epochs": epochs,
            "rows": rows,
            "bytes": data.size,
            "checksum": checksum(data),
        }


def _pieces(first: dict[str, object], batches: Sequence[pa.RecordBatch]) -> Iterator[pa.Buffer]:
    yield encode_piece(first)
    yield from row_pieces({}, batches)
