"""What the simulation gives for rows in memory a real cluster gives for files of the same rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import streammine
from streammine import Topology
from streammine.testing import assert_rows, simulate
from tests.simulation.workloads import (
    EPOCH_LINES,
    counted_words,
    joined,
    orders_and_payments,
    text,
)

pytestmark = pytest.mark.slow

Row = tuple[Any, ...]
Write = Callable[[pa.Table, Path], None]


def by_epoch(rows: Iterable[Row]) -> dict[int, Counter[Row]]:
    """Rows, of which the first value is the epoch, as often as they are there."""
    found: dict[int, Counter[Row]] = {}
    for row in rows:
        found.setdefault(row[0], Counter())[row] += 1
    return found


def require_same(
    topology: Topology, inputs: dict[str, pa.Table], folder: Path, expected: Sequence[Row]
) -> None:
    """Simulation and cluster give the expected rows in their epochs, and one digest."""
    real = streammine.run(topology, base=folder, nodes=2)
    assert real.summary.events_dead == 0
    assert real.summary.events_in == sum(table.num_rows for table in inputs.values())
    committed = dict(real.epochs("result"))
    rows = [tuple(row.values()) for table in committed.values() for row in table.to_pylist()]
    assert by_epoch(rows) == by_epoch(expected)
    assert sorted(committed) == sorted(by_epoch(expected))
    for seed, nodes in ((0, 1), (1, 2), (2, 3)):
        simulated = simulate(topology, inputs, seed=seed, nodes=nodes, base=str(folder))
        assert_rows(simulated.table("result"), expected)
        assert sorted(simulated.outputs["result"]) == sorted(committed)
        assert simulated.digest == real.digest, f"seed {seed} on {nodes} nodes"


def test_a_simulated_word_count_has_the_clusters_digest(tmp_path: Path) -> None:
    lines = text(200)
    (tmp_path / "lines.txt").write_text("".join(f"{line}\n" for line in lines))
    topology = (
        Topology(name="wordcount", epoch={"count": EPOCH_LINES})
        .source("lines", files="lines.txt", prepare="none")
        .operator("words", input="lines", flat_map={"split": "line", "into": "word"})
        .operator("counts", input="words", key="word", aggregate={"count": "count()"}, slices=2)
        .sink("result", input="counts", format="parquet", path="out")
    )
    expected = counted_words(lines)
    assert len(by_epoch(expected)) == math.ceil(len(lines) / EPOCH_LINES)
    require_same(topology, {"lines": pa.table({"line": lines})}, tmp_path, expected)


@pytest.mark.parametrize(
    ("ending", "write"),
    [("parquet", pyarrow.parquet.write_table), ("csv", pyarrow.csv.write_csv)],
)
def test_a_simulated_join_has_the_clusters_digest(
    tmp_path: Path, ending: str, write: Write
) -> None:
    tables = orders_and_payments()
    topology = Topology(name="equijoin", epoch={"time": "10s", "column": "ts"})
    for name, table in tables.items():
        write(table, tmp_path / f"{name}.{ending}")
        fields: dict[str, Any] = {"files": f"{name}.{ending}", "prepare": "none"}
        if ending == "csv":
            # unlike Parquet it does not tell the types of its columns
            fields["schema"] = dict.fromkeys(table.column_names, "int64")
        topology = topology.source(name, **fields)
    topology = topology.operator(
        "matches", join={"left": "orders", "right": "payments", "on": ["id"]}, slices=2
    ).sink("result", input="matches", format="parquet", path="out")
    require_same(topology, tables, tmp_path, joined(tables))
