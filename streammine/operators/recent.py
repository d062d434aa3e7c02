"""Aggregates over the last while of each key, told anew whenever they change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.model.contracts import EpochClose, IntArray, Traits
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import TopologyError
from streammine.model.ids import TIME_COLUMN
from streammine.model.topology.recent import RecentCall
from streammine.operators.collected_rows import in_one
from streammine.operators.event_order import (
    ChangeOrder,
    check_time_epochs,
    checked_order,
    place_values,
)
from streammine.operators.expressions import unknown_column
from streammine.operators.frozen import Handover, check_version
from streammine.operators.kernels import running_totals, sorted_values
from streammine.operators.kernels.group_states import extended
from streammine.operators.kernels.sorted_values import RunningMedians
from streammine.operators.kernels.warming import warm_up
from streammine.operators.keys import check_key
from streammine.operators.rows_in_time import Columns, KeyIds, RowsInTime

Mask = npt.NDArray[np.bool_]


class Recent:
    """What the rows of the last `length` of each key amount to, after each row that comes or leaves.

    A SequentialOperator that GoesByTime, HoldsWindows and KeepsState. A row of time t is taken into account
    until it is `length` old: at time t + length it leaves, before the rows of that time come. Whenever a row
    comes, its key's columns, aggregates and the row's own `keep` columns are told. When rows leave, that is
    told where it changes an aggregate, with null in the columns of `keep`. An aggregate of nothing is null.

    The operator keeps the rows of the last while, as numbers, and what they amount to by key; a snapshot
    holds the rows alone.
    """

    traits = Traits(commutative=False, mergeable=False)
    state_version = 1

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        key: Sequence[str],
        calls: Mapping[str, RecentCall],
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
        self.name = name
        self.keys: tuple[tuple[str, ...], ...] = (tuple(key),)
        self._keep = tuple(keep)
        self._calls = [(column, _state_of(name, call, schema)) for column, call in calls.items()]
        for column in keep:
            if column not in schema.names:
                raise TopologyError(f"operator {name!r}: keep: {unknown_column(column, schema)}")
        self._sources = tuple(dict.fromkeys(call.column for call in calls.values() if call.column))
        self.needs: tuple[frozenset[str] | None, ...] = (frozenset([*key, *keep, *self._sources]),)
        self.output = pa.schema(
            [schema.field(each) for each in key]
            + [pa.field(column, state.type) for column, state in self._calls]
            + [pa.field(each, schema.field(each).type) for each in keep]
        )
        self._order = ChangeOrder(checked_order(name, order), several=False)
        self.hidden = self._order.fields
        self.output_order = tuple(field.name for field in self.hidden)
        self._carries_order = carries_order
        self._whole_output = self.output
        if carries_order:
            self._whole_output = pa.schema([*self.output, *self.hidden])
        self._length = length
        self._epoch = epoch
        self._rows = RowsInTime(
            [KeyIds([schema.field(each).type for each in key])],
            2 * len(self._sources) + len(self._order.places),
        )
        self._stale = False

    def prepare(self) -> None:
        """Load the kernels."""
        warm_up()
        running_totals.load_kernels()
        sorted_values.load_kernels()

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
            self._recount()
        batches = [batch for _, batch in bag if batch.num_rows]
        coming = in_one(batches) if batches else None
        arrived = None if coming is None else self._taken_in(coming)
        if arrived is not None:
            self._rows.append(arrived)
        leaving = self._rows.drop_before(epoch.watermark - self._length)
        output = self._told(leaving, coming, arrived)
        (kept,) = self._rows.tidy()
        if kept is not None:
            for _, state in self._calls:
                state.select(kept)
        return output

    def _taken_in(self, batch: pa.RecordBatch) -> Columns:
        columns = [batch.column(each) for each in self.keys[0]]
        (keys,) = self._rows.keys
        values: list[IntArray] = []
        for source in self._sources:
            column = batch.column(source)
            values.append(_whole_numbers(column))
            if column.null_count:
                valid = column.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
            else:
                valid = np.ones(batch.num_rows, np.int64)
            values.append(valid)
        return [
            keys.ids(columns, batch.num_rows),
            *place_values(batch, [TIME_COLUMN]),
            *values,
            *place_values(batch, self._order.places),
        ]

    def _told(
        self, leaving: Columns, coming: pa.RecordBatch | None, arrived: Columns | None
    ) -> list[tuple[pa.RecordBatch, IntArray]]:
        """All that changes, in the order of time, and in which epoch."""
        left = leaving[0].size
        if not left and arrived is None:
            return []
        leaving[1] = leaving[1] + self._length
        parts = [leaving] if arrived is None else [leaving, arrived]
        columns = [np.concatenate(each) for each in zip(*parts, strict=True)]
        order = np.argsort(columns[1], kind="stable")
        ids, times, *rest = [column[order] for column in columns]
        comes = order >= left
        told, results = comes.copy(), []
        for _, state in self._calls:
            values, counts = self._values_of(state, rest, ids.size)
            try:
                array, known, changed = state.advance(
                    ids, comes, counts, values, self._rows.keys[0].size
                )
            except _TotalOverflowError as error:
                (epoch,) = self._epoch.of_time(times[error.row : error.row + 1])
                raise OverflowError(f"in epoch {epoch}: {error}") from None
            told |= changed
            results.append((array, known))
        rows = np.flatnonzero(told)
        output = self._rows.keys[0].keys(ids[rows])
        output += [pa.array(array[rows], mask=~known[rows]) for array, known in results]
        parents = order[rows] - left
        takes = pa.array(parents, mask=parents < 0)
        for name in self._keep:
            output.append(
                pa.nulls(rows.size, self.output.field(name).type)
                if coming is None
                else coming.column(name).take(takes)
            )
        times = times[rows]
        if self._carries_order:
            places = [column[rows] for column in rest[2 * len(self._sources) :]]
            output += self._order.columns(times, comes[rows].view(np.int8), places, rows)
        batch = pa.RecordBatch.from_arrays(output, schema=self._whole_output)
        return [(batch, self._epoch.of_time(times))] if rows.size else []

    def _values_of(
        self, state: _State, columns: Sequence[IntArray], rows: int
    ) -> tuple[IntArray, Mask]:
        """The values of a call's column, and which of them count."""
        if state.column is None:
            return np.ones(rows, np.int64), np.ones(rows, np.bool_)
        place = 2 * self._sources.index(state.column)
        return columns[place], columns[place + 1] != 0

    def _recount(self) -> None:
        """What the rows that were restored amount to."""
        ids, _, *rest = self._rows.all()
        for _, state in self._calls:
            values, counts = self._values_of(state, rest, ids.size)
            state.recount(ids, counts, values, self._rows.keys[0].size)
        self._stale = False

    @property
    def due_epoch(self) -> int | None:
        """The epoch in which the first row leaves."""
        earliest = self._rows.earliest
        if earliest is None:
            return None
        return int((earliest + self._length) // self._epoch.length)

    @property
    def state_nbytes(self) -> int:
        return self._rows.nbytes + sum(state.nbytes for _, state in self._calls)

    def freeze(self, full: bool) -> Handover:
        """See contracts.KeepsState: the rows of the last while."""
        return self._rows.freeze(full)

    def restore(self, version: int, full: bool, pieces: Iterator[pa.Buffer]) -> None:
        """See contracts.KeepsState."""
        check_version(self.name, version, self.state_version)
        self._rows.restore(full, pieces)
        self._stale = True


class _TotalOverflowError(OverflowError):
    """With this row a sum left int64."""

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message)
        self.row = row


