"""`either`: rows that one of several sources gives; which one, the slices that read them choose."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streammine.model.contracts import Derived
from streammine.model.errors import TopologyError
from streammine.model.suggestions import listed


class EitherOperator:
    """Passes on all rows of the source in whose slices it runs (a StatelessOperator)."""

    one_to_many = False
    deterministic = True
    needs: frozenset[str] | None = None

    def __init__(self, name: str, sources: Sequence[str], schemas: Sequence[pa.Schema]) -> None:
        """`schemas` are those of the `sources`. Raises TopologyError where they differ."""
        self.name = name
        self.output = schemas[0]
        for source, schema in zip(sources, schemas, strict=True):
            if not schema.equals(self.output):
                raise TopologyError(
                    f"operator {name!r}: receivers of one feed give the same columns; {sources[0]!r} has "
                    f"{_columns(self.output)}, and {source!r} has {_columns(schema)}"
                )

    def prepare(self) -> None:
        """Nothing to load."""

    def apply(self, batch: pa.RecordBatch) -> Derived:
        return Derived(batch)


def _columns(schema: pa.Schema) -> str:
    return listed(f"{field.name}: {field.type}" for field in schema)
