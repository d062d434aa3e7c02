"""Runs a user's Reducer as a StatefulOperator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from streammine.model.contracts import Accumulator, DeadRows, EpochClose, Traits
from streammine.model.errors import TopologyError
from streammine.operators.aggregates.key_order import load_kernels
from streammine.operators.api import Context, Reducer, overrides
from streammine.operators.frozen import Handover
from streammine.operators.kernels import warm_up
from streammine.operators.rows import (
    EventReader,
    OutputTooLargeError,
    RowWriter,
    declared_schema,
    joined,
    materialized,
)
from streammine.operators.user.errors import Failures
from streammine.operators.user.folding import Folding, FoldPlan
from streammine.operators.user.groups import key_fields, python_keys, shown_keys
from streammine.operators.user.state import UserState
from streammine.operators.user.windows import ReducerWindows
from streammine.operators.windows import TumblingWindow

EPOCH_COLUMN = "epoch"
_OUTPUT_ROWS = 65_536


class BatchBag:
    """The accumulator of a Reducer that can't merge: the epoch's batches, in their order."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []

    @property
    def nbytes(self) -> int:
        return sum(batch.nbytes for batch in self.batches)

    def add(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)

    def merge(self, other: BatchBag) -> None:
        raise AssertionError("a Reducer without merge has one accumulator per epoch")


