"""The rows that can take part in matches, in order, and the stretches in which partners lie.

Rows stand by key, then by time, then by the content that the pattern reads. So whatever may come before,
behind or within reach of a row is a stretch of row numbers, and its ends are looked up, not searched.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streammine.model.canonical import canonical_order
from streammine.model.contracts import IntArray
from streammine.operators.kernels.columns import fixed_values
from streammine.operators.kernels.group_index import GroupIndex
from streammine.operators.patterns.intake import FITS, TIME


@dataclass(frozen=True)
class Candidates:
    """Rows that fit an event. `rows` (int64, ascending); `below[r]` of them have numbers below r."""

    rows: IntArray
    below: IntArray


@dataclass(frozen=True)
class KeyedRows:
    """Rows (see `intake`) and the number of the key of each (int64); `keys` are the key columns by number, of
    zeros and NaNs one each."""

    rows: pa.RecordBatch
    groups: IntArray
    keys: list[pa.Array]


def rows_of_keys(
    rows: pa.RecordBatch, keys: tuple[str, ...], wanted: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> KeyedRows:
    """The rows of those keys that a wanted row has (bool[rows])."""
    if not keys:
        return KeyedRows(rows, np.zeros(rows.num_rows, np.int64), [])
    columns = [rows.column(key) for key in keys]
    index = GroupIndex([column.type for column in columns])
    chosen = pa.array(wanted)
    index.ids([column.filter(chosen) for column in columns])
    groups = index.lookup(columns)
    known = groups >= 0
    if not known.all():
        rows, groups = rows.filter(pa.array(known)), groups[known]
    return KeyedRows(rows, groups, index.keys())


class Timeline:
    """Rows of all keys. All arrays are int64, one entry per row.

    `tie_start[r]`, `tie_end[r]`: the stretch of rows with the key and the time of row r;
    `window_start[r]`, `window_end[r]`: of those with its key and at most `within` before, or behind, it.
    """

    def __init__(self, keyed: KeyedRows, within: int) -> None:
        """`within` in microseconds."""
        rows, groups = keyed.rows, keyed.groups
        self.keys = keyed.keys
        times = fixed_values(rows.column(TIME))
        # event times span more than can be multiplied with the number of groups; their ranks do not
        instants = np.unique(times)
        ranks = np.searchsorted(instants, times)
        codes = groups * len(instants) + ranks
        order = np.argsort(codes)
        codes = codes[order]
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
        order = _ties_in_order(rows, order, starts)
        self.rows = rows.take(pa.array(order))
        self.groups: IntArray = groups[order]
        self.times: IntArray = times[order]
        self._fits = fixed_values(self.rows.column(FITS))
        lengths = np.diff(starts, append=len(codes))
        self.tie_start: IntArray = np.repeat(starts, lengths)
        self.tie_end: IntArray = self.tie_start + np.repeat(lengths, lengths)
        ranks = ranks[order]
        origins = self.groups * len(instants)
        earliest = np.searchsorted(instants, instants - within)[ranks]
        latest = np.searchsorted(instants, instants + within, "right")[ranks]
        self.window_start: IntArray = np.searchsorted(codes, origins + earliest)
        self.window_end: IntArray = np.searchsorted(codes, origins + latest)

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def fits(self, event: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which rows fit an event on their own; events are numbered as in the whole pattern."""
        found: np.ndarray[tuple[int], np.dtype[np.bool_]] = (
            self._fits >> np.uint64(event) & np.uint64(1)
        ).astype(np.bool_)
        return found


def candidates(mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Candidates:
    """Those of bool[rows]."""
    below = np.zeros(len(mask) + 1, np.int64)
    np.cumsum(mask, out=below[1:])
    return Candidates(np.flatnonzero(mask), below)


def _ties_in_order(rows: pa.RecordBatch, order: IntArray, starts: IntArray) -> IntArray:
    """Rows of one key and time in canonical order of what the pattern reads of them."""
    lengths = np.diff(starts, append=len(order))
    if not len(order) or lengths.max() == 1:
        return order
    tied = np.flatnonzero(np.repeat(lengths > 1, lengths))
    numbers = np.repeat(np.arange(len(starts)), lengths)[tied]
    content = rows.drop_columns([TIME, FITS]).take(pa.array(order[tied]))
    # what has no name in the input is no column of it
    compared = pa.record_batch(
        [pa.array(numbers), *content.columns], names=["", *content.schema.names]
    )
    order = order.copy()
    order[tied] = order[tied][canonical_order(compared)]
    return order
