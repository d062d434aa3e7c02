"""The contract between a source's slice and whatever reads its share of the input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.model.contracts import DeadRows, IntArray, Position
from streammine.model.epochs import BEGINNING


class UnreadBatch(Protocol):
    """Rows that are not decoded before somebody asks for them, who may get an InputError."""

    num_rows: int

    def read(self) -> pa.RecordBatch: ...


@dataclass(frozen=True)
class Piece:
    """Rows of one epoch out of one source; of `held` once `batch` is asked for, which holds visible columns.

    Rows stand at `row`, `row + 1`, … of file number `file`; where they are not contiguous, `rows` and
    `files` (int64, int32 arrays) say so row by row. Of files that are merged under count epochs, `file` is 0
    and a row is its number in the merged order. `times` (int64 microseconds) only where the epoch is
    by time. `waited_seconds`: how long ago the first of them was due, where the source keeps a pace.
    """

    epoch: int
    held: pa.RecordBatch | UnreadBatch
    file: int = 0
    row: int = 0
    files: npt.NDArray[np.int32] | None = None
    rows: IntArray | None = None
    times: IntArray | None = None
    waited_seconds: float = 0.0

    @property
    def num_rows(self) -> int:
        return int(self.held.num_rows)

    @property
    def batch(self) -> pa.RecordBatch:
        """Raises InputError where the rows have to be read."""
        return self.held if isinstance(self.held, pa.RecordBatch) else self.held.read()


@dataclass(frozen=True)
class Delivery:
    """What one `SourceReader.read` call gave.

    `open_epoch`: every epoch below it is complete on this slice (INFINITY when exhausted). A paced source
    says so when it is time for their rows, wherever these are.
    `rows_read` counts raw rows, dead ones included. `dead`: rows that can't be used, by epoch, ascending;
    the epoch follows from the row's position alone and is never below an `open_epoch` returned before.
    `wake_after_seconds`: nothing is due before (paced sources); None means call again at once.
    """

    pieces: tuple[Piece, ...]
    open_epoch: int
    rows_read: int
    dead: tuple[tuple[int, DeadRows], ...] = ()
    exhausted: bool = False
    wake_after_seconds: float | None = None


class SourceReader(Protocol):
    """One source slice's share of the input. Called on worker threads, one call at a time.

    `read` returns about `rows` rows or fewer. `elapsed_seconds` is the time since the job's sources
    started, for pacing (`rate`), which epochs below `given_below` do not wait for; neither ever influences
    which epoch or position a row has. `rows_read` leaves out what a resumed reader gives again. Pieces come
    in ascending epochs and never below an `open_epoch` returned before. Raises InputError.
    """

    def read(self, rows: int, elapsed_seconds: float, given_below: int = BEGINNING) -> Delivery: ...

    def position(self) -> Position:
        """A place at or before the next unread row, taken between two reads; costs microseconds.

        A reader opened at it gives every row from there on, each once, with the epochs, positions and
        lateness that it has anyway. It may stand earlier (at the start of a file or row group): who
        resumes drops the epochs that it has.
        """
        ...

    @property
    def total_rows(self) -> int | None:
        """Raw rows of the whole source, if known beforehand: for progress only."""
        ...

    def close(self) -> None: ...
