"""The ingest log of a live source, to be replayed: each slice's log is a partition.

A live source's rows come in the order of their arrival, those of several epochs mixed. So entries
are read twice: once in order, to learn which have rows of which epoch, and again, as each epoch is
over, for those rows. What is kept in memory between is an entry's place for every epoch that is open.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from streammine.model.epoch_log import log_schema
from streammine.model.epochs import BEGINNING, INFINITY, EpochDefinition
from streammine.model.errors import InputError
from streammine.model.ids import ROW_COLUMN
from streammine.model.ingest_chain import Link, LogEnd, chain, find_end, read_entries
from streammine.model.ingest_log import (
    SEALS,
    DeadRow,
    End,
    Entry,
    Events,
    Replayed,
    SegmentReader,
    WriterGeneration,
)
from streammine.model.locations import below
from streammine.model.replay import LETTERS_PARTITION, DeadLetter, Mark, epoch_text
from streammine.model.source_order import usable_event_times
from streammine.pipeline.parcels import Content, PartNumbers
from streammine.pipeline.storage import Folder

_SEGMENTS_OPEN = 4


class SliceLog:
    """LogFiles of one slice, through `pyarrow.fs`."""

    def __init__(self, location: str) -> None:
        self.location = location
        self._folder = Folder(location)

    def list(self, folder: str) -> list[str]:
        try:
            names = self._folder.below(folder.rstrip("/")).names()
        except (OSError, pa.ArrowException) as error:
            raise InputError(
                f"ingest log: {below(self.location, folder)} can't be listed: {error}"
            ) from None
        return [f"{folder}{name}" for name in names]

    def read(self, name: str) -> pa.Buffer:
        return self._folder.read(name)


@dataclass(frozen=True)
class _Found:
    """Where something of an epoch stands: an entry, and of a replayed one which parcel. `homeless`:
    the dead rows of the entry that came before any event time was known."""

    link: Link
    offset: int
    parcel: int | None = None
    homeless: bool = False


@dataclass
class IngestLog:
    """A ReplayableLog. `source` is what its dead rows are said to come from.

    Raises InputError when it is damaged or empty.
    """

    location: str
    source: str
    identity: str = field(init=False)
    columns: pa.Schema = field(init=False)
    epoch: EpochDefinition = field(init=False)
    first_epoch: int | None = field(init=False, default=None)
    last_epoch: int | None = field(init=False, default=None)
    whole_epoch: int | None = field(init=False, default=None)
    ends: list[LogEnd | None] = field(init=False)

    def __post_init__(self) -> None:
        logs = [SliceLog(each) for each in slice_locations(self.location)]
        self.ends = [find_end(log) for log in logs]
        known = [end for end in self.ends if end is not None]
        if not known:
            raise InputError(f"ingest log: {self.location} holds nothing yet")
        opening = known[0].link.opening
        self.columns, self.epoch = opening.columns, opening.epoch
        seals = [_first_seal(log) for log in logs]
        about = [epoch_text(self.epoch), opening.schema.hex(), seals]
        self.identity = hashlib.sha256(json.dumps(about).encode()).hexdigest()
        firsts = [self._first(part) for part in range(len(logs))]
        self.first_epoch = min((each for each in firsts if each is not None), default=None)
        if self.first_epoch is None:
            return
        lasts = [self._last(end) for end in known]
        self.last_epoch = max([self.first_epoch, *(each for each in lasts if each is not None)])
        opens = [
            INFINITY
            if end is not None and end.state.ended
            else end.state.open_epoch
            if end is not None
            else BEGINNING
            for end in self.ends
        ]
        self.whole_epoch = min(self.last_epoch, min(opens) - 1) if min(opens) > BEGINNING else None

    @property
    def partitions(self) -> int:
        return len(self.ends)

    def contents(
        self, partition: int, epochs: range, after: Mark | None = None
    ) -> Iterator[Content]:
        """See ReplayableLog."""
        end = None if partition == LETTERS_PARTITION else self.ends[partition]
        if end is None:
            return
        if after is not None:
            epochs = range(max(epochs.start, after.epoch), epochs.stop)
        numbers = PartNumbers(partition, after)
        reading = _Reading(self._log(partition))
        for epoch, found in self._by_epoch(partition, end.link, epochs):
            for each in found:
                batch, dead = self._read(reading, partition, epoch, each)
                yield from numbers.parcels(epoch, batch, dead)

    def _log(self, partition: int) -> SliceLog:
        return SliceLog(slice_location(self.location, partition))

    # --- first reading: what stands where ---------------------------------------------------------

    def _by_epoch(
        self, partition: int, newest: Link, epochs: range
    ) -> Iterator[tuple[int, list[_Found]]]:
        """What each of the epochs has, as soon as it is over; those that are open at the end last."""
        log = self._log(partition)
        links = {each.name: each for each in chain(log, newest)}
        waiting: dict[int, list[_Found]] = {}
        homeless: list[_Found] = []
        open_epoch = BEGINNING
        for place, entry, _ in read_entries(log, list(links.values())):
            found = _Found(links[place.segment], place.offset)
            home = 0 if isinstance(entry, End) else _open_epoch(entry)
            if isinstance(entry, Events) and any(each.epoch is None for each in entry.dead):
                homeless.append(replace(found, homeless=True))
            if homeless and home != BEGINNING:
                waiting.setdefault(home, []).extend(homeless)
                homeless = []
            for epoch, parcel in self._epochs_of(entry):
                waiting.setdefault(epoch, []).append(replace(found, parcel=parcel))
            if home != BEGINNING and not isinstance(entry, End):
                open_epoch = max(open_epoch, home)
            for epoch in sorted(each for each in waiting if each < open_epoch):
                there = waiting.pop(epoch)
                if epoch in epochs:
                    yield epoch, there
            if open_epoch >= epochs.stop:
                return
        if homeless:
            waiting.setdefault(0, []).extend(homeless)
        for epoch in sorted(waiting):
            if epoch in epochs:
                yield epoch, waiting[epoch]

    def _epochs_of(self, entry: Entry) -> Iterator[tuple[int, int | None]]:
        """(epoch, parcel) of what an entry has."""
        if isinstance(entry, Replayed):
            yield from ((each.mark.epoch, at) for at, each in enumerate(entry.parcels))
        elif isinstance(entry, Events):
            epochs = self._row_epochs(entry.rows(self.columns))
            known = [each.epoch for each in entry.dead if each.epoch is not None]
            yield from ((epoch, None) for epoch in sorted({*np.unique(epochs).tolist(), *known}))

    def _row_epochs(self, batch: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        if self.epoch.column is None:
            return self.epoch.of_rows(batch.column(ROW_COLUMN).to_numpy())
        times, _ = usable_event_times(batch.column(self.epoch.column), self.epoch.unit)
        return self.epoch.of_time(times)

    def _first(self, partition: int) -> int | None:
        """No row of the partition has a lower epoch; None: it has none at all."""
        end = self.ends[partition]
        if end is None:
            return None
        log = self._log(partition)
        homeless = False
        for _, entry, _ in read_entries(log, chain(log, end.link)):
            homeless |= isinstance(entry, Events) and any(row.epoch is None for row in entry.dead)
            lowest = [epoch for epoch, _ in self._epochs_of(entry)]
            if isinstance(entry, End):
                continue
            known = _open_epoch(entry)
            if isinstance(entry, Replayed) or lowest or (homeless and known != BEGINNING):
                return min([*lowest, *([] if known == BEGINNING else [known])])
        return 0 if homeless else None

    def _last(self, end: LogEnd) -> int | None:
        state = end.state
        if state.replayed is not None:
            return state.replayed.mark.epoch
        if self.epoch.kind == "count":
            return self.epoch.lowest_open(state.next_row - 1) if state.next_row else None
        return None if state.clock == BEGINNING else self.epoch.lowest_open(state.clock)

    # --- second reading: the rows themselves ------------------------------------------------------

    def _read(
        self, reading: _Reading, partition: int, epoch: int, found: _Found
    ) -> tuple[pa.RecordBatch | None, tuple[DeadLetter, ...]]:
        entry = reading.entry(found)
        if isinstance(entry, Replayed):
            assert found.parcel is not None
            parcel = entry.parcels[found.parcel]
            return (parcel.row_batch(self.columns) if parcel.rows else None), parcel.dead
        assert isinstance(entry, Events)
        wanted = None if found.homeless else epoch
        dead = tuple(self._letter(partition, each) for each in entry.dead if each.epoch == wanted)
        if found.homeless:
            return None, dead
        rows = entry.rows(self.columns)
        rows = rows.filter(pa.array(self._row_epochs(rows) == epoch))
        files = pa.array(np.full(rows.num_rows, partition, np.int32))
        columns = [*rows.columns[:-1], files, rows.column(ROW_COLUMN)]
        return pa.record_batch(columns, schema=log_schema(self.columns)), dead

    def _letter(self, partition: int, row: DeadRow) -> DeadLetter:
        return DeadLetter(f"{self.source}/{partition}", row.row, row.reason, row.text)


class _Reading:
    """Single entries of a slice's log; the segments that were read last stay open, and so does the
    last entry, of which most often more is wanted."""

    def __init__(self, log: SliceLog) -> None:
        self._log = log
        self._open: OrderedDict[str, SegmentReader] = OrderedDict()
        self._place: tuple[str, int] | None = None
        self._entry: Entry | None = None

    def entry(self, found: _Found) -> Entry:
        place = (found.link.name, found.offset)
        if self._entry is None or place != self._place:
            self._place, self._entry = place, self._read(found)
        return self._entry

    def _read(self, found: _Found) -> Entry:
        link = found.link
        if link.name not in self._open:
            if len(self._open) == _SEGMENTS_OPEN:
                self._open.popitem(last=False)
            data = self._log.read(link.name)
            self._open[link.name] = SegmentReader(data, link.name, link.length)
        self._open.move_to_end(link.name)
        _, entry, _ = next(self._open[link.name].entries(found.offset))
        return entry


def slice_location(location: str, index: int) -> str:
    """Where an ingest log has a slice's."""
    return below(location, f"slice-{index:05d}")


def slice_locations(location: str) -> list[str]:
    """All slices' logs. Raises InputError where there are none."""
    try:
        names = Folder(location).names()
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{location}: can't be read: {error}") from None
    found = [name for name in names if name.startswith("slice-")]
    wanted = [f"slice-{index:05d}" for index in range(len(found))]
    if not found or found != wanted:
        raise InputError(f"{location} is no log: it has neither a manifest nor slices")
    return [below(location, name) for name in found]


def _open_epoch(entry: Entry) -> int:
    assert not isinstance(entry, End)
    return entry.parcels[-1].open_epoch if isinstance(entry, Replayed) else entry.open_epoch


def _first_seal(log: SliceLog) -> str:
    """The log's first writer, which it keeps for good."""
    seals = [each for name in log.list(SEALS) if (each := WriterGeneration.of_seal(name))]
    return min(seals).seal if seals else ""
