"""Panes: what a stretch of epochs has added to the groups of a sliding window.

A window that slides consists of panes: of one epoch each, or of as many as its length and its slide
have in common. A pane is taken in as a whole when its last epoch is over, and given up as a whole.
(Li et al., 'No pane, no gain: efficient evaluation of sliding-window aggregates over data streams',
SIGMOD Record 2005.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streammine.model.contracts import IntArray
from streammine.operators.aggregates.parts import WIDE_BYTES
from streammine.operators.kernels.columns import fixed_values

_INTEGERS = (pa.int8(), pa.int16(), pa.int32())
_WIDE = pa.binary(WIDE_BYTES)


@dataclass(frozen=True)
class Pane:
    """Groups with rows in some epochs, and their exact parts. It never changes.

    `last_epoch` is the last of these epochs. `groups` (int32) are ids of the window's table of keys;
    `columns` the rest of the partial schema, counts and small whole numbers in as few bytes as hold them.
    """

    last_epoch: int
    groups: npt.NDArray[np.int32]
    columns: tuple[pa.Array, ...]

    @classmethod
    def of(cls, last_epoch: int, groups: IntArray, columns: Sequence[pa.Array]) -> Pane:
        """From int64[n] groups, each once, and their columns in the partial schema's types."""
        return cls(last_epoch, groups.astype(np.int32), tuple(map(_packed, columns)))

    @property
    def nbytes(self) -> int:
        return self.groups.nbytes + sum(int(column.nbytes) for column in self.columns)

    @property
    def ids(self) -> IntArray:
        """The groups, as kernels take them (int64)."""
        return self.groups.astype(np.int64)

    def column(self, number: int, kind: pa.DataType) -> pa.Array:
        """A column in the type that it has in the partial schema."""
        return _unpacked(self.columns[number], kind)


def _packed(column: pa.Array) -> pa.Array:
    if column.null_count or not len(column):
        return column
    if pa.types.is_int64(column.type):
        return _narrow(column)
    if column.type != _WIDE:
        return column
    first = column.offset * WIDE_BYTES
    words = np.frombuffer(column.buffers()[1], np.int64, 2 * len(column), first).reshape(-1, 2)
    small = bool((words[:, 1] == words[:, 0] >> 63).all())
    return _narrow(pa.array(np.ascontiguousarray(words[:, 0]))) if small else column


def _narrow(column: pa.Array) -> pa.Array:
    ends = pc.min_max(column)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    for kind in _INTEGERS:
        limit = 1 << (kind.bit_width - 1)
        if -limit <= low and high < limit:
            return column.cast(kind)
    return column


def _unpacked(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    if kind != _WIDE:
        return column.cast(kind)
    words = np.empty((len(column), 2), dtype=np.int64)
    words[:, 0] = fixed_values(column)
    words[:, 1] = words[:, 0] >> 63
    return pa.Array.from_buffers(kind, len(column), [None, pa.py_buffer(words)])
