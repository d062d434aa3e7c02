"""The groups of a sliding window: its panes, and what they come to together.

Sums and counts are exact, so what a pane has added can be taken out again to the last bit: the window's
next value costs the pane that comes and the pane that leaves, however long the window is. What can't be
subtracted, such as a minimum, is kept in `TwoStacks`.

Only the panes are state. The rest follows from them and is made anew from a snapshot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from streammine.model.contracts import IntArray
from streammine.operators.aggregates.definitions import PartKey
from streammine.operators.aggregates.functions import new_part
from streammine.operators.aggregates.keys import KeyTable
from streammine.operators.aggregates.panes import Pane
from streammine.operators.aggregates.parts import Invertible, Part
from streammine.operators.aggregates.state import AggregateLayout, GroupState
from streammine.operators.aggregates.two_stacks import PartialColumn, TwoStacks
from streammine.operators.frozen import Header, row_pieces
from streammine.operators.kernels.columns import fixed_values
from streammine.operators.kernels.extremes import Count


class SlidingGroups:
    """The panes that a window holds, oldest first, and their sum. Groups are ids of `table`."""

    def __init__(self, layout: AggregateLayout, table: KeyTable) -> None:
        self.table = table
        self.panes: deque[Pane] = deque()
        self._pane_nbytes = 0
        self._layout = layout
        self._kinds = layout.partial_schema.types[len(layout.keys) :]
        self._begin()

    def _begin(self) -> None:
        """No group has anything."""
        schema = self._layout.schema
        self._rows = Count()
        self._sums: dict[PartKey, Part] = {}
        self._stacks: dict[PartKey, TwoStacks] = {}
        for key in self._layout.part_keys:
            part = new_part(key, schema)
            if isinstance(part, Invertible):
                self._sums[key] = part
            else:
                self._stacks[key] = TwoStacks(partial(new_part, key, schema))

    @property
    def nbytes(self) -> int:
        held = self._pane_nbytes + self._rows.nbytes
        held += sum(part.nbytes for part in self._sums.values())
        return held + sum(stack.nbytes for stack in self._stacks.values())

    def add(self, last_epoch: int, state: GroupState) -> None:
        """A pane comes, with the groups of `state`, which is not used again."""
        ids = state.ids_in(self.table)
        present = state.present()
        pane = Pane.of(last_epoch, ids[present], state.encoded(present))
        size = self.table.size
        self._rows.resize(size)
        self._rows.merge(state.rows, ids)
        for key, part in state.parts.items():
            if key in self._sums:
                self._sums[key].resize(size)
                self._sums[key].merge(part, ids)
            else:
                self._stacks[key].add(part, ids, size)
        self._append(pane)

    def restore(self, last_epoch: int, partials: pa.RecordBatch) -> None:
        """A pane comes out of a snapshot, behind those that are there."""
        key_count = len(self._layout.keys)
        ids = self.table.ids(partials, range(key_count))
        self._append(Pane.of(last_epoch, ids, partials.columns[key_count:]))
        self._fold(self.panes[-1])

    def drop_before(self, epoch: int) -> None:
        """The panes whose last epochs lie before this one leave."""
        before = len(self.panes)
        while self.panes and self.panes[0].last_epoch < epoch:
            self._drop_first()
        if len(self.panes) < before:
            used = int(np.count_nonzero(self._rows.finish()))
            if self.table.outgrown(used):
                self._renumber()

    def whole(self) -> GroupState:
        """All panes as one state, to be read before the next one comes or leaves."""
        size = self.table.size
        self._rows.resize(size)
        parts: dict[PartKey, Part] = {}
        for key in self._layout.part_keys:
            if key in self._sums:
                self._sums[key].resize(size)
                parts[key] = self._sums[key]
            else:
                parts[key] = self._stacks[key].whole(size)
        return GroupState(self._layout, self.table, self._rows, parts)

    def pieces(self, behind: int | None) -> Iterator[pa.Buffer]:
        """The panes behind an epoch (None: all) as they are now; may be made later, on any thread."""
        panes = [pane for pane in self.panes if behind is None or pane.last_epoch > behind]
        return self._pieces(panes, self.table)

    def _pieces(self, panes: list[Pane], table: KeyTable) -> Iterator[pa.Buffer]:
        keys_now = table.keys_as_of_now()
        schema = self._layout.partial_schema

        def pieces() -> Iterator[pa.Buffer]:
            keys = keys_now()
            for pane in panes:
                groups = pa.array(pane.groups)
                columns = [column.take(groups) for column in keys]
                columns += [pane.column(number, kind) for number, kind in enumerate(self._kinds)]
                header: Header = {"pane": pane.last_epoch}
                yield from row_pieces(header, [pa.record_batch(columns, schema=schema)])

        return pieces()

    def _append(self, pane: Pane) -> None:
        self.panes.append(pane)
        self._pane_nbytes += pane.nbytes

    def _drop_first(self) -> None:
        pane = self.panes[0]
        ids = pane.ids
        self._rows.subtract_counts(ids, fixed_values(pane.column(0, pa.int64())))
        for number, key in enumerate(self._layout.part_keys, 1):
            if key in self._stacks:
                panes = partial(self._partials, number)
                self._stacks[key].drop(panes, ids, self.table.size)
            else:
                part = self._sums[key]
                assert isinstance(part, Invertible)
                part.subtract(ids, pane.column(number, self._kinds[number]))
        self.panes.popleft()
        self._pane_nbytes -= pane.nbytes

    def _partials(self, number: int) -> list[PartialColumn]:
        """One part of all panes, oldest first."""
        kind = self._kinds[number]
        return [PartialColumn(pane.ids, pane.column(number, kind)) for pane in self.panes]

    def _renumber(self) -> None:
        """Go on with a table of those keys alone that the window still holds.

        What follows from the panes is made anew, as from a snapshot: each has come and gone a few times
        as often by then.
        """
        kept = np.flatnonzero(self._rows.finish())
        ids: IntArray = np.zeros(self._rows.size, dtype=np.int64)
        table = KeyTable(self._layout.key_fields)
        ids[kept] = table.ids_of(self.table.keys_as_of_now()(), kept)
        self.table = table
        self._begin()
        self.panes = deque(
            replace(pane, groups=ids[pane.groups].astype(np.int32)) for pane in self.panes
        )
        for pane in self.panes:
            self._fold(pane)

    def _fold(self, pane: Pane) -> None:
        """Add a pane, of which there are only partials, to what all come to."""
        ids, size = pane.ids, self.table.size
        self._rows.add_counts(ids, fixed_values(pane.column(0, pa.int64())), size)
        for number, key in enumerate(self._layout.part_keys, 1):
            column = pane.column(number, self._kinds[number])
            if key in self._sums:
                self._sums[key].add_partial(ids, column, size)
            else:
                self._stacks[key].add_partial(PartialColumn(ids, column), size)
