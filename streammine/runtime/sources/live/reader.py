"""A live source slice as the engine reads it: the ingest log from a position on, then what arrives."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streammine.model.contracts import DeadRows, Position
from streammine.model.epochs import BEGINNING, INFINITY, EpochDefinition
from streammine.model.errors import InputError
from streammine.model.ids import ROW_COLUMN
from streammine.model.ingest_chain import Link, Place, chain, read_entries
from streammine.model.ingest_log import DeadRow, End, Entry, Events, Idle, Replayed
from streammine.model.source_contracts import Delivery, Piece
from streammine.model.source_order import usable_event_times
from streammine.runtime.sources.live.handover import Handover
from streammine.runtime.sources.live.log_folder import LogFolder
from streammine.runtime.sources.live.log_writer import LogReplacedError
from streammine.runtime.sources.live.receiver import Receiver

logger = logging.getLogger(__name__)

WAKE_SECONDS = 0.005
"""How long the engine waits when nothing has arrived."""


def logged_entries(
    folder: LogFolder, newest: Link | None, position: Position | None
) -> Iterator[tuple[Entry, Place]]:
    """(entry, place behind it) of what a log holds up to `newest`, from a reader's position on.

    Raises InputError when the position is none of the log, and, as it is read, where it is damaged.
    """
    place = Place.of(position) if position else None
    links = (
        [] if newest is None else chain(folder, newest, None if place is None else place.segment)
    )
    return ((entry, behind) for _, entry, behind in read_entries(folder, links, place))


@dataclass(frozen=True)
class SourceRows:
    """What a reader makes of logged rows: `columns` are handed out (None: all)."""

    schema: pa.Schema
    epoch: EpochDefinition
    columns: Sequence[str] | None


class Following:
    """The entries of a log in order: those that stand in it, then those that are handed over.

    `failure` is why nothing comes any more, once all that came before it was taken.
    """

    def __init__(self, logged: Iterator[tuple[Entry, Place]], handover: Handover) -> None:
        self._logged = logged
        self._handover = handover
        self._replaced = False
        self.failure: Exception | None = None

    def next(self) -> tuple[Entry, Place] | None:
        """The next entry and the place behind it; None when there is none now."""
        following = next(self._logged, None)
        if following is not None or self._replaced:
            return following
        # Looked at first: what was handed on before the receiver failed is still taken.
        error = self._handover.error
        following = self._handover.take()
        if following is None and isinstance(error, LogReplacedError):
            # Another replica of this slice goes on with the log; the plan will drop this one.
            logger.warning("%s", error)
            self._replaced = True
        elif following is None:
            self.failure = error
        return following


class LogReader:
    """What readers of ingest logs have in common. `receiver` is given where the log has not ended; it is
    closed with the reader."""

    def __init__(
        self,
        name: str,
        logged: Iterator[tuple[Entry, Place]],
        position: Position | None,
        rows: SourceRows,
        handover: Handover,
        receiver: Receiver | None,
    ) -> None:
        self._name = name
        self._following = Following(logged, handover)
        self._position = position or {}
        self._schema = rows.schema
        self._epoch = rows.epoch
        self._columns = list(rows.schema.names if rows.columns is None else rows.columns)
        self._receiver = receiver
        self._open_epoch = BEGINNING
        self._exhausted = False

    @property
    def total_rows(self) -> int | None:
        return None

    def position(self) -> Position:
        """See SourceReader."""
        return self._position

    def close(self) -> None:
        if self._receiver is not None:
            self._receiver.close()

    def _raise_failure(self, found: Sequence[object]) -> None:
        """Raise why nothing comes any more, unless something did."""
        failure = self._following.failure
        if failure is not None and not found and not self._exhausted:
            raise failure


class LiveReader(LogReader):
    """A SourceReader. Rows stand in file `file`, the slice's number, so that they have one order over all
    slices. Its position stands before dead rows whose epoch isn't known yet.
    """

    def __init__(
        self,
        name: str,
        file: int,
        logged: Iterator[tuple[Entry, Place]],
        position: Position | None,
        rows: SourceRows,
        handover: Handover,
        receiver: Receiver | None,
    ) -> None:
        super().__init__(name, logged, position, rows, handover, receiver)
        self._file = file
        self._homeless: list[DeadRow] = []

    def read(self, rows: int, elapsed_seconds: float, given_below: int = BEGINNING) -> Delivery:
        """See SourceReader."""
        if self._exhausted:
            return Delivery((), INFINITY, 0, exhausted=True)
        found: list[Events] = []
        dead: dict[int, list[DeadRow]] = {}
        rows_read = 0
        while rows_read < rows and (following := self._following.next()) is not None:
            entry, behind = following
            assert not isinstance(entry, Replayed), "the log of a replay source has its own reader"
            if isinstance(entry, Events):
                found.append(entry)
                rows_read += entry.raw_rows
                self._homeless += [each for each in entry.dead if each.epoch is None]
            self._bury(entry, dead)
            if not self._homeless:
                self._position = behind.position()
            if isinstance(entry, End):
                # what was promised before it is handed on first, however the log is cut into reads
                self._exhausted = True
                break
            self._open_epoch = max(self._open_epoch, entry.open_epoch)
        self._raise_failure(found)
        pieces = tuple(self._pieces(found)) if found else ()
        letters = tuple((epoch, self._letters(dead[epoch])) for epoch in sorted(dead))
        wake = None if found or self._exhausted else WAKE_SECONDS
        return Delivery(pieces, self._open_epoch, rows_read, letters, False, wake)

    def _bury(self, entry: Events | Idle | End, dead: dict[int, list[DeadRow]]) -> None:
        """Add an entry's dead rows to `dead`, by epoch.

        Those that came before any event time was known wait for the first entry that knows an open
        epoch, and are of that; of epoch 0 where none ever is.
        """
        if isinstance(entry, End):
            home = 0
        elif entry.open_epoch != BEGINNING:
            home = entry.open_epoch
        else:
            return
        if self._homeless:
            dead.setdefault(home, []).extend(self._homeless)
            self._homeless = []
        if isinstance(entry, Events):
            for row in entry.dead:
                if row.epoch is not None:
                    dead.setdefault(row.epoch, []).append(row)

    def _pieces(self, found: list[Events]) -> Iterator[Piece]:
        """The rows of entries, in pieces of one epoch each, epochs ascending."""
        batches = [self._rows(each) for each in found]
        table = pa.Table.from_batches(batches).combine_chunks()
        if not table.num_rows:
            return
        batch = table.to_batches()[0]
        numbers = batch.column(ROW_COLUMN).to_numpy()
        times = None
        if self._epoch.column is None:
            epochs = self._epoch.of_rows(numbers)
        else:
            times, _ = usable_event_times(batch.column(self._epoch.column), self._epoch.unit)
            epochs = self._epoch.of_time(times)
        visible = batch.select(self._columns)
        order = np.argsort(epochs, kind="stable")
        edges = np.flatnonzero(np.diff(epochs[order])) + 1
        for part in np.split(order, edges):
            whole = len(part) == batch.num_rows
            yield Piece(
                int(epochs[part[0]]),
                visible if whole else visible.take(pa.array(part)),
                files=np.full(len(part), self._file, np.int32),
                rows=numbers[part],
                times=None if times is None else times[part],
            )

    def _rows(self, entry: Events) -> pa.RecordBatch:
        try:
            return entry.rows(self._schema)
        except (pa.ArrowException, OSError) as error:
            raise InputError(
                f"ingest log of {self._name}: the rows from {entry.first_row:,} on can't be read as "
                f"{self._schema}: {error}"
            ) from error

    def _letters(self, rows: list[DeadRow]) -> DeadRows:
        return DeadRows(
            reasons=tuple(row.reason for row in rows),
            rows=tuple(row.text for row in rows),
            files=(self._name,) * len(rows),
            numbers=tuple(row.row for row in rows),
        )
