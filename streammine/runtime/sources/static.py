"""Static sources: tables that are there as a whole before the first row of any other source.

Such a source is read like one whose epochs count rows, and hold more of them than there are. So its rows
need no event time; and the epoch that they have is moved before those of all other sources.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from streammine.model.contracts import Position
from streammine.model.epochs import BEGINNING, FIRST_TIME, INFINITY, EpochDefinition
from streammine.model.source_contracts import Delivery, Piece, SourceReader
from streammine.model.topology.sources import FilesSource

ONE_EPOCH = EpochDefinition("count", 2**62)
"""All rows of a source are in its epoch 0."""


def reading_epochs(settings: object, epoch: EpochDefinition) -> EpochDefinition:
    """The epochs that a source is read in; `epoch` is that of the topology."""
    return ONE_EPOCH if isinstance(settings, FilesSource) and settings.static else epoch


class StaticReader:
    """A SourceReader whose rows come before all others; `reader` gives them in ONE_EPOCH."""

    def __init__(self, reader: SourceReader, epoch: EpochDefinition) -> None:
        """`epoch` is that of the topology."""
        self._reader = reader
        self._epoch = epoch

    @property
    def total_rows(self) -> int | None:
        return self._reader.total_rows

    def close(self) -> None:
        self._reader.close()

    def position(self) -> Position:
        """See SourceReader."""
        return self._reader.position()

    def read(self, rows: int, elapsed_seconds: float, given_below: int = BEGINNING) -> Delivery:
        """See SourceReader."""
        found = self._reader.read(rows, elapsed_seconds, BEGINNING)
        number = self._epoch.before_all
        return replace(
            found,
            pieces=tuple(self._moved(piece) for piece in found.pieces),
            dead=tuple((number, dead) for _, dead in found.dead),
            open_epoch=INFINITY if found.open_epoch == INFINITY else number,
        )

    def _moved(self, piece: Piece) -> Piece:
        times = None
        if self._epoch.kind == "time":
            times = np.full(piece.num_rows, FIRST_TIME)
        return replace(piece, epoch=self._epoch.before_all, times=times)
