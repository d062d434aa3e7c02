"""The keyed aggregate over a sliding window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Unpack

import pyarrow as pa

from streammine.model.contracts import Accumulator, EpochClose
from streammine.model.topology.aggregates import AggregateCall
from streammine.operators.aggregate import (
    AggregateAccumulator,
    AggregateBase,
    AggregateSettings,
)
from streammine.operators.aggregates.sliding import SlidingGroups
from streammine.operators.aggregates.state import GroupState
from streammine.operators.aggregates.window_state import OpenWindows
from streammine.operators.frozen import Handover, check_version
from streammine.operators.windows import AlignedWindows


class SlidingAggregate(AggregateBase):
    """Aggregates per key over windows that overlap (a StatefulOperator that HoldsWindows and KeepsState).

    What leaves with the last epoch of each window are the keys that have rows in it, also when the
    epoch itself has none. An epoch's rows are folded once, into a pane; see `aggregates.sliding`.
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        keys: Sequence[str],
        aggregates: Mapping[str, AggregateCall],
        *,
        window: AlignedWindows,
        **settings: Unpack[AggregateSettings],
    ) -> None:
        """As `AggregateBase`. Raises TopologyError."""
        super().__init__(name, schema, keys, aggregates, **settings)
        self._window = window
        self._open = OpenWindows()
        self._groups = SlidingGroups(self._layout, self._table)
        self._closed: int | None = None
        self._frozen: int | None = None

    def close(
        self, epoch: EpochClose, accumulators: Sequence[Accumulator]
    ) -> Sequence[pa.RecordBatch]:
        """Add the epoch to its pane, and a pane that is over to the window; what leaves is a window that
        ends now. None ends between two epochs that are closed, as each would have been due."""
        (collected,) = accumulators
        assert isinstance(collected, AggregateAccumulator), collected
        self._closed = epoch.epoch
        self._take(epoch.epoch, collected.groups())
        window = self._window
        if not self._groups.panes or not window.ends_with(epoch.epoch):
            return []
        span = window.span(epoch.definition, epoch.epoch)
        left = self._leave(epoch.epoch, self._groups.whole(), span)
        self._groups.drop_before(window.first_needed(epoch.epoch))
        return left

    @property
    def window_epochs(self) -> int:
        """See contracts.Forgets."""
        return self._window.epochs

    @property
    def slide_epochs(self) -> int:
        """See contracts.Forgets."""
        return self._window.slide

    @property
    def due_epoch(self) -> int | None:
        """The end of the open pane or, while a pane has rows, of the next window."""
        due = self._open.first
        if self._groups.panes:
            assert self._closed is not None, "a pane comes with an epoch"
            end = self._window.next_end(self._closed)
            due = end if due is None else min(due, end)
        return due

    @property
    def state_nbytes(self) -> int:
        return self._open.nbytes + self._groups.nbytes

    def freeze(self, full: bool) -> Handover:
        """See contracts.KeepsState: the panes that have come, and what the open one has become."""
        behind = None if full else self._frozen
        self._frozen = self._closed
        header = {"closed": self._closed}
        return self._open.freeze(behind is None, header, self._groups.pieces(behind))

    def restore(self, version: int, full: bool, pieces: Iterator[pa.Buffer]) -> None:
        """See contracts.KeepsState."""
        check_version(self.name, version, self.state_version)
        if full:
            self._groups = SlidingGroups(self._layout, self._table)
        header, panes = self._open.restore(full, pieces, self.new_state)
        for of_pane, partials in panes:
            self._groups.restore(of_pane["pane"], partials)
        self._closed = header["closed"]
        if self._closed is not None:
            self._groups.drop_before(self._window.first_needed(self._closed))
        self.renew_table(self._table, 0)

    def _take(self, epoch: int, state: GroupState) -> None:
        """Add an epoch's groups to the window, where it is a pane by itself, or else to the open pane."""
        groups = state.group_count
        if groups:
            # a table of all of the window's keys would make an epoch with few of them as large
            self.renew_table(state.table, groups)
        if self._window.pane_epochs == 1:
            if groups:
                self._groups.add(epoch, state)
            return
        if groups:
            self._open.add(self._window.pane_end(epoch), state)
        for last_epoch, pane in self._open.take_closed(epoch):
            self._groups.add(last_epoch, pane)
