"""What a stream carries: its visible schema and the hidden columns that order it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from streammine.model.ids import HIDDEN_PREFIX, TIME_COLUMN


@dataclass(frozen=True)
class StreamSchema:
    """Schema of the batches on one stream.

    `columns` are the user's. `order` names, most significant first, the columns (hidden or visible)
    that order the rows of one epoch totally: for source rows ``(__time, __file, __row)``, for the
    output of an aggregate its key columns. Hidden columns travel only where `carries_order` is set.
    """

    columns: pa.Schema
    order: tuple[str, ...] = ()
    hidden: tuple[pa.Field, ...] = ()
    carries_order: bool = False

    @property
    def physical(self) -> pa.Schema:
        """Schema of the record batches as they travel: visible columns, then the hidden ones."""
        if not self.carries_order:
            return self.columns
        return pa.schema([*self.columns, *self.hidden])

    @property
    def has_time(self) -> bool:
        return any(field.name == TIME_COLUMN for field in self.hidden)

    def carrying_order(self) -> StreamSchema:
        return replace(self, carries_order=True)


def visible(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch without its hidden columns."""
    names = [name for name in batch.schema.names if not name.startswith(HIDDEN_PREFIX)]
    return batch if len(names) == batch.num_columns else batch.select(names)
