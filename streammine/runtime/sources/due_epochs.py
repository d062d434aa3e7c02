"""Which epoch a whole source has come to at a row, whichever of its slices reads it.

A slice reads stretches of the source, and knows of the epochs in between early that it has no rows of them.
If it said so at once, it would stand ahead of the slices that still wait for these epochs' rows to be due:
a checkpoint, which lies ahead of every slice, would be late by as much, and all that was kept for it as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from streammine.model.contracts import IntArray
from streammine.model.epochs import INFINITY, EpochDefinition


class DueEpochs(Protocol):
    """For a pace only: neither rows nor their epochs depend on it."""

    def at(self, number: int) -> tuple[int, int]:
        """(epoch that the source has come to at row `number`, number of the first row where it is further).

        Of a pace by event time these are times, as is `number`.

        No slice whose next row it is says before it that this epoch is over, so whoever says no more holds
        nobody up. Where the rows' end is known, both are INFINITY behind it. Raises InputError.
        """
        ...


class AlignedEpochs:
    """Count epochs of rows that are numbered through, or time epochs of a pace by event time."""

    def __init__(self, definition: EpochDefinition) -> None:
        self._definition = definition

    def at(self, number: int) -> tuple[int, int]:
        """See DueEpochs."""
        epoch = self._definition.lowest_open(number)
        return epoch, self._definition.window(epoch)[1]


class ListedEpochs:
    """Epochs that begin at known rows: `epochs` at row numbers `firsts`, both ascending, of `rows` rows."""

    def __init__(self, firsts: Sequence[int], epochs: Sequence[int], rows: int) -> None:
        self._firsts: IntArray = np.array([*firsts, rows, INFINITY], np.int64)
        self._epochs = [*epochs, INFINITY]

    def at(self, number: int) -> tuple[int, int]:
        """See DueEpochs."""
        behind = int(self._firsts.searchsorted(number, "right"))
        return self._epochs[behind - 1], int(self._firsts[behind])
