"""The keyed aggregate: exact, order-free functions per key over a tumbling window.

Everything that is kept is exact and adds up in any order, so that neither the order of the rows nor
how they are cut into batches, slices or partials can be seen in the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypedDict, Unpack

import pyarrow as pa

from streammine.model.contracts import Accumulator, Combiner, EpochClose, Traits
from streammine.model.errors import TopologyError, UserCodeError
from streammine.model.topology.aggregates import AggregateCall
from streammine.model.topology.keyed import EPOCH_COLUMN, SPAN_COLUMNS
from streammine.operators.aggregates import key_order
from streammine.operators.aggregates.definitions import BeyondRangeError
from streammine.operators.aggregates.functions import aggregate
from streammine.operators.aggregates.keys import KeyTable
from streammine.operators.aggregates.state import AggregateLayout, GroupState
from streammine.operators.aggregates.window_state import OpenWindows
from streammine.operators.conditions import Condition
from streammine.operators.frozen import Handover, check_version
from streammine.operators.kernels.warming import warm_up
from streammine.operators.keys import check_key
from streammine.operators.map import check_column_name
from streammine.operators.windows import SPAN_TYPE, TumblingWindow

_HELD_ROWS_LIMIT = 262_144
_OUTPUT_ROWS_LIMIT = 65_536
_OUTPUT_BYTES = 64 << 20


class AggregateSettings(TypedDict, total=False):
    """What every aggregate may be told besides its window; see `AggregateBase`."""

    combined: bool
    spans: bool
    having: str | None
    time: str | None


class AggregateBase:
    """What aggregates over all kinds of windows have in common.

    One object serves one slice (or, as a combiner, one sending slice and edge): its calls come one
    at a time, and its epochs share a table of keys. A null key is a key like any other.
    """

    traits = Traits(commutative=True, mergeable=True, combinable=True, deterministic=True)
    state_version = 1

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        keys: Sequence[str],
        aggregates: Mapping[str, AggregateCall],
        *,
        combined: bool = False,
        spans: bool = False,
        having: str | None = None,
        time: str | None = None,
    ) -> None:
        """Aggregate rows of `schema`, or rows of `partial_schema` where `combined`.

        `aggregates`: output column → what it holds, see `aggregates.functions`. `spans`: the output
        says when each window starts and ends. `having`: the condition on output rows that leave. `time`: the
        column of the event time, if any. Raises TopologyError.
        """
        _check_names(name, schema, keys, aggregates, spans)
        self.name = name
        self._combined = combined
        self._spans = spans
        functions = [
            aggregate(name, output, call, schema, time) for output, call in aggregates.items()
        ]
        conditions = {
            text: Condition(name, "the condition", text, schema)
            for call in aggregates.values()
            if (text := call.where) is not None
        }
        self._layout = AggregateLayout(schema, tuple(keys), tuple(functions), conditions)
        key_fields = self._layout.key_fields
        self.output = pa.schema(
            [
                pa.field(EPOCH_COLUMN, pa.int64()),
                *(pa.field(column, SPAN_TYPE) for column in SPAN_COLUMNS if spans),
                *key_fields,
                *(pa.field(function.name, function.type) for function in functions),
            ]
        )
        self._having = None if having is None else Condition(name, "having", having, self.output)
        self.output_order: tuple[str, ...] = (EPOCH_COLUMN, *keys)
        self.keys: tuple[tuple[str, ...], ...] = (tuple(keys),)
        self.needs: tuple[frozenset[str] | None, ...] = (self._layout.columns_read,)
        self.partial_schema: pa.Schema | None = self._layout.partial_schema
        self.partial_keys: tuple[str, ...] = tuple(keys)
        self._table = KeyTable(key_fields)

    def prepare(self) -> None:
        """Load the kernels, so that the first batch does not wait for them."""
        warm_up()
        key_order.load_kernels()

    def combiner(self) -> Combiner:
        return AggregateCombiner(self)

    def accumulator(self, port: int) -> Accumulator:
        assert port == 0, f"an aggregate has one port, not port {port}"
        return AggregateAccumulator(self, self._combined)

    def new_state(self) -> GroupState:
        """An empty state on the table that is used now."""
        return GroupState(self._layout, self._table)

    def renew_table(self, table: KeyTable, used: int) -> None:
        """Give up a table most of whose keys do not come any more; states on it keep it."""
        if table is self._table and table.outgrown(used):
            self._table = KeyTable(self._layout.key_fields)

    def _leave(
        self, epoch: int, state: GroupState, span: tuple[int, int] | None = None
    ) -> list[pa.RecordBatch]:
        """The results of a window that leaves in `epoch`; `span`: its start and end in microseconds."""
        try:
            columns = state.results()
        except BeyondRangeError as error:
            raise self._failure(epoch, state.key_text(error.group), error) from error
        rows = len(columns[0])
        self.renew_table(state.table, rows)
        if rows == 0:
            return []
        first = [pa.repeat(pa.scalar(epoch, pa.int64()), rows)]
        if self._spans:
            assert span is not None, "whose output has the window's ends knows them"
            first += [pa.repeat(pa.scalar(end, SPAN_TYPE), rows) for end in span]
        return self._chosen(pa.record_batch([*first, *columns], schema=self.output))

    def _chosen(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Those of the results that are wanted, as they leave."""
        if self._having is not None:
            batch = batch.filter(self._having.holds(batch))
        return _cut(batch)

    def _failure(self, epoch: int, key: str, error: BeyondRangeError) -> UserCodeError:
        return UserCodeError(f"operator {self.name!r}, epoch {epoch}, {key}: {error}")


