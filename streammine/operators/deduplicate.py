"""`deduplicate` in a window: the first or last row of each key."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streammine.model.topology.keyed import EPOCH_COLUMN
from streammine.model.topology.ordering import OrderTerm
from streammine.operators.first_rows import FirstRows, epoch_column
from streammine.operators.row_order import Arranged
from streammine.operators.windows import AlignedWindows


class DistinctRows(FirstRows):
    """Of each key and tumbling window the row that is first, or last, in a column.

    The output has ``epoch``, the key columns, and the input's others. Of rows that are equal in the column
    the one stays that is first in canonical order, whichever is kept; a row with a null in it stays where
    all have one.
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        keys: Sequence[str],
        by: str,
        *,
        last: bool = False,
        window: AlignedWindows | None = None,
    ) -> None:
        """Raises TopologyError."""
        super().__init__(name, schema, keys, [OrderTerm(by, descending=last)], 1, window)
        fields = [pa.field(EPOCH_COLUMN, pa.int64()), *self.input.key_fields]
        self.output = pa.schema([*fields, *self.input.other_fields])
        self.output_order = (EPOCH_COLUMN, *keys)

    def _leaving(self, epoch: int, rows: pa.RecordBatch, arranged: Arranged) -> pa.RecordBatch:
        columns = [
            epoch_column(epoch, rows.num_rows),
            *self._columns(rows, self.input.key_fields),
            *self._columns(rows, self.input.other_fields),
        ]
        return pa.record_batch(columns, schema=self.output)
