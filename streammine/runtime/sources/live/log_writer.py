"""Writing an ingest log: taking it over, appending durably, and noticing that one was replaced.

The rule that makes an acknowledgement true (DESIGN §5): a writer makes a record durable, *then* looks
for the seal of a higher generation, and hands the record on and acknowledges it only if there is
none. A new generation writes its seal first and looks at the old segments afterwards. So whatever
an old writer acknowledged lies in what the new one finds; whatever it wrote later is neither
acknowledged nor, standing behind the cut that the new one's first segment names, ever read.
"""

from __future__ import annotations

import secrets

import pyarrow as pa

from streammine.model.epochs import EpochDefinition
from streammine.model.errors import InputError
from streammine.model.ingest_chain import Link, Place, find_end, recent_ids
from streammine.model.ingest_log import (
    SEALS,
    Entry,
    LogKind,
    LogState,
    Opening,
    Receipt,
    WriterGeneration,
    after,
    encode,
)
from streammine.model.replay import columns_text
from streammine.runtime.sources.live.log_folder import LogFolder

SEGMENT_BYTES = 64 << 20
"""A segment that has grown so long is followed by another one."""


class LogReplacedError(InputError):
    """Another writer has taken the log over; this one may not acknowledge anything."""


class LogWriter:
    """One generation's hold of a log, from `take_over` to `close`. Used by one thread at a time.

    `state` is the log's after all that was appended; `newest` is the segment that ends the chain as it was
    found (None: a new log), and `torn_bytes` what was cut off behind it.
    """

    def __init__(
        self,
        folder: LogFolder,
        schema: pa.Schema,
        epoch: EpochDefinition,
        lateness_microseconds: int,
        most_ids: int,
        segment_bytes: int = SEGMENT_BYTES,
        kind: LogKind = "clients",
    ) -> None:
        """Take the log over. Raises InputError when it is damaged or of another source, and
        OutputError when it can't be written."""
        self._folder = folder
        self._schema = schema
        self._epoch = epoch
        self._lateness_microseconds = lateness_microseconds
        self._segment_bytes = segment_bytes
        self._kind = kind
        self.generation = self._seal()
        end = find_end(folder, before=self.generation)
        self.state = LogState() if end is None else end.state
        self.newest: Link | None = None if end is None else end.link
        self.torn_bytes = 0 if end is None else end.torn_bytes
        self.ids: list[tuple[str, Receipt]] = []
        if end is not None:
            self._refuse_another_source(end.link.opening)
            self.ids = recent_ids(folder, end, most_ids)
        self._segment = -1
        self._bytes = 0
        self._previous = (None, 0) if end is None else (end.link.name, end.link.length)
        if folder.appends:
            # The cut stands before anything that came after it is read or written.
            self._begin_segment()

    def append(self, entry: Entry) -> Place:
        """Make the entry durable, and return the place behind it.

        Raises LogReplacedError when another writer has taken over: then it must be neither handed on
        nor acknowledged. Raises OutputError when it can't be written.
        """
        if not self._folder.appends:
            self._begin_segment(entry)
        else:
            if self._bytes >= self._segment_bytes:
                self._begin_segment()
            data = encode(entry, self._name)
            self._folder.append(data)
            self._bytes += len(data)
        self.state = after(self.state, entry)
        self.refuse_if_replaced()
        return Place(self._name, self._bytes)

    def close(self) -> None:
        self._folder.close()

    @property
    def _name(self) -> str:
        return self.generation.segment(self._segment)

    def _seal(self) -> WriterGeneration:
        numbers = [each.number for each in self._sealed()]
        generation = WriterGeneration(max(numbers, default=0) + 1, secrets.token_hex(4))
        self._folder.create(generation.seal, b"")
        return generation

    def _sealed(self) -> list[WriterGeneration]:
        names = self._folder.list(SEALS)
        return [each for name in names if (each := WriterGeneration.of_seal(name)) is not None]

    def refuse_if_replaced(self) -> None:
        """Raise LogReplacedError when another writer has taken over."""
        highest = max(self._sealed(), default=self.generation)
        if highest > self.generation:
            raise LogReplacedError(
                f"ingest log: {self._folder.location} was taken over by writer {highest.number} "
                f"({highest.token}); this one, {self.generation.number} "
                f"({self.generation.token}), stops: one log has one writer"
            )

    def _refuse_another_source(self, opening: Opening) -> None:
        refuse_another_kind(self._folder.location, opening, self._kind)
        schema = opening.columns
        if schema != self._schema or opening.epoch != self._epoch:
            raise InputError(
                f"ingest log: {self._folder.location} was written with columns "
                f"{columns_text(schema)} and {opening.epoch}; the topology has "
                f"{columns_text(self._schema)} and {self._epoch}: name another folder"
            )

    def _begin_segment(self, entry: Entry | None = None) -> None:
        if self._segment >= 0:
            self._previous = (self._name, self._bytes)
        self._segment += 1
        name, length = self._previous
        opening = Opening(
            self._schema.serialize().to_pybytes(),
            self._epoch,
            self._lateness_microseconds,
            self.state,
            name,
            length,
            self._kind,
        )
        data = encode(opening, self._name)
        if entry is not None:
            data += encode(entry, self._name)
        self._folder.create(self._name, data)
        self._bytes = len(data)


def refuse_another_kind(location: str, opening: Opening, kind: LogKind) -> None:
    """Raise InputError where a log is written to by clients and a replay is to, or the reverse."""
    if opening.kind == kind:
        return
    has, needs = ("replays", "clients") if kind == "clients" else ("clients", "replays")
    raise InputError(
        f"ingest log: {location} holds what came from {has}, and the source takes what comes from "
        f"{needs}: name another folder"
    )
