"""What of a batch a user sees: the hidden columns that order its rows are left out."""

from __future__ import annotations

import pyarrow as pa

from streammine.model.ids import HIDDEN_PREFIX


def visible(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch without its hidden columns."""
    names = batch.schema.names
    shown = [place for place, name in enumerate(names) if not name.startswith(HIDDEN_PREFIX)]
    return batch if len(shown) == len(names) else batch.select(shown)
