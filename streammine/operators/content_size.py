"""How much rows hold, as a function of the rows alone.

`nbytes` of a batch depends on where it was cut: on bits that share a byte, on validity maps that are there
or not, on text that lies under nulls. What is decided by size must not depend on that, or two replicas
would decide differently. Sizes here add up: that of rows is the sum of those of its parts.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_UNKNOWN_BYTES = 16
_LENGTH_BYTES = 4


def content_size(batch: pa.RecordBatch) -> int:
    """Bytes of the values in all columns, about as they lie in memory without validity."""
    return sum(map(_column_size, batch.columns))


def _column_size(column: pa.Array) -> int:
    kind, rows = column.type, len(column)
    types = pa.types
    if isinstance(column, pa.ExtensionArray):
        return _column_size(column.storage)
    if types.is_dictionary(kind):
        return _column_size(column.dictionary_decode())
    if types.is_struct(kind):
        return sum(map(_column_size, column.flatten()))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _LENGTH_BYTES * rows + _column_size(column.flatten())
    if types.is_fixed_size_binary(kind):
        return int(kind.byte_width) * rows
    if types.is_string(kind) or types.is_binary(kind):
        return _LENGTH_BYTES * rows + _text_size(column, np.dtype(np.int32))
    if types.is_large_string(kind) or types.is_large_binary(kind):
        return _LENGTH_BYTES * rows + _text_size(column, np.dtype(np.int64))
    try:
        return max(1, int(kind.bit_width) // 8) * rows
    except ValueError:
        return _UNKNOWN_BYTES * rows


def _text_size(column: pa.Array, offset_type: np.dtype[np.signedinteger]) -> int:
    if column.null_count:
        # text may lie under nulls
        return int(pc.sum(pc.binary_length(column)).as_py() or 0)
    rows = len(column)
    if rows == 0:
        return 0
    offsets = np.frombuffer(
        column.buffers()[1],
        dtype=offset_type,
        count=rows + 1,
        offset=column.offset * offset_type.itemsize,
    )
    return int(offsets[rows]) - int(offsets[0])
