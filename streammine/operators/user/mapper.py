"""Runs a user's Mapper as a StatelessOperator."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from streammine.model.contracts import Derived
from streammine.model.errors import TopologyError, UserCodeError
from streammine.operators.api import Context, Mapper, overrides
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
from streammine.operators.user.errors import Failures


class _MapperContext(Context):
    """Notes that code asks for the epoch; until it does, it can be given rows of several epochs at once."""

    asked_for_epoch = False
    located_in: int | None = None

    @property
    def epoch(self) -> int | None:
        self.asked_for_epoch = True
        return self.located_in

    @epoch.setter
    def epoch(self, epoch: int | None) -> None:
        self.located_in = epoch

    @property
    def place(self) -> tuple[int | None, int | None]:
        return self.slice_index, self.located_in


class UserMapper:
    """The StatelessOperator for a Mapper. `context` may be completed by whoever runs it."""

    one_to_many = True

    def __init__(
        self, name: str, code: Mapper, input_schema: pa.Schema, dead_letter: bool = False
    ) -> None:
        """Raises TopologyError when the class is incomplete or doesn't fit its input."""
        place = f"operator '{name}' ({type(code).__name__})"
        self._by_row = overrides(code, "map")
        if self._by_row == overrides(code, "map_batch"):
            raise TopologyError(f"{place}: a Mapper has either map or map_batch")
        self.name = name
        self.context = code.context = _MapperContext(name)
        self.output = declared_schema(code.output_schema(input_schema), place)
        self.needs = None if code.needs is None else frozenset(code.needs)
        self.deterministic = code.deterministic
        self._code = code
        self._reader = EventReader(input_schema, code.needs, place)
        self._writer = RowWriter(self.output)
        self._failures = Failures(code, self.context, dead_letter)
        self._generates = inspect.isgeneratorfunction(code.map)

    def locate(self, slice_index: int, epoch: int) -> None:
        """See contracts.RunsUserCode."""
        self.context.slice_index = slice_index
        self.context.epoch = epoch
        self.context.asked_for_epoch = False

    @property
    def asked_for_epoch(self) -> bool:
        """See contracts.MayAskForEpoch."""
        return self.context.asked_for_epoch

    def prepare(self) -> None:
        self._code.prepare()

    def apply(self, batch: pa.RecordBatch) -> Derived:
        """Raises UserCodeError, unless failed events are to become dead letters."""
        # a call that failed as a whole may have left some
        self._failures.dead.take()
        if self._by_row:
            return self._map_rows(batch)
        if self._failures.dead_letter:
            return self._map_in_parts(batch)
        output, parents = self._map_batch(batch)
        return Derived(output, parents)

    def _map_rows(self, batch: pa.RecordBatch) -> Derived:
        outputs: list[pa.RecordBatch] = []
        parents: list[IntArray] = []
        one_to_one = True
        for start in range(0, batch.num_rows, PIECE_ROWS):
            piece = batch.slice(start, PIECE_ROWS)
            output, found = self._map_piece(piece)
            one_to_one &= found is None
            outputs.append(output)
            parents.append((np.arange(piece.num_rows) if found is None else found) + start)
        return Derived(
            joined(outputs, self.output),
            None if one_to_one else np.concatenate(parents),
            self._failures.dead.take(),
        )

    def _map_piece(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, IntArray | None]:
        calls: Iterator[Any] = map(self._code.map, self._reader.events(batch))
        if self._generates:
            calls = map(list, calls)
        results = self._collect(calls, batch, [])
        if any(hasattr(kind, "__next__") for kind in set(map(type, results))):
            results = self._collect(map(materialized, results), batch, [])

        def mistake(index: int, message: str) -> None:
            self._failures.event_wrong("map", message, self._reader.event(batch, index))

        try:
            return self._writer.write(results, mistake)
        except OutputTooLargeError as error:
            raise self._failures.wrong("map", str(error), self._batch_text(batch)) from error

    def _collect(
        self, calls: Iterator[Any], batch: pa.RecordBatch, results: list[Any]
    ) -> list[Any]:
        """All results; `extend` keeps those before an exception, so their number tells the row."""
        while len(results) < batch.num_rows:
            try:
                results.extend(calls)
                if len(results) < batch.num_rows:
                    raise RuntimeError("StopIteration left the method")
            except Exception as error:
                event = self._reader.event(batch, len(results))
                self._failures.event_raised("map", error, event)
                results.append(None)
        return results

    def _map_batch(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, IntArray | None]:
        seen = batch.select(self._reader.names)
        try:
            result = self._code.map_batch(seen)
        except Exception as error:
            raise self._failures.raised("map_batch", error, self._batch_text(batch)) from error
        try:
            return checked_batch(result, self.output, batch.num_rows)
        except (TypeError, ValueError) as error:
            raise self._failures.wrong("map_batch", str(error), self._batch_text(batch)) from error

    def _batch_text(self, batch: pa.RecordBatch) -> str:
        if batch.num_rows == 0:
            return "batch of 0 rows"
        event = self._reader.event(batch, 0)
        return f"batch of {batch.num_rows} rows, the first: {event!r}"[:600]

    def _map_in_parts(self, batch: pa.RecordBatch) -> Derived:
        """Halve a batch that fails until the failing rows are alone; these become dead letters."""
        outputs: list[pa.RecordBatch] = []
        parents: list[IntArray] = []

        def attempt(start: int, rows: int) -> None:
            try:
                output, found = self._map_batch(batch.slice(start, rows))
            except UserCodeError as error:
                if rows > 1:
                    attempt(start, rows // 2)
                    attempt(start + rows // 2, rows - rows // 2)
                    return
                reason = error.__cause__
                assert isinstance(reason, Exception)
                event = self._reader.event(batch, start)
                self._failures.event_raised("map_batch", reason, event)
                return
            outputs.append(output)
            parents.append((np.arange(rows) if found is None else found) + start)

        if batch.num_rows == 0:
            return Derived(*self._map_batch(batch))
        attempt(0, batch.num_rows)
        return Derived(
            joined(outputs, self.output),
            np.concatenate(parents) if parents else np.empty(0, np.int64),
            self._failures.dead.take(),
        )
