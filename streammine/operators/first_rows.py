"""Operators that put the rows of each key and window in an order: what they have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from streammine.model.contracts import Accumulator, EpochClose, Traits
from streammine.model.errors import TopologyError
from streammine.model.topology.keyed import EPOCH_COLUMN
from streammine.model.topology.ordering import OrderTerm
from streammine.operators import best_rows
from streammine.operators.best_rows import BestRows, in_batches
from streammine.operators.frozen import Handover, check_version, decode_piece
from streammine.operators.held_rows import HeldRows
from streammine.operators.kernels.warming import warm_up
from streammine.operators.row_order import Arranged, RowOrder
from streammine.operators.windows import AlignedWindows


class OrderedInput:
    """The rows of an input without its column ``epoch``, and their order.

    The output has an ``epoch`` of its own, in which a row leaves. Behind an operator that closes epochs the
    two say the same; where they don't, a map before gives the input's another name.
    """

    def __init__(
        self, name: str, schema: pa.Schema, keys: Sequence[str], terms: Sequence[OrderTerm]
    ) -> None:
        """Raises TopologyError for columns that are not there, or whose values have no order."""
        columns = [field for field in schema if field.name != EPOCH_COLUMN]
        for column in (*keys, *(term.column for term in terms)):
            if column == EPOCH_COLUMN:
                raise TopologyError(
                    f"operator {name!r}: column {EPOCH_COLUMN!r} of its input gives way to that of its "
                    "output; give it another name with a map or an enrich before"
                )
        self.schema = pa.schema(columns)
        self.order = RowOrder(name, self.schema, keys, terms)
        self.needs: frozenset[str] | None = None
        if len(columns) < len(schema):
            self.needs = frozenset(self.schema.names)
        self.key_fields = [schema.field(key) for key in keys]
        self.other_fields = [field for field in columns if field.name not in keys]

    def gathering(self, count: int | None) -> Gathering:
        return Gathering(self, count)


class Gathering(BestRows):
    """The first rows of each group of an input, as an accumulator or a combiner."""

    def __init__(self, rows: OrderedInput, count: int | None) -> None:
        super().__init__(rows.order, count)
        self._schema = rows.schema

    def add(self, batch: pa.RecordBatch) -> None:
        if batch.num_columns > len(self._schema):
            batch = batch.select(self._schema.names)
        super().add(batch)

    def partials(self) -> pa.RecordBatch:
        """See contracts.Combiner: the first rows in order."""
        rows, _ = self.taken()
        return rows


class FirstRows(ABC):
    """The first `count` rows of each key and window, or all of them, in an order (a
    StatefulOperator that HoldsWindows, KeepsState and Forgets).

    A null key is a key like any other.
    """

    state_version = 2
    output: pa.Schema
    output_order: tuple[str, ...]

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        keys: Sequence[str],
        terms: Sequence[OrderTerm],
        count: int | None,
        window: AlignedWindows | None,
    ) -> None:
        """Raises TopologyError."""
        self.name = name
        self.traits = Traits(combinable=count is not None)
        self.input = OrderedInput(name, schema, keys, terms)
        self.keys: tuple[tuple[str, ...], ...] = (tuple(keys),)
        self.needs: tuple[frozenset[str] | None, ...] = (self.input.needs,)
        self.partial_schema: pa.Schema | None = None if count is None else self.input.schema
        self.partial_keys: tuple[str, ...] = tuple(keys)
        self._count = count
        self._window = window or AlignedWindows.tumbling()
        self._held = HeldRows(self._window, self._gathering)

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
        """Add the epoch to its pane; what leaves is the window that ends now."""
        (collected,) = accumulators
        assert isinstance(collected, Gathering), collected
        rows = self._held.over(epoch.epoch, collected)
        return [] if rows is None else in_batches(self._leaving(epoch.epoch, *rows.taken()))

    @abstractmethod
    def _leaving(self, epoch: int, rows: pa.RecordBatch, arranged: Arranged) -> pa.RecordBatch:
        """What leaves of a window, whose rows are in order."""

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
        """The end of the next window, while there are rows in it."""
        return self._held.due_epoch

    @property
    def state_nbytes(self) -> int:
        return self._held.nbytes

    def freeze(self, full: bool) -> Handover:
        """See contracts.KeepsState."""
        return Handover(*self._held.freeze(full))

    def restore(self, version: int, full: bool, pieces: Iterator[pa.Buffer]) -> None:
        """See contracts.KeepsState."""
        check_version(self.name, version, self.state_version)
        self._held.restore_first(decode_piece(next(pieces))[0], full)
        for piece in pieces:
            self._held.restore(*decode_piece(piece))

    def _gathering(self) -> Gathering:
        return self.input.gathering(self._count)

    def _columns(self, rows: pa.RecordBatch, fields: Sequence[pa.Field]) -> list[pa.Array]:
        return [rows.column(field.name) for field in fields]


def epoch_column(epoch: int, rows: int) -> pa.Array:
    return pa.array(np.full(rows, epoch, np.int64))
