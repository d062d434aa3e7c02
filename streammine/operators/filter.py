"""`filter`: keeps the rows for which an expression is true."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streammine.model.contracts import Derived
from streammine.operators.conditions import Condition
from streammine.operators.set_aside import SetAside


class FilterOperator:
    """Keeps rows whose condition is true; false and null both drop a row (a StatelessOperator)."""

    one_to_many = False
    deterministic = True
    needs: frozenset[str] | None = None

    def __init__(
        self, name: str, condition: str, schema: pa.Schema, *, dead_letter: bool = False
    ) -> None:
        """`condition`: a boolean expression over `schema`; `dead_letter`: rows that it fails on are set
        aside. Raises TopologyError."""
        self.name = name
        self.output = schema
        self._condition = Condition(name, "filter", condition, schema)
        self._dead = SetAside() if dead_letter else None

    def prepare(self) -> None:
        """Nothing to load."""

    def apply(self, batch: pa.RecordBatch) -> Derived:
        if self._dead is None:
            kept, dead = self._condition.holds(batch), None
        else:
            kept, dead = self._condition.holds_or_aside(batch, self._dead), self._dead.take()
        true_count = kept.true_count
        if true_count == batch.num_rows:
            return Derived(batch)
        if true_count == 0:
            return Derived(batch.slice(0, 0), np.empty(0, dtype=np.int64), dead)
        flags = kept.to_numpy(zero_copy_only=False)
        return Derived(batch.filter(kept), np.flatnonzero(flags).astype(np.int64, copy=False), dead)
