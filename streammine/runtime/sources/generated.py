"""Generated rows: slices share them in blocks of one length, each made on demand."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pyarrow as pa

from streammine.model.contracts import Position
from streammine.model.epochs import INFINITY, EpochDefinition
from streammine.model.errors import UserCodeError
from streammine.model.source_order import NO_TIME
from streammine.operators.generators import Generator
from streammine.runtime.sources.pace import Pace
from streammine.runtime.sources.runs import RowRun
from streammine.runtime.sources.usable import FileClock, UsableRows, first_usable_time

BLOCK_ROWS = 65_536
"""The length of a block; less where a pace would let one slice's block last long."""


class GeneratedRuns:
    """Blocks `slice_index`, `slice_index + slices`, … of a generator's rows, all in file 0.

    Which rows a slice has depends on the block's length, nothing else does. So a reader that goes on
    from a position keeps the length that was in use there, whatever the pace is now.

    For time epochs the times must not descend from block to block of one reader by more than 0;
    rows that do, within a reader, are late. So only generators whose times never descend may have
    several.
    """

    def __init__(
        self,
        name: str,
        generator: Generator,
        seed: int,
        total_rows: int,
        definition: EpochDefinition,
        columns: Sequence[str] | None,
        slice_index: int = 0,
        slices: int = 1,
        pace: Pace | None = None,
    ) -> None:
        self._name = name
        self._generator = generator
        self._schema = generator.schema
        self._seed = seed
        self._rows = total_rows
        self._definition = definition
        self._columns = None if columns is None else list(columns)
        self._slices = slices
        self._block_rows = BLOCK_ROWS if pace is None else min(BLOCK_ROWS, pace.turn_rows)
        self._next = slice_index * self._block_rows
        self._clock = FileClock(definition, 0) if definition.kind == "time" else None
        self._usable = UsableRows(name, self._clock, None, cache(self._first_time))

    @property
    def total_rows(self) -> int | None:
        return self._rows

    def next_run(self) -> RowRun | None:
        first = self._next
        if first >= self._rows:
            return None
        self._next += self._slices * self._block_rows
        batch = self._made(first, min(self._block_rows, self._rows - first))
        if self._columns is not None:
            batch = batch.select(self._columns)
        found = self._usable.sort_out(batch, first, None, None)
        return RowRun(
            found.batch,
            self._open_epoch(),
            found.dead,
            row=first,
            number=first,
            rows=found.rows,
            numbers=found.rows,
            times=found.times,
            ascending=found.ascending,
            dead_epochs=found.dead_epochs,
        )

    def _open_epoch(self) -> int:
        if self._next >= self._rows:
            # an epoch behind the last row's would be taken for one that there is
            return INFINITY
        if self._clock is not None:
            return self._clock.open_epoch
        return self._definition.lowest_open(self._next)

    def position(self) -> Position:
        latest = None if self._clock is None else self._clock.latest
        return {"row": self._next, "latest": latest, "block_rows": self._block_rows}

    def seek(self, position: Position) -> None:
        self._next = position["row"]
        # earlier versions did not say, and had but one length
        self._block_rows = position.get("block_rows", BLOCK_ROWS)
        if self._clock is not None:
            self._clock.latest = position["latest"]

    def _first_time(self) -> int:
        """Of all rows, which only sources with dead rows before it need, and these have one reader."""
        column = self._definition.column
        assert column is not None
        for first in range(0, self._rows, BLOCK_ROWS):
            batch = self._made(first, min(BLOCK_ROWS, self._rows - first))
            time = first_usable_time(batch.column(column), self._definition.unit)
            if time is not None:
                return time
        return NO_TIME

    def _made(self, first: int, count: int) -> pa.RecordBatch:
        where = f"generator '{self._name}', rows {first:,} to {first + count - 1:,}"
        try:
            batch = self._generator.rows(first, count, self._seed)
        except Exception as error:
            raise UserCodeError(f"{where}: {type(error).__name__}: {error}") from error
        if not isinstance(batch, pa.RecordBatch):
            raise UserCodeError(f"{where}: gave {type(batch).__name__}, expected a RecordBatch")
        if batch.num_rows != count or not batch.schema.equals(self._schema):
            raise UserCodeError(
                f"{where}: gave {batch.num_rows:,} rows of {_columns_text(batch.schema)}; "
                f"expected {count:,} of {_columns_text(self._schema)}"
            )
        return batch

    def close(self) -> None:
        """Nothing was opened."""


def _columns_text(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)
