"""Runs a user's Operator that takes all keys of a slice together (`process_slice`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from streammine.model.contracts import EpochClose, Traits
from streammine.model.errors import TopologyError
from streammine.operators.aggregates.key_order import order_of
from streammine.operators.api import Context, Operator, overrides
from streammine.operators.frozen import Handover
from streammine.operators.keys import check_key
from streammine.operators.rows import EventReader, checked_batch, declared_schema, joined
from streammine.operators.state import KeyState
from streammine.operators.state_store import StateStore
from streammine.operators.timers import Timers
from streammine.operators.user.errors import Failures
from streammine.operators.user.groups import key_fields
from streammine.operators.user.state import UserState

_OUTPUT_ROWS = 65_536
_OF_KEYS = ("process", "process_batch", "end_epoch", "end_input", "on_timer")


class UserSliceOperator:
    """The SequentialOperator for an Operator with `process_slice`; it KeepsState.

    The cells are kept once, under the empty key. Rows leave sorted by all columns, so that neither the order
    of the events nor that in which the code makes them can be seen.
    """

    def __init__(
        self,
        name: str,
        code: Operator,
        inputs: Sequence[pa.Schema],
        keys: Sequence[Sequence[str]],
        dead_letter: bool = False,
        job: str = "",
    ) -> None:
        """Raises TopologyError when the class is incomplete or does not fit its input."""
        place = f"operator '{name}' ({type(code).__name__})"
        _check_class(code, place, len(inputs), dead_letter)
        key_fields(inputs[0], keys[0], name)
        self.name = name
        self.context = code.context = Context(name, job=job)
        self.output = declared_schema(code.output_schema(*inputs), place)
        for column in self.output.names:
            check_key(name, column, self.output, "output, which is sorted by its columns")
        self.output_order: tuple[str, ...] = tuple(self.output.names)
        self.keys: tuple[tuple[str, ...], ...] = (tuple(keys[0]),)
        needed = None if code.needs is None else frozenset([*code.needs, *keys[0]])
        self.needs: tuple[frozenset[str] | None, ...] = (needed,)
        self.traits = Traits(True, False, False, code.deterministic)
        self._code = code
        self._columns = EventReader(inputs[0], code.needs, place).names
        self._failures = Failures(code, self.context, dead_letter=False)
        self._store = StateStore(code.state, (), name)
        self._state = UserState(code, self._failures, name)

    def locate(self, slice_index: int, epoch: int) -> None:
        """See contracts.RunsUserCode."""
        self.context.slice_index = slice_index
        self.context.epoch = epoch

    def prepare(self) -> None:
        """Let the user's code get ready."""
        self._code.prepare()

    def run(
        self, epoch: EpochClose, bag: Iterator[tuple[int, pa.RecordBatch]]
    ) -> list[pa.RecordBatch]:
        """See contracts.SequentialOperator. Raises UserCodeError."""
        self.context.epoch, self.context.watermark = epoch.epoch, epoch.watermark
        self.context.round = epoch.round
        self.context.window = epoch.definition.window(epoch.epoch)
        batches = [batch for _, batch in bag if batch.num_rows]
        output: list[pa.RecordBatch] = []
        states: list[KeyState] = []
        if self._store.windows:
            self._store.check_windows(epoch.definition)
            self._store.begin_epoch(epoch.epoch, epoch.definition)
        if batches:
            rows = joined(batches, batches[0].schema).select(self._columns)
            states = self._store.open([()])
            output = self._process(rows, states[0])
        if epoch.last:
            self._store.end_epoch(epoch.epoch, epoch.definition, states)
            self._store.forget_fresh(states)
        self.context.epoch = self.context.window = None
        return output

    def _process(self, rows: pa.RecordBatch, state: KeyState) -> list[pa.RecordBatch]:
        content = f"batch of {rows.num_rows} rows"
        try:
            result = self._code.process_slice(rows, state)
        except Exception as error:
            raise self._failures.raised("process_slice", error, content) from error
        try:
            if isinstance(result, pa.RecordBatch):
                result = (result, np.zeros(result.num_rows, np.int64))
            batch, _ = checked_batch(result, self.output, rows.num_rows)
        except (TypeError, ValueError) as error:
            raise self._failures.wrong("process_slice", str(error), content) from error
        batch = batch.take(pa.array(order_of(batch.columns)))
        return [
            batch.slice(start, _OUTPUT_ROWS) for start in range(0, batch.num_rows, _OUTPUT_ROWS)
        ]

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


def _check_class(code: Operator, place: str, inputs: int, dead_letter: bool) -> None:
    """Raises TopologyError."""
    others: list[Any] = [method for method in _OF_KEYS if overrides(code, method)]
    others += [name for name, cell in code.state.items() if isinstance(cell, Timers)]
    if others:
        raise TopologyError(
            f"{place}: has process_slice, which takes all keys together, and {others[0]}, which is for "
            "single keys; keep one"
        )
    if not code.commutative:
        raise TopologyError(
            f"{place}: process_slice gets its rows in any order; write commutative = True where the "
            "order does not matter, else process"
        )
    if code.ports or inputs > 1:
        raise TopologyError(f"{place}: an Operator with process_slice has one input")
    if dead_letter:
        raise TopologyError(
            f"{place}: `on_error: dead_letter` can't tell which row of process_slice failed; write process"
        )
