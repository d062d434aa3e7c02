"""`map`: output columns computed from input columns, row by row."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from streammine.model.contracts import Derived
from streammine.model.errors import TopologyError
from streammine.model.ids import HIDDEN_PREFIX
from streammine.operators.expressions import Expression, evaluated
from streammine.operators.expressions.salvage import evaluated_or_aside
from streammine.operators.set_aside import SetAside


class MapOperator:
    """Gives exactly the named columns, one row per input row (a StatelessOperator)."""

    one_to_many = False
    deterministic = True

    def __init__(
        self, name: str, columns: Mapping[str, str], schema: pa.Schema, *, dead_letter: bool = False
    ) -> None:
        """`columns`: output column → expression over `schema`; `dead_letter`: rows that one of them fails on
        are set aside. Raises TopologyError."""
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

        self._read = [column for column in schema.names if column in self.needs]
        self._dead = SetAside() if dead_letter else None

    def prepare(self) -> None:
        """Nothing to load."""

    def apply(self, batch: pa.RecordBatch) -> Derived:
        if self._dead is None or not self._read:
            return Derived(pa.record_batch(evaluated(self._expressions, batch), schema=self.output))
        read = batch.select(self._read)
        arrays, kept = evaluated_or_aside(self._expressions, read, self._dead)
        return Derived(pa.record_batch(arrays, schema=self.output), kept, self._dead.take())


def check_column_name(operator: str, column: str) -> None:
    """Refuse names of output columns that belong to the engine. Raises TopologyError."""
    if not column or column.startswith(HIDDEN_PREFIX):
        raise TopologyError(
            f"operator {operator!r}: {column!r} can't name an output column; names are not empty "
            f"and do not start with {HIDDEN_PREFIX!r}, which marks the engine's own columns"
        )
