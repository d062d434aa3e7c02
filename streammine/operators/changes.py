"""`changes`: a row per key, when it differs from what left for the key before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.model.canonical import canonical_order
from streammine.model.contracts import Accumulator, EpochClose, IntArray, Traits
from streammine.model.errors import TopologyError
from streammine.model.topology.keyed import EPOCH_COLUMN
from streammine.model.topology.ordering import OrderTerm
from streammine.operators import best_rows
from streammine.operators.best_rows import BestRows, in_batches
from streammine.operators.equality import unequal
from streammine.operators.expressions import unknown_column
from streammine.operators.first_rows import Gathering, OrderedInput, epoch_column
from streammine.operators.frozen import Handover, check_version, decode_piece, encode_piece
from streammine.operators.held_rows import HeldRows
from streammine.operators.kernels.warming import warm_up
from streammine.operators.keyed_rows import KeyedRows
from streammine.operators.map import check_column_name
from streammine.operators.windows import AlignedWindows

_SEEN = "__seen"
"""Of what left for a key: the epoch with which the last window ended that had the key."""

Flags = npt.NDArray[np.bool_]


class ChangedRows:
    """Rows of each key that differ from the last one that left (a StatefulOperator that HoldsWindows and
    KeepsState).

    Of each key and window one row counts, the last in the column `by`, or without one the first in canonical
    order. It leaves when the key has none that left yet, or one that differs in the columns of `of`: null
    equals null, NaN equals NaN, -0.0 equals 0.0. The output has ``epoch``, the key columns, the input's
    others, and `gone` where it is wanted: a key that a window had and the next one has not is gone then.
    """

    traits = Traits(combinable=True)
    state_version = 2

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        keys: Sequence[str],
        *,
        of: Sequence[str] = (),
        ignore: Sequence[str] = (),
        by: str | None = None,
        gone: str | None = None,
        forget_windows: int | None = None,
        window: AlignedWindows | None = None,
    ) -> None:
        """`of`: default, all but the keys and those to `ignore`. `forget_windows`: after so many windows
        without a row a key is new again. Raises TopologyError."""
        self.name = name
        terms = [] if by is None else [OrderTerm(by, descending=True)]
        self.input = OrderedInput(name, schema, keys, terms)
        for column in (*of, *ignore):
            if column not in self.input.schema.names:
                raise TopologyError(
                    f"operator {name!r}: changes: {unknown_column(column, self.input.schema)}"
                )
        self._compared = [
            field.name
            for field in self.input.other_fields
            if (field.name in of if of else field.name not in ignore)
        ]
        self.keys: tuple[tuple[str, ...], ...] = (tuple(keys),)
        self.needs: tuple[frozenset[str] | None, ...] = (self.input.needs,)
        self.partial_schema: pa.Schema | None = self.input.schema
        self.partial_keys: tuple[str, ...] = tuple(keys)
        self.output = self._output(gone)
        self.output_order = (EPOCH_COLUMN, *keys)
        self._gone = gone is not None
        self._window = window or AlignedWindows.tumbling()
        self._held = HeldRows(self._window, self._gathering)
        told = [self.input.schema.field(column) for column in (*keys, *self._compared)]
        self._told = KeyedRows(pa.schema([*told, pa.field(_SEEN, pa.int64())]), keys)
        self._forget_windows = forget_windows
        self._last_end: int | None = None
        """The last epoch of the window that was looked at last."""

    def _output(self, gone: str | None) -> pa.Schema:
        fields = [pa.field(EPOCH_COLUMN, pa.int64()), *self.input.key_fields]
        others = self.input.other_fields
        if gone is not None:
            check_column_name(self.name, gone)
            if gone in self.input.schema.names:
                raise TopologyError(
                    f"operator {self.name!r}: its input has a column {gone!r} already; use another name for "
                    "gone"
                )
            others = [field.with_nullable(True) for field in others]
            others.append(pa.field(gone, pa.bool_()))
        return pa.schema([*fields, *others])

    def prepare(self) -> None:
        """Load the kernels, so that the first batch does not wait for them."""
        warm_up()
        best_rows.load_kernels()

    def combiner(self) -> Gathering:
        return self._gathering()

    def accumulator(self, port: int) -> Gathering:
        assert port == 0, f"it has one port, not port {port}"
        return self._gathering()

    def close(
        self, epoch: EpochClose, accumulators: Sequence[Accumulator]
    ) -> Sequence[pa.RecordBatch]:
        """Add the epoch to its window; what leaves are the changes of a window that is over."""
        (collected,) = accumulators
        assert isinstance(collected, Gathering), collected
        rows = self._held.over(epoch.epoch, collected)
        if rows is not None:
            return self._changes(epoch.epoch, rows)
        if self._window.ends_with(epoch.epoch) and self._gone and self._last_end is not None:
            return self._changes(epoch.epoch, self._gathering())
        return []

    @property
    def due_epoch(self) -> int | None:
        """The end of the first open window, or of the next one if keys may turn out to be gone in it."""
        due = self._held.due_epoch
        if not self._gone or self._last_end is None or not len(self._told):
            return due
        following = self._last_end + self._window.epochs
        return following if due is None else min(due, following)

    @property
    def state_nbytes(self) -> int:
        return self._held.nbytes + self._told.nbytes

    def freeze(self, full: bool) -> Handover:
        """See contracts.KeepsState: rows of open windows, and of keys what left for them."""
        told_full, told = self._told.freeze(full)
        full, held = self._held.freeze(full or told_full)
        if full and not told_full:
            _, told = self._told.freeze(full=True)
        return Handover(full, chain([encode_piece({"last_end": self._last_end})], held, told))

    def restore(self, version: int, full: bool, pieces: Iterator[pa.Buffer]) -> None:
        """See contracts.KeepsState."""
        check_version(self.name, version, self.state_version)
        self._last_end = decode_piece(next(pieces))[0]["last_end"]
        self._held.restore_first(decode_piece(next(pieces))[0], full)
        if full:
            self._told.restore_anew()
        for piece in pieces:
            header, batches = decode_piece(piece)
            part = self._told if "keyed" in header else self._held
            part.restore(header, batches)

    def _changes(self, epoch: int, gathered: BestRows) -> Sequence[pa.RecordBatch]:
        """What leaves of a window that ends with this epoch."""
        rows, _ = gathered.taken()
        numbers = self._told.numbers(rows)
        leaves = self._news(epoch, rows, numbers)
        gone = self._gone_keys(numbers)
        self._tell(epoch, rows, numbers, leaves)
        self._last_end = epoch
        leaving = self._with_epoch(epoch, rows.filter(pa.array(leaves)), gone)
        if self._forget_windows is not None:
            self._told.expire(_SEEN, self._forgotten_before(epoch))
        self._told.clean()
        return in_batches(leaving)

    def _news(self, epoch: int, rows: pa.RecordBatch, numbers: IntArray) -> Flags:
        """Whether each row is new to its key."""
        leaves = ~self._told.has(numbers)
        known = np.flatnonzero(~leaves)
        if not len(known):
            return leaves
        told = self._told.rows(numbers[known])
        now = rows.take(pa.array(known))
        differs = np.zeros(len(known), np.bool_)
        for column in self._compared:
            differs |= unequal(now.column(column), told.column(column))
        if self._forget_windows is not None:
            differs |= told.column(_SEEN).to_numpy() < self._forgotten_before(epoch)
        leaves[known] = differs
        return leaves

    def _forgotten_before(self, epoch: int) -> int:
        """Keys that came last in a window that ended before it are forgotten by this epoch."""
        assert self._forget_windows is not None
        return epoch - self._forget_windows * self._window.epochs

    def _gone_keys(self, numbers: IntArray) -> pa.RecordBatch | None:
        """The keys that the window before had and this one has not; they are forgotten."""
        if not self._gone or not len(self._told):
            return None
        missing = np.setdiff1d(self._told.all(), numbers)
        keys = self._told.rows(missing, [*self.keys[0], _SEEN])
        self._told.drop(missing)
        return keys

    def _tell(self, epoch: int, rows: pa.RecordBatch, numbers: IntArray, leaves: Flags) -> None:
        """Remember what leaves; where keys are forgotten in time, also when each one came."""
        if self._forget_windows is None:
            numbers, rows = numbers[leaves], rows.filter(pa.array(leaves))
        columns = [rows.column(name) for name in self._told.schema.names[:-1]]
        columns.append(epoch_column(epoch, rows.num_rows))
        self._told.put(numbers, pa.record_batch(columns, schema=self._told.schema))

    def _with_epoch(
        self, epoch: int, rows: pa.RecordBatch, gone: pa.RecordBatch | None
    ) -> pa.RecordBatch:
        """Rows of the output: those that came, and of keys that are gone."""
        names = [*self.keys[0], *(field.name for field in self.input.other_fields)]
        columns = [epoch_column(epoch, rows.num_rows), *(rows.column(name) for name in names)]
        if self._gone:
            columns.append(pa.repeat(pa.scalar(False), rows.num_rows))
        leaving = pa.record_batch(columns, schema=self.output)
        if gone is None or not gone.num_rows:
            return leaving
        count = gone.num_rows
        columns = [epoch_column(epoch, count), *(gone.column(key) for key in self.keys[0])]
        columns += [pa.nulls(count, field.type) for field in self.input.other_fields]
        columns.append(pa.repeat(pa.scalar(True), count))
        together = pa.concat_batches([leaving, pa.record_batch(columns, schema=self.output)])
        return together.take(pa.array(canonical_order(together, self.output_order)))

    def _gathering(self) -> Gathering:
        return self.input.gathering(1)
