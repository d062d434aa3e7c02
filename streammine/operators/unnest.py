"""`unnest`: one row per element of a list."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streammine.model.contracts import Derived, IntArray
from streammine.model.errors import TopologyError
from streammine.operators.expressions import unknown_column
from streammine.operators.map import check_column_name


class UnnestOperator:
    """One row per element of a list column, in the list's order (a StatelessOperator).

    The elements take the list's place, the position (int64, from 0) stands behind them. An empty or null list
    gives no row, or where `keep_empty` one row with nulls.
    """

    one_to_many = True
    deterministic = True
    needs: frozenset[str] | None = None

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        column: str,
        *,
        into: str | None = None,
        position: str | None = None,
        keep_empty: bool = False,
    ) -> None:
        """Raises TopologyError for a column that is not there or holds no lists, and for double names."""
        self.name = name
        if column not in schema.names:
            raise TopologyError(f"operator {name!r}: unnest: {unknown_column(column, schema)}")
        kind = schema.field(column).type
        types = pa.types
        if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
            raise TopologyError(
                f"operator {name!r}: unnest takes lists apart, and column {column!r} has type {kind}; for "
                "the words of a text write flat_map"
            )
        self._place = schema.get_field_index(column)
        self._with_position = position is not None
        self._keep_empty = keep_empty
        self._fixed_size: int | None = kind.list_size if types.is_fixed_size_list(kind) else None
        element = into or column
        fields = list(schema)
        fields[self._place] = pa.field(element, kind.value_type)
        if position is not None:
            fields.insert(self._place + 1, pa.field(position, pa.int64()))
        names = [field.name for field in fields]
        for made in (element, *([] if position is None else [position])):
            check_column_name(name, made)
            if names.count(made) > 1:
                raise TopologyError(
                    f"operator {name!r}: unnest gives two columns {made!r}; choose another name with "
                    f"{'into' if made == element else 'position'}"
                )
        self.output = pa.schema(fields)

    def prepare(self) -> None:
        """Nothing to load."""

    def apply(self, batch: pa.RecordBatch) -> Derived:
        lists = batch.column(self._place)
        lengths = self._lengths(lists)
        elements = lists.flatten()
        counts = np.maximum(lengths, 1) if self._keep_empty else lengths
        parents: IntArray = np.repeat(np.arange(batch.num_rows, dtype=np.int64), counts)
        starts = np.cumsum(counts) - counts
        positions = np.arange(len(parents), dtype=np.int64) - np.repeat(starts, counts)
        missing = None
        if self._keep_empty and len(elements) < len(parents):
            missing = np.repeat(lengths == 0, counts)
            places = np.cumsum(~missing) - 1
            elements = elements.take(pa.array(places, mask=missing))
        rows = pa.array(parents)
        columns = []
        for number, column in enumerate(batch.columns):
            if number != self._place:
                columns.append(pc.take(column, rows, boundscheck=False))
                continue
            columns.append(elements)
            if self._with_position:
                columns.append(pa.array(positions, mask=missing))
        return Derived(pa.record_batch(columns, schema=self.output), parents)

    def _lengths(self, lists: pa.Array) -> IntArray:
        """How many elements each row has (int64); a null has none."""
        if self._fixed_size is None:
            found = pc.fill_null(pc.list_value_length(lists), 0)
            lengths: IntArray = found.to_numpy(zero_copy_only=False).astype(np.int64)
            return lengths
        present = lists.is_valid().to_numpy(zero_copy_only=False)
        return np.where(present, np.int64(self._fixed_size), np.int64(0))