class _State(Protocol):
    """What one aggregate knows of each key. `column` is None where it looks at no value."""

    column: str | None
    type: pa.DataType

    def advance(
        self, ids: IntArray, comes: Mask, counts: Mask, values: IntArray, keys: int
    ) -> tuple[npt.NDArray[np.float64] | IntArray, Mask, Mask]:
        """After each row: the aggregate of its key, whether there is one, and whether it has changed.

        Raises _TotalOverflowError.
        """
        ...

    def select(self, keys: IntArray) -> None:
        """Keep these keys alone, which become 0, 1, …"""
        ...

    def recount(self, ids: IntArray, counts: Mask, values: IntArray, keys: int) -> None:
        """Know of these rows alone, all of which have come."""
        ...

    @property
    def nbytes(self) -> int: ...


class _Totals:
    """Counts, and sums of whole numbers."""

    type = pa.int64()

    def __init__(self, column: str | None, adds: bool) -> None:
        self.column = column
        self._adds = adds
        self._numbers: IntArray = np.empty(0, np.int64)
        self._totals: IntArray = np.empty(0, np.int64)

    def recount(self, ids: IntArray, counts: Mask, values: IntArray, keys: int) -> None:
        self._numbers = np.zeros(keys, np.int64)
        self._totals = np.zeros(keys, np.int64)
        np.add.at(self._numbers, ids[counts], 1)
        # in this order the sums of a few rows may be beyond 64 bits, which wrap around and back again
        np.add.at(self._totals, ids[counts], values[counts] if self._adds else 1)

    def advance(
        self, ids: IntArray, comes: Mask, counts: Mask, values: IntArray, keys: int
    ) -> tuple[IntArray, Mask, Mask]:
        self._numbers = extended(self._numbers, keys, 0)
        self._totals = extended(self._totals, keys, 0)
        after = np.empty(ids.size, np.int64)
        known, changed = np.empty(ids.size, np.bool_), np.empty(ids.size, np.bool_)
        if not self._adds:
            values = np.ones(ids.size, np.int64)
        taken = running_totals.advance_totals(
            ids, comes, counts, values, self._numbers, self._totals, after, known, changed
        )
        if taken < ids.size:
            raise _TotalOverflowError(
                f"with {values[taken]} of column {self.column!r} the sum of a key leaves int64; "
                "sum smaller numbers",
                taken,
            )
        return after, known, changed

    def select(self, keys: IntArray) -> None:
        self._numbers, self._totals = self._numbers[keys], self._totals[keys]

    @property
    def nbytes(self) -> int:
        return int(self._numbers.nbytes + self._totals.nbytes)


