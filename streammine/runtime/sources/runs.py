"""What file readers hand on: runs of rows, before they are cut into epochs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.model.contracts import DeadRows, IntArray, Position
from streammine.runtime.sources.deferred import DeferredBatch


@dataclass(frozen=True)
class RowRun:
    """Usable rows that were read together, in their order, and the dead ones among them.

    `open_epoch`: no later run of the same reader has a row of an epoch below it, be it usable or dead.
    `dead_epochs` (int64, ascending) are those of the dead rows; None where there are none.
    Rows stand in file `file` at `row`, `row + 1`, …, and are numbers `number`, `number + 1`, … of
    the whole source; where they are not contiguous, the arrays `rows`, `numbers` (int64) and
    `files` (int32) say so. `times` (int64 microseconds) only for time epochs; `ascending`: they never
    fall. `epoch` where all rows have one that neither numbers nor times tell.
    """

    batch: pa.RecordBatch | DeferredBatch
    open_epoch: int
    dead: DeadRows | None = None
    file: int = 0
    row: int = 0
    number: int = 0
    files: npt.NDArray[np.int32] | None = None
    rows: IntArray | None = None
    numbers: IntArray | None = None
    times: IntArray | None = None
    ascending: bool = False
    epoch: int | None = None
    dead_epochs: IntArray | None = None

    @property
    def row_count(self) -> int:
        return int(self.batch.num_rows)

    @property
    def row_array(self) -> IntArray:
        if self.rows is not None:
            return self.rows
        return np.arange(self.row, self.row + self.row_count, dtype=np.int64)

    @property
    def number_array(self) -> IntArray:
        if self.numbers is not None:
            return self.numbers
        return np.arange(self.number, self.number + self.row_count, dtype=np.int64)

    @property
    def file_array(self) -> npt.NDArray[np.int32]:
        if self.files is not None:
            return self.files
        return np.full(self.row_count, self.file, dtype=np.int32)


class RunReader(Protocol):
    """One source slice's share of the input, run by run."""

    def next_run(self) -> RowRun | None:
        """None when all was read. Raises InputError."""
        ...

    def position(self) -> Position:
        """A place at or before the first row of the next run; plain data."""
        ...

    def seek(self, position: Position) -> None:
        """Go on from a position that a reader of the same share gave. Called before any other."""
        ...

    @property
    def total_rows(self) -> int | None: ...

    def close(self) -> None: ...


class EmptyRuns:
    """The share of a slice for which nothing is left to read."""

    def __init__(self, total_rows: int | None) -> None:
        self._total_rows = total_rows

    def next_run(self) -> RowRun | None:
        return None

    def position(self) -> Position:
        return {}

    def seek(self, position: Position) -> None:
        """There is but one place."""

    @property
    def total_rows(self) -> int | None:
        return self._total_rows

    def close(self) -> None:
        """Nothing was opened."""
