"""Rows that a standard operator can't use, on their way to the dead letters."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streammine.model.contracts import DeadRows, IntArray
from streammine.model.readable_rows import readable_rows
from streammine.operators.user.errors import DeadLetters, shortened

_ROW_CHARACTERS = 400
_VALUE_CHARACTERS = 120


class SetAside:
    """Collects rows with the reason, until they are taken."""

    def __init__(self) -> None:
        self._letters = DeadLetters()

    def add(self, reason: str, rows: pa.RecordBatch, numbers: IntArray | None = None) -> None:
        """The rows, or those with these numbers, can't be used for this reason."""
        if numbers is not None:
            rows = rows.take(pa.array(numbers))
        self.add_each([reason] * rows.num_rows, rows)

    def add_each(self, reasons: Sequence[str], rows: pa.RecordBatch) -> None:
        """The rows can't be used, each for its reason."""
        for reason, row in zip(reasons, readable_rows(rows), strict=True):
            self._letters.add(reason, row_text(row))

    def take(self) -> DeadRows | None:
        """See contracts.SetsAside."""
        return self._letters.take()


def row_text(row: dict[str, object]) -> str:
    """A row's columns and values as text, long ones cut."""
    values = (f"{name}={shortened(repr(value), _VALUE_CHARACTERS)}" for name, value in row.items())
    return shortened(", ".join(values), _ROW_CHARACTERS)