class _Medians:
    """Medians of whole numbers."""

    type = pa.float64()

    def __init__(self, column: str) -> None:
        self.column: str | None = column
        self._medians = RunningMedians()

    def recount(self, ids: IntArray, counts: Mask, values: IntArray, keys: int) -> None:
        self._medians = RunningMedians()
        self._medians.advance(ids, np.ones(ids.size, np.bool_), counts, values, keys)

    def advance(
        self, ids: IntArray, comes: Mask, counts: Mask, values: IntArray, keys: int
    ) -> tuple[npt.NDArray[np.float64], Mask, Mask]:
        return self._medians.advance(ids, comes, counts, values, keys)

    def select(self, keys: IntArray) -> None:
        self._medians.select(keys)

    @property
    def nbytes(self) -> int:
        return self._medians.nbytes


def _state_of(operator: str, call: RecentCall, schema: pa.Schema) -> _State:
    """Raises TopologyError for a column that is not there or has no whole numbers."""
    column = call.column
    if column is None:
        return _Totals(None, adds=False)
    if column not in schema.names:
        raise TopologyError(f"operator {operator!r}: {call}: {unknown_column(column, schema)}")
    kind = schema.field(column).type
    if call.function != "count" and not (pa.types.is_integer(kind) and kind != pa.uint64()):
        raise TopologyError(
            f"operator {operator!r}: {call}: column {column!r} has type {kind}; values come and go, "
            "which is exact for whole numbers: make them such with a map before, for example "
            f"cast(round({column} * 100) as bigint)"
        )
    return (
        _Medians(column) if call.function == "median" else _Totals(column, call.function == "sum")
    )


def _whole_numbers(column: pa.Array) -> IntArray:
    """The values as int64, 0 for nulls; of other types than whole numbers all 0."""
    if not pa.types.is_integer(column.type):
        return np.zeros(len(column), np.int64)
    values = column.fill_null(0) if column.null_count else column
    found: IntArray = values.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return found
