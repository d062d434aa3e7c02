"""The join of a stream with a table, which is a stream of rows that replace each other by key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streammine.model.canonical import canonical_order, is_encodable
from streammine.model.contracts import (
    Accumulator,
    Combiner,
    DeadRows,
    EpochClose,
    IntArray,
    Traits,
)
from streammine.model.epochs import BEGINNING
from streammine.model.errors import TopologyError
from streammine.model.topology.join_kinds import JoinKind
from streammine.operators.collected_rows import CollectedRows
from streammine.operators.event_time import EventTime
from streammine.operators.expressions import unknown_column
from streammine.operators.frozen import Handover, check_version, decode_piece
from streammine.operators.joined_columns import (
    OUTPUT_ROWS_LIMIT,
    JoinedColumns,
    Keys,
    Side,
    whole,
)
from streammine.operators.kernels.warming import warm_up
from streammine.operators.key_numbers import present_keys
from streammine.operators.keyed_table import KeyedTable
from streammine.operators.set_aside import SetAside

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class TableTimes:
    """How a table join looks at event time. `table`: since when a row of the table holds, None where that
    is not known; `left`: of the rows that meet the table as it was at their time, None where they meet
    the one at the end of their epoch."""

    table: EventTime | None = None
    left: EventTime | None = None


@dataclass(frozen=True)
class _Changes:
    """Rows of the table that change it in one epoch, by key and time, the one that wins behind the others
    of a time. `keys` and `times`: int64[n]; `removes`: bool[n]."""

    rows: pa.RecordBatch
    keys: IntArray
    times: IntArray
    removes: BoolArray

    @property
    def last(self) -> IntArray:
        """Numbers of the last row of each key."""
        return np.flatnonzero(np.append(self.keys[1:] != self.keys[:-1], True)[: len(self.keys)])


class TableJoin:
    """Each left row with the table's row of the same key (a StatefulOperator that KeepsState, SetsAside).

    Port 0 is the left input, port 1 the table. A left row meets the table as it is when the row's epoch is
    over, changes of that epoch included; or, with times, as it was at the row's time. What comes in a later
    epoch replaces what came before; inside an epoch a later time does, and of equal times the row that is
    last in canonical order, column by column. A row whose time is in a later epoch waits for that. A null
    key equals nothing.
    """

    traits = Traits(commutative=True, mergeable=True, combinable=False, deterministic=True)
    partial_schema: pa.Schema | None = None
    partial_keys: tuple[str, ...] = ()
    state_version = 1

    def __init__(
        self,
        name: str,
        schemas: tuple[pa.Schema, pa.Schema],
        on: Keys,
        times: TableTimes,
        *,
        kind: JoinKind = JoinKind.INNER,
        suffix: str = "_right",
        delete: str | None = None,
        ordered: bool = False,
    ) -> None:
        """`delete`: boolean column of the table, true where its row takes the key out. Raises
        TopologyError."""
        assert not kind.right_alone, f"a table's rows don't leave alone, as {kind} would have them"
        self.name = name
        self.keys: tuple[tuple[str, ...], ...] = on
        self.needs: tuple[frozenset[str] | None, ...] = (None, None)
        self._check_table(schemas[1], delete)
        hidden = () if delete is None else (delete,)
        self._columns = JoinedColumns(name, schemas, on, kind, suffix, hidden)
        self._kind = kind
        self._ordered = ordered
        self._schemas = schemas
        self._times = times
        self._delete = delete
        self.output = self._columns.schema
        self.output_order: tuple[str, ...] = tuple(self.output.names)
        self._table = KeyedTable(schemas[1], on[1])
        self._waiting: pa.RecordBatch = whole([], schemas[1])
        self._waiting_times: IntArray = np.empty(0, np.int64)
        self._new_waiting: list[pa.RecordBatch] = []
        self._watermark = BEGINNING
        self._unusable = SetAside()

    def prepare(self) -> None:
        """Load the kernels, so that the first epoch does not wait for them."""
        warm_up()

    def combiner(self) -> Combiner:
        raise AssertionError("a join has no combiner: its traits say so")

    def accumulator(self, port: int) -> CollectedRows:
        assert port in (0, 1), f"a join has ports 0 and 1, not {port}"
        return CollectedRows()

    def close(
        self, epoch: EpochClose, accumulators: Sequence[Accumulator]
    ) -> Iterator[pa.RecordBatch]:
        """Change the table, and have the epoch's left rows meet it."""
        left_side, table_side = accumulators
        assert isinstance(left_side, CollectedRows)
        assert isinstance(table_side, CollectedRows)
        left, left_times = self._left(whole(left_side.batches, self._schemas[0]), epoch)
        self._catch_up(epoch)
        changes = self._changes(whole(table_side.batches, self._schemas[1]), epoch)
        keys = self._table.numbers.known([left.column(key) for key in self.keys[0]], left.num_rows)
        versions = np.full(left.num_rows, -1, np.int64)
        if left_times is not None:
            versions = _versions(changes, keys, left_times)
            places, table = self._table.places(keys), self._table.rows
        self._change(changes)
        if left_times is None:
            # the table may have numbered its keys anew
            keys = self._table.numbers.known(
                [left.column(key) for key in self.keys[0]], left.num_rows
            )
            places, table = self._table.places(keys), self._table.rows
        partners = [
            (changes.rows, np.where(versions >= 0, _without(versions, changes.removes), -1)),
            (table, np.where(versions >= 0, -1, places)),
        ]
        batches = self._joined(epoch.epoch, left, partners)
        return self._columns.in_order(batches) if self._ordered else batches

    @property
    def state_nbytes(self) -> int:
        return self._table.nbytes + int(self._waiting.nbytes)

    def take_dead(self) -> DeadRows | None:
        """See contracts.SetsAside."""
        return self._unusable.take()

    def freeze(self, full: bool) -> Handover:
        """See contracts.KeepsState: what changed in the table, the rows that have begun to wait for their
        time, and the watermark, which tells those that do so no more."""
        full = full or self._table.freezes_fully
        waiting = [self._waiting] if full else self._new_waiting
        self._new_waiting = []
        return self._table.freeze(full, {"watermark": self._watermark}, waiting)

    def restore(self, version: int, full: bool, pieces: Iterator[pa.Buffer]) -> None:
        """See contracts.KeepsState."""
        check_version(self.name, version, self.state_version)
        first, _ = decode_piece(next(pieces))
        waiting = [] if full else [self._waiting]
        if full:
            self._table.forget()
        for piece in pieces:
            header, batches = decode_piece(piece)
            for batch in batches:
                if header["part"] == "others":
                    waiting.append(batch)
                else:
                    self._table.restore(header["part"], batch)
        self._watermark = first["watermark"]
        self._wait(whole(waiting, self._schemas[1]))

    def _joined(
        self, epoch: int, left: pa.RecordBatch, partners: Sequence[tuple[Side, IntArray]]
    ) -> Iterator[pa.RecordBatch]:
        """`partners`: rows, and which of them each left row meets, or -1."""
        met = np.zeros(left.num_rows, np.bool_)
        for rows, places in partners:
            found = np.flatnonzero(places >= 0)
            met[found] = True
            if not self._kind.pairs:
                continue
            for start in range(0, len(found), OUTPUT_ROWS_LIMIT):
                some = found[start : start + OUTPUT_ROWS_LIMIT]
                yield self._columns.pairs(epoch, left, some, rows, places[some])
        if self._kind is JoinKind.SEMI:
            yield from self._columns.left_alone(epoch, left, np.flatnonzero(met))
        elif self._kind.left_alone:
            yield from self._columns.left_alone(epoch, left, np.flatnonzero(~met))

    def _left(
        self, batch: pa.RecordBatch, epoch: EpochClose
    ) -> tuple[pa.RecordBatch, IntArray | None]:
        """The usable left rows, and their times where these count."""
        clock = self._times.left
        if clock is None:
            return batch, None
        batch, times = self._timed(batch, clock)
        start, end = epoch.definition.window(epoch.epoch)
        inside = (times >= start) & (times < end)
        if inside.all():
            return batch, times
        where = f"its event time, column {clock.column!r}, lies"
        self._unusable.add(f"late: {where} before its epoch", batch, np.flatnonzero(times < start))
        self._unusable.add(f"{where} behind its epoch", batch, np.flatnonzero(times >= end))
        return batch.filter(pa.array(inside)), times[inside]

    def _changes(self, batch: pa.RecordBatch, epoch: EpochClose) -> _Changes:
        """The usable rows of the table whose time has come, with those that waited for it."""
        present = present_keys([batch.column(key) for key in self.keys[1]])
        if present is not None:
            self._unusable.add("a row of the table has a null key", batch, np.flatnonzero(~present))
            batch = batch.filter(pa.array(present))
        clock = self._times.table
        times = np.zeros(batch.num_rows, np.int64)
        if clock is not None:
            batch, times = self._timed(batch, clock)
        if self._times.left is not None:
            assert clock is not None, "who looks at the times of one side does so at the other's"
            batch = self._due(batch, times, epoch.watermark)
            times, _ = clock.of(batch)
        return self._in_versions(batch, times)

    def _in_versions(self, batch: pa.RecordBatch, times: IntArray) -> _Changes:
        """Usable rows of the table, each version of a key behind the one before."""
        columns = [batch.column(key) for key in self.keys[1]]
        keys = self._table.numbers.of(columns, batch.num_rows)
        order = _version_order(batch, keys, times)
        batch = batch.take(pa.array(order))
        removes = np.zeros(batch.num_rows, np.bool_)
        if self._delete is not None:
            flags = pc.fill_null(batch.column(self._delete), False)
            removes = flags.to_numpy(zero_copy_only=False)
        return _Changes(batch, keys[order], times[order], removes)

    def _change(self, changes: _Changes) -> None:
        last = changes.last
        if len(last):
            chosen = changes.rows.take(pa.array(last))
            self._table.change(chosen, changes.keys[last], changes.removes[last])

    def _catch_up(self, epoch: EpochClose) -> None:
        """Change the table by the rows that waited for epochs before this one.

        Which epochs are closed here depends on the other keys of the slice; what comes in this one, however
        late, replaces these rows all the same.
        """
        start, _ = epoch.definition.window(epoch.epoch)
        until = int(self._waiting_times.searchsorted(start))
        if not until:
            return
        waited, times = self._waiting.slice(0, until), self._waiting_times[:until]
        self._waiting, self._waiting_times = self._waiting.slice(until), self._waiting_times[until:]
        self._change(self._in_versions(waited, times))

    def _due(self, batch: pa.RecordBatch, times: IntArray, watermark: int) -> pa.RecordBatch:
        """Rows whose time is before the watermark, of those that come now and those that waited."""
        self._watermark = watermark
        until = int(self._waiting_times.searchsorted(watermark))
        waited = self._waiting.slice(0, until)
        self._waiting, self._waiting_times = self._waiting.slice(until), self._waiting_times[until:]
        early = times >= watermark
        if early.any():
            begins = batch.filter(pa.array(early))
            if not self._table.freezes_fully:
                self._new_waiting.append(begins)
            self._wait(whole([self._waiting, begins], self._schemas[1]))
            batch = batch.filter(pa.array(~early))
        return whole([waited, batch], self._schemas[1]) if until else batch

    def _wait(self, rows: pa.RecordBatch) -> None:
        """Have the rows wait, as far as they are not due, by time."""
        clock = self._times.table
        times = np.zeros(rows.num_rows, np.int64) if clock is None else clock.of(rows)[0]
        order = np.argsort(times, kind="stable")
        order = order[int(times[order].searchsorted(self._watermark)) :]
        self._waiting, self._waiting_times = rows.take(pa.array(order)), times[order]

    def _timed(self, batch: pa.RecordBatch, clock: EventTime) -> tuple[pa.RecordBatch, IntArray]:
        times, timed = clock.of(batch)
        if len(timed) == batch.num_rows:
            return batch, times
        untimed = np.setdiff1d(np.arange(batch.num_rows), timed, assume_unique=True)
        reason = f"its event time, column {clock.column!r}, is missing or out of range"
        self._unusable.add(reason, batch, untimed)
        return batch.take(pa.array(timed)), times

    def _check_table(self, schema: pa.Schema, delete: str | None) -> None:
        for field in schema:
            if not is_encodable(field.type):
                raise TopologyError(
                    f"operator {self.name!r}: column {field.name!r} of the table has type {field.type}, "
                    "which has no order, so that of two rows none could be told to be the newer one; "
                    "leave it out with a map before"
                )
        if delete is None:
            return
        if delete not in schema.names:
            raise TopologyError(f"operator {self.name!r}: delete: {unknown_column(delete, schema)}")
        if delete in self.keys[1]:
            raise TopologyError(f"operator {self.name!r}: delete: {delete!r} is a key column")
        kind = schema.field(delete).type
        if not pa.types.is_boolean(kind):
            raise TopologyError(
                f"operator {self.name!r}: delete: column {delete!r} has type {kind}; it must be bool: true "
                "takes the key out of the table"
            )


