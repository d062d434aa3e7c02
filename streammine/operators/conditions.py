"""Boolean expressions that decide which rows count."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from streammine.model.errors import TopologyError
from streammine.operators.expressions import Expression


class Condition:
    """A row counts if the expression is true for it; false and null both mean no.

    `needs` names the columns that it reads.
    """

    def __init__(self, operator: str, role: str, text: str, schema: pa.Schema) -> None:
        """`role`: what the condition is for, in messages. Raises TopologyError."""
        self._expression = Expression(operator, text, schema)
        self.needs = self._expression.needs
        if not pa.types.is_boolean(self._expression.type):
            raise TopologyError(
                f"operator {operator!r}: {role} {text!r} gives {self._expression.type}; a "
                "condition gives a boolean, for example a comparison"
            )

    def holds(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """For each row whether it counts, without nulls."""
        holds = self._expression.evaluate(batch)
        return pc.fill_null(holds, False) if holds.null_count else holds
