"""Rows that a standard operator sets aside, as what a person needs to find them."""

from __future__ import annotations

import pyarrow as pa

from streammine.model.canonical import canonical_order
from streammine.model.contracts import DeadRows, IntArray
from streammine.operators.user_errors import DeadLetters, shortened

_ROW_CHARACTERS = 400
_VALUE_CHARACTERS = 120


def set_aside(letters: DeadLetters, rows: pa.RecordBatch, places: IntArray, reason: str) -> None:
    """Add some rows (int64 places) to the letters, in canonical order, all for one reason."""
    if not places.size:
        return
    dead = rows.take(pa.array(places))
    dead = dead.take(pa.array(canonical_order(dead)))
    for row in dead.to_pylist():
        values = [
            f"{name}={shortened(repr(value), _VALUE_CHARACTERS)}" for name, value in row.items()
        ]
        letters.add(reason, shortened(", ".join(values), _ROW_CHARACTERS))


__all__ = ["DeadLetters", "DeadRows", "set_aside"]
