"""Boolean expressions that decide which rows count."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streammine.model.errors import TopologyError
from streammine.operators.expressions import Expression
from streammine.operators.expressions.salvage import evaluated_or_aside
from streammine.operators.set_aside import SetAside


class Condition:
    """A row counts if the expression is true for it; false and null both mean no.

    `needs` names the columns that the `expression` reads.
    """

    def __init__(self, operator: str, role: str, text: str, schema: pa.Schema) -> None:
        """`role`: what the condition is for, in messages. Raises TopologyError."""
        self.expression = Expression(operator, text, schema)
        self.needs = self.expression.needs
        if not pa.types.is_boolean(self.expression.type):
            raise TopologyError(
                f"operator {operator!r}: {role} {text!r} gives {self.expression.type}; a "
                "condition gives a boolean, for example a comparison"
            )

    def holds(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """For each row whether it counts, without nulls."""
        return _without_nulls(self.expression.evaluate(batch))

    def holds_or_aside(self, batch: pa.RecordBatch, dead: SetAside) -> pa.BooleanArray:
        """As `holds`; rows that it fails on are set aside, and don't count."""
        (values,), kept = evaluated_or_aside([self.expression], batch, dead)
        if kept is None:
            return _without_nulls(values)
        holds = np.zeros(batch.num_rows, bool)
        holds[kept] = _without_nulls(values).to_numpy(zero_copy_only=False)
        return pa.array(holds)


def _without_nulls(holds: pa.BooleanArray) -> pa.BooleanArray:
    return pc.fill_null(holds, False) if holds.null_count else holds
