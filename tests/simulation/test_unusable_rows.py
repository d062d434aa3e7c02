"""Rows that an operator can't use are dead letters, with a reason, and counts add up: read = used + dead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from streammine import Topology
from streammine.testing import assert_deterministic

ROWS = pa.table(
    {
        "ts": [1, 2, 11, 12, 13, 25, 26, 31],
        "key": ["a", "b", "a", "a", "b", "a", "b", "a"],
        # when it happened: one is unknown, two are known too late
        "at": pa.array([1, 2, None, 12, 1, 25, 26, 14], pa.int64()),
    }
)
LATE_OR_UNKNOWN = 3

PATTERN = {
    "sequence": [{"one": "true"}, {"other": "true"}],
    "within": "5s",
    "output": {"begin": "one.at"},
}
KINDS: Mapping[str, tuple[dict[str, Any], int]] = {
    "pattern": ({"input": "rows", "key": "key", "time": "at", "pattern": PATTERN}, LATE_OR_UNKNOWN),
    "sessions": (
        {
            "input": "rows",
            "key": "key",
            "time": "at",
            "window": {"session": "3s"},
            "aggregate": {"count": "count()"},
        },
        LATE_OR_UNKNOWN,
    ),
    "deduplicate": (
        {"input": "rows", "key": "key", "time": "at", "deduplicate": {"within": "2s"}},
        LATE_OR_UNKNOWN,
    ),
    "interval join": (
        {
            "join": {
                "left": "rows",
                "right": "rows",
                "on": "key",
                "when": "left.at between right.at and right.at",
            }
        },
        2 * LATE_OR_UNKNOWN,
    ),
    "split": ({"input": "rows", "split": {"early": "at < 5", "known": "at > 20"}}, 3),
    "quantile": (
        {"input": "rows", "key": "key", "quantile": {"of": "at", "windows": "20s"}},
        1,
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_is_used_or_a_dead_letter(kind: str) -> None:
    settings, dead = KINDS[kind]
    topology = (
        Topology(name="unusable", epoch={"time": "10s", "column": "ts"})  # type: ignore[arg-type]
        .source("rows", files="rows.csv", schema={"ts": "int64", "key": "string", "at": "int64"})
        .operator("judge", **settings)
        .sink("result", input="judge.known" if kind == "split" else "judge", format="console")
    )
    result = assert_deterministic(topology, {"rows": ROWS}, seeds=range(3))
    letters = result.dead_letters
    assert letters is not None, "some rows are of no use"
    assert letters.num_rows == dead, letters.to_pylist()
    assert set(letters.column("origin").to_pylist()) == {"judge"}
    assert all(letters.column("reason").to_pylist())
    assert all(letters.column("text").to_pylist())
    counted = sum(count["rows_dead"] for count in result.counters.values())
    assert counted == dead
