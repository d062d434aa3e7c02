"""Reading an ingest log: its newest segment, the chain behind it, and the entries in order.

Opens no files by itself: it is handed something that lists and reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from streammine.model.contracts import Position
from streammine.model.errors import InputError
from streammine.model.ingest_log import (
    SEGMENTS,
    Entry,
    Events,
    LogState,
    Opening,
    Receipt,
    SegmentReader,
    WriterGeneration,
    after,
    segment_order,
)


class LogFiles(Protocol):
    """One slice's ingest log. Names are relative paths. Raises InputError naming the file."""

    location: str

    def list(self, folder: str) -> list[str]:
        """Names of the files in ``seals/`` or ``segments/``, those folders' names in front."""
        ...

    def read(self, name: str) -> pa.Buffer: ...


@dataclass(frozen=True)
class Place:
    """Where a record stands: a segment, and the byte at which it starts."""

    segment: str
    offset: int

    def position(self) -> Position:
        return {"segment": self.segment, "offset": self.offset}

    @classmethod
    def of(cls, position: Position) -> Place:
        return cls(str(position["segment"]), int(position["offset"]))


@dataclass(frozen=True)
class Link:
    """One segment of the chain: `length` bytes of it count."""

    name: str
    length: int
    opening: Opening


@dataclass(frozen=True)
class LogEnd:
    """Where a log ends: its newest segment, the state after its last whole record, and what was cut
    off behind that."""

    link: Link
    state: LogState
    torn_bytes: int


def find_end(folder: LogFiles, before: WriterGeneration | None = None) -> LogEnd | None:
    """The end of the chain, by writers older than `before` (None: by all); None for a new log.

    Raises InputError, naming segment and offset, where what was durable is damaged.
    """
    names = [(order, name) for name in folder.list(SEGMENTS) if (order := segment_order(name))]
    for order, name in sorted(names, reverse=True):
        if before is not None and order[0] >= before:
            continue
        data = folder.read(name)
        reader = SegmentReader(data, name)
        opening = reader.opening()
        if opening is None:
            # Its writer died before anything in it was acknowledged.
            continue
        state = opening.state
        for _, entry, _ in reader.entries():
            state = after(state, entry)
        length = data.size if reader.torn_at is None else reader.torn_at
        link = Link(name, length, opening)
        return LogEnd(link, state, data.size - link.length)
    return None


def chain(folder: LogFiles, newest: Link, first: str | None = None) -> list[Link]:
    """The segments up to `newest`, in order, from `first` on (None: from the log's start).

    Raises InputError when `first` is none of them.
    """
    links = [newest]
    while links[-1].name != first and (link := _link_behind(folder, links[-1])) is not None:
        links.append(link)
    if first is not None and links[-1].name != first:
        raise InputError(
            f"ingest log: {folder.location} has no segment {first} in its chain, from which the "
            "source would go on; give the log that the job was run with"
        )
    return links[::-1]


def read_entries(
    folder: LogFiles, links: list[Link], place: Place | None = None
) -> Iterator[tuple[Place, Entry, Place]]:
    """(place, entry, place of the next) of all entries of the links; of the first from `place` on."""
    for link in links:
        offset = place.offset if place is not None and place.segment == link.name else 0
        reader = SegmentReader(folder.read(link.name), link.name, link.length)
        for start, entry, stop in reader.entries(offset):
            yield Place(link.name, start), entry, Place(link.name, stop)


def recent_ids(folder: LogFiles, end: LogEnd, most: int) -> list[tuple[str, Receipt]]:
    """The ids that clients gave last and what they were answered, oldest first, at most `most`."""
    wanted = min(most, end.state.ids)
    found: list[tuple[str, Receipt]] = []
    link: Link | None = end.link
    while link is not None and len(found) < wanted:
        reader = SegmentReader(folder.read(link.name), link.name, link.length)
        entries = [entry for _, entry, _ in reader.entries() if isinstance(entry, Events)]
        found = [each for entry in entries for each in entry.ids] + found
        link = _link_behind(folder, link)
    return found[max(0, len(found) - wanted) :]


def _link_behind(folder: LogFiles, link: Link) -> Link | None:
    """The segment that `link` continues."""
    name, length = link.opening.previous, link.opening.previous_bytes
    if name is None:
        return None
    opening = SegmentReader(folder.read(name), name, length).opening()
    assert opening is not None, "a segment whose length is known is whole"
    return Link(name, length, opening)
