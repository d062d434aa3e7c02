"""`top` and `rank`: the first rows of each key and window, or all of them, with their rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa

from streammine.model.contracts import IntArray
from streammine.model.errors import TopologyError
from streammine.model.topology.keyed import EPOCH_COLUMN
from streammine.model.topology.ordering import OrderTerm
from streammine.operators.first_rows import FirstRows, epoch_column
from streammine.operators.map import check_column_name
from streammine.operators.row_order import Arranged
from streammine.operators.windows import AlignedWindows

Method = Literal["row_number", "rank", "dense_rank"]


class RankedRows(FirstRows):
    """The first `count` rows of each key and window with their rank, or all rows.

    The output has ``epoch``, the key columns, the rank (int64, from 1), and the input's other columns. How
    rows are ordered is said in `row_order`. By `method`, rows that are equal in `by` have numbers of their
    own, share the lowest one and leave as many out ("rank"), or share it and leave none out ("dense_rank").
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        keys: Sequence[str],
        by: Sequence[OrderTerm],
        *,
        count: int | None = None,
        into: str = "rank",
        method: Method = "row_number",
        window: AlignedWindows | None = None,
    ) -> None:
        """Raises TopologyError."""
        super().__init__(name, schema, keys, by, count, window)
        check_column_name(name, into)
        if into in self.input.schema.names:
            raise TopologyError(
                f"operator {name!r}: its input has a column {into!r} already; give the rank another name "
                "with into: NAME"
            )
        self._method = method
        fields = [
            pa.field(EPOCH_COLUMN, pa.int64()),
            *self.input.key_fields,
            pa.field(into, pa.int64()),
            *self.input.other_fields,
        ]
        self.output = pa.schema(fields)
        # rows that share a rank stand in canonical order
        shared = () if method == "row_number" else [field.name for field in self.input.other_fields]
        self.output_order = (EPOCH_COLUMN, *keys, into, *shared)

    def _leaving(self, epoch: int, rows: pa.RecordBatch, arranged: Arranged) -> pa.RecordBatch:
        columns = [
            epoch_column(epoch, rows.num_rows),
            *self._columns(rows, self.input.key_fields),
            pa.array(self._ranks(arranged)),
            *self._columns(rows, self.input.other_fields),
        ]
        return pa.record_batch(columns, schema=self.output)

    def _ranks(self, arranged: Arranged) -> IntArray:
        places = np.arange(len(arranged.rows), dtype=np.int64)
        starts = arranged.group_starts
        if self._method == "dense_rank":
            distinct = np.cumsum(arranged.differs, dtype=np.int64)
            return distinct - distinct[starts] + 1
        if self._method == "rank":
            places = np.maximum.accumulate(np.where(arranged.differs, places, 0))
        return places - starts + 1
