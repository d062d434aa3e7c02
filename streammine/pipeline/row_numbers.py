"""From provisional row numbers to those in the file.

The rows of a file that was split are numbered before it is known how many rows its earlier units
have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streammine.pipeline.raw_files import Unit

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RowNumbers:
    """For each file that needs it: first provisional number of its units, and what to add there."""

    corrections: dict[int, tuple[IntArray, IntArray]]

    @classmethod
    def of(cls, units: Sequence[Unit], rows_read: Sequence[int]) -> RowNumbers:
        """From all units in order and the raw rows of each."""
        starts: dict[int, list[int]] = {}
        shifts: dict[int, list[int]] = {}
        rows: dict[int, int] = {}
        for unit, read in zip(units, rows_read, strict=True):
            before = rows.get(unit.file, 0)
            starts.setdefault(unit.file, []).append(unit.first_row)
            shifts.setdefault(unit.file, []).append(before - unit.first_row)
            rows[unit.file] = before + read
        return cls(
            {
                file: (np.array(starts[file], np.int64), np.array(shift, np.int64))
                for file, shift in shifts.items()
                if any(shift)
            }
        )

    def corrected(self, files: npt.NDArray[np.int32], rows: IntArray) -> IntArray:
        """The numbers that the rows have in their files."""
        result = rows
        for file, (starts, shifts) in self.corrections.items():
            mine = files == file
            if mine.any():
                result = result.copy() if result is rows else result
                result[mine] += shifts[np.searchsorted(starts, rows[mine], "right") - 1]
        return result
