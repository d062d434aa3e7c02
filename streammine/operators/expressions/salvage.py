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
    try:
        return values_together(expressions, batch), None
    except POLARS_ERRORS:
        salvage = _Salvage(expressions, batch)
    salvage.attempt_all()
    if not salvage.failed:
        return salvage.columns(), None
    failed = sorted(salvage.failed)
    dead.add_each([salvage.failed[row] for row in failed], batch.take(pa.array(failed)))
    return salvage.columns(), np.delete(np.arange(batch.num_rows), failed)


class _Salvage:
    """The values of one batch, part by part. `failed`: the reasons of rows, by their numbers."""

    def __init__(self, expressions: Sequence[Expression], batch: pa.RecordBatch) -> None:
        self._expressions = expressions
        self._batch = batch
        self._parts: list[list[pa.Array]] = []
        self._numbers: list[IntArray] = []
        self.failed: dict[int, str] = {}

    def attempt_all(self) -> None:
        numbers: IntArray = np.arange(self._batch.num_rows)
        suspected = self._suspected()
        if suspected is None or not suspected.any():
            self._attempt(self._batch, numbers)
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

    def _suspected(self) -> npt.NDArray[np.bool_] | None:
        """Rows that give null where casts are only tried, though no column that is read is null."""
        suspected: npt.NDArray[np.bool_] | None = None
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
            found: npt.NDArray[np.bool_] = lacking.to_numpy(zero_copy_only=False)
            suspected = found if suspected is None else suspected | found
        return suspected

    def _attempt(self, part: pa.RecordBatch, numbers: IntArray) -> None:
        rows = part.num_rows
        try:
            self._took(values_together(self._expressions, part), numbers)
        except POLARS_ERRORS as error:
            if no_fault_of_rows(error):
                # says so on stderr each time
                self._took(evaluated(self._expressions, part), numbers)
            elif rows > _ROWS_NOT_HALVED:
                half = rows // 2
                self._attempt(part.slice(0, half), numbers[:half])
                self._attempt(part.slice(half), numbers[half:])
            else:
                for row in range(rows):
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
