"""Rows of batches that an operator can't use, on their way to the dead letters."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streammine.model.contracts import DeadRows
from streammine.operators.user_errors import DeadLetters, shortened

_VALUE_CHARACTERS = 120
_ROW_CHARACTERS = 400


class UnusableRows:
    """Collects rows with reasons until they are taken."""

    def __init__(self) -> None:
        self._letters = DeadLetters()

    def add(
        self, batch: pa.RecordBatch, rows: np.ndarray[tuple[int], np.dtype[np.int64]], reason: str
    ) -> None:
        """Set the rows with these numbers aside."""
        if not len(rows):
            return
        for values in batch.take(pa.array(rows)).to_pylist():
            text = ", ".join(
                f"{name}={shortened(repr(value), _VALUE_CHARACTERS)}"
                for name, value in values.items()
            )
            self._letters.add(reason, shortened(text, _ROW_CHARACTERS))

    def take(self) -> DeadRows | None:
        """What was collected since the last call, or None."""
        return self._letters.take()
