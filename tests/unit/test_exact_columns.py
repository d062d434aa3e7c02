"""Values of user code that a column can't hold as they are."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from streammine import Mapper, Reducer, Topology
from streammine.operators.exact_columns import exact_array
from streammine.testing import simulate

EAST = timezone(timedelta(hours=2))
HALF_SECOND = datetime(2024, 1, 1, 0, 0, 0, 500_000)


@pytest.mark.parametrize(
    ("value", "kind", "reason"),
    [
        (1.9, pa.int64(), "1.9 is no whole number"),
        (np.float64(0.5), pa.int64(), "is no whole number"),
        (Decimal("1.9"), pa.int32(), "is no whole number"),
        (-0.5, pa.uint8(), "-0.5 is no whole number"),
        (1.7, pa.date32(), "a float is no time"),
        (1.5, pa.timestamp("s"), "a float is no time"),
        (datetime(2024, 1, 1, 23), pa.date32(), "2024-01-01 23:00:00 is more than a date"),
        (HALF_SECOND, pa.timestamp("s"), r"a timestamp\[s\] column can't hold it exactly"),
        (HALF_SECOND.astimezone(EAST), pa.timestamp("s", "UTC"), "can't hold it exactly"),
        (time(1, 2, 3, 4_000), pa.time32("s"), r"a time32\[s\] column can't hold it exactly"),
        (timedelta(microseconds=5), pa.duration("ms"), "can't hold it exactly"),
        (1e300, pa.float32(), "1e[+]300 is beyond the range of float"),
        (-1e39, pa.float32(), "is beyond the range of float"),
    ],
)
@pytest.mark.parametrize("beside", [[], [None]])
def test_what_would_be_cut_is_refused(
    value: Any, kind: pa.DataType, reason: str, beside: list[None]
) -> None:
    with pytest.raises(ValueError, match=reason):
        exact_array([*beside, value], kind)


@pytest.mark.parametrize(
    ("value", "kind", "held"),
    [
        (2.0, pa.int64(), 2),
        (np.int64(3), pa.int8(), 3),
        (Decimal(4), pa.int64(), 4),
        (1e18, pa.int64(), 10**18),
        (date(2024, 1, 1), pa.date32(), date(2024, 1, 1)),
        (datetime(2024, 1, 1), pa.date32(), date(2024, 1, 1)),
        (datetime(2024, 1, 1, 0, 0, 1), pa.timestamp("s"), datetime(2024, 1, 1, 0, 0, 1)),
        (HALF_SECOND, pa.timestamp("ms"), HALF_SECOND),
        (datetime(2024, 1, 1, tzinfo=EAST), pa.timestamp("s"), datetime(2023, 12, 31, 22)),
        (5, pa.timestamp("s"), datetime(1970, 1, 1, 0, 0, 5)),
        (time(1, 2, 3), pa.time32("s"), time(1, 2, 3)),
        (timedelta(milliseconds=5), pa.duration("ms"), timedelta(milliseconds=5)),
        (np.inf, pa.float32(), np.inf),
        (0.5, pa.float32(), 0.5),
        ("a", pa.string(), "a"),
    ],
)
def test_what_fits_is_held(value: Any, kind: pa.DataType, held: Any) -> None:
    assert exact_array([None, value], kind).to_pylist() == [None, held]


class Half(Mapper):
    output: ClassVar = {"half": "int64"}

    def map(self, event: Any) -> Any:
        return [(event.n / 2,)]


class Mean(Reducer):
    output: ClassVar = {"mean": "int64"}

    def create(self) -> tuple[int, int]:
        return 0, 0

    def add(self, accumulator: tuple[int, int], event: Any) -> tuple[int, int]:
        return accumulator[0] + event.n, accumulator[1] + 1

    def finish(self, key: Any, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]


@pytest.mark.parametrize("settings", [{"operator": Half}, {"operator": Mean, "key": "key"}])
def test_a_fraction_in_a_column_of_whole_numbers_fails_the_job(settings: dict[str, Any]) -> None:
    topology = (
        Topology(name="halves", epoch={"count": 2})
        .source("numbers", files="numbers.csv", schema={"key": "string", "n": "int64"})
        .operator("halves", input="numbers", **settings)
        .sink("out", input="halves", format="console")
    )
    rows = pa.table({"key": ["a", "a"], "n": [2, 3]})
    with pytest.raises(
        Exception, match=r"for column '(half|mean)', which is int64: .*5 is no whole"
    ):
        simulate(topology, {"numbers": rows}, seed=1)
