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


class ContentSizes:
    """The content size of batches that come one by one.

    Mostly it is enough to know that it is not much yet. So batches are measured only once a bound that costs
    little to tell is not below what is asked for.
    """

    def __init__(self) -> None:
        self._measured = 0
        self._bound = 0
        self._later: list[pa.RecordBatch] = []
        self._schema: pa.Schema | None = None
        self._flat = False

    def add(self, batch: pa.RecordBatch) -> None:
        if batch.schema != self._schema:
            self._schema = batch.schema
            self._flat = all(map(_is_flat, batch.schema.types))
        self._later.append(batch)
        if not self._flat:
            self._bound = self.total
            return
        # the values of each column lie in its buffers, but for bits, and values of nothing
        held = int(batch.get_total_buffer_size())
        self._bound += batch.num_columns * (held + _UNKNOWN_BYTES * batch.num_rows)

    @property
    def total(self) -> int:
        """That of all batches together."""
        self._measured += sum(map(content_size, self._later))
        self._later = []
        self._bound = self._measured
        return self._measured

    def reach(self, nbytes: int) -> bool:
        """Whether it is so much by now."""
        return self._bound >= nbytes and self.total >= nbytes

    def pieces(self, nbytes: int) -> int:
        """In how many pieces it is, of so many bytes at most; at least in one."""
        return -(-self.total // nbytes) if self.reach(nbytes) else 1


def _is_flat(kind: pa.DataType) -> bool:
    """Whether what a column of this type holds is as much as its values."""
    types = pa.types
    text = types.is_string(kind) or types.is_binary(kind) or types.is_fixed_size_binary(kind)
    large = types.is_large_string(kind) or types.is_large_binary(kind)
    numbers = types.is_primitive(kind) or types.is_decimal(kind)
    return bool(text or large or numbers or types.is_null(kind))


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
