"""The keyed aggregate: exact, order-free functions per key over a tumbling window.

Everything that is kept is exact and adds up in any order, so that neither the order of the rows nor
how they are cut into batches, slices or partials can be seen in the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from streammine.model.contracts import Accumulator, EpochClose, Traits
from streammine.model.errors import TopologyError, UserCodeError
from streammine.model.topology.aggregates import AggregateCall
from streammine.model.topology.keyed import EPOCH_COLUMN
from streammine.operators.aggregates import key_order
from streammine.operators.aggregates.definitions import BeyondRangeError
from streammine.operators.aggregates.functions import aggregate
from streammine.operators.aggregates.keys import KeyTable
from streammine.operators.aggregates.state import AggregateLayout, GroupState
from streammine.operators.aggregates.window_state import SealedGroups, WindowState
from streammine.operators.conditions import Condition
from streammine.operators.frozen import Handover, check_version, decode_piece, encode_piece
from streammine.operators.kernels.warming import warm_up
from streammine.operators.keys import check_key
from streammine.operators.map import check_column_name
from streammine.operators.windows import TumblingWindow

_HELD_ROWS_LIMIT = 262_144
_OUTPUT_ROWS_LIMIT = 65_536
_OUTPUT_BYTES = 64 << 20


class KeyedAggregate:
    """Aggregates per key and tumbling window (a StatefulOperator that HoldsWindows and KeepsState).

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
        window: TumblingWindow | None = None,
        combined: bool = False,
        having: str | None = None,
        time: str | None = None,
    ) -> None:
        """Aggregate rows of `schema`, or rows of `partial_schema` where `combined`.

        `aggregates`: output column → what it holds, see `aggregates.functions`. `having`: the condition on
        output rows that leave. `time`: the column of the event time, if any. Raises TopologyError.
        """
        _check_names(name, schema, keys, aggregates)
        self.name = name
        self._window = window or TumblingWindow()
        self._combined = combined
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
        self._windows: dict[int, WindowState] = {}
        self._handover: Handover | None = None

    def prepare(self) -> None:
        """Load the kernels, so that the first batch does not wait for them."""
        warm_up()
        key_order.load_kernels()

    def combiner(self) -> AggregateCombiner:
        return AggregateCombiner(self)

    def accumulator(self, port: int) -> AggregateAccumulator:
        assert port == 0, f"an aggregate has one port, not port {port}"
        return AggregateAccumulator(self, self._combined)

    def close(
        self, epoch: EpochClose, accumulators: Sequence[Accumulator]
    ) -> Sequence[pa.RecordBatch]:
        """Add the epoch to its window; what leaves are the windows that are over."""
        (collected,) = accumulators
        assert isinstance(collected, AggregateAccumulator), collected
        state = collected.groups()
        if self._window.epochs == 1:
            return self._leave(epoch.epoch, state)
        if groups := state.group_count:
            # a table of all of the window's keys would make each epoch as large as the window
            self.renew_table(state.table, groups)
            self._add_to_window(self._window.last_epoch(epoch.epoch), state)
        return self._close_windows(epoch.epoch)

    @property
    def window_epochs(self) -> int:
        """See contracts.Forgets."""
        return self._window.epochs

    @property
    def due_epoch(self) -> int | None:
        """The end of the first open window."""
        return min(self._windows, default=None)

    @property
    def state_nbytes(self) -> int:
        return sum(state.nbytes for state in self._windows.values())

    def freeze(self, full: bool) -> Handover:
        """See contracts.KeepsState: the groups of open windows. Costs microseconds."""
        if self._handover is None:
            full = True
        else:
            self._handover.give_up()
        sealed: list[SealedGroups] = []
        for last_epoch, window in sorted(self._windows.items()):
            sealed += window.seal(last_epoch, full)
        self._handover = Handover(full, _pieces(dict(sorted(self._windows.items())), sealed))
        return self._handover

    def restore(self, version: int, full: bool, pieces: Iterator[pa.Buffer]) -> None:
        """See contracts.KeepsState."""
        check_version(self.name, version, self.state_version)
        first, _ = decode_piece(next(pieces))
        self._windows = {
            last_epoch: WindowState() if full else self._windows.get(last_epoch, WindowState())
            for last_epoch in first["windows"]
        }
        for piece in pieces:
            header, batches = decode_piece(piece)
            for batch in batches:
                self._windows[header["window"]].restore(batch, self.new_state)
        self.renew_table(self._table, 0)

    def new_state(self) -> GroupState:
        """An empty state on the table that is used now."""
        return GroupState(self._layout, self._table)

    def renew_table(self, table: KeyTable, used: int) -> None:
        """Give up a table most of whose keys do not come any more; states on it keep it."""
        if table is self._table and table.outgrown(used):
            self._table = KeyTable(self._layout.key_fields)

    def _add_to_window(self, last_epoch: int, state: GroupState) -> None:
        window = self._windows.get(last_epoch)
        if window is None:
            window = self._windows[last_epoch] = WindowState()
        window.add(state)

    def _close_windows(self, epoch: int) -> list[pa.RecordBatch]:
        """What leaves once `epoch` is over: windows that end with it, none being due before it."""
        batches: list[pa.RecordBatch] = []
        for last_epoch in sorted(last for last in self._windows if last <= epoch):
            if self._handover is not None:
                self._handover.finish()
            batches.extend(self._leave(last_epoch, self._windows.pop(last_epoch).whole()))
        return batches

    def _leave(self, epoch: int, state: GroupState) -> list[pa.RecordBatch]:
        try:
            columns = state.results()
        except BeyondRangeError as error:
            raise UserCodeError(
                f"operator {self.name!r}, epoch {epoch}, {state.key_text(error.group)}: {error}"
            ) from error
        rows = len(columns[0])
        self.renew_table(state.table, rows)
        if rows == 0:
            return []
        epochs = pa.repeat(pa.scalar(epoch, pa.int64()), rows)
        batch = pa.record_batch([epochs, *columns], schema=self.output)
        if self._having is not None:
            batch = batch.filter(self._having.holds(batch))
        return _cut(batch)


class AggregateCombiner:
    """What one sending slice knows of one open epoch; leaves as exact partials."""

    def __init__(self, operator: KeyedAggregate) -> None:
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

    def __init__(self, operator: KeyedAggregate, combined: bool) -> None:
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


def _pieces(
    windows: Mapping[int, WindowState], sealed: Sequence[SealedGroups]
) -> Iterator[pa.Buffer]:
    yield encode_piece({"windows": list(windows)})
    for layer in sealed:
        yield from layer.pieces()
    for window in windows.values():
        window.settle()


def _check_names(
    name: str, schema: pa.Schema, keys: Sequence[str], aggregates: Mapping[str, AggregateCall]
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
    for column in aggregates:
        if column in keys:
            raise TopologyError(
                f"operator {name!r}: {column!r} is a key; give the aggregate another name"
            )
