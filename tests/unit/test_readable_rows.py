"""Rows as values of Python: also of times that Python does not know."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

from streammine import Topology
from streammine.model.readable_rows import readable_rows
from streammine.operators.set_aside import SetAside
from streammine.testing import simulate

FAR = 2**60


def test_a_time_that_python_does_not_know_is_a_text_and_others_stay_as_they_are() -> None:
    table = pa.table({"at": pa.array([0, FAR, None], pa.timestamp("s")), "n": [1, 2, 3]})
    assert readable_rows(table) == [
        {"at": datetime(1970, 1, 1), "n": 1},
        {"at": f"timestamp[s] {FAR}", "n": 2},
        {"at": None, "n": 3},
    ]


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pa.array([2**31 - 1], pa.int32()).cast(pa.date32()), "date32[day] 2147483647"),
        (pa.array([FAR], pa.duration("s")), f"duration[s] {FAR}"),
        (
            pa.array([[0, FAR]], pa.list_(pa.timestamp("s"))),
            [datetime(1970, 1, 1), f"timestamp[s] {FAR}"],
        ),
    ],
)
def test_such_values_of_other_types(column: pa.Array, text: Any) -> None:
    assert readable_rows(pa.record_batch([column], names=["x"])) == [{"x": text}]


def test_rows_of_such_times_can_be_set_aside() -> None:
    letters = SetAside()
    letters.add("too far", pa.record_batch({"at": pa.array([FAR], pa.timestamp("s"))}))
    dead = letters.take()
    assert dead is not None
    assert dead.rows == (f"at='timestamp[s] {FAR}'",)


def test_what_a_source_can_not_use_is_a_dead_letter() -> None:
    topology = (
        Topology(name="far", epoch={"time": "10s", "column": "at"})  # type: ignore[arg-type]
        .source("rows", files="rows.csv", schema={"at": "timestamp[s]", "n": "int64"})
        .operator("counts", input="rows", aggregate={"n": "count()"})
        .sink("result", input="counts", format="console")
    )
    rows = pa.table({"at": pa.array([0, FAR, None], pa.timestamp("s")), "n": [1, 2, 3]})
    result = simulate(topology, {"rows": rows})
    assert result.table("result").column("n").to_pylist() == [1]
    assert result.dead_letters is not None
    assert result.dead_letters.num_rows == 2