class UserReducer:
    """The StatefulOperator for a Reducer; it HoldsWindows and KeepsState.

    Output: `epoch` (int64, the last epoch of the window), the key columns, the columns of `finish`;
    in canonical order of the keys, several rows of a key in the order that `finish` gave them.
    """

    def __init__(
        self,
        name: str,
        code: Reducer,
        input_schema: pa.Schema,
        keys: Sequence[str],
        dead_letter: bool = False,
        window_epochs: int = 1,
    ) -> None:
        """Raises TopologyError when the class is incomplete or doesn't fit its input."""
        place = f"operator '{name}' ({type(code).__name__})"
        mergeable = code.commutative and overrides(code, "merge")
        by_batch = overrides(code, "add_batch")
        _check_methods(code, place, by_batch, dead_letter)
        fields = key_fields(input_schema, keys, name)
        finished = declared_schema(code.output_schema(input_schema), place)
        names = [EPOCH_COLUMN, *keys, *finished.names]
        for column in names:
            if names.count(column) > 1:
                raise TopologyError(
                    f"{place}: column '{column}' would leave twice; what leaves is "
                    f"'{EPOCH_COLUMN}', the key ({', '.join(keys)}) and the output of finish: "
                    "rename one (`map`)"
                )
        self.name = name
        self.context = code.context = Context(name)
        self.output = pa.schema(
            [pa.field(EPOCH_COLUMN, pa.int64(), nullable=False), *fields, *finished]
        )
        self.output_order = (EPOCH_COLUMN, *keys)
        self.keys: tuple[tuple[str, ...], ...] = (tuple(keys),)
        self.needs: tuple[frozenset[str] | None, ...] = (
            None if code.needs is None else frozenset([*code.needs, *keys]),
        )
        self.traits = Traits(code.commutative, mergeable, mergeable, code.deterministic)
        partial = "accumulator"
        while partial in input_schema.names:
            partial += "_"
        self.partial_keys = tuple(keys)
        partial_schema = pa.schema([*fields, pa.field(partial, pa.binary(), nullable=False)])
        self.partial_schema = partial_schema if mergeable else None
        self._failures = Failures(code, self.context, dead_letter)
        self._code = code
        self._plan = FoldPlan(
            code,
            EventReader(input_schema, code.needs, place),
            self._failures,
            tuple(fields),
            partial_schema,
            by_batch,
            overrides(code, "serialize"),
        )
        self._writer = RowWriter(finished)
        self._window = TumblingWindow(window_epochs)
        self._windows = ReducerWindows(self._plan)
        self._state = UserState(code, self._failures, name)

    def locate(self, slice_index: int, epoch: int) -> None:
        """See contracts.RunsUserCode."""
        self.context.slice_index = slice_index
        self.context.epoch = epoch

    def prepare(self) -> None:
        """Load the kernels that group rows, and let the user's code get ready."""
        warm_up()
        load_kernels()
        self._code.prepare()

    def combiner(self) -> Folding:
        """One per open epoch. After `partials`, its `take_dead` gives the events that failed."""
        assert self.traits.combinable, "a Reducer that isn't commutative or has no merge"
        return Folding(self._plan)

    def accumulator(self, port: int) -> Accumulator:
        assert port == 0, "a Reducer has one input"
        return Folding(self._plan) if self.traits.mergeable else BatchBag()

    def close(self, epoch: EpochClose, accumulators: Sequence[Accumulator]) -> list[pa.RecordBatch]:
        """See contracts.StatefulOperator. Raises UserCodeError."""
        (accumulator,) = accumulators
        last = self._window.last_epoch(epoch.epoch)
        if isinstance(accumulator, BatchBag):
            self._windows.add_batches(last, self._to_fold(accumulator.batches))
        else:
            assert isinstance(accumulator, Folding), accumulator
            self._windows.add(last, accumulator)
        # told with the epoch that they came in, as where they are combined before
        self._failures.dead.absorb(self._windows.take_dead(last))
        output: list[pa.RecordBatch] = []
        for over, folding in self._windows.take_closed(epoch.epoch):
            output += self._finished(over, epoch, folding)
        return output

    def _to_fold(self, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """The epoch's events; whole, where code that is given batches could see how they are cut."""
        return [joined(batches, batches[0].schema)] if self._plan.by_batch and batches else batches

    @property
    def window_epochs(self) -> int:
        """See contracts.Forgets."""
        return self._window.epochs

    @property
    def due_epoch(self) -> int | None:
        """The end of the first open window."""
        return self._windows.first

    def take_dead(self) -> DeadRows | None:
        """Events that failed since the last call, once their epoch is closed."""
        return self._failures.dead.take()

    @property
    def state_nbytes(self) -> int:
        return self._windows.nbytes

    @property
    def state_version(self) -> int:
        """The user's own number for what the accumulators hold."""
        return self._state.version

    def freeze(self, full: bool) -> Handover:
        """See contracts.KeepsState: the accumulators of open windows."""
        return self._windows.freeze(full)

    def restore(self, version: int, full: bool, pieces: Iterator[pa.Buffer]) -> None:
        """See contracts.KeepsState. Raises StateVersionError, UserCodeError."""
        self._windows.restore(full, pieces, self._state.migration(version))

    def _enter(self, epoch: EpochClose, last: int) -> None:
        """Complete the context for the window that ends with epoch `last`."""
        first, _ = epoch.definition.window(last - self._window.epochs + 1)
        _, end = epoch.definition.window(last)
        self.context.epoch, self.context.window = last, (first, end)
        self.context.watermark = epoch.watermark

    def _leave(self) -> None:
        self.context.epoch = self.context.window = self.context.watermark = None

    def _finished(self, last: int, epoch: EpochClose, folding: Folding) -> list[pa.RecordBatch]:
        """Call the user's `finish` for each key of the window that ends with epoch `last`."""
        self._enter(epoch, last)
        ids, columns, accumulators = folding.ordered()
        keys = shown_keys(python_keys(columns, len(ids)), len(columns))
        finish = self._code.finish
        results: list[Any] = []
        for key, accumulator in zip(keys, accumulators, strict=True):
            try:
                results.append(materialized(finish(key, accumulator)))
            except Exception as error:
                content = f"key: {key!r}, accumulator: {accumulator!r:.200}"
                raise self._failures.raised("finish", error, content) from error

        def mistake(index: int, message: str) -> None:
            content = f"key: {keys[index]!r}, accumulator: {accumulators[index]!r:.200}"
            raise self._failures.wrong("finish", message, content)

        try:
            rows, parents = self._writer.write(results, mistake)
        except OutputTooLargeError as error:
            raise self._failures.wrong("finish", str(error), f"{len(keys)} keys") from error
        if parents is not None:
            columns = [column.take(pa.array(parents)) for column in columns]
        epochs = pa.array(np.full(rows.num_rows, last, dtype=np.int64))
        self._leave()
        batch = pa.RecordBatch.from_arrays([epochs, *columns, *rows.columns], schema=self.output)
        return [
            batch.slice(start, _OUTPUT_ROWS) for start in range(0, batch.num_rows, _OUTPUT_ROWS)
        ]


def _check_methods(code: Reducer, place: str, by_batch: bool, dead_letter: bool) -> None:
    for method in ("create", "finish"):
        if not overrides(code, method):
            raise TopologyError(f"{place}: a Reducer needs the method {method}")
    if overrides(code, "add") == by_batch:
        raise TopologyError(f"{place}: a Reducer has either add or add_batch")
    if overrides(code, "serialize") != overrides(code, "deserialize"):
        raise TopologyError(f"{place}: serialize and deserialize belong together; write both")
    if by_batch and dead_letter:
        raise TopologyError(
            f"{place}: `on_error: dead_letter` can't tell which row of add_batch failed; write add"
        )
