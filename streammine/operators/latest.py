"""Each key's latest row, until another one comes or it is too old, as rows that come and go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.model.contracts import EpochClose, IntArray, Traits
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import TopologyError
from streammine.model.ids import TIME_COLUMN
from streammine.model.topology.recent import CHANGE_COLUMN
from streammine.operators.collected_rows import in_one
from streammine.operators.event_order import (
    ChangeOrder,
    check_time_epochs,
    checked_order,
    place_values,
)
from streammine.operators.expressions import unknown_column
from streammine.operators.frozen import Handover, check_version
from streammine.operators.kernels import running_totals
from streammine.operators.kernels.group_states import extended
from streammine.operators.kernels.warming import warm_up
from streammine.operators.keys import check_key
from streammine.operators.rows_in_time import Columns, KeyIds, RowsInTime

_KEY, _CONTENT, _TIME = range(3)
"""Columns of the rows that are held, before those that say their place."""


class Latest:
    """The latest row of each key, as long as it is not `length` old: a relation, told by its changes.

    A SequentialOperator that GoesByTime, HoldsWindows and KeepsState. When a row comes, the columns `told` of
    its key's row before it leave with change -1, if that still counts, then its own with change 1. When a row
    gets `length` old and no other has come, it leaves with change -1, before the rows of that time come.

    So the sum of `change` by any of the columns is how many keys stand there, as in a relation that is
    maintained from a stream by inserting and deleting: the window ``[Partition By key Rows 1 Range length]``
    of Arasu, Babu and Widom, "The CQL continuous query language" (2006), section 6.
    """

    traits = Traits(commutative=False, mergeable=False)
    state_version = 1

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        key: Sequence[str],
        told: Sequence[str],
        length: int,
        keep: Sequence[str],
        epoch: EpochDefinition,
        *,
        order: Sequence[pa.Field] = (),
        carries_order: bool = False,
    ) -> None:
        """`length` in microseconds; `order`: the fields that order the input's rows. Raises TopologyError."""
        check_time_epochs(name, epoch)
        for each in key:
            check_key(name, each, schema)
        for each in told:
            check_key(name, each, schema, "latest")
        for each in keep:
            if each not in schema.names:
                raise TopologyError(f"operator {name!r}: keep: {unknown_column(each, schema)}")
        self.name = name
        self.keys: tuple[tuple[str, ...], ...] = (tuple(key),)
        self._told, self._keep = tuple(told), tuple(keep)
        self.needs: tuple[frozenset[str] | None, ...] = (frozenset([*key, *told, *keep]),)
        self.output = pa.schema(
            [schema.field(each) for each in told]
            + [pa.field(CHANGE_COLUMN, pa.int64())]
            + [pa.field(each, schema.field(each).type) for each in keep]
        )
        self._order = ChangeOrder(checked_order(name, order), several=True)
        self.hidden = self._order.fields
        self.output_order = tuple(field.name for field in self.hidden)
        self._carries_order = carries_order
        self._length = length
        self._epoch = epoch
        self._rows = RowsInTime(
            [KeyIds([schema.field(each).type for each in columns]) for columns in (key, told)],
            len(self._order.places),
        )
        self._latest: IntArray = np.empty(0, np.int64)
        self._latest_contents: IntArray = np.empty(0, np.int64)
        self._stale = False

    def prepare(self) -> None:
        """Load the kernels."""
        warm_up()
        running_totals.load_kernels()

    def run(
        self, epoch: EpochClose, bag: Iterator[tuple[int, pa.RecordBatch]]
    ) -> list[pa.RecordBatch]:
        """See contracts.SequentialOperator."""
        return [batch for batch, _ in self.run_through(epoch, bag)]

    def run_through(
        self, epoch: EpochClose, bag: Iterator[tuple[int, pa.RecordBatch]]
    ) -> list[tuple[pa.RecordBatch, IntArray]]:
        """See contracts.GoesByTime."""
        if self._stale:
            self._find_latest()
        batches = [batch for _, batch in bag if batch.num_rows]
        coming = in_one(batches) if batches else None
        first, come = self._rows.begin, self._rows.end
        if coming is not None:
            arrived = self._taken_in(coming)
            self._rows.append(arrived)
        leaving = self._rows.drop_before(epoch.watermark - self._length)
        left = leaving[_KEY].size
        if not left and coming is None:
            return []
        parts = [leaving] if coming is None else [leaving, arrived]
        columns = [np.concatenate(part) for part in zip(*parts, strict=True)]
        columns[_TIME][:left] += self._length
        numbers = np.arange(first, first + columns[_KEY].size)
        numbers[left:] += come - first - left
        output = self._changes(columns, numbers, left, coming)
        if any(kept is not None for kept in self._rows.tidy()):
            self._find_latest()
        return output

    def _taken_in(self, batch: pa.RecordBatch) -> Columns:
        keys, contents = self._rows.keys
        rows = batch.num_rows
        return [
            keys.ids([batch.column(each) for each in self.keys[0]], rows),
            contents.ids([batch.column(each) for each in self._told], rows),
            *place_values(batch, [TIME_COLUMN, *self._order.places]),
        ]

    def _changes(
        self, columns: Columns, numbers: IntArray, left: int, coming: pa.RecordBatch | None
    ) -> list[tuple[pa.RecordBatch, IntArray]]:
        """All that comes and goes, in the order of time, and in which epoch."""
        order = np.argsort(columns[_TIME], kind="stable")
        times = columns[_TIME][order]
        comes = order >= left
        parents, told, enters = self._advance(
            columns[_KEY][order], comes, numbers[order], columns[_CONTENT][order]
        )
        if not parents.size:
            return []
        output = self._rows.keys[1].keys(told)
        output.append(pa.array(np.where(enters, np.int64(1), np.int64(-1))))
        by_event = comes[parents]
        for name in self._keep:
            field = self.output.field(name)
            if coming is None:
                output.append(pa.nulls(parents.size, field.type))
            else:
                places = pa.array(order[parents] - left, mask=~by_event)
                output.append(coming.column(name).take(places))
        schema = self.output
        if self._carries_order:
            output += self._order.columns(
                times[parents],
                by_event.astype(np.int8),
                [column[order[parents]] for column in columns[_TIME + 1 :]],
                enters.astype(np.int32),
            )
            schema = pa.schema([*schema, *self.hidden])
        batch = pa.RecordBatch.from_arrays(output, schema=schema)
        return [(batch, self._epoch.of_time(times[parents]))]

    def _advance(
        self, ids: IntArray, comes: npt.NDArray[np.bool_], numbers: IntArray, contents: IntArray
    ) -> tuple[IntArray, IntArray, npt.NDArray[np.bool_]]:
        """By what row, with what content, each change happens, and whether something enters by it."""
        keys = self._rows.keys[0].size
        self._latest = extended(self._latest, keys, -1)
        self._latest_contents = extended(self._latest_contents, keys, -1)
        parents = np.empty(2 * ids.size, np.int64)
        told = np.empty(2 * ids.size, np.int64)
        enters = np.empty(2 * ids.size, np.bool_)
        count = running_totals.advance_latest(
            ids,
            comes,
            numbers,
            contents,
            self._latest,
            self._latest_contents,
            parents,
            told,
            enters,
        )
        return parents[:count], told[:count], enters[:count]

    def _find_latest(self) -> None:
        """The latest row of each key among those that are held."""
        columns = self._rows.all()
        self._latest = np.empty(0, np.int64)
        self._latest_contents = np.empty(0, np.int64)
        rows = columns[_KEY].size
        numbers = np.arange(self._rows.begin, self._rows.end)
        self._advance(columns[_KEY], np.ones(rows, np.bool_), numbers, columns[_CONTENT])
        self._stale = False

    @property
    def due_epoch(self) -> int | None:
        """The epoch in which the first row gets too old."""
        earliest = self._rows.earliest
        if earliest is None:
            return None
        return int((earliest + self._length) // self._epoch.length)

    @property
    def state_nbytes(self) -> int:
        return int(self._rows.nbytes + self._latest.nbytes + self._latest_contents.nbytes)

    def freeze(self, full: bool) -> Handover:
        """See contracts.KeepsState: the rows that are not too old."""
        return self._rows.freeze(full)

    def restore(self, version: int, full: bool, pieces: Iterator[pa.Buffer]) -> None:
        """See contracts.KeepsState."""
        check_version(self.name, version, self.state_version)
        self._rows.restore(full, pieces)
        self._stale = True
