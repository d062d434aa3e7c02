"""Strict order: an epoch's rows in (event time, port, position) order (DESIGN §4, discipline strict).

The costly classic: the whole epoch is collected and sorted before the operator sees its first event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streammine.model.ids import TIME_COLUMN

Segment = tuple[int, pa.RecordBatch]


def in_strict_order(
    bags: Sequence[Sequence[pa.RecordBatch]],
    orders: Sequence[tuple[str, ...]],
    interleaved: bool = True,
) -> Iterator[Segment]:
    """Segments (port, batch) in total order.

    `bags[port]` holds the epoch's batches in any order; `orders[port]` names the columns that order the
    rows of that port. Rows of several ports are `interleaved` by event time, ties by port; else each port
    is one segment.
    """
    tables = [
        (port, _sorted(batches, orders[port])) for port, batches in enumerate(bags) if batches
    ]
    if interleaved and len(tables) > 1:
        yield from _interleaved(tables)
    else:
        yield from tables


def _sorted(batches: Sequence[pa.RecordBatch], order: tuple[str, ...]) -> pa.RecordBatch:
    batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    if not order or batch.num_rows < 2:
        return batch
    columns = [batch.column(name) for name in order]
    if all(pa.types.is_integer(column.type) and not column.null_count for column in columns):
        keys = [column.to_numpy(zero_copy_only=False) for column in columns]
        indices = _integer_order(keys)
        return batch if indices is None else batch.take(pa.array(indices))
    options = [(name, "ascending") for name in order]
    return batch.take(pc.sort_indices(batch, sort_keys=options))


def _integer_order(keys: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64] | None:
    """Indices that sort by the key columns, or None when the rows are in order already."""
    if _in_order(keys):
        return None
    varying = [key for key in keys if key[0] != key[-1] or (key != key[0]).any()]
    packed = _packed(varying)
    if packed is None:
        return np.lexsort(varying[::-1]).astype(np.int64)
    # made of runs that are in order already, one of each sender, which this sort merges
    return np.argsort(packed, kind="stable").astype(np.int64)


def _in_order(keys: list[npt.NDArray[np.int64]]) -> bool:
    """Whether the rows ascend by the key columns."""
    # as a rule each of these ascends for itself
    if all((key[1:] >= key[:-1]).all() for key in keys):
        return True
    tied: npt.NDArray[np.bool_] | None = None
    for key in keys:
        falls = key[1:] < key[:-1]
        if tied is not None:
            falls &= tied
        if falls.any():
            return False
        equal = key[1:] == key[:-1]
        tied = equal if tied is None else tied & equal
        if not tied.any():
            break
    return True


def _packed(keys: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64] | None:
    """One number for each row, in the order of the key columns; None where 63 bits don't hold it."""
    lows = [int(key.min()) for key in keys]
    spans = [int(key.max()) - low + 1 for key, low in zip(keys, lows, strict=True)]
    if prod(spans) >= 2**63:
        return None
    packed = np.zeros(len(keys[0]), np.int64)
    for key, low, span in zip(keys, lows, spans, strict=True):
        packed *= span
        # uint64 is subtracted as it is, narrower types where the distance fits
        wide = key if key.dtype == np.uint64 else key.astype(np.int64)
        packed += (wide - wide.dtype.type(low)).astype(np.int64)
    return packed


def _interleaved(tables: list[tuple[int, pa.RecordBatch]]) -> Iterator[Segment]:
    """Merge sorted tables by event time; a table without one comes first, whole."""
    times = []
    ports = []
    rows = []
    for index, (_, table) in enumerate(tables):
        count = table.num_rows
        if TIME_COLUMN in table.schema.names:
            times.append(table.column(TIME_COLUMN).to_numpy())
        else:
            times.append(np.full(count, np.iinfo(np.int64).min))
        ports.append(np.full(count, index, np.int64))
        rows.append(np.arange(count, dtype=np.int64))
    port = np.concatenate(ports)
    row = np.concatenate(rows)
    order = np.argsort(np.concatenate(times), kind="stable")
    port, row = port[order], row[order]
    starts = np.flatnonzero(np.diff(port, prepend=-1))
    ends = np.append(starts[1:], len(port))
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        number, table = tables[int(port[start])]
        yield number, table.slice(int(row[start]), end - start)
