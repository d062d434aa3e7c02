"""Runs a user's Operator as a SequentialOperator."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from operator import length_hint
from typing import Any

import numpy as np
import pyarrow as pa

from streammine.model.contracts import DeadRows, EpochClose, Traits
from streammine.model.errors import TopologyError
from streammine.operators.aggregates.key_order import load_kernels, order_of
from streammine.operators.api import Context, Operator, overrides
from streammine.operators.frozen import Handover
from streammine.operators.kernels import warm_up
from streammine.operators.keys import check_key
from streammine.operators.rows import (
    PIECE_ROWS,
    EventReader,
    IntArray,
    OutputTooLargeError,
    RowWriter,
    checked_batch,
    declared_schema,
    joined,
    materialized,
)
from streammine.operators.state import Key, KeyState
from streammine.operators.state_store import StateStore
from streammine.operators.user.errors import Failures
from streammine.operators.user.groups import (
    KeyGroups,
    key_fields,
    ordered_keys,
    python_keys,
    shown_keys,
)
from streammine.operators.user.order import EPOCH_END, INPUT_END, TIMER, OutputOrder
from streammine.operators.user.state import UserState
from streammine.operators.user.timers import FiringTimers

_OUTPUT_ROWS = 65_536


class _OpenKeys:
    """The keys that an epoch's events have touched so far, with their states, by group."""

    def __init__(self, fields: Sequence[pa.Field], store: StateStore) -> None:
        self._groups = KeyGroups(fields)
        self._store = store
        self._width = len(fields)
        self.keys: list[Key] = []
        self.shown: list[Any] = []
        self.states: list[KeyState] = []

    def ids(self, columns: list[pa.Array], rows: int) -> list[int]:
        """Group of each row; states of new keys are opened."""
        ids, first_rows = self._groups.ids(columns, rows)
        if len(first_rows):
            places = pa.array(first_rows)
            taken = [column.take(places) for column in columns]
            keys = python_keys(taken, len(first_rows))
            self.keys += keys
            self.shown += shown_keys(keys, self._width)
            self.states += self._store.open(keys, taken)
        group_ids: list[int] = ids.tolist()
        return group_ids


