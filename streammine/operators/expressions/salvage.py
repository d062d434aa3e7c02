"""Rows that an expression fails on, apart from the others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streammine.model.contracts import IntArray
from streammine.operators.expressions.errors import POLARS_ERRORS, failure_text, no_fault_of_rows
from streammine.operators.expressions.expression import Expression, evaluated, values_together
from streammine.operators.set_aside import SetAside


def evaluated_or_aside(
    expressions: Sequence[Expression], batch: pa.RecordBatch, dead: SetAside
) -> tuple[list[pa.Array], IntArray | None]:
    """The values of the rows that all of the expressions have one for, and the numbers of these rows, None
    for all of them; the others are set aside, in their order, each with what the first expression that fails
    on it says.

    A batch that fails is halved until the failing rows are alone. Raises UserCodeError for what is no fault
    of a row.
    """
    salvage = _Salvage(expressions, batch)
    salvage.attempt(0, batch.num_rows)
    if not salvage.failed:
        return salvage.columns(), None
    failed = np.array(salvage.failed)
    dead.add_each(salvage.reasons, batch.take(pa.array(failed)))
    return salvage.columns(), np.delete(np.arange(batch.num_rows), failed)


class _Salvage:
    """The values of one batch, part by part."""

    def __init__(self, expressions: Sequence[Expression], batch: pa.RecordBatch) -> None:
        self._expressions = expressions
        self._batch = batch
        self._parts: list[list[pa.Array]] = []
        self.failed: list[int] = []
        self.reasons: list[str] = []

    def attempt(self, start: int, rows: int) -> None:
        part = self._batch.slice(start, rows)
        try:
            self._parts.append(values_together(self._expressions, part))
        except POLARS_ERRORS as error:
            if no_fault_of_rows(error):
                # says so on stderr each time
                self._parts.append(evaluated(self._expressions, part))
            elif rows > 1:
                self.attempt(start, rows // 2)
                self.attempt(start + rows // 2, rows - rows // 2)
            else:
                self._attempt_row(start, part)

    def _attempt_row(self, number: int, row: pa.RecordBatch) -> None:
        values: list[pa.Array] = []
        for expression in self._expressions:
            try:
                values.append(expression.values(row))
            except POLARS_ERRORS as error:
                self.failed.append(number)
                reason = failure_text(expression.first_failure(row) or error)
                self.reasons.append(f"{expression.label} failed: {reason}")
                return
        self._parts.append(values)

    def columns(self) -> list[pa.Array]:
        if len(self._parts) == 1:
            return self._parts[0]
        if not self._parts:
            return [pa.array([], each.type) for each in self._expressions]
        return [pa.concat_arrays(column) for column in zip(*self._parts, strict=True)]
