"""The bytes of a batch, about, at little cost: what memory, credit and the sizes of frames are counted by."""

from __future__ import annotations

import pyarrow as pa

SMALL_BYTES = 8 << 10
"""Of batches whose buffers hold no more the bytes are not counted column by column. As much or more is what a
frame costs besides its rows."""

_PADDING_BYTES = 64
"""Behind the values in a buffer, at most."""


def batch_nbytes(batch: pa.RecordBatch) -> int:
    """The bytes of a batch; of a part of a small one, those of the whole.

    Bytes of whole buffers cost nothing to ask for, but parts of a batch share them. So they count where the
    first and the last column fill theirs, and columns in between are taken for as they are.
    """
    held = int(batch.get_total_buffer_size())
    if held <= SMALL_BYTES:
        return held
    last = batch.num_columns - 1
    if _fills_buffer(batch.column(0)) and (last == 0 or _fills_buffer(batch.column(last))):
        return held
    return int(batch.nbytes)


def _fills_buffer(column: pa.Array) -> bool:
    """Whether the values are all that their buffer holds; False where that is not easily told."""
    if column.offset:
        return False
    try:
        width = column.type.bit_width
    except ValueError:
        return False
    values = column.buffers()[1] if width else None
    return values is None or (values.size - _PADDING_BYTES) * 8 <= width * len(column)
