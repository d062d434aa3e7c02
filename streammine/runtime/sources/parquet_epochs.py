"""Which time epoch the row groups of a Parquet source have come to at a row."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streammine.model.contracts import IntArray
from streammine.model.epochs import INFINITY, EpochDefinition
from streammine.model.source_order import running_maximum
from streammine.runtime.sources.due_epochs import ListedEpochs
from streammine.runtime.sources.parquet import (
    RowGroup,
    lowest_by_time,
    open_parquet,
    usable_times,
)
from streammine.runtime.sources.usable import FileClock


class ParquetEpochs:
    """DueEpochs of time epochs: what a file has reached at a row, or less where later row groups go back.

    It reads the times of the row group that is due, and of no other column. Rows without usable time are
    left out, so behind some of them it is that much ahead.
    """

    def __init__(
        self,
        groups: Sequence[RowGroup],
        definition: EpochDefinition,
        schema: pa.Schema,
        lateness_microseconds: int,
    ) -> None:
        self._groups = list(groups)
        self._definition = definition
        self._schema = schema
        self._firsts = [group.number for group in groups]
        lowest = [INFINITY]
        for group in reversed(self._groups):
            clock = FileClock(definition, lateness_microseconds, group.latest_before)
            lowest.append(min(lowest[-1], lowest_by_time(group, clock)))
        self._lowest_from = lowest[::-1]
        self._at = -1
        self._listed = ListedEpochs([], [], 0)

    def at(self, number: int) -> tuple[int, int]:
        """See DueEpochs."""
        at = bisect_right(self._firsts, number) - 1
        if at < 0 or number >= self._groups[at].number + self._groups[at].rows:
            return INFINITY, INFINITY
        if at != self._at:
            self._listed = self._list(self._groups[at], self._lowest_from[at + 1])
            self._at = at
        return self._listed.at(number)

    def _list(self, group: RowGroup, later: int) -> ListedEpochs:
        """Where in a row group the epochs begin; `later` is the lowest one behind it."""
        (index,) = group.indices
        with open_parquet(group.path) as parquet:
            parts = list(usable_times(parquet, group.path, index, self._definition, self._schema))
        times: IntArray = np.concatenate([np.empty(0, np.int64), *parts])
        end = group.number + group.rows
        if not len(times):
            epoch = min(later, self._definition.lowest_open(group.latest_before))
            return ListedEpochs([group.number], [epoch], end)
        reached = running_maximum(times, None, group.latest_before)
        epochs = np.minimum(self._definition.of_time(reached), later)
        begin = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(np.diff(epochs)) + 1])
        return ListedEpochs((group.number + begin).tolist(), epochs[begin].tolist(), end)
