"""Event times of columns: what is one, in microseconds, wherever they are read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from streammine.model.epochs import EpochDefinition
from streammine.model.source_order import usable_event_times
from streammine.operators.event_time import EventTime
from streammine.pipeline.ordering import event_times

EPOCH = EpochDefinition("time", 10_000_000, "ts")
DAY = 86_400_000_000
FAR = 2**31 - 1


def column_of(kind: pa.DataType, values: list[int | None]) -> pa.Array:
    bits = pa.int32() if kind == pa.date32() else pa.int64()
    return pa.array(values, bits).cast(kind)


KINDS = {
    "days": (pa.date32(), [1, None, -1, FAR, -FAR - 1], [DAY, None, -DAY, None, None]),
    "days in milliseconds": (pa.date64(), [86_400_000, None, 2**62, -(2**62)], [DAY] + [None] * 3),
    "seconds": (pa.timestamp("s"), [7, None, 2**60, -7], [7_000_000, None, None, -7_000_000]),
    "nanoseconds": (pa.timestamp("ns", "Europe/Berlin"), [-1, 1000, None], [-1, 1, None]),
    "ticks": (pa.int64(), [3, -3, 2**62, None], [3_000_000, -3_000_000, None, None]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_times_that_microseconds_can_not_say_are_none(kind: str) -> None:
    arrow, values, wanted = KINDS[kind]
    column = column_of(arrow, values)
    known = [number for number, time in enumerate(wanted) if time is not None]
    expected = [wanted[number] for number in known]
    batch = pa.record_batch([column], names=["at"])
    times, rows = EventTime("late", batch.schema, EPOCH, "at").of(batch)
    assert (times.tolist(), rows.tolist()) == (expected, known)
    for read in (usable_event_times, event_times):
        times, usable = read(column, "s")
        assert usable is not None
        assert np.flatnonzero(usable).tolist() == known
        assert times[known].tolist() == expected
