"""What of a batch a user sees: the hidden columns that order its rows are left out."""

from __future__ import annotations

import pyarrow as pa

from streammine.model.ids import HIDDEN_PREFIX


def visible(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch without its hidden columns."""
    names = [name for name in batch.schema.names if not name.startswith(HIDDEN_PREFIX)]
    return batch if len(names) == batch.num_columns else batch.select(names)
