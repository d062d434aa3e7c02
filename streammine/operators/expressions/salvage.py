"""Rows that an expression fails on, apart from the others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streammine.model.contracts import IntArray
from streammine.operators.expressions.errors import POLARS_ERRORS, failure_text, no_fault_of_rows
from streammine.operators.expressions.expression import Expression, evaluated, values_together
from streammine.operators.set_aside import SetAside

_ROWS_NOT_HALVED = 8


def evaluated_or_aside(
    expressions: Sequence[Expression], batch: pa.RecordBatch, dead: SetAside
) -> tuple[list[pa.Array], IntArray | None]:
    """The values of the rows that all of the expressions have one for, and the numbers of these rows, None
    for all of them; the others are set aside, in their order, each with what the first expression that fails
    on it says.

    Rows that a cast seems to fail on are tried apart from the others. What fails is halved until few
    rows are left, which are tried alone. Raises UserCodeError for what is no fault of a row.
    """
    values = _values(expressions, batch)
    if values is not None:
        return values, None
    salvage = _Salvage(expressions, batch)
    salvage.run()
    if not salvage.failed:
        return salvage.columns(), None
    failed = sorted(salvage.failed)
    dead.add_each([salvage.failed[row] for row in failed], batch.take(pa.array(failed)))
    return salvage.columns(), np.delete(np.arange(batch.num_rows), failed)


def _values(expressions: Sequence[Expression], batch: pa.RecordBatch) -> list[pa.Array] | None:
    """The values of all rows; None where they fail on some. Raises UserCodeError for what is no fault of a
    row."""
    try:
        return values_together(expressions, batch)
    except POLARS_ERRORS as error:
        return evaluated(expressions, batch) if no_fault_of_rows(error) else None


class _Salvage:
    """The values of a batch that fails as a whole, part by part.

    `failed`: the reasons of rows, by their numbers.
    """

    def __init__(self, expressions: Sequence[Expression], batch: pa.RecordBatch) -> None:
        self._expressions = expressions
        self._batch = batch
        self._parts: list[list[pa.Array]] = []
        self._numbers: list[IntArray] = []
        self.failed: dict[int, str] = {}

    def run(self) -> None:
        numbers: IntArray = np.arange(self._batch.num_rows)
        suspected = self._suspected()
        if suspected.all() or not suspected.any():
            self._take_apart(self._batch, numbers)
            return
        for chosen in (~suspected, suspected):
            self._attempt(self._batch.filter(pa.array(chosen)), numbers[chosen])

    def columns(self) -> list[pa.Array]:
        """The values of the rows that did not fail, in their order."""
        if not self._parts:
            return [pa.array([], each.type) for each in self._expressions]
        columns = [pa.concat_arrays(column) for column in zip(*self._parts, strict=True)]
        order = np.argsort(np.concatenate(self._numbers))
        if (order[:-1] < order[1:]).all():
            return columns
        return [column.take(pa.array(order)) for column in columns]

    def _suspected(self) -> npt.NDArray[np.bool_]:
        """Rows that give null where casts are only tried, though no column that is read is null."""
        suspected = np.zeros(self._batch.num_rows, np.bool_)
        for expression in self._expressions:
            if expression.trying is None or not expression.needs:
                continue
            try:
                values = expression.trying.values(self._batch)
            except POLARS_ERRORS:
                continue
            lacking = pc.is_null(values)
            for name in expression.needs:
                lacking = pc.and_(lacking, pc.is_valid(self._batch.column(name)))
            suspected |= lacking.to_numpy(zero_copy_only=False)
        return suspected

    def _attempt(self, part: pa.RecordBatch, numbers: IntArray) -> None:
        values = _values(self._expressions, part)
        if values is not None:
            self._took(values, numbers)
        else:
            self._take_apart(part, numbers)

    def _take_apart(self, part: pa.RecordBatch, numbers: IntArray) -> None:
        """Attempt less of what fails as a whole."""
        half = part.num_rows // 2
        if part.num_rows > _ROWS_NOT_HALVED:
            self._attempt(part.slice(0, half), numbers[:half])
            self._attempt(part.slice(half), numbers[half:])
            return
        for row in range(part.num_rows):
            self._attempt_row(part.slice(row, 1), numbers[row : row + 1])

    def _attempt_row(self, row: pa.RecordBatch, numbers: IntArray) -> None:
        values: list[pa.Array] = []
        for expression in self._expressions:
            try:
                values.append(expression.values(row))
            except POLARS_ERRORS as error:
                reason = failure_text(expression.first_failure(row, error))
                self.failed[int(numbers[0])] = f"{expression.label} failed: {reason}"
                return
        self._took(values, numbers)

    def _took(self, values: list[pa.Array], numbers: IntArray) -> None:
        self._parts.append(values)
        self._numbers.append(numbers)
