"""`map`: output columns computed from input columns, row by row."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from streammine.model.contracts import Derived
from streammine.model.errors import TopologyError
from streammine.model.ids import HIDDEN_PREFIX
from streammine.operators.expressions import Expression, evaluated


class MapOperator:
    """Gives exactly the named columns, one row per input row (a StatelessOperator)."""

    one_to_many = False
    deterministic = True

    def __init__(self, name: str, columns: Mapping[str, str], schema: pa.Schema) -> None:
        """`columns`: output column → expression over `schema`. Raises TopologyError."""
        if not columns:
            raise TopologyError(f"operator {name!r}: map needs at least one output column")
        for column in columns:
            check_column_name(name, column)
        self.name = name
        self._expressions = [Expression(name, text, schema) for text in columns.values()]
        self.output = pa.schema(
            [
                pa.field(column, expression.type)
                for column, expression in zip(columns, self._expressions, strict=True)
            ]
        )
        self.needs: frozenset[str] | None = frozenset().union(
            *(expression.needs for expression in self._expressions)
        )

    def prepare(self) -> None:
        """Nothing to load."""

    def apply(self, batch: pa.RecordBatch) -> Derived:
        return Derived(pa.record_batch(evaluated(self._expressions, batch), schema=self.output))


def check_column_name(operator: str, column: str) -> None:
    """Refuse names of output columns that belong to the engine. Raises TopologyError."""
    if not column or column.startswith(HIDDEN_PREFIX):
        raise TopologyError(
            f"operator {operator!r}: {column!r} can't name an output column; names are not empty "
            f"and do not start with {HIDDEN_PREFIX!r}, which marks the engine's own columns"
        )
