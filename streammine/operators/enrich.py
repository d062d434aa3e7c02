"""`enrich`: computed columns beside those that come in, row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from streammine.model.contracts import Derived, IntArray
from streammine.model.errors import TopologyError
from streammine.operators.expressions import Expression, evaluated, unknown_column
from streammine.operators.expressions.salvage import evaluated_or_aside
from streammine.operators.map import check_column_name
from streammine.operators.set_aside import SetAside


class EnrichOperator:
    """The columns of the input but for those of `drop`, and computed ones behind them (a
    StatelessOperator).

    Expressions read what comes in, never each other's results. A replaced column keeps its place.
    """

    one_to_many = False
    deterministic = True
    needs: frozenset[str] | None = None

    def __init__(
        self,
        name: str,
        columns: Mapping[str, str],
        schema: pa.Schema,
        *,
        replace: Sequence[str] = (),
        drop: Sequence[str] = (),
        dead_letter: bool = False,
    ) -> None:
        """`columns`: output column → expression over `schema`; `dead_letter`: rows that one of them fails on
        are set aside. Raises TopologyError."""
        self.name = name
        for column in drop:
            if column not in schema.names:
                raise TopologyError(f"operator {name!r}: drop: {unknown_column(column, schema)}")
        for column in columns:
            check_column_name(name, column)
            self._check_place(column, schema, replace, drop)
        computed = {column: Expression(name, text, schema) for column, text in columns.items()}
        self._makers: list[Expression | int] = []
        fields = []
        for number, field in enumerate(schema):
            if field.name in replace:
                expression = computed.pop(field.name)
                self._makers.append(expression)
                fields.append(pa.field(field.name, expression.type))
            elif field.name not in drop:
                self._makers.append(number)
                fields.append(field)
        for column, expression in computed.items():
            self._makers.append(expression)
            fields.append(pa.field(column, expression.type))
        if not fields:
            raise TopologyError(f"operator {name!r}: no column is left; drop fewer")
        self.output = pa.schema(fields)
        self._dead = SetAside() if dead_letter else None

    def _check_place(
        self, column: str, schema: pa.Schema, replace: Sequence[str], drop: Sequence[str]
    ) -> None:
        there = column in schema.names
        if there and column not in (*replace, *drop):
            raise TopologyError(
                f"operator {self.name!r}: enrich: its input has a column {column!r} already; write "
                f"replace: {column} to have it computed anew, or use another name"
            )
        if not there and column in replace:
            raise TopologyError(
                f"operator {self.name!r}: replace: {unknown_column(column, schema)}"
            )

    def prepare(self) -> None:
        """Nothing to load."""

    def apply(self, batch: pa.RecordBatch) -> Derived:
        expressions = [maker for maker in self._makers if not isinstance(maker, int)]
        kept: IntArray | None = None
        if self._dead is None:
            values = evaluated(expressions, batch)
        else:
            values, kept = evaluated_or_aside(expressions, batch, self._dead)
            if kept is not None:
                batch = batch.take(pa.array(kept))
        computed = iter(values)
        arrays = [
            batch.column(maker) if isinstance(maker, int) else next(computed)
            for maker in self._makers
        ]
        dead = None if self._dead is None else self._dead.take()
        return Derived(pa.record_batch(arrays, schema=self.output), kept, dead)