class KeyedAggregate(AggregateBase):
    """Aggregates per key and tumbling window (a StatefulOperator that HoldsWindows and KeepsState)."""

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        keys: Sequence[str],
        aggregates: Mapping[str, AggregateCall],
        *,
        window: TumblingWindow | None = None,
        **settings: Unpack[AggregateSettings],
    ) -> None:
        """As `AggregateBase`. Raises TopologyError."""
        super().__init__(name, schema, keys, aggregates, **settings)
        self._window = window or TumblingWindow()
        self._open = OpenWindows()

    def close(
        self, epoch: EpochClose, accumulators: Sequence[Accumulator]
    ) -> Sequence[pa.RecordBatch]:
        """Add the epoch to its window; what leaves are the windows that are over."""
        (collected,) = accumulators
        assert isinstance(collected, AggregateAccumulator), collected
        state = collected.groups()
        if self._window.epochs == 1:
            return self._leave(epoch.epoch, state, epoch.definition.window(epoch.epoch))
        if groups := state.group_count:
            # a table of all of the window's keys would make each epoch as large as the window
            self.renew_table(state.table, groups)
            self._open.add(self._window.last_epoch(epoch.epoch), state)
        batches: list[pa.RecordBatch] = []
        for last_epoch, over in self._open.take_closed(epoch.epoch):
            span = self._window.span(epoch.definition, last_epoch)
            batches += self._leave(last_epoch, over, span)
        return batches

    @property
    def window_epochs(self) -> int:
        """See contracts.Forgets."""
        return self._window.epochs

    @property
    def due_epoch(self) -> int | None:
        """The end of the first open window."""
        return self._open.first

    @property
    def state_nbytes(self) -> int:
        return self._open.nbytes

    def freeze(self, full: bool) -> Handover:
        """See contracts.KeepsState: the groups of open windows. Costs microseconds."""
        return self._open.freeze(full)

    def restore(self, version: int, full: bool, pieces: Iterator[pa.Buffer]) -> None:
        """See contracts.KeepsState."""
        check_version(self.name, version, self.state_version)
        self._open.restore(full, pieces, self.new_state)
        self.renew_table(self._table, 0)


class AggregateCombiner:
    """What one sending slice knows of one open epoch; leaves as exact partials."""

    def __init__(self, operator: AggregateBase) -> None:
        self._operator = operator
        self._state = operator.new_state()

    @property
    def nbytes(self) -> int:
        return self._state.nbytes

    def add(self, batch: pa.RecordBatch) -> None:
        self._state.add_rows(batch)

    def partials(self) -> pa.RecordBatch:
        """Partials of all keys, in canonical key order; the combiner is empty afterwards."""
        batch = self._state.partials()
        self._operator.renew_table(self._state.table, batch.num_rows)
        self._state = self._operator.new_state()
        return batch


class AggregateAccumulator:
    """What an epoch has collected from some channels: groups, and partials not yet added to them.

    Partials of a channel are few and wait until all are there: adding them to one state costs less
    than a state per channel and merging those.
    """

    def __init__(self, operator: AggregateBase, combined: bool) -> None:
        self._operator = operator
        self._combined = combined
        self._state: GroupState | None = None
        self._held: list[pa.RecordBatch] = []
        self._held_rows = 0

    @property
    def nbytes(self) -> int:
        held = sum(int(batch.nbytes) for batch in self._held)
        return held + (0 if self._state is None else self._state.nbytes)

    def add(self, batch: pa.RecordBatch) -> None:
        if not self._combined:
            self._groups().add_rows(batch)
            return
        self._held.append(batch)
        self._held_rows += batch.num_rows
        self._bound_held()

    def merge(self, other: AggregateAccumulator) -> None:
        if other._state is not None:
            if self._state is None:
                self._state = other._state
            else:
                self._state.merge(other._state)
        self._held += other._held
        self._held_rows += other._held_rows
        self._bound_held()

    def groups(self) -> GroupState:
        """Everything collected, as one state."""
        state = self._groups()
        for batch in self._held:
            state.add_partials(batch)
        self._held = []
        self._held_rows = 0
        return state

    def _groups(self) -> GroupState:
        if self._state is None:
            self._state = self._operator.new_state()
        return self._state

    def _bound_held(self) -> None:
        if self._held_rows > _HELD_ROWS_LIMIT:
            self.groups()


def _cut(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """The rows in batches that are not too long, nor too large where they hold lists."""
    rows = batch.num_rows
    fitting = max(1, rows * _OUTPUT_BYTES // max(1, int(batch.nbytes)))
    step = min(_OUTPUT_ROWS_LIMIT, fitting)
    return [batch.slice(first, step) for first in range(0, rows, step)]


def _check_names(
    name: str,
    schema: pa.Schema,
    keys: Sequence[str],
    aggregates: Mapping[str, AggregateCall],
    spans: bool,
) -> None:
    for key in keys:
        check_key(name, key, schema)
    if len(set(keys)) != len(keys):
        raise TopologyError(f"operator {name!r}: key names a column twice: {', '.join(keys)}")
    for column in (*keys, *aggregates):
        check_column_name(name, column)
        if column == EPOCH_COLUMN:
            raise TopologyError(
                f"operator {name!r}: column {EPOCH_COLUMN!r} is the number of the epoch, which "
                "every aggregate adds; give the other one another name"
            )
        if spans and column in SPAN_COLUMNS:
            raise TopologyError(
                f"operator {name!r}: column {column!r} says when the window starts or ends, which every "
                "aggregate with a window adds; give the other one another name"
            )
    for column in aggregates:
        if column in keys:
            raise TopologyError(
                f"operator {name!r}: {column!r} is a key; give the aggregate another name"
            )
