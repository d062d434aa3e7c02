"""Epochs: which one a row belongs to, and when one is over (DESIGN §1).

An epoch is a numbered run of events. A *count* epoch holds `length` raw rows of a whole source in its
declared order, so a row's epoch is ``row // length``. A *time* epoch holds the rows whose event time lies
in ``[epoch * length, (epoch + 1) * length)`` microseconds of the Unix epoch, so it is aligned to it and
numbers may be negative or have gaps. Martin (2015), chapter 3, calls the same thing an epoch of a
tumbling window; there, too, rows inside one may be processed in any order.

Event time inside the engine is int64 microseconds. Integer time columns are ticks of a declared unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streammine.model.errors import TopologyError

INFINITY = 2**63 - 1
"""Watermark and epoch bound of an input that is over."""

BEGINNING = -(2**63)
"""Watermark and epoch bound of an input of which nothing is known yet."""

FIRST_TIME = -(2**56)
"""Before any event time of use, in microseconds: some 2,280 years before 1970. Its epoch is still one that
can go through a loop, if epochs are not shorter than a sixtieth of a second."""

MICROSECONDS_PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}
_MICROSECONDS_PER_DAY = 86_400_000_000

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class EpochDefinition:
    """The one epoch definition of a topology.

    `length` counts rows (kind "count") or microseconds (kind "time"). `column` is the event-time column
    and `unit` the unit of its ticks where it is an integer column: "s", "ms" or "us".
    """

    kind: Literal["count", "time"]
    length: int
    column: str | None = None
    unit: str = "s"

    def __post_init__(self) -> None:
        assert self.length > 0, "an epoch has at least one row or microsecond"
        assert (self.kind == "time") == (self.column is not None)

    @property
    def before_all(self) -> int:
        """The epoch that static sources have to themselves, before those of all others."""
        return -1 if self.kind == "count" else FIRST_TIME // self.length

    def of_rows(self, rows: IntArray) -> IntArray:
        """Epochs of source row numbers (int64 → int64)."""
        assert self.kind == "count"
        return rows // self.length

    def of_time(self, microseconds: IntArray) -> IntArray:
        """Epochs of event times (int64 microseconds → int64)."""
        assert self.kind == "time"
        return microseconds // self.length

    def lowest_open(self, bound: int) -> int:
        """The lowest epoch that a row at or after `bound` (row number or microseconds) can have."""
        return bound if bound in (INFINITY, BEGINNING) else bound // self.length

    def watermark(self, epoch: int) -> int:
        """Event time at the end of an epoch, in microseconds; BEGINNING for count epochs."""
        if self.kind == "count":
            return INFINITY if epoch == INFINITY else BEGINNING
        return INFINITY if epoch == INFINITY else (epoch + 1) * self.length

    def window(self, epoch: int) -> tuple[int, int]:
        """[start, end) of a time epoch in microseconds, or the row numbers of a count epoch."""
        return epoch * self.length, (epoch + 1) * self.length


def event_ticks(column: pa.Array, unit: str) -> tuple[npt.NDArray[np.integer[Any]], int]:
    """Event times of a column without nulls as whole numbers, and how many microseconds each counts for.

    Integer columns are ticks of `unit`; timestamps and dates know their own. What they come to in
    microseconds may be more than 64 bits hold. Raises TopologyError for any other type.
    """
    kind = column.type
    if pa.types.is_integer(kind):
        return column.to_numpy(zero_copy_only=False), MICROSECONDS_PER_UNIT[unit]
    if pa.types.is_date32(kind):
        return column.cast(pa.int32()).to_numpy(zero_copy_only=False), _MICROSECONDS_PER_DAY
    if pa.types.is_date64(kind):
        return column.cast(pa.int64()).to_numpy(zero_copy_only=False), MICROSECONDS_PER_UNIT["ms"]
    if pa.types.is_timestamp(kind):
        ticks = column.view(pa.int64()).to_numpy(zero_copy_only=False)
        return (
            (ticks // 1000, 1) if kind.unit == "ns" else (ticks, MICROSECONDS_PER_UNIT[kind.unit])
        )
    raise TopologyError(
        f"event-time column has type {kind}; it must be an integer, a timestamp or a date"
    )


def in_microseconds(ticks: npt.NDArray[np.integer[Any]], factor: int) -> IntArray:
    """The ticks (see `event_ticks`) as int64 microseconds; those that these can't say are any number."""
    times: IntArray = ticks.astype(np.int64, copy=False)
    return times if factor == 1 else times * factor


def event_time(column: pa.Array, unit: str) -> IntArray:
    """Event times of a column without nulls, as int64 microseconds. Raises TopologyError."""
    return in_microseconds(*event_ticks(column, unit))
