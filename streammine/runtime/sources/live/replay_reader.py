"""A slice of a replay source as the engine reads it: its own log, then what arrives."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import pyarrow as pa

from streammine.model.contracts import DeadRows, IntArray
from streammine.model.epochs import BEGINNING, INFINITY
from streammine.model.errors import InputError
from streammine.model.ids import FILE_COLUMN, ROW_COLUMN
from streammine.model.ingest_log import Parcel, Replayed
from streammine.model.source_contracts import Delivery, Piece
from streammine.model.source_order import usable_event_times
from streammine.runtime.sources.live.reader import WAKE_SECONDS, LogReader


class ReplayReader(LogReader):
    """A SourceReader. Rows have the epochs and positions of the log that is replayed."""

    def read(self, rows: int, elapsed_seconds: float, given_below: int = BEGINNING) -> Delivery:
        """See SourceReader."""
        if self._exhausted:
            return Delivery((), INFINITY, 0, exhausted=True)
        found: list[Parcel] = []
        rows_read = 0
        while rows_read < rows and (following := self._following.next()) is not None:
            entry, behind = following
            self._position = behind.position()
            if not isinstance(entry, Replayed):
                # its end; what was promised before it is handed on first
                self._exhausted = True
                break
            found += entry.parcels
            rows_read += sum(each.rows + len(each.dead) for each in entry.parcels)
            self._open_epoch = max(self._open_epoch, entry.parcels[-1].open_epoch)
        self._raise_failure(found)
        by_epoch = {
            epoch: list(group) for epoch, group in groupby(found, lambda each: each.mark.epoch)
        }
        pieces = tuple(
            self._piece(epoch, group)
            for epoch, group in by_epoch.items()
            if any(each.rows for each in group)
        )
        dead = tuple(
            (epoch, _letters(group))
            for epoch, group in by_epoch.items()
            if any(each.dead for each in group)
        )
        wake = None if found or self._exhausted else WAKE_SECONDS
        return Delivery(pieces, self._open_epoch, rows_read, dead, False, wake)

    def _piece(self, epoch: int, parcels: list[Parcel]) -> Piece:
        batches = [self._rows(each) for each in parcels if each.rows]
        batch = batches[0]
        if len(batches) > 1:
            (batch,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
        times: IntArray | None = None
        if self._epoch.column is not None:
            times, _ = usable_event_times(batch.column(self._epoch.column), self._epoch.unit)
        return Piece(
            epoch,
            batch.select(self._columns),
            files=batch.column(FILE_COLUMN).to_numpy().astype(np.int32, copy=False),
            rows=batch.column(ROW_COLUMN).to_numpy(),
            times=times,
        )

    def _rows(self, parcel: Parcel) -> pa.RecordBatch:
        try:
            return parcel.row_batch(self._schema)
        except (pa.ArrowException, OSError) as error:
            raise InputError(
                f"ingest log of {self._name}: rows of epoch {parcel.mark.epoch} can't be read as "
                f"{self._schema}: {error}"
            ) from error


def _letters(parcels: Sequence[Parcel]) -> DeadRows:
    rows = [row for each in parcels for row in each.dead]
    return DeadRows(
        reasons=tuple(row.reason for row in rows),
        rows=tuple(row.text for row in rows),
        files=tuple(row.file for row in rows),
        numbers=tuple(row.row for row in rows),
    )
