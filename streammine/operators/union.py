"""`union`: rows of several streams with the same columns as one stream."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streammine.model.contracts import Derived
from streammine.model.errors import TopologyError
from streammine.model.suggestions import listed


class UnionOperator:
    """Passes on all rows, their columns in the order of the first stream (a StatelessOperator).

    It runs in the slices that make the streams.
    """

    one_to_many = False
    deterministic = True
    needs: frozenset[str] | None = None

    def __init__(self, name: str, streams: Sequence[str], schemas: Sequence[pa.Schema]) -> None:
        """`schemas` are those of the `streams`. Raises TopologyError where they differ."""
        self.name = name
        first = schemas[0]
        self.output = pa.schema([pa.field(field.name, field.type) for field in first])
        for stream, schema in zip(streams[1:], schemas[1:], strict=True):
            self._check_names(streams[0], first, stream, schema)
            for field in first:
                found = schema.field(field.name).type
                if found != field.type:
                    raise TopologyError(
                        f"operator {name!r}: column {field.name!r} has type {field.type} in "
                        f"{streams[0]!r} and {found} in {stream!r}; make them one type with an enrich "
                        f"before, for example enrich: {{{field.name}: cast({field.name} as ...)}}, "
                        f"replace: {field.name}"
                    )

    def _check_names(self, first: str, left: pa.Schema, other: str, right: pa.Schema) -> None:
        missing = [name for name in left.names if name not in right.names]
        surplus = [name for name in right.names if name not in left.names]
        if not missing and not surplus and len(left) == len(right):
            return
        lacks = [f"{other!r} lacks {listed(missing)}"] if missing else []
        lacks += [f"{first!r} lacks {listed(surplus)}"] if surplus else []
        raise TopologyError(
            f"operator {self.name!r}: a union's streams have the same columns, and "
            f"{' and '.join(lacks) or 'one has a column twice'}; add them with an enrich before, or leave "
            "the others out with a map"
        )

    def prepare(self) -> None:
        """Nothing to load."""

    def apply(self, batch: pa.RecordBatch) -> Derived:
        columns = [batch.column(name) for name in self.output.names]
        return Derived(pa.record_batch(columns, schema=self.output))
