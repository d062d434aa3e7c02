"""What orders a source's rows: event times, the values that files are merged by, running maxima.

One place says which values are usable, so that a row's epoch and place do not depend on who reads
it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streammine.model.epochs import BEGINNING, INFINITY, event_ticks, in_microseconds
from streammine.model.errors import TopologyError

NO_TIME = 0
"""Where the clock of a file stands in which no row has a usable time (microseconds)."""

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


def is_event_time(kind: pa.DataType) -> bool:
    """Whether a column of this type can carry event time."""
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return True
    return bool(pa.types.is_integer(kind) and kind != pa.uint64())


def is_merge_key(kind: pa.DataType) -> bool:
    """Whether files can be interleaved by a column of this type."""
    return is_event_time(kind) or bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def usable_event_times(column: pa.Array, unit: str) -> tuple[IntArray, BoolArray | None]:
    """(event times in int64 microseconds, which of them are usable; None: all).

    Nulls are not usable, nor times that microseconds can't say in 64 bits. Raises TopologyError for
    a column type that is no time.
    """
    kind = column.type
    usable: BoolArray | None = None
    if column.null_count:
        usable = column.is_valid().to_numpy(zero_copy_only=False)
        column = pc.fill_null(column, pa.scalar(0, kind))
    ticks, factor = event_ticks(column, unit)
    most = INFINITY // factor
    if len(ticks) and (int(ticks.min()) < -most or int(ticks.max()) > most):
        in_range = (ticks >= -most) & (ticks <= most)
        usable = in_range if usable is None else usable & in_range
    return in_microseconds(ticks, factor), usable


def merge_keys(column: pa.Array) -> tuple[IntArray, BoolArray | None]:
    """(int64 numbers in the order of the values, which values are usable; None: all).

    Nulls and NaN are not usable; -0.0 and 0.0 are one value. Raises TopologyError for a column type
    without such an order.
    """
    kind = column.type
    if not is_merge_key(kind):
        raise TopologyError(
            f"files can't be merged by a column of type {kind}; "
            "it must be an integer, a float, a timestamp or a date"
        )
    usable: BoolArray | None = None
    if column.null_count:
        usable = column.is_valid().to_numpy(zero_copy_only=False)
        column = pc.fill_null(column, pa.scalar(0, kind))
    if pa.types.is_temporal(kind):
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype == np.uint64:
        return (values ^ np.uint64(2**63)).view(np.int64), usable
    if values.dtype.kind != "f":
        return values.astype(np.int64, copy=False), usable
    numbers = ~np.isnan(values)
    if not numbers.all():
        usable = numbers if usable is None else usable & numbers
    # Bits of negative floats descend with the value; adding 0.0 turns -0.0 into 0.0.
    bits = (values.astype(np.float64) + 0.0).view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(INFINITY), bits), usable


def running_maximum(values: IntArray, usable: BoolArray | None, highest: int) -> IntArray:
    """For each row the highest usable value up to it (int64), `highest` being that of the rows
    before."""
    known = values if usable is None else np.where(usable, values, BEGINNING)
    return np.maximum(np.maximum.accumulate(known), highest)


def reached_at(dead: IntArray, rows: IntArray, reached: IntArray, before: int) -> IntArray:
    """What was reached at the rows `dead`, where `reached` is known of `rows` (both ascending) and
    `before` of everything before them."""
    return np.concatenate([np.array([before], np.int64), reached])[
        np.searchsorted(rows, dead, "right")
    ]