class UserOperator:
    """The SequentialOperator for an Operator; it KeepsState.

    `run` may be given hidden columns besides the visible ones. It emits `output`, and behind it the
    columns `hidden` if `carries_order` is set, which needs the inputs' order columns in the
    batches. Rows leave in the order of `output_order`: positions (see `order`), or, where the
    Operator is commutative and so positions mean nothing, all columns. `every_key`: each epoch with
    events anywhere calls `end_epoch` for all keys, so that one slice must hold them all. `ends_input`:
    the code has `end_input`.
    """

    def __init__(
        self,
        name: str,
        code: Operator,
        inputs: Sequence[pa.Schema],
        keys: Sequence[Sequence[str]],
        orders: Sequence[Sequence[pa.Field]] = (),
        dead_letter: bool = False,
        carries_order: bool = False,
        job: str = "",
    ) -> None:
        """`orders`: for each port the fields that order its rows. `job`: its name. Raises TopologyError."""
        place = f"operator '{name}' ({type(code).__name__})"
        assert len(keys) == len(inputs), "each port has its key"
        self._by_batch = overrides(code, "process_batch")
        self._methods = _event_methods(code, len(inputs), place, self._by_batch, dead_letter)
        fields = [
            key_fields(schema, names, name) for schema, names in zip(inputs, keys, strict=True)
        ]
        for other in fields[1:]:
            if [field.type for field in other] != [field.type for field in fields[0]]:
                raise TopologyError(f"{place}: the keys of its inputs have different types")
        self.name = name
        self.context = code.context = Context(name, job=job)
        self.output = declared_schema(code.output_schema(*inputs), place)
        self.keys = tuple(map(tuple, keys))
        self.needs = tuple(
            None
            if code.needs is None
            else frozenset([*(set(code.needs) & set(schema.names)), *own])
            for schema, own in zip(inputs, keys, strict=True)
        )
        self.traits = Traits(code.commutative, False, False, code.deterministic)
        self._code = code
        self._fields = fields[0]
        self._readers = [
            EventReader(schema, _present(code.needs, schema, len(inputs)), place)
            for schema in inputs
        ]
        self._writer = RowWriter(self.output)
        self._failures = Failures(code, self.context, dead_letter)
        self._store = StateStore(code.state, fields[0], name)
        self._state = UserState(code, self._failures, name)
        # the keys that had events in the rounds of an epoch so far; in a loop there are several
        self._touched: dict[Key, KeyState] = {}
        self._closes_epochs = overrides(code, "end_epoch")
        self.every_key = code.every_key and self._closes_epochs
        self.ends_input = overrides(code, "end_input")
        self._timers = FiringTimers(code, self._store, name, place)
        closes = self._closes_epochs or self.ends_input or self._timers.declared
        self._order = OutputOrder(list(orders) or [()] * len(inputs), fields[0], closes)
        self._sorts = code.commutative
        self.hidden = () if self._sorts else self._order.fields
        self.output_order = tuple(self.output.names) if self._sorts else self._order.names
        self.carries_order = carries_order and not self._sorts
        if self._sorts:
            for column in self.output.names:
                check_key(name, column, self.output, "output, which is sorted by its columns")

    def locate(self, slice_index: int, epoch: int) -> None:
        """See contracts.RunsUserCode."""
        self.context.slice_index = slice_index
        self.context.epoch = epoch

    def prepare(self) -> None:
        """Load the kernels that group rows, and let the user's code get ready."""
        warm_up()
        load_kernels()
        self._code.prepare()

    def run(
        self, epoch: EpochClose, bag: Iterator[tuple[int, pa.RecordBatch]]
    ) -> list[pa.RecordBatch]:
        """See contracts.SequentialOperator. Raises UserCodeError."""
        self._enter(epoch)
        opened = _OpenKeys(self._fields, self._store)
        output: list[pa.RecordBatch] = []
        if self._by_batch:
            batches = [batch for _, batch in bag if batch.num_rows]
            if batches:
                output.append(self._process_groups(joined(batches, batches[0].schema), opened))
        else:
            for port, batch in bag:
                output += self._process_pieces(port, batch, opened)
        if not epoch.last:
            self._touched.update(zip(opened.keys, opened.states, strict=True))
            return self._in_order(output)
        keys, states = opened.keys, opened.states
        if self._touched:
            self._touched.update(zip(keys, states, strict=True))
            keys, states = list(self._touched), list(self._touched.values())
            self._touched = {}
        self._store.end_epoch(epoch.epoch, epoch.definition, states)
        if self._timers.declared:
            self._timers.note(states)
            output.append(self._fire_timers(epoch))
            states = list({id(each): each for each in (*states, *self._timers.served)}.values())
        if self._closes_epochs:
            if self.every_key:
                # the keys of this epoch's events and timers are called whatever they have left
                called = {state._key for state in states}
                known = self._store.keys()
                self._store.drop_expired(key for key in known if key not in called)
                keys, states = self._store.keys(), self._store.states()
            output.append(self._close_keys("end_epoch", EPOCH_END, keys, epoch))
        self._timers.leave(states, fed=bool(opened.keys))
        self._store.forget_fresh(states)
        return self._in_order(output)

    @property
    def due_epoch(self) -> int | None:
        """See contracts.HoldsWindows: the epoch in which the next timer fires."""
        return self._timers.due_epoch

    def flush(self, epoch: EpochClose) -> list[pa.RecordBatch]:
        """See contracts.SequentialOperator. Raises UserCodeError."""
        if not self.ends_input:
            return []
        self._enter(epoch)
        self._store.drop_expired(self._store.keys())
        output = self._close_keys("end_input", INPUT_END, self._store.keys(), epoch)
        self._store.forget_fresh(self._store.states())
        return self._in_order([output])

    def take_dead(self) -> DeadRows | None:
        """Events that failed since the last call. What `process` changed before it failed stays."""
        return self._failures.dead.take()

    @property
    def state_nbytes(self) -> int:
        return self._store.nbytes

    @property
    def state_version(self) -> int:
        """The user's own number for what the state holds."""
        return self._state.version

    def freeze(self, full: bool) -> Handover:
        """See contracts.KeepsState. Raises UserCodeError where the user's `serialize` fails."""
        return self._state.freeze(self._store, full)

    def restore(self, version: int, full: bool, pieces: Iterator[pa.Buffer]) -> None:
        """See contracts.KeepsState. Raises StateVersionError, UserCodeError."""
        self._state.restore(self._store, version, full, pieces)
        self._timers.renew()

    def _enter(self, epoch: EpochClose) -> None:
        self.context.epoch, self.context.watermark = epoch.epoch, epoch.watermark
        self.context.round = epoch.round
        self.context.window = epoch.definition.window(epoch.epoch)
        self._timers.enter(epoch)
        if self._store.windows:
            self._store.check_windows(epoch.definition)
            self._store.begin_epoch(epoch.epoch, epoch.definition)

    def _process_pieces(
        self, port: int, batch: pa.RecordBatch, opened: _OpenKeys
    ) -> list[pa.RecordBatch]:
        pieces = [
            self._process(port, batch.slice(start, PIECE_ROWS), opened)
            for start in range(0, batch.num_rows, PIECE_ROWS)
        ]
        return [joined(pieces, pieces[0].schema)] if pieces else []

    def _process(self, port: int, batch: pa.RecordBatch, opened: _OpenKeys) -> pa.RecordBatch:
        """Call the user's method once per event, in order; the output of a piece of a batch."""
        rows = batch.num_rows
        ids = opened.ids([batch.column(name) for name in self.keys[port]], rows)
        method = self._methods[port]
        waiting = iter(ids)
        calls: Iterator[Any] = map(
            method,
            map(opened.shown.__getitem__, waiting),
            self._readers[port].events(batch),
            map(opened.states.__getitem__, ids),
        )
        if inspect.isgeneratorfunction(method):
            calls = map(list, calls)
        results: list[Any] = []
        parents: list[int] = []
        done = 0
        while done < rows:
            try:
                for row, result in enumerate(calls, done):
                    if result is not None:
                        results.append(materialized(result))
                        parents.append(row)
                if length_hint(waiting):
                    raise RuntimeError("StopIteration left the method")
            except Exception as error:
                done = rows - length_hint(waiting)
                event = self._readers[port].event(batch, done - 1)
                self._failures.event_raised(method.__name__, error, event)
            else:
                done = rows

        def mistake(index: int, message: str) -> None:
            event = self._readers[port].event(batch, parents[index])
            self._failures.event_wrong(method.__name__, message, event)

        return self._written(port, batch, results, np.array(parents, np.int64), mistake)

    def _written(
        self,
        port: int,
        batch: pa.RecordBatch,
        results: list[Any],
        parents: IntArray,
        mistake: Callable[[int, str], None],
    ) -> pa.RecordBatch:
        try:
            output, of_results = self._writer.write(results, mistake)
        except OutputTooLargeError as error:
            name = self._methods[port].__name__
            raise self._failures.wrong(name, str(error), f"{len(results)} results") from error
        of_rows = parents if of_results is None else parents[of_results]
        return self._physical(output, lambda: self._order.of_events(port, batch, of_rows))

    def _process_groups(self, batch: pa.RecordBatch, opened: _OpenKeys) -> pa.RecordBatch:
        """Call `process_batch` once per key; rows leave in the order of the events again."""
        columns = [batch.column(name) for name in self.keys[0]]
        ids = np.array(opened.ids(columns, batch.num_rows), dtype=np.int64)
        order = np.argsort(ids, kind="stable")
        grouped = batch.select(self._readers[0].names).take(pa.array(order))
        ends = np.cumsum(np.bincount(ids)).tolist()
        outputs: list[pa.RecordBatch] = []
        parents: list[IntArray] = []
        start = 0
        for group, end in enumerate(ends):
            rows = grouped.slice(start, end - start)
            output, found = self._process_group(rows, opened.shown[group], opened.states[group])
            outputs.append(output)
            members = order[start:end]
            parents.append(members if found is None else members[found])
            start = end
        of_rows = np.concatenate(parents)
        places = np.argsort(of_rows, kind="stable")
        output = joined(outputs, self.output).take(pa.array(places))
        return self._physical(output, lambda: self._order.of_events(0, batch, of_rows[places]))

    def _process_group(
        self, rows: pa.RecordBatch, key: Any, state: KeyState
    ) -> tuple[pa.RecordBatch, IntArray | None]:
        content = f"key: {key!r}, batch of {rows.num_rows} rows"
        try:
            result = self._code.process_batch(key, rows, state)
        except Exception as error:
            raise self._failures.raised("process_batch", error, content) from error
        try:
            return checked_batch(result, self.output, rows.num_rows)
        except (TypeError, ValueError) as error:
            raise self._failures.wrong("process_batch", str(error), content) from error

    def _close_keys(
        self, method: str, stage: int, chosen: list[Key], epoch: EpochClose
    ) -> pa.RecordBatch:
        """Call a closing method for each key in canonical order."""
        keys, columns = ordered_keys(chosen, self._fields)
        shown = shown_keys(keys, len(self._fields))
        call = getattr(self._code, method)
        results: list[Any] = []
        for name, state in zip(shown, self._store.open(keys, columns), strict=True):
            try:
                results.append(materialized(call(name, state)))
            except Exception as error:
                raise self._failures.raised(method, error, f"key: {name!r}") from error
        owners = np.arange(len(results), dtype=np.int64)
        return self._closed(method, stage, results, owners, shown, columns, epoch)

    def _fire_timers(self, epoch: EpochClose) -> pa.RecordBatch:
        """Call `on_timer` for each key whose time has come, in canonical order, and then in that of time."""
        keys, columns = ordered_keys(self._timers.take(epoch.watermark), self._fields)
        shown = shown_keys(keys, len(self._fields))
        results: list[Any] = []
        owners: list[int] = []
        self._timers.served = self._store.open(keys, columns)
        for place, state in enumerate(self._timers.served):
            try:
                for time in self._timers.of(state).take(epoch.watermark):
                    results.append(materialized(self._code.on_timer(shown[place], time, state)))
                    owners.append(place)
            except Exception as error:
                raise self._failures.raised("on_timer", error, f"key: {shown[place]!r}") from error
        found = np.array(owners, dtype=np.int64)
        return self._closed("on_timer", TIMER, results, found, shown, columns, epoch)

    def _closed(
        self,
        method: str,
        stage: int,
        results: list[Any],
        owners: IntArray,
        shown: list[Any],
        columns: list[pa.Array],
        epoch: EpochClose,
    ) -> pa.RecordBatch:
        """What closing calls gave. `owners`: the number of each result's key, ascending."""

        def mistake(index: int, message: str) -> None:
            raise self._failures.wrong(method, message, f"key: {shown[owners[index]]!r}")

        try:
            output, parents = self._writer.write(results, mistake)
        except OutputTooLargeError as error:
            raise self._failures.wrong(method, str(error), f"{len(shown)} keys") from error
        of_rows = owners if parents is None else owners[parents]
        time = epoch.definition.window(epoch.epoch)[1] - 1
        return self._physical(output, lambda: self._order.of_closing(stage, columns, of_rows, time))

    def _physical(
        self, output: pa.RecordBatch, order: Callable[[], list[pa.Array]]
    ) -> pa.RecordBatch:
        if not self.carries_order:
            return output
        schema = pa.schema([*self.output, *self.hidden])
        return pa.RecordBatch.from_arrays([*output.columns, *order()], schema=schema)

    def _in_order(self, output: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        self.context.epoch = self.context.window = None
        filled = [batch for batch in output if batch.num_rows]
        if self._sorts and filled:
            batch = joined(filled, self.output)
            filled = [batch.take(pa.array(order_of(batch.columns)))]
        return [
            batch.slice(start, _OUTPUT_ROWS)
            for batch in filled
            for start in range(0, batch.num_rows, _OUTPUT_ROWS)
        ]


def _present(needs: Sequence[str] | None, schema: pa.Schema, ports: int) -> Sequence[str] | None:
    """What is needed of one port: with several, a needed column may be in some of them only."""
    if needs is None or ports == 1:
        return needs
    return [name for name in needs if name in schema.names]


def _event_methods(
    code: Operator, inputs: int, place: str, by_batch: bool, dead_letter: bool
) -> list[Callable[..., Any]]:
    """The user's method for each port. Raises TopologyError."""
    if code.ports:
        if len(code.ports) != inputs:
            raise TopologyError(
                f"{place}: has {inputs} inputs, but its ports are {', '.join(code.ports)}"
            )
        missing = [f"process_{port}" for port in code.ports if not hasattr(code, f"process_{port}")]
        if missing:
            raise TopologyError(f"{place}: needs the method {missing[0]} for its port")
        return [getattr(code, f"process_{port}") for port in code.ports]
    if inputs > 1:
        raise TopologyError(
            f'{place}: has {inputs} inputs; name them, ports = ("…", "…"), '
            "and write process_… for each"
        )
    if overrides(code, "process") == by_batch:
        raise TopologyError(f"{place}: an Operator has either process or process_batch")
    if by_batch and dead_letter:
        raise TopologyError(
            f"{place}: `on_error: dead_letter` can't tell which row of process_batch "
            "failed; write process"
        )
    return [code.process_batch if by_batch else code.process]
