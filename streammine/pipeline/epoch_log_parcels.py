"""An epoch log, to be replayed: its partitions and its dead letters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pyarrow as pa
import xxhash

from streammine.model.epoch_log import (
    DEAD_LETTERS_NAME,
    MANIFEST_NAME,
    Manifest,
    Segment,
    SegmentReader,
)
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import InputError
from streammine.model.locations import below
from streammine.model.replay import LETTERS_PARTITION, PARCEL_LETTERS, DeadLetter, Mark
from streammine.pipeline.parcels import Content, PartNumbers
from streammine.pipeline.storage import Folder

_READ_BYTES = 1 << 20


@dataclass
class EpochLog:
    """A ReplayableLog. Raises InputError when it is damaged or there is none."""

    location: str
    manifest: Manifest = field(init=False)
    identity: str = field(init=False)
    columns: pa.Schema = field(init=False)
    epoch: EpochDefinition = field(init=False)
    first_epoch: int | None = field(init=False)
    last_epoch: int | None = field(init=False)
    whole_epoch: int | None = field(init=False)

    def __post_init__(self) -> None:
        data = Folder(self.location).read(MANIFEST_NAME)
        self.manifest = Manifest.decode(data.to_pybytes(), self.location)
        self.identity = self.manifest.digest
        self.columns = self.manifest.schema
        self.epoch = self.manifest.epoch.definition
        known = [self.manifest.first_epoch, self.manifest.last_epoch]
        if self.manifest.rows_dead:
            known += self._letters_epochs()
        epochs = [epoch for epoch in known if epoch is not None]
        self.first_epoch = min(epochs, default=None)
        self.last_epoch = max(epochs, default=None)
        self.whole_epoch = self.last_epoch

    @property
    def partitions(self) -> int:
        return len(self.manifest.partitions)

    def contents(
        self, partition: int, epochs: range, after: Mark | None = None
    ) -> Iterator[Content]:
        """See ReplayableLog."""
        numbers = PartNumbers(partition, after)
        if after is not None:
            epochs = range(max(epochs.start, after.epoch), epochs.stop)
        if partition == LETTERS_PARTITION:
            for epoch, dead in self._letters(epochs):
                yield from numbers.parcels(epoch, None, dead)
            return
        for segment in self.manifest.partitions[partition].segments:
            if segment.last_epoch < epochs.start or segment.first_epoch >= epochs.stop:
                continue
            reader = self._open(segment)
            for index in range(reader.batches):
                epoch, batch = reader.read(index)
                if epoch in epochs:
                    yield from numbers.parcels(epoch, batch)

    def _open(self, segment: Segment) -> SegmentReader:
        data = Folder(self.location).read(segment.name)
        name = below(self.location, segment.name)
        if data.size != segment.bytes or xxhash.xxh3_128_hexdigest(data) != segment.digest:
            raise InputError(
                f"segment {name} of an epoch log is damaged: its bytes are not those that the "
                "manifest tells of; prepare the log anew"
            )
        return SegmentReader(data, name)

    # --- dead letters -----------------------------------------------------------------------------

    def _letters_epochs(self) -> list[int]:
        """Of the first and the last one."""
        epochs = [epoch for epoch, _ in islice(self._lines(), 1)]
        folder = Folder(self.location)
        data = folder.read(DEAD_LETTERS_NAME)
        start = max(0, data.size - _READ_BYTES)
        last = data.slice(start).to_pybytes().rstrip(b"\n").rpartition(b"\n")[2]
        return [*epochs, self._letter(last)[0]]

    def _letters(self, epochs: range) -> Iterator[tuple[int, tuple[DeadLetter, ...]]]:
        """(epoch, dead rows of it), at most PARCEL_LETTERS at a time."""
        if not self.manifest.rows_dead:
            return
        found: list[DeadLetter] = []
        of_epoch = epochs.start
        for epoch, letter in self._lines():
            if epoch not in epochs:
                continue
            if found and (epoch != of_epoch or len(found) == PARCEL_LETTERS):
                yield of_epoch, tuple(found)
                found = []
            of_epoch = epoch
            found.append(letter)
        if found:
            yield of_epoch, tuple(found)

    def _lines(self) -> Iterator[tuple[int, DeadLetter]]:
        pending = b""
        with self._open_letters() as file:
            while data := file.read(_READ_BYTES):
                *lines, pending = (pending + data).split(b"\n")
                yield from map(self._letter, lines)
        if pending:
            yield self._letter(pending)

    def _open_letters(self) -> Any:
        try:
            return Folder(self.location).open_stream(DEAD_LETTERS_NAME)
        except (OSError, pa.ArrowException) as error:
            name = below(self.location, DEAD_LETTERS_NAME)
            raise InputError(f"{name}: can't be read: {error}; prepare the log anew") from None

    def _letter(self, line: bytes) -> tuple[int, DeadLetter]:
        try:
            found = json.loads(line)
            letter = DeadLetter(found["file"], found["row"], found["reason"], found["text"])
            return int(found["epoch"]), letter
        except (ValueError, KeyError, TypeError) as error:
            name = below(self.location, DEAD_LETTERS_NAME)
            raise InputError(f"{name} is damaged: {error}; prepare the log anew") from None
