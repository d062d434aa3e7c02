"""Text: one row per line, in the one column `line`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.model.formats import blocks
from streammine.model.formats.rejection import Rejections

TEXT_SCHEMA = pa.schema([pa.field("line", pa.string())])


def parse_lines(
    data: bytes, first_row: int, rejections: Rejections
) -> tuple[pa.RecordBatch, npt.NDArray[np.int64], int]:
    """The lines of a block as (batch, row numbers, raw rows); bad ones go to `rejections`."""
    if b"\r\n" in data:
        data = data.replace(b"\r\n", b"\n")
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    count = len(ends)
    lengths = np.diff(ends, prepend=-1) - 1
    lines = _string_array(data.replace(b"\n", b""), lengths)
    rows = np.arange(first_row, first_row + count, dtype=np.int64)
    too_long = lengths > blocks.RECORD_LIMIT_BYTES
    if not too_long.any() and _is_valid(lines):
        return pa.record_batch([lines], schema=TEXT_SCHEMA), rows, count
    good = ~too_long
    for index in np.flatnonzero(too_long).tolist():
        line = data[ends[index] - lengths[index] : ends[index]]
        limit = blocks.RECORD_LIMIT_BYTES
        rejections.add(first_row + index, f"line is longer than {limit:,} bytes", line[:limit])
    for index in np.flatnonzero(good).tolist():
        line = data[ends[index] - lengths[index] : ends[index]]
        try:
            line.decode()
        except UnicodeDecodeError as error:
            good[index] = False
            rejections.add(first_row + index, f"line is not UTF-8: {_decode_reason(error)}", line)
    lines = lines.cast(pa.binary()).filter(pa.array(good)).cast(pa.string())
    return pa.record_batch([lines], schema=TEXT_SCHEMA), rows[good], count


def _decode_reason(error: UnicodeDecodeError) -> str:
    return f"{error.reason} at byte {error.start} (0x{error.object[error.start]:02x})"


def _string_array(text: bytes, lengths: npt.NDArray[np.int64]) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(text))


def _is_valid(lines: pa.Array) -> bool:
    try:
        lines.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
