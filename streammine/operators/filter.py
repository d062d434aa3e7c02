"""`filter`: keeps the rows for which an expression is true."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streammine.model.contracts import Derived
from streammine.operators.conditions import Condition


class FilterOperator:
    """Keeps rows whose condition is true; false and null both drop a row (a StatelessOperator)."""

    one_to_many = False
    deterministic = True
    needs: frozenset[str] | None = None

    def __init__(self, name: str, condition: str, schema: pa.Schema) -> None:
        """`condition`: a boolean expression over `schema`. Raises TopologyError."""
        self.name = name
        self.output = schema
        self._condition = Condition(name, "filter", condition, schema)

    def prepare(self) -> None:
        """Nothing to load."""

    def apply(self, batch: pa.RecordBatch) -> Derived:
        kept = self._condition.holds(batch)
        true_count = kept.true_count
        if true_count == batch.num_rows:
            return Derived(batch)
        if true_count == 0:
            return Derived(batch.slice(0, 0), np.empty(0, dtype=np.int64))
        flags = kept.to_numpy(zero_copy_only=False)
        return Derived(batch.filter(kept), np.flatnonzero(flags).astype(np.int64, copy=False))
