"""Discipline merge on real nodes: one digest for any number of them, through a move and a kill."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.disturbed import Watched
from tests.integration.workplace import Workplace, wait_for_output

pytestmark = pytest.mark.slow

FILES = 5
ROWS = 4_000
MOVE_SECONDS = 30.0

OWN_MODULE = """
import streammine


class Smoothed(streammine.Operator):
    \"\"\"Floats added up in the order of their events.\"\"\"

    output = {"plug": "int64", "mean": "float64"}
    state = {"last": streammine.Queue(5)}

    def process(self, key, event, state):
        state.last.append(event.value)
        return key, sum(state.last) / len(state.last)
"""

MERGED: dict[str, Any] = {
    "name": "merged",
    "epoch": {"time": "5s", "column": "ts"},
    "nodes": 2,
    "snapshot": {"every": "300ms"},
    "sources": {
        "readings": {
            "files": "*.json",
            "schema": {"ts": "int64", "plug": "int64", "value": "float64"},
            "prepare": "none",
            "slices": 2,
        }
    },
    "operators": {
        "means": {
            "input": "readings",
            "key": "plug",
            "operator": "own:Smoothed",
            "slices": 3,
            "discipline": "merge",
        },
    },
    "sinks": {"result": {"input": "means", "format": "parquet", "path": "out"}},
}
"""Slices read files side by side: all hold rows of every epoch."""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workplace]:
    (tmp_path / "own.py").write_text(OWN_MODULE)
    for number in range(FILES):
        rows = (
            {"ts": row // 20, "plug": row * 7 % 13, "value": 0.1 * (row % 97) + 1e10 * (row % 3)}
            for row in range(number, ROWS, 1 + number % 2)
        )
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (tmp_path / f"{number}.json").write_text(text)
    with Workplace(tmp_path) as made:
        yield made


def digest(place: Workplace, nodes: int, **changes: Any) -> str:
    topology = place.topology(MERGED, file="known", sinks__result__path="known-out", **changes)
    found: str = place.result("run", topology, "--nodes", nodes)["output_digest"]
    return found


def test_neither_nodes_nor_a_move_nor_a_lost_node_change_a_byte(place: Workplace) -> None:
    known = digest(place, 1)
    assert digest(place, 3) == known
    assert digest(place, 2, operators__means__discipline="strict") != known
    assert place.run("up", "--threads", "1").returncode == 0
    watched = Watched(place)
    try:
        watched.wait_for_members(lambda members: len(members) == 2)
        topology = place.topology(MERGED, sources__readings__rate="3000/s")
        with place.start("submit", topology, "--json") as submitted:
            wait_for_output(place.folder / "out")
            job = watched.job()
            names = set(watched.members())
            for moved in ("means/0", "readings/1"):
                (here,) = watched.client.nodes_of(job)[moved]
                (there,) = names - {here}
                watched.client.move(job, moved, there, "live", MOVE_SECONDS)
            (host,) = watched.client.nodes_of(job)["means/1"]
            watched.kill(host)
            output, errors = submitted.communicate(timeout=120)
        assert submitted.returncode == 0, errors
        assert json.loads(output.splitlines()[-1])["output_digest"] == known
    finally:
        watched.close()
        place.run("down")