def _version_order(batch: pa.RecordBatch, keys: IntArray, times: IntArray) -> IntArray:
    """Row numbers (int64[n]) that put versions of a key together, by time and then in canonical order."""
    order = np.lexsort((times, keys))
    ordered_keys, ordered_times = keys[order], times[order]
    same = (ordered_keys[1:] == ordered_keys[:-1]) & (ordered_times[1:] == ordered_times[:-1])
    if not same.any():
        return order
    tied = order[np.append(same, False) | np.append(False, same)]
    ranks = np.zeros(len(keys), np.int64)
    ranks[tied[canonical_order(batch.take(pa.array(tied)))]] = np.arange(len(tied))
    return np.lexsort((ranks, times, keys))


def _versions(changes: _Changes, keys: IntArray, times: IntArray) -> IntArray:
    """For rows with keys and times, the last change of their key that is not after them, or -1 (int64[n])."""
    found = np.full(len(keys), -1, np.int64)
    if not len(changes.keys):
        return found
    changed = np.zeros(max(int(changes.keys.max()), int(keys.max(initial=-1))) + 2, np.bool_)
    changed[changes.keys] = True
    # an unknown key, -1, finds the last place, which no key has
    rows = np.flatnonzero(changed[keys])
    count = len(changes.keys)
    order = np.lexsort(
        (
            np.append(np.zeros(count, np.int8), np.ones(len(rows), np.int8)),
            np.append(changes.times, times[rows]),
            np.append(changes.keys, keys[rows]),
        )
    )
    is_change = order < count
    before = np.maximum.accumulate(np.where(is_change, order, -1))
    asked = order[~is_change] - count
    latest = before[~is_change]
    fits = (latest >= 0) & (changes.keys[latest] == keys[rows[asked]])
    found[rows[asked[fits]]] = latest[fits]
    return found


def _without(versions: IntArray, removes: BoolArray) -> IntArray:
    """The versions, with -1 for those that take the key out."""
    if not removes.any():
        return versions
    return np.where((versions >= 0) & removes[versions], -1, versions)
